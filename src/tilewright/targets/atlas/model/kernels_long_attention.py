"""Attention of many queries over more keys than fit.

Keys pass by, some tiles at a time, while a span of queries waits: what every block of it knows so far
(`Running`) lies in VMEM. So keys and values are loaded once for a whole span, not for every block.
Under a causal mask a span begins with the keys on its diagonal and goes on with those before it;
what lies behind is not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.kernels.attention import Keys, Running
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE

WRITTEN_OUT = 4  # spans without a mask that have code of their own, some 6,000 instructions each


@dataclass(frozen=True)
class Span:
    """Memory for a span of queries and what it knows; one after the other uses it."""

    queries: Any
    top: Any
    total: Any
    mixed: Any

    @staticmethod
    def of(rows: int, depth: int, width: int) -> Span:
        top, total = (tw.scratch(tw.bf16[rows, 16].halves(), on_chip=True) for _ in range(2))
        queries = tw.scratch(tw.fp8[rows, depth], on_chip=True)
        return Span(queries, top, total, tw.scratch(tw.bf16[rows, width], on_chip=True))

    def keep(self, r: Block, q: Any) -> Any:
        """A block of queries, which from now on is on chip."""
        self.queries[r, :] = q
        return q

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
    heads: int,
    q: Callable[[Any, Block], Any],
    write: Callable[[Any, Block, Any], None],
    source: Callable[[Block, bool], Keys],
    size: int,
    causal: bool,
) -> None:
    """The queries of a span, `size` tiles of keys at a time.

    heads: so many that share keys; they lie one behind the other in memory. More than one only for
    spans of whole tiles under a causal mask. q: of a head and a block of queries. source: keys as a
    block of queries sees them, with or without a mask. write: takes the result of a head and a block.
    causal: the last query sees all keys, the one before all but the last, …; every query sees one.
    """
    count = source(span, causal).count

    def pass_by(keys: Block, more: bool = True) -> None:
        for r in tw.grid(span.size * heads):
            known = source(span, False)
            queries = memory.queries[r, :] if more else memory.keep(r, q(0, r.within(span)))
            memory.weigh(r, queries, [(known, j) for j in keys.parts()], more)

    if causal:
        own = on_diagonal(span, count)
        across = (count - span.extent) % SIDE > 0  # the diagonal goes through two tiles of a block
        for h in tw.each(heads):
            for r in tw.grid(span.size, unroll=True):
                m, place = r.within(span), _of_head(r, h, heads)
                # What lies behind the tiles that a block reaches is hidden from all of its queries.
                reached = own.parts()[: r.start + 1 + across]
                queries = memory.keep(place, q(h, m))
                memory.weigh(place, queries, [(source(m, True), j) for j in reached], False)
        left = own.start % size
        for keys in tw.before(replace(own, start=own.start - left), size * SIDE):
            pass_by(keys)
        if left:
            pass_by(replace(own, start=own.start - left, tiles=left))
    else:
        end = -(-count // SIDE)
        first = min(size, end)
        pass_by(Block(0, first, count), False)
        whole = (count // SIDE - first) // size
        if whole > 0:
            within = Block(first, whole * size, count)
            for c in tw.grid(within.size, size * SIDE):
                pass_by(c.within(within))
            first += whole * size
        if first < end:
            pass_by(Block(first, end - first, count))
    for h in tw.each(heads):
        for r in tw.grid(span.size, unroll=heads > 1):
            write(h, r.within(span), memory.known(_of_head(r, h, heads)).result(False))


def _of_head(r: Block, head: Any, heads: int) -> Block:
    """Where block r of a head lies, in memory in which heads follow each other."""
    if heads == 1:
        return r
    rows = r.extent
    if not isinstance(head, int) and head.terms:
        ((variable, _),) = head.terms
        return replace(r, extent=heads * rows, variable=variable, factor=rows)
    first = head if isinstance(head, int) else head.start
    return replace(r, start=r.start + first * rows // SIDE, extent=heads * rows)


def on_diagonal(span: Block, count: int) -> Block:
    """The tiles of keys, of which there are so many, that some queries of a span see and others
    do not."""
    tiles, rest = divmod(count - span.extent, SIDE)
    start = span.start + tiles
    end = start + span.tiles + (rest > 0)
    if not span.variables:
        end = min(end, -(-count // SIDE))
    return replace(span, start=start, tiles=end - start, extent=count)


def spans(queries: int, keys: int, tiles: int, size: int, causal: bool) -> Iterator[Block]:
    """The queries in spans of so many tiles: a loop, whatever their number.

    Under a causal mask what comes before a span's diagonal is a loop that grows with the spans. So
    the first one stands alone if no part of keys, `size` tiles, comes before it, and so do the last
    ones if they see a tile of keys that is not whole.
    """
    if not causal:
        few = queries <= WRITTEN_OUT * tiles * SIDE
        yield from tw.grid(queries, tiles * SIDE, unroll=few)
        return
    end, distance = -(-queries // SIDE), keys - queries
    first = min(tiles, end) if distance // SIDE < size else 0
    seen = distance // SIDE + (distance % SIDE > 0)  # tiles of keys before the end of a span
    many = max(0, min(queries // SIDE, keys // SIDE - seen) - first) // tiles
    if first:
        yield Block(0, first, queries)
    if many:
        around = Block(first, many * tiles, queries)
        for span in tw.grid(around.size, tiles * SIDE):
            yield span.within(around)
    for start in range(first + many * tiles, end, tiles):
        yield Block(start, min(tiles, end - start), queries)
