"""Random Atlas programs for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tilewright.targets.atlas.encoding import operand_range
from tilewright.targets.atlas.isa import OPCODES, Kind, Opcode
from tilewright.targets.atlas.program import Data, Instruction, Program


def operand_values(row: Opcode, words: bool, pairs: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Operands of a row. `words`: numbers that have a word. `pairs`: highest tensor register."""
    parts = []
    for operand in row.operands:
        low, high, step = operand_range(operand)
        if operand.immediate is not None:
            if step == 2:
                step = 4  # the text form counts whole instructions
            if words and operand.immediate.exact:
                low = 0
            if words and operand.immediate.name == "pattern16":
                high = 32767  # larger ones are patterns, which not every profile has
        elif operand.kind is Kind.M:
            high = min(high, pairs)
        low = -(-low // step)
        parts.append(st.integers(low, high // step).map(lambda n, s=step: n * s))
    return st.tuples(*parts)


def instructions(words: bool = False, pairs: int = 63) -> st.SearchStrategy[Instruction]:
    return st.sampled_from(OPCODES).flatmap(
        lambda row: operand_values(row, words, pairs).map(lambda v: Instruction(row, v))
    )


def _program(
    rows: list[Instruction], labels: dict[str, int], data: list[tuple[str, bytes]]
) -> Program:
    program = Program.from_instructions(rows)
    program.labels = {name: index % (len(rows) + 1) for name, index in labels.items()}
    address = 0
    for space, content in data:
        program.data.append(Data(space, address, content))
        address += len(content) + 32
    return program


label_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,6}", fullmatch=True).map(
    lambda name: f"at_{name}"
)


def programs(words: bool = False, data: bool = True, pairs: int = 63) -> st.SearchStrategy[Program]:
    blocks = st.lists(
        st.tuples(
            st.sampled_from(["dram", "vmem"]),
            st.one_of(st.binary(min_size=1, max_size=80), st.just(b"\5" * 100)),
        ),
        max_size=3 if data else 0,
    )
    return st.builds(
        _program,
        st.lists(instructions(words, pairs), max_size=30),
        st.dictionaries(label_names, st.integers(0, 30), max_size=3),
        blocks,
    )


def canonical(program: Program, integer_fill: bool = False) -> Program:
    """The program with every number as its bit field reads back, worked out one by one.

    `integer_fill`: as on profiles where `vli.all` takes a signed integer.
    """
    rows = []
    for instruction in program:
        values = []
        for operand, value in zip(instruction.opcode.operands, instruction.operands, strict=True):
            if operand.immediate is not None:
                bits = operand.immediate.bits
                value %= 1 << bits
                signed = operand.immediate.signed or (
                    integer_fill and operand.immediate.name == "pattern16"
                )
                if signed and value >= 1 << (bits - 1):
                    value -= 1 << bits
            values.append(value)
        rows.append(Instruction(instruction.opcode, tuple(values)))
    return Program.from_instructions(rows)


def same(a: Program, b: Program) -> bool:
    return bool(
        np.array_equal(a.opcodes, b.opcodes)
        and np.array_equal(a.operands, b.operands)
        and a.operands.dtype == b.operands.dtype
        and len(a.lines) == len(b.lines)
    )
