"""Numbers that are written as one and read as another: `addi rd=1, imm=2048` adds -2048."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.targets.atlas.isa import OPCODES
from tilewright.targets.atlas.program import Program

CODE = "TW2035"
SHOWN = 5


def wrapping_numbers(program: Program) -> Iterator[tuple[int, str]]:
    """Instructions whose number is read as another one, and which that is."""
    for row in OPCODES:
        for place, operand in enumerate(row.operands):
            kind = operand.immediate
            # seli keeps eight bits of its number, whatever its sign.
            if kind is None or not kind.signed or kind.exact or row.effect == "seli":
                continue
            numbers = program.operands[:, place]
            above = (program.opcodes == row.index) & (numbers >= 1 << (kind.bits - 1))
            for index in np.flatnonzero(above).tolist():
                number = int(numbers[index])
                yield index, f"{row.mnemonic} reads {number} as {number - (1 << kind.bits)}"


def wrapping_warnings(program: Program) -> list[str]:
    """A line about each of the first few of them."""
    found = sorted(wrapping_numbers(program))
    lines = [f"{CODE} {program.location(index)}  {message}" for index, message in found[:SHOWN]]
    if len(found) > SHOWN:
        lines.append(f"{CODE}  and {len(found) - SHOWN} more; tilewright lint lists them")
    return lines
