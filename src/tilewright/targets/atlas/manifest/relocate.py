"""Straight programs made movable: every DRAM address gets a register and two instructions.

A compiled kernel shares constants between addresses and sizes. To be moved, each transfer must
take its DRAM address from a register of its own that `lui` and `addi` fill, whatever the value.
All distances the scheduler keeps are smallest ones, so instructions may be added anywhere; they
go where the program idles, and what becomes unused turns into idling.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import load_constant
from tilewright.targets.atlas.codegen.emit import fill
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.program import Instruction, Program

_ADDRESS = {"dma load": 1, "dma store": 0}  # operand that holds the DRAM address


@dataclass(frozen=True)
class Region:
    """Where an operand of a kernel lies in DRAM."""

    name: str
    output: bool
    address: int
    bytes: int


@dataclass(frozen=True)
class Point:
    """An address to fill in: `instructions` put it into `register`."""

    region: Region
    offset: int
    register: int
    value: int
    instructions: tuple[int, int]


@dataclass
class Movable:
    """A program whose DRAM addresses can be changed."""

    instructions: list[Instruction]
    points: list[Point]


@dataclass
class _Row:
    instruction: Instruction
    idle: int = 0  # ticks before it
    point: tuple[int, str] | None = None  # number of the address, "lui" or "addi"


@dataclass
class _Relocation:
    program: Program
    regions: list[Region]
    rows: list[_Row] = field(default_factory=list)
    found: list[tuple[Region, int, int, int]] = field(default_factory=list)

    def run(self) -> Movable:
        self._read()
        self._give_registers()
        self._drop_unused()
        instructions: list[Instruction] = []
        places: dict[tuple[int, str], int] = {}
        for row in self.rows:
            instructions += fill(row.idle)
            if row.point is not None:
                places[row.point] = len(instructions)
            instructions.append(row.instruction)
        instructions += fill(self.tail)
        points = [
            Point(region, offset, register, value, (places[k, "lui"], places[k, "addi"]))
            for k, (region, offset, register, value) in enumerate(self.found)
        ]
        return Movable(instructions, points)

    def _read(self) -> None:
        idle = 0
        for instruction in self.program:
            if instruction.opcode.is_transfer:
                raise TilewrightError("TW1330", "a kernel with loops cannot be moved")
            if instruction.opcode.mnemonic == "delay":
                idle += instruction.operands[0] + 1
            else:
                self.rows.append(_Row(instruction, idle))
                idle = 0
        self.tail = idle

    def _give_registers(self) -> None:
        """A register of its own for every DRAM address in flight."""
        used = {n for row in self.rows for n, _, _ in _scalars(row.instruction)}
        free = [n for n in range(31, 0, -1) if n not in used]
        x, channel = [0] * 32, dict[int, int]()
        since = dict.fromkeys(free, 0)  # rows from which the register may be written
        at = 0
        while at < len(self.rows):
            row = self.rows[at]
            opcode, operands = row.instruction.opcode, list(row.instruction.operands)
            if opcode.timing == "dma_wait" and operands[0] in channel:
                register = channel.pop(operands[0])
                free.append(register)
                since[register] = at + 1
            elif opcode.memory in _ADDRESS:
                if not free:
                    raise TilewrightError("TW1331", "no scalar register is left for an address")
                register = free.pop(0)
                which = _ADDRESS[opcode.memory]
                region, offset = self._region(x[operands[which]])
                value = x[operands[which]]
                operands[which] = register
                row.instruction = Instruction(opcode, tuple(operands))
                channel[operands[3]] = register
                at += self._insert(at, since[register], register, value)
                self.found.append((region, offset, register, value))
            else:
                _step(row.instruction, x)
            at += 1

    def _region(self, address: int) -> tuple[Region, int]:
        for region in self.regions:
            if region.address <= address < region.address + region.bytes:
                return region, address - region.address
        raise TilewrightError("TW1332", f"no operand of the kernel lies at {address:#x} of DRAM")

    def _insert(self, at: int, earliest: int, register: int, value: int) -> int:
        """Put the two instructions where the program idles, or right before the transfer."""
        number = len(self.found)
        place = next((k for k in range(at, earliest - 1, -1) if self.rows[k].idle >= 2), at)
        first, second = _pair(register, value)
        before = self.rows[place].idle
        self.rows[place].idle = max(0, before - 2)
        rows = [_Row(first, 0, (number, "lui")), _Row(second, 0, (number, "addi"))]
        if before < 2:
            rows[0].idle, self.rows[place].idle = before, 0
        self.rows[place:place] = rows
        return 2

    def _drop_unused(self) -> None:
        """Constants nobody reads any more become idle ticks."""
        live: set[int] = set()
        kept: list[_Row] = []
        owed = 0  # ticks of dropped rows, owed to the row behind
        for row in reversed(self.rows):
            scalars = _scalars(row.instruction)
            writes = {n for n, _, w in scalars if w}
            dead = (
                row.point is None
                and row.instruction.opcode.mnemonic in ("addi", "lui")
                and not writes & live
            )
            if dead:
                owed += 1 + row.idle
                continue
            if kept:
                kept[-1].idle += owed
            else:
                self.tail += owed
            owed = 0
            live = (live - writes) | {n for n, r, _ in scalars if r}
            kept.append(row)
        # Nothing has to keep a distance from the start of the program.
        self.rows = kept[::-1]


def _scalars(instruction: Instruction) -> list[tuple[int, bool, bool]]:
    """(register, read, written) of every scalar register operand."""
    return [
        (value, operand.reads, operand.writes)
        for operand, value in zip(instruction.opcode.operands, instruction.operands, strict=True)
        if operand.kind is Kind.X
    ]


def _step(instruction: Instruction, x: list[int]) -> None:
    """Follow the constants of a straight program."""
    name, operands = instruction.opcode.mnemonic, instruction.operands
    if name == "lui":
        x[operands[0]] = (operands[1] << 12) & 0xFFFFFFFF
    elif name == "addi":
        low = ((operands[2] & 0xFFF) ^ 0x800) - 0x800
        x[operands[0]] = (x[operands[1]] + low) & 0xFFFFFFFF
    elif any(written for _, _, written in _scalars(instruction)):
        raise TilewrightError("TW1333", f"the kernel computes addresses with {name}")
    x[0] = 0


def _pair(register: int, value: int) -> tuple[Instruction, Instruction]:
    """`lui` and `addi`, both even where one would do."""
    rows = load_constant(register, value)
    if len(rows) == 2:
        return rows[0], rows[1]
    if rows[0].opcode.mnemonic == "lui":
        return rows[0], Instruction.of("addi", register, register, 0)
    return (
        Instruction.of("lui", register, 0),
        Instruction.of("addi", register, register, rows[0].operands[2]),
    )


def movable(program: Program, regions: list[Region]) -> Movable:
    """The program with every DRAM address in two instructions of its own.

    before: addi x1, x0, 1024; dma.load.ch0 x1, x1, x1
    after:  addi x1, x0, 1024; lui x31, 0; addi x31, x31, 1024; dma.load.ch0 x1, x31, x1
    """
    return _Relocation(program, regions).run()
