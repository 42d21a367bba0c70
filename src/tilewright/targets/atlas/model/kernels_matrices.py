"""Products over some matrices of a batch at a time, which are on chip while weights pass by.

Heads are apart in every matrix of a batch, so that its rows do not lie below each other. Where not all
matrices fit VMEM, weights come once for as many as do.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tilewright.tile as tw
from tilewright.tile.blocks import whole
from tilewright.tile.layouts import SIDE

COPIED = 4  # tiles of rows that are put into their place in one step


def on_chip(a: Any, together: int) -> Iterator[tuple[Any, int, Any]]:
    """The first matrix of a group, how many it has, and all of them in VMEM."""
    there = tw.scratch(tw.fp8[(together, *a.shape[1:])], on_chip=True)
    for first, count in _groups(a.shape[0], together):
        for j in tw.each(count):
            for head in ((h,) for h in tw.each(a.shape[1])) if len(a.shape) == 4 else iter([()]):
                for m in tw.grid(a.shape[-2]):
                    for k in tw.grid(a.shape[-1], COPIED * SIDE):
                        there[(j, *head, m, k)] = a[(first + j, *head, m, k)]
        yield first, count, there


def _groups(batch: int, together: int) -> Iterator[tuple[Any, int]]:
    for g in tw.each(batch // together):
        yield g * together, together
    if batch % together:
        yield batch - batch % together, batch % together


def by_columns(
    t: Mapping[str, Any],
    together: int,
    block: int,
    left: Callable[[Any, Any, Any], Iterator[tuple[Any, Any]]],
    finish: Callable[[Any, Any, Any, Any], None],
) -> None:
    """Matrices of `linear` past its weights, a column of tiles after the other.

    left: of the matrices on chip, tiles of some rows of one with the rows of weights that they meet.
    finish: takes the sums.
    """
    out, w = t["out"], t["w"]
    for first, count, there in on_chip(t["a"], together):
        for n in tw.grid(out.N):
            for j in tw.each(count):
                for m in tw.grid(out.M, block):
                    sums = tw.zeros()
                    for part, k in left(there, j, m):
                        sums += part @ w[k, n]
                    finish(first + j, m, n, sums)


def by_heads(
    t: Mapping[str, Any],
    together: int,
    block: int,
    tables: Mapping[str, Any],
    finish: Callable[[Any, Any, Any, list[Any], tuple[Any, Any]], None],
) -> None:
    """Matrices of `project` past its weights, a head after the other."""
    a, w = t["a"], t["w"]
    across = whole(w.D).parts()
    for first, count, there in on_chip(a, together):
        for h in tw.each(w.H):
            for j in tw.each(count):
                for m in tw.grid(a.M, block):
                    parts = [there[j, m, :] @ w[h, :, d] for d in across]
                    finish(first + j, h, m, parts, (tables, m))
