"""Task lists as files: `tilewright-vpu-list`, version 1, as JSON or as compact binary.

Both forms hold the same and are written in one way only: reading a file and writing it again
gives the same bytes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.file_access import read_bytes
from tilewright.targets.vpu.graph_file import (
    LARGEST,
    check_format,
    check_keys,
    number,
    objects,
    pair,
    read_json,
    sequence,
)
from tilewright.targets.vpu.machine import machine_from, preset
from tilewright.targets.vpu.task_list import Barrier, ListTask, Range, TaskList
from tilewright.targets.vpu.tile_graph import ENGINES

FORMAT = "tilewright-vpu-list"
MAGIC = b"TWVPUL\x00\x01"
_QUEUE = re.compile(r"(dma\d{1,4}(\.cmx)?|dpu\d{1,4}(\.\d{1,4})?|shave\d{1,4})")
_SPACE = re.compile(r"ddr|cmx\d{0,4}")
_MOST_RUNS = 1 << 20


def read_list(path: str) -> TaskList:
    """The list in a file; binary files are known by their first bytes."""
    try:
        if path != "-":
            content = read_bytes(path, LARGEST)
            if content.startswith(MAGIC):
                return list_from_binary(content)
        return list_from(read_json(path))
    except TilewrightError as error:
        raise error.at(Location(path)) from None


def list_from(value: Any) -> TaskList:
    """A list from parsed JSON. Studies of barriers or edges may leave out what they do not need."""
    check_format(value, FORMAT)
    check_keys(
        value,
        "the list",
        {"format", "version", "tasks"},
        {"target", "queues", "barriers", "ddr", "order", "after"},
    )
    machine = machine_from(value["target"], rates_too=True) if "target" in value else preset("tiny")
    queues = _queues(value.get("queues", {}))
    engines = {
        name: re.match("[a-z]+", queue)[0]  # type: ignore[index]
        for queue, names in queues.items()
        for name in names
    }
    if not isinstance(value["tasks"], Mapping):
        raise TilewrightError("TW7031", "tasks: expected an object of tasks by name")
    tasks = {
        name: _task(name, item, engines.get(name, "dma")) for name, item in value["tasks"].items()
    }
    for queue, names in queues.items():
        for name in names:
            if name not in tasks:
                raise TilewrightError("TW7031", f"queue {queue!r} names {name!r}, which is no task")
    if "order" in value:
        order = _names(value["order"], "order", tasks)
        if len(set(order)) != len(order):
            raise TilewrightError("TW7031", "order names a task twice")
    else:
        order = None
    after = [pair(item, "after") for item in sequence(value.get("after", []), "after")]
    for item in after:
        _names(list(item), "after", tasks)
    barriers = _barriers(value["barriers"]) if "barriers" in value else _counted(tasks)
    for name, task in tasks.items():
        for number_ in (*task.waits, *task.posts):
            if number_ >= len(barriers):
                raise TilewrightError(
                    "TW7031", f"task {name!r} uses barrier {number_}, the list has {len(barriers)}"
                )
    return TaskList(machine, queues, tasks, barriers, _ddr(value.get("ddr", {})), order, after)


def list_json(tasks: TaskList) -> dict[str, Any]:
    """The list as JSON, always in the same order and with the same keys."""
    result: dict[str, Any] = {
        "format": FORMAT,
        "version": 1,
        "target": tasks.machine.to_json(),
        "queues": {queue: list(names) for queue, names in tasks.queues.items()},
        "tasks": {name: _task_json(task) for name, task in tasks.tasks.items()},
        "barriers": [
            {"id": number_}
            | ({} if barrier.physical is None else {"physical": barrier.physical})
            | {"producers": barrier.producers, "consumers": barrier.consumers}
            for number_, barrier in enumerate(tasks.barriers)
        ],
        "ddr": {name: list(place) for name, place in tasks.ddr.items()},
    }
    if tasks.order is not None:
        result["order"] = list(tasks.order)
    if tasks.after:
        result["after"] = [list(item) for item in tasks.after]
    return result


def list_text(tasks: TaskList) -> str:
    """JSON with one task, queue or barrier per line, so that two lists can be compared by line."""
    lines = []
    for key, value in list_json(tasks).items():
        if isinstance(value, dict) and key in ("queues", "tasks", "ddr") and value:
            inner = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}\n}}")
        elif isinstance(value, list) and value:
            inner = ",\n".join(f"  {json.dumps(item)}" for item in value)
            lines.append(f"{json.dumps(key)}: [\n{inner}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n".join(lines) + "}\n"


def list_binary(tasks: TaskList) -> bytes:
    """The compact form: magic, length and checksum, then the JSON without spaces, deflated."""
    body = json.dumps(list_json(tasks), separators=(",", ":")).encode()
    packed = zlib.compress(body, 6)
    head = len(body).to_bytes(8, "little") + zlib.crc32(body).to_bytes(4, "little")
    return MAGIC + head + packed


def list_from_binary(content: bytes) -> TaskList:
    """A list from its compact form; damaged files are errors."""
    corrupt = TilewrightError(
        "TW7032", "this compact task list is damaged", hint="write it again from its source"
    )
    if len(content) < len(MAGIC) + 12 or not content.startswith(MAGIC):
        raise corrupt
    length = int.from_bytes(content[8:16], "little")
    if length > LARGEST:
        raise corrupt
    unpacker = zlib.decompressobj()
    try:
        body = unpacker.decompress(content[20:], length + 1)
    except zlib.error:
        raise corrupt from None
    if len(body) != length or unpacker.unused_data or not unpacker.eof:
        raise corrupt
    if zlib.crc32(body) != int.from_bytes(content[16:20], "little"):
        raise corrupt
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise corrupt from None
    return list_from(value)


def _task_json(task: ListTask) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": task.kind, "engine": task.engine}
    if task.task is not None:
        entry["task"] = task.task
    if task.buffer is not None:
        entry["buffer"] = task.buffer
    entry["reads"] = [_range_json(item) for item in task.reads]
    entry["writes"] = [_range_json(item) for item in task.writes]
    entry["waits"], entry["posts"] = list(task.waits), list(task.posts)
    entry["cycles"] = task.cycles
    if task.slots != 1:
        entry["slots"] = task.slots
    if task.tile:
        entry["tile"] = task.tile
    return entry


def _range_json(item: Range) -> list[Any]:
    head: list[Any] = [item.space, item.address, item.bytes]
    return head if item.count == 1 else [*head, item.count, item.stride]


def _queues(value: Any) -> dict[str, list[str]]:
    if not isinstance(value, Mapping):
        raise TilewrightError("TW7031", "queues: expected an object of queues by name")
    queues = {}
    for queue, names in value.items():
        if not _QUEUE.fullmatch(queue):
            raise TilewrightError(
                "TW7031",
                f"there is no queue {queue!r}",
                hint="queues are dma<p>, dma<p>.cmx, dpu<t>, dpu<t>.<n> and shave<t>",
            )
        queues[queue] = _names(names, f"queue {queue!r}")
        if len(set(names)) != len(names):
            raise TilewrightError("TW7031", f"queue {queue!r} names a task twice")
    return queues


def _task(name: str, item: Any, engine: str) -> ListTask:
    place = f"task {name!r}"
    if not isinstance(item, Mapping):
        raise TilewrightError("TW7031", f"{place}: expected an object")
    optional = {"kind", "engine", "task", "buffer", "reads", "writes", "waits", "posts", "cycles",
                "slots", "tile"}  # fmt: skip
    check_keys(item, place, set(), optional)
    for key in ("kind", "engine", "task", "buffer"):
        if key in item and not isinstance(item[key], str):
            raise TilewrightError("TW7031", f"{place}: {key} has to be text")
    if item.get("engine", engine) not in ENGINES:
        raise TilewrightError("TW7031", f"{place}: there is no engine {item['engine']!r}")
    return ListTask(
        kind=item.get("kind", "task"),
        engine=item.get("engine", engine),
        reads=tuple(_range(entry, place) for entry in sequence(item.get("reads", []), place)),
        writes=tuple(_range(entry, place) for entry in sequence(item.get("writes", []), place)),
        waits=_ids(item.get("waits", []), place),
        posts=_ids(item.get("posts", []), place),
        cycles=number(item, "cycles", place, 1, default=1),
        slots=number(item, "slots", place, 1, default=1),
        tile=number(item, "tile", place, 0, default=0),
        task=item.get("task"),
        buffer=item.get("buffer"),
    )


def _ids(value: Any, place: str) -> tuple[int, ...]:
    ids = sequence(value, place)
    for item in ids:
        if isinstance(item, bool) or not isinstance(item, int) or item < 0:
            raise TilewrightError("TW7031", f"{place}: waits and posts are numbers of barriers")
    if len(set(ids)) != len(ids):
        raise TilewrightError("TW7031", f"{place}: a barrier stands twice in waits or posts")
    return tuple(ids)


def _range(value: Any, place: str) -> Range:
    entry = sequence(value, place)
    if len(entry) not in (3, 5) or not isinstance(entry[0], str):
        raise TilewrightError(
            "TW7031",
            f"{place}: a range is [space, address, bytes] or [.., count, stride]",
        )
    if not _SPACE.fullmatch(entry[0]):
        raise TilewrightError("TW7031", f"{place}: there is no memory {entry[0]!r}")
    for item in entry[1:]:
        if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < 1 << 53:
            raise TilewrightError("TW7031", f"{place}: a range holds whole numbers")
    count, stride = (entry[3], entry[4]) if len(entry) == 5 else (1, 0)
    if entry[2] < 1 or not 1 <= count <= _MOST_RUNS or (count > 1 and stride < entry[2]):
        raise TilewrightError("TW7031", f"{place}: the range {entry} is empty or overlaps itself")
    return Range(entry[0], entry[1], entry[2], count, stride if count > 1 else 0)


def _barriers(value: Any) -> list[Barrier]:
    found: list[Barrier] = []
    for position, item in enumerate(objects(value, "barriers")):
        place = f"barrier {position}"
        check_keys(item, place, {"id", "producers", "consumers"}, {"physical"})
        if item["id"] != position:
            raise TilewrightError(
                "TW7031", f"{place} has the id {item['id']!r}: ids count 0, 1, 2 ..."
            )
        physical = None
        if item.get("physical") is not None:
            physical = number(item, "physical", place, 0)
        found.append(
            Barrier(
                physical,
                number(item, "producers", place, 0),
                number(item, "consumers", place, 0),
            )
        )
    return found


def _counted(tasks: Mapping[str, ListTask]) -> list[Barrier]:
    """The barriers that tasks use, for lists without a table."""
    highest = max((b for task in tasks.values() for b in (*task.waits, *task.posts)), default=-1)
    if highest > 1 << 20:
        raise TilewrightError("TW7031", f"barrier {highest} is out of range")
    producers, consumers = [0] * (highest + 1), [0] * (highest + 1)
    for task in tasks.values():
        for number_ in task.posts:
            producers[number_] += task.slots
        for number_ in task.waits:
            consumers[number_] += task.slots
    return [Barrier(None, p, c) for p, c in zip(producers, consumers, strict=True)]


def _names(value: Any, place: str, known: Mapping[str, Any] | None = None) -> list[str]:
    for name in sequence(value, place):
        if not isinstance(name, str):
            raise TilewrightError("TW7031", f"{place}: expected names of tasks")
        if known is not None and name not in known:
            raise TilewrightError("TW7031", f"{place} names {name!r}, which is no task")
    return value


def _ddr(value: Any) -> dict[str, tuple[int, int]]:
    if not isinstance(value, Mapping):
        raise TilewrightError("TW7031", "ddr: expected an object of places by buffer")
    result = {}
    for name, place in value.items():
        if (
            not isinstance(place, list)
            or len(place) != 2
            or any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in place)
        ):
            raise TilewrightError("TW7031", f"ddr: {name!r} needs [address, bytes]")
        result[name] = (place[0], place[1])
    return result
