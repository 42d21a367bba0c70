"""A program: instructions in columns, data to place before the run, where each line came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import Location
from tilewright.targets.atlas.isa import BY_MNEMONIC, MAX_OPERANDS, OPCODES, Opcode


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; operands in the order of its row in the table.

    Branch and jump offsets count bytes on every profile (an instruction is 4 bytes), so that
    a program means the same in every file form.
    """

    opcode: Opcode
    operands: tuple[int, ...]

    @classmethod
    def of(cls, mnemonic: str, *operands: int) -> Instruction:
        """`Instruction.of("addi", 1, 0, 5)`; DMA takes its channel as the last operand."""
        opcode = BY_MNEMONIC[mnemonic]
        if len(operands) != len(opcode.operands):
            raise ValueError(f"{mnemonic} takes {len(opcode.operands)} operands")
        return cls(opcode, operands)

    def __getitem__(self, key: str) -> int:
        """The operand with this key, such as `instruction["rs1"]`."""
        for operand, value in zip(self.opcode.operands, self.operands, strict=True):
            if operand.key == key:
                return value
        raise KeyError(key)


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes to place in "dram" or "vmem" before the program starts."""

    space: str
    address: int
    bytes: bytes


@dataclass
class Program:
    """Instructions as columns: row i is instruction i."""

    opcodes: np.ndarray  # uint8 [n], index into OPCODES
    operands: np.ndarray  # int32 [n, 4], in the row's operand order, zeros behind
    lines: np.ndarray  # int32 [n], line in the source file, 0 unknown
    source: str = "<program>"
    labels: dict[str, int] = field(default_factory=dict)  # name -> instruction index
    data: list[Data] = field(default_factory=list)

    @classmethod
    def from_instructions(
        cls, instructions: Iterable[Instruction], source: str = "<program>"
    ) -> Program:
        rows = list(instructions)
        opcodes = np.fromiter((r.opcode.index for r in rows), np.uint8, len(rows))
        operands = np.zeros((len(rows), MAX_OPERANDS), np.int32)
        for i, row in enumerate(rows):
            operands[i, : len(row.operands)] = row.operands
        return cls(opcodes, operands, np.zeros(len(rows), np.int32), source)

    def __len__(self) -> int:
        return len(self.opcodes)

    def __getitem__(self, index: int) -> Instruction:
        opcode = OPCODES[self.opcodes[index]]
        return Instruction(opcode, tuple(self.operands[index, : len(opcode.operands)].tolist()))

    def __iter__(self) -> Iterator[Instruction]:
        for opcode_index, values in zip(self.opcodes.tolist(), self.operands.tolist(), strict=True):
            opcode = OPCODES[opcode_index]
            yield Instruction(opcode, tuple(values[: len(opcode.operands)]))

    def location(self, index: int) -> Location:
        """Where instruction `index` was written."""
        line = int(self.lines[index]) if 0 <= index < len(self) else 0
        return Location(self.source, line)

    def same_code(self, other: Program) -> bool:
        """Whether both hold the same instructions."""
        return np.array_equal(self.opcodes, other.opcodes) and np.array_equal(
            self.operands, other.operands
        )


def joined(programs: Sequence[Program]) -> Program:
    """One program that runs several one after the other; offsets inside of them stay right."""
    if len(programs) == 1:
        return programs[0]
    return Program(
        np.concatenate([p.opcodes for p in programs]),
        np.concatenate([p.operands for p in programs]),
        np.concatenate([p.lines for p in programs]),
        programs[0].source,
    )
