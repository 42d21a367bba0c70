"""What attention computes for one head, bit for bit.

The scores of a row are complete before their maximum is subtracted, so nothing is rescaled. The
sum of the weights comes from a matrix unit for whole tiles of keys and from the vector unit for
the rest; both see the weights as fp8.
"""

from __future__ import annotations

import numpy as np

from tilewright.graph.references_steps import (
    UNARY,
    Codes,
    across,
    bf16,
    constant,
    fp8,
    larger,
    recip,
    row_total,
    smaller,
    spread,
)
from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product
from tilewright.targets.atlas.profile import Profile

HIDDEN = -3.0e38  # added to scores that must not count
ONE = 0x38  # 1 in fp8


def attention(
    profile: Profile, q: Codes, kt: Codes, v: Codes, kind: str | None, mask: Codes | None
) -> Codes:
    """bf16 softmax(q @ kt + mask) @ v for fp8 q [M, D], kt [D, N], v [N, E].

    kind: None, "causal", "full" (mask [M, N]) or "key" (mask [N]).
    """
    rows, keys = q.shape[0], kt.shape[1]
    scores = product(q, kt)
    if kind == "causal":
        scores = arith.add(scores, _causal(rows, keys))
    elif kind == "full":
        assert mask is not None
        scores = arith.add(scores, mask)
    elif kind == "key":
        assert mask is not None
        scores = arith.add(scores, spread(mask))
    ragged = keys // SIDE * SIDE
    if ragged < keys:  # the tile in which keys beyond the edge are hidden is clamped as a whole
        clamped = smaller(scores[:, ragged:], constant(-HIDDEN))
        scores = np.concatenate([scores[:, :ragged], clamped], axis=1)
    top = _largest(profile, scores)
    weights = fp8(profile, UNARY["exp"](arith.subtract(scores, top)))
    share = recip(_sum_of_weights(profile, weights))
    if kind is not None:  # a row that sees nothing has its maximum near HIDDEN
        height = UNARY["relu"](arith.subtract(top, constant(HIDDEN / 3)))
        share = arith.multiply(share, smaller(height, constant(1.0)))
    return arith.multiply(product(weights, v), share)


def _causal(rows: int, keys: int) -> Codes:
    """The last query sees all keys, the one before all but the last, ..."""
    hidden = np.arange(keys)[None] - np.arange(rows)[:, None] > keys - rows
    return np.where(hidden, constant(HIDDEN), np.uint16(0))


def _largest(profile: Profile, scores: Codes) -> Codes:
    """The largest score of each row: tiles of keys are compared element by element, keys beyond
    the last whole tile among themselves first."""
    whole = scores.shape[1] // SIDE * SIDE
    best = None
    for start in range(0, whole, SIDE):
        tile = scores[:, start : start + SIDE]
        best = tile if best is None else larger(best, tile)
    if whole == scores.shape[1]:
        assert best is not None
        return across(profile, best, "max")
    rest = row_total(profile, scores[:, whole:], "max")
    return rest if best is None else across(profile, larger(best, rest), "max")


def _sum_of_weights(profile: Profile, weights: Codes) -> Codes:
    whole = weights.shape[1] // SIDE * SIDE
    total = rest = None
    if whole:
        total = product(weights[:, :whole], np.full((whole, 1), ONE, np.uint8))
    if whole < weights.shape[1]:
        rest = row_total(profile, bf16(profile, weights[:, whole:]), "sum")
    if total is None or rest is None:
        found = total if rest is None else rest
        assert found is not None
        return found
    return arith.add(total, rest)
