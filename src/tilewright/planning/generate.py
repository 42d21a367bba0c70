"""Hard instances with a known answer: a rectangle cut into buffers without waste.

The rectangle is time by memory. Cutting it again and again and forgetting where the pieces lay
gives buffers that fill the memory at every step, so a plan must find a perfect packing; greedy
planners do not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tilewright.planning.buffers import Buffer

Piece = tuple[int, int, int, int]  # lower, upper, bottom, top


def cut_rectangle(
    count: int, capacity: int, steps: int, seed: int, unit: int = 1024
) -> tuple[list[Buffer], dict[str, int]]:
    """`count` buffers that fill `capacity` bytes over `steps` steps, and offsets that do so.

    Sizes are multiples of `unit`. Large pieces are cut first, in a direction that keeps them
    neither flat nor thin.
    """
    chance = random.Random(seed)
    pieces: list[Piece] = [(0, steps, 0, capacity // unit)]
    while len(pieces) < count:
        weights = [_weight(piece) for piece in pieces]
        if not any(weights):
            break
        piece = pieces.pop(chance.choices(range(len(pieces)), weights)[0])
        pieces += _cut(piece, chance, steps, capacity // unit)
    chance.shuffle(pieces)
    buffers = [
        Buffer(f"b{index}", (top - bottom) * unit, lower, upper)
        for index, (lower, upper, bottom, top) in enumerate(pieces)
    ]
    return buffers, {f"b{index}": piece[2] * unit for index, piece in enumerate(pieces)}


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
