"""Attention of many queries over more keys than fit.

Keys pass by, some tiles at a time, while a span of queries waits: what every block of it knows so far
(`Running`) lies in VMEM. So keys and values are loaded once for a whole span, not for every block.
Under a causal mask a span begins with the keys on its diagonal and goes on with those before it;
what lies behind is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.attention import Keys, Running
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE


@dataclass(frozen=True)
class Span:
    """Memory for what a span of queries knows; one after the other uses it."""

    top: Any
    total: Any
    mixed: Any

    @staticmethod
    def of(rows: int, width: int) -> Span:
        top, total = (tw.scratch(tw.bf16[rows, 16].halves(), on_chip=True) for _ in range(2))
        return Span(top, total, tw.scratch(tw.bf16[rows, width], on_chip=True))

    def known(self, r: Block) -> Running:
        return Running(self.top[r, :], self.total[r, :], self.mixed[r, :])

    def weigh(self, r: Block, q: Any, blocks: list[tuple[Keys, Block]], more: bool) -> None:
        """Keys for a block of queries, behind what it knows or as the first."""

        def note(largest: Any) -> None:
            self.top[r, :] = largest

        now = Running.over(q, blocks, self.known(r) if more else None, note)
        self.total[r, :], self.mixed[r, :] = now.total, now.mixed


def attend_span(
    memory: Span,
    span: Block,
    q: Callable[[Block], Any],
    write: Callable[[Block, Any], None],
    source: Callable[[Block, bool], Keys],
    size: int,
    causal: bool,
) -> None:
    """The queries of a span, `size` tiles of keys at a time.

    q: of a block of queries. source: keys as a block of queries sees them, with or without a mask.
    write: takes the result of a block. causal: there are as many keys as queries.
    """
    count = source(span, causal).count
    end = -(-count // SIDE)
    # The keys on the diagonal, or the first ones, and then those that are left.
    begin = Block(span.start, span.tiles, count) if causal else Block(0, min(size, end), count)
    start, stop = (0, span.start) if causal else (begin.tiles, end)

    def pass_by(keys: Block, seen: bool, more: bool) -> None:
        for r in tw.grid(span.size):
            m = r.within(span)
            known = source(m, seen)
            memory.weigh(r, q(m), [(known, j) for j in keys.parts()], more)

    pass_by(begin, causal, False)
    whole = (min(stop, count // SIDE) - start) // size
    if whole > 0:
        within = Block(start, whole * size, count)
        for c in tw.grid(within.size, size * SIDE):
            pass_by(c.within(within), False, True)
        start += whole * size
    if start < stop:
        pass_by(Block(start, stop - start, count), False, True)
    for r in tw.grid(span.size):
        write(r.within(span), memory.known(r).result(False))
