"""Does it fit: code, constants, data, buffers and stack against the machine's memories.

Error code: TW5030 a memory is too small; the message has the table.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from tilewright.errors import Location, TilewrightError
from tilewright.planning.buffers import align_up
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.machines import CoralMachine
from tilewright.targets.coral.program import Program, Value
from tilewright.targets.coral.storage import Storage
from tilewright.targets.coral.toolchain import Build

COUNTERS = 16  # _ret and the counters of the start-up code


@dataclass(frozen=True)
class Budget:
    """Bytes of a linked program by purpose, and of code by op."""

    machine: CoralMachine
    text: int
    constants: int
    data: int  # inputs, outputs and counters
    arena: int
    stack: int
    ops: dict[str, int] = field(default_factory=dict)

    @property
    def code_used(self) -> int:
        return self.text

    @property
    def data_used(self) -> int:
        return self.constants + self.data + self.arena + self.stack

    @property
    def fits(self) -> bool:
        return self.text <= self.machine.code.size and self.data_used <= self.machine.data.size

    def to_json(self) -> dict[str, object]:
        return {
            "text": self.text,
            "constants": self.constants,
            "data": self.data,
            "arena": self.arena,
            "stack": self.stack,
            "ops": dict(self.ops),
            "itcm": {"used": self.text, "size": self.machine.code.size},
            "dtcm": {"used": self.data_used, "size": self.machine.data.size},
        }

    def text_table(self) -> str:
        rows = [
            f"ITCM {self.text:>9,} of {self.machine.code.size:,} bytes",
            f"DTCM {self.data_used:>9,} of {self.machine.data.size:,} bytes: constants {self.constants:,}, "
            f"inputs and outputs {self.data:,}, buffers {self.arena:,}, stack {self.stack:,}",
        ]
        rows += [f"  {name:<28}{size:>8,} bytes of code" for name, size in self.ops.items()]
        return "\n".join(rows)


def data_bytes(program: Program, storage: Storage) -> int:
    """Inputs, outputs and planned buffers; neither constants nor the stack."""
    ports = [*program.inputs, *program.outputs]
    return sum(align_up(v.bytes, 16) for v in ports) + align_up(storage.arena, 16) + COUNTERS


def check_budget(
    program: Program,
    storage: Storage,
    groups: list[Group],
    names: list[str],
    machine: CoralMachine,
    stack: int,
    constants_in_code: bool,
    streamed: bool = False,
    far: Container[Value] = (),
) -> None:
    """Fail before the build when data cannot fit, with a table of what takes the room."""
    ports = [(f"input_{k}", v) for k, v in enumerate(program.inputs)]
    ports += [(f"output_{k}", v) for k, v in enumerate(program.outputs)]
    data = sum(align_up(v.bytes, 16) for _, v in ports)
    constants = sum(
        align_up(v.bytes, 16) for v in storage.constants if v.elements > 1 and v not in far
    )
    arena = align_up(storage.arena, 16)
    used = data + arena + stack + (0 if constants_in_code else constants)
    if used <= machine.data.size:
        return
    rows: list[tuple[int, str, Location | None]] = [
        (v.bytes, f"{name}: {v.bytes:,} bytes, the whole run", None) for name, v in ports
    ]
    for buffer in storage.buffers():
        owner = names[storage.owners[buffer.name]]
        live = f"steps {buffer.lower}..{buffer.upper - 1}"
        place = groups[storage.owners[buffer.name]].root.location
        text = f"{buffer.name}: {buffer.size:,} bytes, {live}, made by {owner}"
        rows.append((buffer.size, text, place))
    readers = {
        v: (name, n.location)
        for group, name in zip(groups, names, strict=True)
        for n in group.nodes
        for v in n.inputs
    }
    for value in storage.constants:
        if value.elements > 1:
            reader, place = readers.get(value, ("?", None))
            text = f"{value.name}: {value.bytes:,} bytes, constant of {reader}"
            rows.append((value.bytes, text, place))
    rows.sort(key=lambda row: -row[0])
    table = "".join(f"\n          {text}" for _, text, _ in rows[:12])
    place = next((place for _, _, place in rows if place is not None), Location(program.source))
    hint = (
        "smaller weights, int8, or coral-highmem with 1 MB of data"
        if not machine.high_memory
        else None
    )
    raise TilewrightError(
        "TW5030",
        f"the model needs {used:,} bytes of data memory, {used - machine.data.size:,} more than the "
        f"{machine.data.size:,} of {machine.name}: constants {constants:,}, inputs and outputs {data:,}, "
        f"buffers {arena:,} (planned{', images in rows' if streamed else ''}), stack {stack:,}{table}",
        place,
        hint,
    )


def budget_of(
    build: Build,
    program: Program,
    storage: Storage,
    groups: list[Group],
    names: list[str],
    machine: CoralMachine,
) -> Budget:
    """Sizes in the linked program; code of kernels counts to the first op that needs them."""
    elf = build.program
    sections = {s.name: s.size for s in elf.sections}
    functions = {s.name: s.size for s in elf.symbols.values() if s.kind == "func"}
    ops = {name: functions.get(name, 0) for name in ["_start", *names]}
    shared = {n: size for n, size in functions.items() if n.startswith(("k_", "tw_", "mem"))}
    ops |= shared
    if "main" in functions:
        ops["main"] = functions["main"]
    return Budget(
        machine,
        sections.get(".text", 0) + (sections.get(".rodata", 0) if _in_code(elf, machine) else 0),
        0 if _in_code(elf, machine) else sections.get(".rodata", 0),
        sections.get(".data", 0) + sections.get(".bss", 0),
        sections.get(".arena", 0),
        sections.get(".stack", 0),
        {n: s for n, s in ops.items() if s},
    )


def _in_code(elf, machine: CoralMachine) -> bool:
    return any(
        s.name == ".rodata" and s.size and s.address < machine.data.base for s in elf.sections
    )
