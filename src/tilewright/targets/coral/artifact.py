"""What Coral makes of a model: one ELF per device part, with its C, its sizes and its reference.

A model that needs no host is one ELF. Ports are the model's tensors; a quantised program takes
and gives int8, and the host's edge of the device converts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive
from tilewright.io.json_tables import Table, read_document
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
from tilewright.targets.coral.artifact_check import check_entry
from tilewright.targets.coral.describe import describe
from tilewright.targets.coral.disassembly import Line, listing
from tilewright.targets.coral.elf import Elf, parse_elf
from tilewright.targets.coral.lower_bound import lower_bound
from tilewright.targets.coral.machines import CoralMachine, machine_named
from tilewright.targets.coral.program import Program
from tilewright.targets.coral.program_json import document_of, read_program
from tilewright.targets.target import Description

CONTENTS = "contents.json"
FLOAT_ERROR = 1e-5
ROUNDED = frozenset(["requant", "round", "floor", "ceil", "cast", "compare", "argmax", "argmin"])
KINDS = ("input", "output", "weight", "constant", "activation")


@dataclass(frozen=True)
class Entry:
    """One linked program: the whole model, or the operations between two of the host's."""

    name: str
    elf: bytes
    source: str  # C
    program: Program  # what it computes
    steps: tuple[Step, ...]
    tensors: tuple[Tensor, ...]
    sizes: Mapping[str, Any]
    noise: Mapping[str, float]  # output -> decibels above quantisation noise

    @cached_property
    def image(self) -> Elf:
        return parse_elf(self.elf, f"{self.name}.elf")

    @cached_property
    def lines(self) -> list[Line]:
        return list(listing(self.image))


class CoralArtifact:
    """All programs of a model for one machine."""

    family = "coral"

    def __init__(self, machine: CoralMachine, entries: Sequence[Entry]) -> None:
        self.machine = machine
        self.entries = {entry.name: entry for entry in entries}

    @property
    def target(self) -> str:
        return self.machine.name

    @property
    def steps(self) -> Sequence[Step]:
        return [step for entry in self.entries.values() for step in entry.steps]

    @property
    def loops(self) -> Sequence[LayerLoop]:
        return ()

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        return {t.name: t for entry in self.entries.values() for t in entry.tensors}

    @property
    def sizes(self) -> dict[str, Any]:
        """Bytes by purpose of every program; of the model itself where there is only one."""
        tables = {name: dict(entry.sizes) for name, entry in self.entries.items()}
        return next(iter(tables.values())) if len(tables) == 1 else tables

    @property
    def fits(self) -> bool:
        return all(entry.sizes.get("fits", True) for entry in self.entries.values())

    def summary(self) -> dict[str, Any]:
        """What `compile --json` says besides: budgets, and noise of quantised outputs."""
        noise = {k: v for entry in self.entries.values() for k, v in entry.noise.items()}
        return {"sizes": self.sizes, "fits": self.fits, "sqnr_db": noise}

    @property
    def float_error(self) -> float | None:
        """Programs in f32 keep to it; rounding to integers on the way may turn a bit into a step."""
        programs = [entry.program for entry in self.entries.values()]
        values = [v for p in programs for v in (*p.inputs, *(n.output for n in p.nodes))]
        whole = any(n.kind in ROUNDED for p in programs for n in p.nodes)
        return None if whole or any(v.scale is not None for v in values) else FLOAT_ERROR

    # Code, for people

    def describe(self) -> Description:
        return describe(self.machine)

    @property
    def code_bytes(self) -> Sequence[int]:
        return [int(entry.sizes.get("text", 0)) for entry in self.entries.values()]

    @property
    def weight_bytes(self) -> int:
        return sum(int(entry.sizes.get("constants", 0)) for entry in self.entries.values())

    def calls_of(self, entry: str) -> int:
        return len(self.entries[entry].steps) if entry in self.entries else 0

    def excerpt(self, step: int, most: int) -> tuple[Sequence[str], int]:
        """The first instructions of a step's function."""
        for entry in self.entries.values():
            if step < len(entry.steps):
                name = entry.steps[step].name
                lines = [
                    f"{line.address:6x}: {line.text}"
                    for line in entry.lines
                    if line.function == name
                ]
                return lines[:most], len(lines)
            step -= len(entry.steps)
        return [], 0

    emits = ("c", "elf", "asm")

    def emit(self, kind: str) -> bytes:
        """C, ELF or assembly of a model that is one program."""
        if len(self.entries) != 1:
            raise TilewrightError(
                "TW5056",
                f"the model is {len(self.entries)} programs with work for the host in between",
                hint="a bundle holds all of them; --no-host says what the host would do",
            )
        entry = next(iter(self.entries.values()))
        if kind == "asm":
            from tilewright.targets.coral.toolchain import assembly

            return assembly(entry.source, self.machine).encode()
        return entry.elf if kind == "elf" else entry.source.encode()

    # Files

    def members(self) -> Iterator[Member]:
        contents = {
            "version": 1,
            "machine": self.machine.name,
            "entries": [
                {
                    "name": entry.name,
                    "steps": [_step_row(step) for step in entry.steps],
                    "tensors": [_tensor_row(tensor) for tensor in entry.tensors],
                    "sizes": dict(entry.sizes),
                    "noise": dict(entry.noise),
                }
                for entry in self.entries.values()
            ],
        }
        yield Member(CONTENTS, [json.dumps(contents, indent=1, sort_keys=True).encode() + b"\n"])
        for entry in self.entries.values():
            document, arrays = document_of(entry.program)
            text = json.dumps(document, indent=1, sort_keys=True)
            yield Member(f"{entry.name}.elf", [entry.elf])
            yield Member(f"{entry.name}.c", [entry.source.encode()])
            yield Member(f"{entry.name}.program.json", [text.encode() + b"\n"])
            if arrays:
                name = f"{entry.name}.safetensors"
                yield Member(name, tensor_pieces(arrays, name))

    # Looking

    def check(
        self, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
    ) -> Iterator[Finding]:
        for part in parts:
            if isinstance(part, HostPart):
                continue
            entry = self.entries.get(part.entry)
            if entry is None:
                yield Finding("TW5052", f"there is no program {part.entry}")
                continue
            inputs = [ports[name] for name in part.inputs]
            outputs = [ports[name] for name in part.outputs]
            yield from check_entry(self.machine, entry, inputs, outputs)

    def bound(self) -> Bound | None:
        """None where the bus has a part in it, which nobody measured."""
        entries = self.entries.values()
        if any(s.address >= self.machine.far for e in entries for s in e.image.segments):
            return None
        return lower_bound(self.machine, [entry.program for entry in entries])

    def listing(self) -> str:
        """C of every program, then its instructions."""
        lines = []
        for entry in self.entries.values():
            lines.append(entry.source)
            function = None
            for line in entry.lines:
                if line.function != function:
                    function = line.function
                    lines.append(f"\n{line.address:08x} <{function}>:")
                lines.append(f"{line.address:8x}: {line.word:08x}  {line.text}")
        return "\n".join(lines) + "\n"

    # Running

    def device(self, options: DeviceOptions) -> Any:
        from tilewright.targets.coral.device import CoralDevice

        return CoralDevice(self, options)

    def reference(self) -> Any:
        from tilewright.targets.coral.device import ReferenceDevice

        return ReferenceDevice(self)


