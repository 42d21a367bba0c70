"""Attention over whole heads: softmax(Q K^T + mask) V.

The scores of 32 queries stay on chip until their maximum is known, so nothing is rescaled; a
matrix unit makes the row sums. Grouped heads: G heads of keys and values, each for R heads of
queries. Q comes scaled by 1/sqrt(D), K transposed as [D, N] in column panels, both fp8, as the
projections before can make them. A fully masked row gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tilewright.tile as tw
from tilewright.tile.arrays import beside, in_columns
from tilewright.tile.blocks import Block
from tilewright.tile.layouts import SIDE
from tilewright.tile.masks import LOWEST, hiding

TILES = 160  # tiles of scores under a causal mask that are unrolled for one head
NARROW, NARROW_TILES = (
    64,
    325,
)  # and of heads that are no wider, whose tiles take fewer instructions
FEW = 8  # tiles of keys that make a short loop body


def together(keys: int) -> int:
    """Blocks of queries in a loop body: while one is summed up the next is scored, in the next
    iteration unless bodies are short."""
    return 2 if -(-keys // SIDE) <= FEW else 1


def together_causal(queries: int, keys: int, wide: int | None = None) -> int | bool:
    """The same under a causal mask: all blocks where that is not too long, as each sees other
    tiles of keys. Otherwise blocks share the tiles of the mask. wide: of heads, if known."""
    blocks = range(-(-queries // SIDE))
    tiles = sum(_reach(block, queries, keys) or -(-keys // SIDE) for block in blocks)
    most = TILES if wide is None or wide > NARROW else NARROW_TILES
    return True if tiles <= most else 4


def reach(block: Block, queries: int, keys: int, wide: int | None = None) -> int | None:
    """Tiles of keys that a block of queries looks at under a causal mask; None: all."""
    unrolled = together_causal(queries, keys, wide) is True
    return _reach(block.start, queries, keys) if unrolled else None


def _reach(block: int, queries: int, keys: int) -> int | None:
    first, last = block * SIDE, min(queries, (block + 1) * SIDE) - 1
    if first + keys - queries < 0:
        return None  # a query that sees nothing has to see that
    return (last + keys - queries) // SIDE + 1


@dataclass(frozen=True)
class Keys:
    """Keys and values of one source, block by block.

    seen: applies a mask to a block of scores. edge: hides what lies beyond the last key.
    """

    count: int
    keys: Callable[[Block], Any]
    values: Callable[[Block], Any]
    seen: Callable[[Any, Block], Any] | None = None
    edge: Any = None


def attend(q: Any, *sources: Keys, tiles: int | None = None, blind: bool = False) -> Any:
    """One block of queries against all keys, or the first tiles of them; blind: a query may see
    nothing."""
    blocks = [(s, j) for s in sources for j in tw.steps(s.count, unroll=True)]
    scores, largest = _scored(q, blocks[:tiles])
    top = tw.row_max(largest)
    mixed, sums = _mixed(scores, top)
    return mixed * _share(tw.row_max(sums), top, blind)


def _scored(q: Any, blocks: list[tuple[Keys, Block]]) -> tuple[list[tuple[Keys, Block, Any]], Any]:
    """Tiles of scores, and the largest numbers of all of them, place by place."""
    scores, largest = [], None
    for source, j in blocks:
        score = q @ source.keys(j)
        if source.edge is not None and j.valid(0) < SIDE:
            score = hiding(score, source.edge)
        score = score.tiles() if source.seen is None else source.seen(score, j)
        # What is hidden beyond the last key weighs nothing, so that tile is like the others.
        score = replace(score, columns=[SIDE])
        scores.append((source, j, score))
        largest = score if largest is None else tw.maximum(largest, score)
    assert largest is not None
    return scores, largest


def _mixed(scores: list[tuple[Keys, Block, Any]], top: Any) -> tuple[Any, Any]:
    """Values by the weights of their scores, and the sums of these in every column.

    The slow unit adds two columns of tiles as they come, the fast one the sums; further columns are
    added at the end, when all weights are there.
    """
    total, ones = tw.zeros(unit=1), tw.ones()
    sums: list[Any] = []
    for source, j, score in scores:
        power = tw.to_fp8(tw.exp(score - top))
        value = replace(source.values(j).tiles(), rows=[SIDE])
        parts = in_columns(value, 2)
        if not sums:
            sums = [tw.zeros(unit=None if k else 0) for k in range(len(parts))]
        for k, part in enumerate(parts):
            sums[k] += power @ part
        total += power @ ones
    assert sums
    return beside(*sums), total


def _share(total: Any, top: Any, blind: bool) -> Any:
    """What weights are multiplied by for a sum of 1."""
    share = tw.recip(total)
    if blind:  # a row that sees nothing has a maximum near LOWEST; its share becomes 0
        share = share * tw.minimum(tw.relu(top - LOWEST / 3), 1.0)
    return share


@dataclass
class Running:
    """What a block of queries knows of the keys it has seen: their maximum, the sum of their weights
    and the values mixed by these, both over e to the maximum."""

    top: Any
    total: Any
    mixed: Any

    @staticmethod
    def over(
        q: Any,
        blocks: list[tuple[Keys, Block]],
        before: Running | None = None,
        early: Callable[[Any], None] = lambda top: None,
    ) -> Running:
        """The same with the keys of some tiles more; early: is told the maximum when it is known."""
        scores, largest = _scored(q, blocks)
        top, fade = tw.row_max(largest), None
        if before is not None:
            top = tw.maximum(before.top, top)
            fade = tw.exp(before.top - top)
        early(top)
        mixed, sums = _mixed(scores, top)
        total = tw.row_max(sums)
        if before is not None:
            total, mixed = before.total * fade + total, before.mixed * fade + mixed
        return Running(top, total, mixed)

    def result(self, blind: bool) -> Any:
        return self.mixed * _share(self.total, self.top, blind)


def attend_in_parts(q: Any, *sources: Keys, size: int, blind: bool = False) -> Any:
    """One block of queries against all keys, so many tiles of them at a time: any number of them."""
    states = Running(tw.state(), tw.state(), tw.state())
    started = False
    for source in sources:
        for part in tw.steps(source.count, size * SIDE, unroll=False):
            blocks = [(source, j) for j in part.parts()]
            now = Running.over(q, blocks, states if started else None)
            states.top.set(now.top)
            states.total.set(now.total)
            states.mixed.set(now.mixed)
            started = True
    return states.result(blind)
