"""Buffers as the exact planners see them: sections instead of steps, units instead of bytes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd

from tilewright.planning.buffers import Buffer, align_up


@dataclass(frozen=True, slots=True)
class Item:
    """A buffer live in the sections [first, last); sizes and offsets in units."""

    name: str
    first: int
    last: int
    size: int
    alignment: int
    lowest: int
    highest: int
    duration: int  # steps


@dataclass(frozen=True, slots=True)
class Problem:
    """Find offsets for `items`; those of `settled` are known already."""

    items: tuple[Item, ...]
    sections: int
    capacity: int
    unit: int
    base: int  # units taken below the items by buffers that are always live
    settled: dict[str, int]  # bytes

    def offsets(self, units: Sequence[int]) -> dict[str, int]:
        """Byte offsets of all buffers from the unit offsets of the items."""
        found = {
            item.name: (self.base + offset) * self.unit
            for item, offset in zip(self.items, units, strict=True)
        }
        return self.settled | found


def section_steps(buffers: Sequence[Buffer]) -> list[int]:
    """One step for every largest set of buffers live together.

    A set grows with each start and is largest when the next event is an end, so the last start
    before an end stands for it; all other steps ask for less.
    """
    starts = sorted({b.lower for b in buffers})
    ends = sorted({b.upper for b in buffers})
    steps: list[int] = []
    for position, start in enumerate(starts):
        next_end = ends[bisect_left(ends, start + 1)]
        if position + 1 == len(starts) or starts[position + 1] >= next_end:
            steps.append(start)
    return steps


def _unit(buffers: Sequence[Buffer]) -> int:
    """The largest step all offsets of a pushed-down plan are multiples of."""
    unit = gcd(*(b.size for b in buffers), *(b.offset or 0 for b in buffers))
    changed = True
    while changed:
        changed = False
        for buffer in buffers:
            if unit % buffer.alignment and buffer.alignment % unit:
                unit = gcd(unit, buffer.alignment)
                changed = True
    return unit


def make_problem(buffers: Sequence[Buffer], capacity: int) -> Problem | None:
    """The problem of placing one region's buffers below `capacity`; None when one is too large."""
    settled = {b.name: b.offset or 0 for b in buffers if b.size == 0}
    sized = [b for b in buffers if b.size]
    if any((b.offset or 0) + b.size > capacity for b in sized):
        return None
    if not sized:
        return Problem((), 0, capacity, 1, 0, settled)
    common = gcd(*(b.alignment for b in sized))
    padded = [_resized(b, align_up(b.size, common)) for b in sized]
    unit = _unit(padded)
    steps = section_steps(sized)
    # A buffer live in all sections can be moved to the bottom, when nothing keeps the others
    # from moving up by its size: no fixed places, no alignment, no padding beyond the end.
    movable = all(b.offset is None and unit % b.alignment == 0 for b in sized) and (
        capacity % unit == 0 or all(p.size == b.size for p, b in zip(padded, sized, strict=True))
    )
    true_size = {b.name: b.size for b in sized}
    base = 0
    items: list[Item] = []
    for buffer in padded:
        first, last = bisect_left(steps, buffer.lower), bisect_left(steps, buffer.upper)
        size = buffer.size // unit
        if movable and first == 0 and last == len(steps):
            settled[buffer.name] = base * unit
            base += size
            continue
        highest = (capacity - true_size[buffer.name]) // unit
        lowest = 0
        if buffer.offset is not None:
            lowest = highest = buffer.offset // unit
        alignment = max(1, buffer.alignment // unit)
        duration = buffer.upper - buffer.lower
        items.append(Item(buffer.name, first, last, size, alignment, lowest, highest, duration))
    if any(settled.get(b.name, 0) + b.size > capacity for b in sized):
        return None
    moved = tuple(replace(i, highest=i.highest - base) for i in items)
    return Problem(moved, len(steps), align_up(capacity, unit) // unit - base, unit, base, settled)


def _resized(buffer: Buffer, size: int) -> Buffer:
    return Buffer(
        buffer.name, size, buffer.lower, buffer.upper, buffer.alignment, offset=buffer.offset
    )