def _step_row(step: Step) -> dict[str, Any]:
    return {
        "name": step.name,
        "kernel": step.kernel,
        "operands": dict(step.operands),
        "options": dict(step.options),
        "sources": list(step.sources),
        "macs": step.macs,
    }


def _tensor_row(tensor: Tensor) -> dict[str, Any]:
    row = {"name": tensor.name, "space": tensor.space, "address": tensor.address}
    row |= {"bytes": tensor.bytes, "encoding": tensor.encoding, "kind": tensor.kind}
    row |= {"first": tensor.first, "last": tensor.last}
    return row | {"shape": list(tensor.shape), "dtype": tensor.dtype}


def read_artifact(members: Mapping[str, Content], place: Location) -> CoralArtifact:
    """The artifact of a bundle's files, of unknown origin."""
    top = Table(read_document(members, CONTENTS, place), f"{CONTENTS} of Coral", place)
    top.integer("version", 1, 1)
    machine = machine_named(top.text("machine"))
    entries = top.each("entries", "program", lambda row: _read_entry(row, members, place))
    top.done()
    wanted = {CONTENTS}
    for entry in entries:
        wanted |= {f"{entry.name}.{end}" for end in ("elf", "c", "program.json", "safetensors")}
    unknown = sorted(set(members) - wanted)
    if unknown or len({entry.name for entry in entries}) != len(entries):
        what = f"a file {unknown[0]!r} that nothing names" if unknown else "a name twice"
        raise TilewrightError("TW5050", f"the bundle has {what}", place)
    return CoralArtifact(machine, entries)


def _read_entry(row: Table, members: Mapping[str, Content], place: Location) -> Entry:
    name = row.text("name")
    if f"{name}.elf" not in members or f"{name}.c" not in members:
        raise TilewrightError("TW5050", f"the bundle lacks the program {name}", place)
    arrays: dict[str, np.ndarray] = {}
    file = f"{name}.safetensors"
    if file in members:
        arrays = read_tensors(members[file], file, place)
    document = read_document(members, f"{name}.program.json", place)
    program = read_program(document, arrays, place)
    steps = tuple(row.each("steps", "step", _read_step))
    tensors = tuple(row.each("tensors", "tensor", _read_tensor))
    elf = members[f"{name}.elf"].tobytes()
    parse_elf(elf, f"{place.file} ({name}.elf)")
    source = members[f"{name}.c"].tobytes().decode("utf-8", "replace")
    sizes = row.table("sizes")
    for key in ("text", "constants", "data", "arena", "stack", "external"):
        row.inner(f"the size table of {name}", sizes).integer(key)
    return Entry(name, elf, source, program, steps, tensors, sizes, row.reals("noise"))


def _read_step(row: Table) -> Step:
    return Step(
        row.text("name"),
        row.text("kernel"),
        row.texts("operands"),
        row.table("options"),
        row.names("sources"),
        row.integer("macs", high=1 << 62),
    )


def _read_tensor(row: Table) -> Tensor:
    return Tensor(
        row.text("name"),
        row.text("space"),
        row.integer("address"),
        row.integer("bytes"),
        row.text("encoding"),
        row.choice("kind", KINDS),
        row.integer("first"),
        row.integer("last"),
        shape=row.shape(),
        dtype=row.text("dtype"),
    )


def programs_of(path: str) -> list[tuple[Entry, CoralMachine]]:
    """The programs of a bundle, for the commands of this family."""
    members = read_archive(path, "a Tilewright bundle")
    place = Location(path)
    mine = {n.removeprefix("coral/"): x for n, x in members.items() if n.startswith("coral/")}
    if not mine:
        raise TilewrightError("TW5050", "the bundle has no program for Coral", place)
    artifact = read_artifact(mine, place)
    return [(entry, artifact.machine) for entry in artifact.entries.values()]
