"""Hard instances with a known answer: buffers that were packed first and then forgot where.

Greedy planners do not find such packings again. There are two ways to make one. `cut_rectangle`
cuts time by memory again and again. `refill` runs through time as a program does: what ends
leaves gaps, and new buffers fill the gaps; few last long, most are short, and the result cannot
be taken apart by straight cuts. Both can leave a share of the memory free.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.planning.buffers import Buffer
from tilewright.planning.generate_programs import PROGRAMS

Piece = tuple[int, int, int, int]  # lower, upper, bottom, top
Made = tuple[list[Buffer], dict[str, int]]  # buffers, and offsets that fit


def cut_rectangle(
    count: int, capacity: int, steps: int, seed: int, unit: int = 1024, free: float = 0.0
) -> Made:
    """`count` buffers that fill `capacity` bytes over `steps` steps, and offsets that do so.

    Sizes are multiples of `unit`. Large pieces are cut first, in a direction that keeps them
    neither flat nor thin. Then a share `free` of the bytes is taken away from tops.
    """
    chance = random.Random(seed)
    pieces: list[Piece] = [(0, steps, 0, capacity // unit)]
    while len(pieces) < count:
        weights = [_weight(piece) for piece in pieces]
        if not any(weights):
            break
        piece = pieces.pop(chance.choices(range(len(pieces)), weights)[0])
        pieces += _cut(piece, chance, steps, capacity // unit)
    return _forget(pieces, chance, unit, free)


def _weight(piece: Piece) -> int:
    lower, upper, bottom, top = piece
    width, height = upper - lower, top - bottom
    return 0 if width < 2 and height < 2 else width * height


def _cut(piece: Piece, chance: random.Random, steps: int, units: int) -> list[Piece]:
    lower, upper, bottom, top = piece
    width, height = upper - lower, top - bottom
    relative_width, relative_height = width * units, height * steps
    across_time = chance.random() * (relative_width + relative_height) < relative_width
    if height < 2 or (across_time and width >= 2):
        at = lower + _position(width, chance)
        return [(lower, at, bottom, top), (at, upper, bottom, top)]
    at = bottom + _position(height, chance)
    return [(lower, upper, bottom, at), (lower, upper, at, top)]


def _position(length: int, chance: random.Random) -> int:
    """Where to cut: anywhere in the middle three fifths, at least one from each end."""
    return min(max(1, round(length * (0.2 + 0.6 * chance.random()))), length - 1)


def refill(
    count: int,
    capacity: int,
    seed: int,
    unit: int = 1024,
    free: float = 0.0,
    weights: float = 0.2,
    short: int = 40,
    longest: int = 60,
) -> Made:
    """About `count` buffers made by running through time, and offsets that fit.

    A share `weights` of the memory is live throughout, in two to six buffers; what a step leaves
    free is cut into new buffers: most last up to `short` steps, one in six up to `longest`.
    """
    chance = random.Random(seed)
    units = capacity // unit
    held: list[tuple[int, int, int]] = []  # bottom, top, upper
    pieces: list[Piece] = []
    kept = round(units * weights)
    cuts = sorted(chance.sample(range(1, kept), chance.randint(1, 5))) if kept > 6 else []
    ever: list[tuple[int, int]] = list(zip([0, *cuts], [*cuts, kept], strict=True)) if kept else []
    ever = _scatter(ever, units, chance)
    end = 10**9
    held = [(bottom, top, end) for bottom, top in ever]
    step = 0
    while len(pieces) + len(ever) < count:
        held = sorted(entry for entry in held if entry[2] > step)
        for bottom, top in _gaps(held, units):
            for low, high in _split(bottom, top, units, chance):
                last = chance.randint(short, longest) if chance.random() < 1 / 6 else 0
                upper = step + (last or min(chance.randint(1, short) for _ in range(2)))
                held.append((low, high, upper))
                pieces.append((step, upper, low, high))
        step += 1
    # Time ends where the last gap was filled, so that every step is full.
    pieces = [(lower, min(upper, step), bottom, top) for lower, upper, bottom, top in pieces]
    pieces += [(0, step, bottom, top) for bottom, top in ever]
    return _forget(pieces, chance, unit, free)


def _scatter(
    parts: list[tuple[int, int]], units: int, chance: random.Random
) -> list[tuple[int, int]]:
    """The same parts, in order, with the rest of the memory spread at random between them."""
    rest = units - sum(top - bottom for bottom, top in parts)
    shifts = sorted(chance.randint(0, rest) for _ in parts)
    return [
        (bottom + shift, top + shift) for (bottom, top), shift in zip(parts, shifts, strict=True)
    ]


def _gaps(held: list[tuple[int, int, int]], units: int) -> list[tuple[int, int]]:
    result, at = [], 0
    for bottom, top, _ in [*held, (units, units, 0)]:
        if bottom > at:
            result.append((at, bottom))
        at = max(at, top)
    return result


def _split(bottom: int, top: int, units: int, chance: random.Random) -> list[tuple[int, int]]:
    """A gap in one to three parts, more for a large one."""
    parts = 1 + sum(chance.random() < 4 * (top - bottom) / units for _ in range(2))
    parts = min(parts, top - bottom)
    cuts = sorted(chance.sample(range(bottom + 1, top), parts - 1))
    return list(zip([bottom, *cuts], [*cuts, top], strict=True))


def _forget(pieces: list[Piece], chance: random.Random, unit: int, free: float) -> Made:
    """Buffers in random order, some shortened from above until a share `free` is gone."""
    chance.shuffle(pieces)
    excess = free * sum((upper - lower) * (top - bottom) for lower, upper, bottom, top in pieces)
    sizes = [top - bottom for _, _, bottom, top in pieces]
    while excess > 0 and max(sizes) > 1:
        index = chance.randrange(len(pieces))
        if sizes[index] > 1:
            sizes[index] -= 1
            excess -= pieces[index][1] - pieces[index][0]
    buffers = [
        Buffer(f"b{index}", sizes[index] * unit, lower, upper)
        for index, (lower, upper, _, _) in enumerate(pieces)
    ]
    return buffers, {f"b{index}": piece[2] * unit for index, piece in enumerate(pieces)}


# Number of buffers and of steps. The hard ones are where the exact planner may end at its limit.
SIZES = ((60, 40), (120, 80), (150, 100))
HARD_SIZES = ((200, 120), (250, 150))


def suite(
    sizes: Sequence[tuple[int, int]] = SIZES, seeds: Sequence[int] = (1, 2, 3, 4)
) -> dict[str, tuple[list[Buffer], int]]:
    """Named instances of growing size, each with the capacity it fills."""
    capacity = 1 << 20
    return {
        f"cut{count}-{seed}": (cut_rectangle(count, capacity, steps, seed)[0], capacity)
        for count, steps in sizes
        for seed in seeds
    }


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of instance; its members differ by seed."""

    name: str
    count: int
    steps: int = 0  # of a cut rectangle; none for a refilled memory
    free: float = 0.0
    weights: float = 0.0
    short: int = 40
    longest: int = 60
    unit: int = 1024

    def make(self, seed: int, capacity: int = 1 << 20) -> Made:
        if self.steps:
            return cut_rectangle(self.count, capacity, self.steps, seed, self.unit, self.free)
        return refill(
            self.count,
            capacity,
            seed,
            self.unit,
            self.free,
            self.weights,
            self.short,
            self.longest,
        )


