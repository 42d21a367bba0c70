"""The compiled program: a task list with what its tasks compute, its tensors and its constants.

`tilewright-vpu-artifact`, version 1, is one JSON object and the bytes of the constants; the
compact form has both in one file. Reading checks everything and gives back exactly what was
written.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.graph_file import check_format, check_keys, number
from tilewright.targets.vpu.list_file import list_from, list_json
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.operations.table import OPERATIONS
from tilewright.targets.vpu.task_list import TaskList
from tilewright.targets.vpu.tile_graph import Operation

FORMAT = "tilewright-vpu-artifact"
MAGIC = b"TWVPUA\x00\x01"
_LARGEST_TEXT = 1 << 30
_LARGEST_CONSTANTS = 1 << 33


@dataclass(slots=True)
class VpuProgram:
    """Everything the machine needs to run, and the verifier to check."""

    tasks: TaskList
    operations: dict[str, Operation]  # by graph task
    constants: dict[str, bytes] = field(default_factory=dict)  # by tensor


def next_uses(tasks: TaskList) -> list[int | None]:
    """Per barrier the next one on its physical id."""
    result: list[int | None] = [None] * len(tasks.barriers)
    last: dict[int, int] = {}
    for barrier, entry in enumerate(tasks.barriers):
        if entry.physical is None:
            continue
        if entry.physical in last:
            result[last[entry.physical]] = barrier
        last[entry.physical] = barrier
    return result


def enqueue_after(tasks: TaskList) -> dict[str, int | None]:
    """Per task the last barrier that has to be programmed before it may be queued.

    Those are its own, and those of the tasks before it in its queues.
    """
    result: dict[str, int | None] = dict.fromkeys(tasks.tasks)
    for names in tasks.queues.values():
        highest = -1
        for name in names:
            item = tasks.tasks[name]
            own = result[name]
            highest = max(highest, -1 if own is None else own, *item.waits, *item.posts)
            result[name] = highest if highest >= 0 else None
    return result


def program_json(program: VpuProgram) -> dict[str, Any]:
    """The program without the bytes of its constants."""
    place = 0
    constants = {}
    for name in sorted(program.constants):
        constants[name] = [place, len(program.constants[name])]
        place += len(program.constants[name])
    return {
        "format": FORMAT,
        "version": 1,
        "target": program.tasks.machine.preset,
        "target_hash": program.tasks.machine.digest(),
        "list": list_json(program.tasks),
        "next": next_uses(program.tasks),
        "enqueue_after": enqueue_after(program.tasks),
        "operations": {
            name: {"name": entry.name, "attributes": dict(entry.attributes)}
            for name, entry in sorted(program.operations.items())
        },
        "constants": constants,
    }


def program_binary(program: VpuProgram) -> bytes:
    """Magic, lengths and checksums, the JSON deflated, the constants as they are."""
    return b"".join(program_pieces(program))


def program_pieces(program: VpuProgram) -> list[bytes]:
    """The compact form in pieces: every constant is one, so that a bundle has equal ones once."""
    body = json.dumps(program_json(program), separators=(",", ":")).encode()
    packed = zlib.compress(body, 6)
    constants = [program.constants[name] for name in sorted(program.constants)]
    check = 0
    for content in constants:
        check = zlib.crc32(content, check)
    size = sum(map(len, constants))
    head = b"".join(
        value.to_bytes(8, "little")
        for value in (len(body), len(packed), size, zlib.crc32(body), check)
    )
    return [MAGIC + head + packed, *constants]


def program_from_binary(content: bytes, machine: Machine | None = None) -> VpuProgram:
    """A program from its compact form; `machine` is what it has to be for, if that matters."""
    corrupt = TilewrightError(
        "TW7034", "this compiled VPU program is damaged", hint="compile it again"
    )
    if len(content) < 48 or not content.startswith(MAGIC):
        raise corrupt
    values = [int.from_bytes(content[8 * n + 8 : 8 * n + 16], "little") for n in range(5)]
    length, packed, size, check, data_check = values
    if length > _LARGEST_TEXT or size > _LARGEST_CONSTANTS or len(content) != 48 + packed + size:
        raise corrupt
    data = content[48 + packed :]
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(content[48 : 48 + packed], length + 1)
        if len(body) != length or not unpacker.eof or unpacker.unused_data:
            raise corrupt
        if zlib.crc32(body) != check or zlib.crc32(data) != data_check:
            raise corrupt
        value = json.loads(body)
    except (zlib.error, ValueError, RecursionError):
        raise corrupt from None
    return program_from(value, data, machine)


def program_from(value: Any, data: bytes, machine: Machine | None = None) -> VpuProgram:
    """A program from parsed JSON and the bytes of its constants."""
    check_format(value, FORMAT)
    keys = {"format", "version", "target", "target_hash", "list", "next", "enqueue_after",
            "operations", "constants"}  # fmt: skip
    check_keys(value, "the program", keys, set())
    tasks = list_from(value["list"])
    if value["target"] != tasks.machine.preset or value["target_hash"] != tasks.machine.digest():
        raise TilewrightError("TW7034", "the program and its task list are for different machines")
    if machine is not None and machine.digest() != tasks.machine.digest():
        raise TilewrightError(
            "TW7033",
            f"the program is for {tasks.machine.preset} ({tasks.machine.digest()}), "
            f"not for {machine.preset} ({machine.digest()})",
            hint="compile it for this machine",
        )
    if value["next"] != next_uses(tasks) or value["enqueue_after"] != enqueue_after(tasks):
        raise TilewrightError("TW7034", "the chains of barriers do not match the task list")
    if not isinstance(value["operations"], Mapping) or not isinstance(value["constants"], Mapping):
        raise TilewrightError("TW7034", "operations and constants have to be objects")
    known = {item.task for item in tasks.tasks.values()}
    operations = {}
    for name, entry in value["operations"].items():
        place = f"operation of {name!r}"
        if not isinstance(entry, Mapping) or name not in known:
            raise TilewrightError("TW7034", f"{place}: there is no such task")
        check_keys(entry, place, {"name", "attributes"}, set())
        if entry["name"] not in OPERATIONS or not isinstance(entry["attributes"], Mapping):
            raise TilewrightError("TW7034", f"{place}: there is no operation {entry['name']!r}")
        operations[name] = Operation(entry["name"], tuples(dict(entry["attributes"])))
    return VpuProgram(tasks, operations, _constants(value["constants"], data, tasks))


def _constants(table: Mapping[str, Any], data: bytes, tasks: TaskList) -> dict[str, bytes]:
    constants = {}
    for name, place in table.items():
        if not isinstance(place, list) or len(place) != 2 or name not in tasks.ddr:
            raise TilewrightError("TW7034", f"constant {name!r} has no place in DDR")
        entry = {"first": place[0], "bytes": place[1]}
        first = number(entry, "first", f"constant {name!r}", 0)
        size = number(entry, "bytes", f"constant {name!r}", 0)
        if first + size > len(data) or size > tasks.ddr[name][1]:
            raise TilewrightError("TW7034", f"constant {name!r} lies outside the file")
        constants[name] = data[first : first + size]
    return constants


def tuples(value: Any) -> Any:
    """JSON lists back to tuples."""
    if isinstance(value, list):
        return tuple(tuples(item) for item in value)
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return value
