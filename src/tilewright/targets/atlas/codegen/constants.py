"""What scalar and scale registers hold where a piece of code starts."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.program import Instruction


def load_constant(register: int, value: int) -> list[Instruction]:
    """The one or two instructions that put a value into a scalar register."""
    low = ((value & 0xFFF) ^ 0x800) - 0x800
    high = ((value - low) >> 12) & 0xFFFFF
    if not high:
        return [Instruction.of("addi", register, 0, low)]
    first = Instruction.of("lui", register, high)
    return [first, Instruction.of("addi", register, register, low)] if low else [first]


@dataclass
class Constants:
    """Which constant each register holds; of two that hold one value the first is read.

    The list scheduler makes constants just before they are needed and overwrites those that nobody
    needs any more, the one unused for the longest time first.
    """

    x: dict[int, int] = field(default_factory=lambda: {0: 0})  # register -> value
    e: dict[int, int] = field(default_factory=dict)
    used: list[list[int]] = field(default_factory=lambda: [[0] * 32, [0] * 32])  # last reads
    clock: int = 0  # reads so far
    reserved: frozenset[int] = frozenset()  # scalar registers that are not ours
    pinned: frozenset[tuple[Kind, int]] = frozenset()  # registers that keep their constant

    def entry(self) -> Constants:
        """What a loop body finds at the start of every iteration: the pinned constants only."""
        x = {r: v for r, v in self.x.items() if r == 0 or (Kind.X, r) in self.pinned}
        e = {r: v for r, v in self.e.items() if (Kind.E, r) in self.pinned}
        return Constants(x, e, reserved=self.reserved, pinned=self.pinned)
