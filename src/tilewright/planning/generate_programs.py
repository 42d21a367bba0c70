"""Hard instances that look like programs: memory that fills and empties as buffers come and go.

A run through time keeps a plan: what ends leaves gaps, and new buffers are put into gaps until
the live bytes reach what the step asks for. A step that asks for all of the memory fills every gap
to the last byte; other steps leave room. What is returned are the buffers without their places,
and the places as one answer that is known to fit.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.planning.buffers import Buffer

TYPICAL_SHARE = 0.04  # of the memory: a buffer of this size lives as long as was drawn

Draw = Callable[[random.Random], int]


def evenly(least: int, most: int) -> Draw:
    """Every number of the range is as likely as any other."""
    return lambda chance: chance.randint(least, most)


def skewed(median: float, spread: float, most: int) -> Draw:
    """Many small numbers and a few very large ones: the logarithm has a normal distribution."""
    return lambda chance: min(most, max(1, round(chance.lognormvariate(math.log(median), spread))))


def of_tensors(smallest: int, doublings: int) -> Draw:
    """Few different numbers, as shapes give them: one or three times a power of two."""
    return lambda chance: smallest * chance.choice((1, 1, 3)) << chance.randint(0, doublings)


@dataclass(frozen=True, slots=True)
class Program:
    """What buffers a program makes. Sizes are in thousandths of the memory."""

    count: int
    size: Draw
    duration: Draw
    least: float = 1.0  # share of the memory that is live in the valleys
    most: float = 1.0  # and on the peaks
    period: int = 20  # steps from peak to peak
    joined: float = 0.5  # share of buffers that end with the one beside them
    brevity: float = 0.0  # how much shorter large buffers live than small ones
    nested: float = 0.0  # share of buffers that wait for the way back, as in training
    unit: int = 1024  # bytes all sizes are multiples of

    def make(self, seed: int, capacity: int = 1 << 20) -> tuple[list[Buffer], dict[str, int]]:
        """Buffers, and offsets that fit."""
        chance = random.Random(seed)
        unit = self.unit
        units = capacity // unit
        turn = max(2, self.count // 8)  # the step at which a nested program turns back
        held: list[tuple[int, int, int]] = []  # bottom, top, upper
        made: list[tuple[int, int, int, int]] = []  # lower, upper, bottom, top
        step = 0
        while len(made) < self.count:
            held = sorted(entry for entry in held if entry[2] > step)
            live = sum(top - bottom for bottom, top, _ in held)
            wanted = round(units * self._load(step))
            while live < wanted:
                size = max(1, self.size(chance) * units // 1000)
                bottom, top, beside = _place(held, units, min(size, wanted - live), chance)
                upper = step + self._duration(step, turn, (top - bottom) / units, chance)
                if beside > step and chance.random() < self.joined:
                    upper = beside
                held = sorted([*held, (bottom, top, upper)])
                made.append((step, upper, bottom, top))
                live += top - bottom
            step += 1
        chance.shuffle(made)
        buffers = [
            Buffer(f"b{index}", (top - bottom) * unit, lower, min(upper, step))
            for index, (lower, upper, bottom, top) in enumerate(made)
        ]
        return buffers, {f"b{index}": bottom * unit for index, (_, _, bottom, _) in enumerate(made)}

    def _load(self, step: int) -> float:
        wave = (1 + math.cos(2 * math.pi * step / self.period)) / 2
        return self.least + (self.most - self.least) * wave

    def _duration(self, step: int, turn: int, share: float, chance: random.Random) -> int:
        if step < turn and chance.random() < self.nested:
            return 2 * (turn - step) + chance.randint(0, 1)
        factor = (TYPICAL_SHARE / share) ** self.brevity
        return max(1, round(self.duration(chance) * min(factor, 10)))


def _place(
    held: list[tuple[int, int, int]], units: int, size: int, chance: random.Random
) -> tuple[int, int, int]:
    """(bottom, top, end of the buffer beside it) of a new buffer at an end of a gap.

    Any gap that holds it will do, or else the largest, which it then fills. It grows a little to
    fill a gap it nearly fills, so that no slivers are left.
    """
    gaps: list[tuple[int, int, int, int]] = []  # bottom, top, ends of the buffers at both
    at, end = 0, 0
    for bottom, top, upper in [*held, (units, units, 0)]:
        if bottom > at:
            gaps.append((at, bottom, end, upper))
        at, end = top, upper
    holding = [gap for gap in gaps if gap[1] - gap[0] >= size]
    low, high, below, above = (
        chance.choice(holding) if holding else max(gaps, key=lambda gap: gap[1] - gap[0])
    )
    if size > (high - low) * 4 // 5:
        return low, high, chance.choice((below, above))
    return (low, low + size, below) if chance.random() < 0.5 else (high - size, high, above)


# "even" and "skewed" are made after the numbers of buffers, sizes, durations and live bytes of
# published hard instances; the others after kinds of programs.
PROGRAMS = {
    "even": Program(300, evenly(30, 110), evenly(1, 14), least=0.5),
    "skewed": Program(370, skewed(70, 1.4, 850), skewed(6, 1.2, 110), 0.85, brevity=0.6),
    "skewed-full": Program(450, skewed(70, 1.3, 850), skewed(6, 1.1, 110), brevity=0.4),
    "deep": Program(160, skewed(50, 1.2, 650), skewed(20, 1.0, 60), 0.9, brevity=0.6),
    "deep-free": Program(200, skewed(20, 0.9, 200), skewed(20, 1.0, 90), 0.85, 0.94),
    "tensors": Program(250, of_tensors(12, 4), skewed(7, 1.0, 60), least=0.8),
    "training": Program(200, skewed(20, 1.0, 300), evenly(1, 6), least=0.9, nested=0.4),
    "fine": Program(220, skewed(30, 1.2, 500), skewed(8, 1.0, 60), least=0.8, unit=64),
}