FAMILIES = (
    Family("cut", 120, steps=80),
    Family("cut-free", 160, steps=100, free=0.02),
    Family("cut-fine", 120, steps=80, unit=64),
    Family("refill", 120),
    Family("refill-weights", 150, weights=0.3),
    Family("refill-long", 120, weights=0.1, longest=150),
    Family("refill-free", 150, weights=0.2, free=0.02),
    Family("refill-fine", 100, weights=0.2, unit=64),
)

# Instances to try ideas on, and others that only judge: no choice was made by looking at them.
DEVELOP_SEEDS = range(1, 31)
JUDGE_SEEDS = range(1001, 1031)


def families(seeds: Sequence[int]) -> dict[str, tuple[list[Buffer], int]]:
    """Every family and every program with every seed, each with its capacity."""
    capacity = 1 << 20
    makers = {family.name: family.make for family in FAMILIES}
    makers |= {name: program.make for name, program in PROGRAMS.items()}
    return {
        f"{name}-{seed}": (make(seed, capacity)[0], capacity)
        for name, make in makers.items()
        for seed in seeds
    }


def relative(buffers: Sequence[Buffer], seed: int) -> list[Buffer]:
    """An instance much like `buffers` that fits wherever they fit.

    One in a hundred is left out, one in fifty is cut in two at some step, the order is another,
    and half of the seeds turn time round. A search that solves an instance by luck does not solve
    its relatives.
    """
    chance = random.Random(seed)
    turned, end = chance.random() < 0.5, max(b.upper for b in buffers)
    found: list[Buffer] = []
    for buffer in buffers:
        if chance.random() < 0.01:
            continue
        if buffer.upper - buffer.lower > 1 and chance.random() < 0.02:
            at = chance.randint(buffer.lower + 1, buffer.upper - 1)
            found.append(replace(buffer, upper=at))
            found.append(replace(buffer, name=f"{buffer.name}'", lower=at))
        else:
            found.append(buffer)
    if turned:
        found = [replace(b, lower=end - b.upper, upper=end - b.lower) for b in found]
    chance.shuffle(found)
    return found
