"""Constants that an earlier kernel of a program brings to VMEM beside its own work.

before: Read of a tile of a weight in DRAM
after:  the same at its place in VMEM, where an earlier kernel has put it

What is copied are rows of equal length: of a weight in panels, the first tiles of every panel. So
each step of a loop over panels waits for less, and none for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.copies_beside import Copy
from tilewright.targets.atlas.codegen.nest import (
    LAYER,
    Affine,
    For,
    Read,
    Statement,
    Variable,
    Write,
    size_of,
)


@dataclass(frozen=True)
class Prefetch:
    """`rows` times `bytes` of DRAM, `stride` from one to the next, that are copied to VMEM one
    behind the other. rounds: in each round of the program they lie elsewhere."""

    dram: int
    vmem: int
    bytes: int
    rows: int = 1
    stride: int = 0
    rounds: bool = False

    def copy(self) -> Copy:
        source = Affine(self.dram, ((LAYER, 1),) if self.rounds else ())
        return Copy(source, self.vmem, self.bytes, self.rows, self.stride)

    def place(self, read: Read) -> Affine | None:
        """Where in VMEM a tile is that is read, in every iteration; None if it is not there."""
        terms = read.offset.terms
        if read.on_chip or read.row or any(v is LAYER for v, _ in terms) != self.rounds:
            return None
        across = self.stride or self.rows * self.bytes
        row, inside = divmod(read.offset.constant - self.dram, across)
        low, high, first, last = inside, inside + read.bytes, row, row
        moved: list[tuple[Variable, int]] = []
        for variable, factor in terms:
            if variable is LAYER:
                continue
            steps = variable.trips - 1
            if factor % across:
                low, high = low + min(0, factor * steps), high + max(0, factor * steps)
                moved.append((variable, factor))
                continue
            rows = factor // across
            first, last = first + min(0, rows * steps), last + max(0, rows * steps)
            moved.append((variable, rows * self.bytes))
        if low < 0 or high > self.bytes or first < 0 or last >= self.rows:
            return None
        return Affine(self.vmem + row * self.bytes + inside, tuple(moved))


def with_prefetched(
    statements: Sequence[Statement], prefetched: Sequence[Prefetch]
) -> list[Statement]:
    """The statements with reads of what is in VMEM by now."""
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, For):
            s = replace(s, body=with_prefetched(s.body, prefetched))
        elif isinstance(s, Read):
            places = (one.place(s) for one in prefetched)
            place = next((place for place in places if place is not None), None)
            if place is not None:
                s = replace(s, offset=place, on_chip=True, pieces=None, copies=1)
        result.append(s)
    return result


def busiest_loop(statements: Sequence[Statement]) -> For | None:
    """The outermost loop with most to do, beside which copies are made; None without loops."""
    loops = [s for s in statements if isinstance(s, For)]
    return max(loops, key=lambda s: s.variable.trips * size_of(s.body), default=None)


def traffic(statements: Sequence[Statement], around: tuple[Variable, ...] = ()) -> int:
    """Bytes that move between the memories, about: what does not change with the innermost loop is
    loaded once before it, and what is read several times in one piece once."""
    total = 0
    known: set[tuple[Affine, int]] = set()
    for s in statements:
        if isinstance(s, For):
            total += traffic(s.body, (*around, s.variable))
        elif isinstance(s, Read | Write) and not s.on_chip:
            if isinstance(s, Read):
                if (s.offset, s.bytes) in known:
                    continue
                known.add((s.offset, s.bytes))
            fixed = isinstance(s, Read) and around and not s.offset.factor(around[-1])
            times = math.prod(v.trips for v in (around[:-1] if fixed else around))
            size = s.bytes if s.pieces is None else sum(count for _, count in s.pieces)
            total += times * size
    return total
