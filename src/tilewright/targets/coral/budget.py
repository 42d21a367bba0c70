"""Does it fit: code, constants, data, buffers and stack against the machine's memories.

Error code: TW5030 a memory is too small; the message has the table.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from tilewright.errors import Location, TilewrightError
from tilewright.planning.buffers import align_up
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.machines import MACHINES, CoralMachine
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
    external: int = 0  # behind the bus: weights, inputs and outputs

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
            "external": self.external,
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
        if self.external:
            rows.append(f"behind the bus {self.external:,} bytes")
        rows += [f"  {name:<28}{size:>8,} bytes of code" for name, size in self.ops.items()]
        return "\n".join(rows)


def data_bytes(program: Program, storage: Storage, far: Container[Value] = ()) -> int:
    """Inputs, outputs and planned buffers; neither constants nor the stack, nor what is far."""
    ports = [v for v in (*program.inputs, *program.outputs) if v not in far]
    return sum(align_up(v.bytes, 16) for v in ports) + align_up(storage.arena, 16) + COUNTERS


def check_ports(ports: Sequence[tuple[str, int]], machine: CoralMachine, place: Location) -> None:
    """Fail when inputs and outputs alone, names with bytes, are more than a machine can hold."""
    used = sum(align_up(size, 16) for _, size in ports)
    behind = sum(memory.size for memory in machine.external[:1])
    room = machine.data.size + behind
    if used <= room:
        return
    name, size = max(ports, key=lambda port: port[1])
    held = f"the {machine.data.size:,} of {machine.name}'s data memory"
    if behind:
        held += f" and the {behind:,} behind its bus"
    raise TilewrightError(
        "TW5030",
        f"inputs and outputs need {used:,} bytes, {used - room:,} more than {held}, where the host "
        f"writes and reads them as a whole: the largest is {name}, {size:,} bytes",
        place,
        _where_it_fits(used, machine),
    )


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
    ports = [(f"input_{k}", v) for k, v in enumerate(program.inputs) if v not in far]
    ports += [(f"output_{k}", v) for k, v in enumerate(program.outputs) if v not in far]
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
    raise TilewrightError(
        "TW5030",
        f"the model needs {used:,} bytes of data memory, {used - machine.data.size:,} more than the "
        f"{machine.data.size:,} of {machine.name}: constants {constants:,}, inputs and outputs {data:,}, "
        f"buffers {arena:,} (planned{', in rows or parts' if streamed else ''}), stack {stack:,}"
        f"{_whole_ports(ports, data + stack, machine)}{table}",
        place,
        _where_it_fits(used, machine),
    )


def _whole_ports(ports: list[tuple[str, Value]], used: int, machine: CoralMachine) -> str:
    """Said when inputs and outputs alone are too large: nothing can be done about them."""
    if used <= machine.data.size:
        return ""
    name, value = max(ports, key=lambda port: port[1].bytes)
    shape = "x".join(map(str, value.shape)) or "scalar"
    return (
        f"; inputs and outputs lie in data memory as a whole, where the host writes and reads them, and "
        f"with the stack need {used - machine.data.size:,} bytes more than there are: the largest is "
        f"{name}, {shape} of {value.dtype}, {value.bytes:,} bytes"
    )


def _where_it_fits(used: int, machine: CoralMachine) -> str:
    """What could help: a number format, and whether the machine with more memory holds it."""
    if machine.high_memory:
        return "int8, smaller weights or smaller inputs"
    name = "coral-zve32f-highmem" if machine.vector_float else "coral-highmem"
    other = MACHINES[name]
    sizes = f"which has {other.data.size:,} bytes of data memory"
    if used <= other.data.size:
        return f"int8 or smaller weights; it fits {name}, {sizes}"
    behind = sum(memory.size for memory in other.external[:1])
    sizes += f" and {behind:,} behind the bus for weights, inputs and outputs"
    if used <= other.data.size + behind:
        return f"{name}, {sizes}, may hold it"
    return f"not even {name} holds it, {sizes}"


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
        sections.get(".extmem", 0) + sections.get(".extio", 0),
    )


def _in_code(elf, machine: CoralMachine) -> bool:
    return any(
        s.name == ".rodata" and s.size and s.address < machine.data.base for s in elf.sections
    )
