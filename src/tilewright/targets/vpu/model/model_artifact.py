"""A compiled model's program for the VPU: the task lists of its entries, and what runs them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member
from tilewright.io.json_tables import read_document
from tilewright.io.pieces import Content
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.targets.artifact import (
    Bound,
    DeviceOptions,
    DevicePart,
    Finding,
    HostPart,
    LayerLoop,
    Port,
    Step,
    Tensor,
)
from tilewright.targets.vpu.artifact import program_from_binary, program_pieces
from tilewright.targets.vpu.checker.verify import verify
from tilewright.targets.vpu.lowering.network import Value
from tilewright.targets.vpu.model.device import VpuDevice, VpuReference
from tilewright.targets.vpu.model.entry import CompiledEntry, entry_from, entry_json
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.task_list import DDR

_ENTRIES, _CONSTANTS = "vpu/entries.json", "vpu/constants"


@dataclass
class VpuArtifact:
    """Entries in order; every entry has its own task list and its own DDR."""

    target: str
    entries: dict[str, CompiledEntry]
    family: str = "vpu"

    def __post_init__(self) -> None:
        self.steps: list[Step] = []
        self.first: dict[str, int] = {}  # entry -> its first step
        self.tensors: dict[str, Tensor] = {}
        for entry in self.entries.values():
            self.first[entry.name] = len(self.steps)
            for call in entry.network.calls:
                operands = {**call.operands, "out": call.result}
                self.steps.append(
                    Step(call.name, call.family, operands, {}, call.sources, entry.macs(call))
                )
            for ports, kind in ((entry.inputs, "input"), (entry.outputs, "output")):
                for port, name in ports.items():
                    held = "state" if port in entry.state else kind
                    self.tensors.setdefault(port, _tensor(entry, port, name, held))

    @property
    def loops(self) -> Sequence[LayerLoop]:
        return ()

    def members(self) -> Iterator[Member]:
        document = {
            "format": "tilewright-vpu-model", "version": 1, "target": self.target,
            "entries": [entry_json(entry) for entry in self.entries.values()],
        }  # fmt: skip
        yield Member(_ENTRIES, [json.dumps(document, separators=(",", ":")).encode()])
        constants = {
            f"{entry.name}/{value.name}": value.data
            for entry in self.entries.values()
            for value in entry.network.values.values()
            if value.data is not None
        }
        yield Member(_CONSTANTS, tensor_pieces(constants, _CONSTANTS))
        for number, entry in enumerate(self.entries.values()):
            yield Member(f"vpu/list{number}.bin", [*program_pieces(entry.program)])

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        """The verifier on every task list, and whether ports are what the networks say."""
        named = [part.entry for part in parts if isinstance(part, DevicePart)]
        if set(named) != set(self.entries):
            yield Finding("TW7087", "the parts of the model are not the entries of the program")
        for part in parts:
            if not isinstance(part, DevicePart) or part.entry not in self.entries:
                continue
            entry = self.entries[part.entry]
            if set(part.inputs) != set(entry.inputs) or set(part.outputs) != set(entry.outputs):
                yield Finding("TW7087", f"{part.entry} has other ports than its program")
            for port, name in (*entry.inputs.items(), *entry.outputs.items()):
                given = ports.get(port)
                if given is None or not _fits(given, entry.network.values[name], entry, port):
                    yield Finding("TW7087", f"the port {port} is not as {part.entry} needs it")
        for entry in self.entries.values():
            yield from _overwritten_state(entry)
            for finding in verify(entry.program.tasks, strict=True):
                yield Finding("TW7088", f"{entry.name}: {finding.property} {finding.message}")

    def bound(self) -> Bound:
        total = sum(entry.bound for entry in self.entries.values())
        return Bound(
            total, "the busiest engine, with what has to come before and after it",
            ignores=("spills", "barriers", "bandwidth that ports share"),
        )  # fmt: skip

    def listing(self) -> str:
        """The task lists, queue by queue."""
        lines = []
        for entry in self.entries.values():
            tasks = entry.program.tasks
            lines.append(
                f"entry {entry.name}: {len(tasks.tasks)} tasks, {len(tasks.barriers)} barriers"
            )
            for queue, names in tasks.queues.items():
                lines.append(f"  queue {queue}")
                for name in names:
                    item = tasks.tasks[name]
                    what = item.task or item.buffer or item.kind
                    waits = " ".join(f"b{n}" for n in item.waits)
                    posts = " ".join(f"b{n}" for n in item.posts)
                    lines.append(f"    {name:>8} {item.cycles:>8}  {what}  [{waits} | {posts}]")
        return "\n".join(lines) + "\n"

    def device(self, options: DeviceOptions) -> VpuDevice:
        return VpuDevice(self.entries, self.first, options)

    def reference(self) -> VpuReference:
        return VpuReference(self.entries, self.first)


def _fits(given: Port, value: Value, entry: CompiledEntry, port: str) -> bool:
    """Whether a port is what the network has, or state that becomes that when it is written."""
    shape, encoding = given.shape or (1,), given.encoding
    if port not in entry.state:
        return (shape, given.dtype, encoding) == (value.shape, value.dtype, None)
    if given.dtype not in (value.dtype, "f32"):
        return False
    if encoding is None:
        return shape == value.shape
    plain = encoding.factor == 1.0 and encoding.shape == shape
    return plain and encoding.wrong(shape) is None and encoding.stored == value.shape


def _overwritten_state(entry: CompiledEntry) -> Iterator[Finding]:
    """Tasks that write where state stays, at any time of the run, and state that shares bytes."""
    tasks, ranges = entry.program.tasks, entry.state_ranges()
    taken = [
        (name, place, place + size)
        for name, (place, size) in tasks.ddr.items()
        if name not in {entry.homes[entry.inputs[port]][0] for port in entry.state}
    ]
    for number, (port, first, end) in enumerate(ranges):
        for other, low, high in (*taken, *ranges[:number]):
            if low < end and first < high:
                yield Finding("TW7089", f"{entry.name}: {other} lies where the state {port} stays")
        for task in tasks.tasks.values():
            written = (run for r in task.writes if r.space == DDR for run in r.runs())
            if any(low < end and first < high for low, high in written):
                yield Finding(
                    "TW7089", f"{entry.name}: {task.task or task.kind} writes the state {port}"
                )
                break


def _tensor(entry: CompiledEntry, port: str, name: str, kind: str) -> Tensor:
    value = entry.network.values[name]
    tensor, offset, _ = entry.homes[name]
    place = entry.program.tasks.ddr[tensor][0] + offset * value.size
    unit = "" if value.scale is None else f", scale {float(value.scale):.6g}"  # type: ignore[arg-type]
    return Tensor(
        port, "ddr", place, value.rows * value.width * DTYPES[value.dtype].itemsize,
        f"{value.dtype} rows{unit}", kind, shape=value.shape, dtype=value.dtype,
    )  # fmt: skip


def read_artifact(members: Mapping[str, Content], place: Location) -> VpuArtifact:
    """The artifact of a bundle; nothing in it is trusted."""
    bad = TilewrightError("TW7034", "this compiled VPU model is damaged", place, "compile it again")
    document = read_document(members, _ENTRIES, place)
    if not isinstance(document, dict) or document.get("format") != "tilewright-vpu-model":
        raise bad
    if document.get("version") != 1 or not isinstance(document.get("entries"), list):
        raise bad
    if _CONSTANTS not in members:
        raise bad
    constants = read_tensors(members[_CONSTANTS], _CONSTANTS, place)
    entries: dict[str, CompiledEntry] = {}
    for number, found in enumerate(document["entries"]):
        content = members.get(f"vpu/list{number}.bin")
        if content is None or not isinstance(found, dict) or not isinstance(found.get("name"), str):
            raise bad
        try:
            program = program_from_binary(content.tobytes())
            entries[found["name"]] = entry_from(found, program, constants)
        except TilewrightError as error:
            raise error.at(place) from None
    if not isinstance(document.get("target"), str):
        raise bad
    return VpuArtifact(document["target"], entries)
