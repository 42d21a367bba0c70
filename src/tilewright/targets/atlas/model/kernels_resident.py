"""Products in which rows pass by weights that are all on chip.

Where the rows of a product do not fit VMEM but its weights do, this moves both once. The weights
come first; then a few rows at a time meet all of them, while the next rows arrive.
"""

# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.model.kernels_products import HIGH
from tilewright.tile.blocks import whole
from tilewright.tile.layouts import SIDE

COPIED = 4  # tiles of weights that are put into their place in one step


def on_chip(w: Any) -> Any:
    """All of a weight [K, N], or [H, K, N], in VMEM."""
    there = tw.scratch(tw.fp8[tuple(w.shape)].panels(), on_chip=True)
    heads = ((h,) for h in tw.each(w.shape[0])) if len(w.shape) == 3 else iter([()])
    for head in heads:
        for n in tw.grid(w.shape[-1]):
            for k in tw.grid(w.shape[-2], COPIED * SIDE):
                there[(*head, k, n)] = w[(*head, k, n)]
    return there


def by_columns(
    t: Mapping[str, Any],
    left: Callable[[Any, Any], Iterator[tuple[Any, Any]]],
    finish: Callable[[Any, Any, Any, Any], None],
) -> None:
    """Rows of `linear` past its weights, a column of tiles after the other.

    left: tiles of some rows, with the rows of weights that they meet. finish: takes the sums.
    """
    out, weights = t["out"], on_chip(t["w"])
    for b in tw.each(out.B):
        for m in tw.grid(out.M, HIGH * SIDE, padded=True):
            for n in tw.grid(out.N):
                sums = tw.zeros()
                for part, k in left(b, m):
                    sums += part @ weights[k, n]
                finish(b, m, n, sums)


def by_heads(t: Mapping[str, Any], finish: Callable[[Any, Any, Any, list[Any]], None]) -> None:
    """Rows of `project` past its weights, a head after the other."""
    a, w = t["a"], t["w"]
    weights, across = on_chip(w), whole(w.D).parts()
    for b in tw.each(a.B):
        for m in tw.grid(a.M, HIGH * SIDE, padded=True):
            for h in tw.each(w.H):
                finish(b, h, m, [a[b, m, :] @ weights[h, :, d] for d in across])
