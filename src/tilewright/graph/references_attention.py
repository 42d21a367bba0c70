"""What attention computes for one head, bit for bit.

The scores of a row are complete before their maximum is subtracted, so nothing is rescaled. The
sum of the weights comes from a matrix unit, which sees the weights as fp8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.graph.references_steps import (
    UNARY,
    Codes,
    across,
    constant,
    fp8,
    larger,
    recip,
    smaller,
    spread,
)
from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product
from tilewright.targets.atlas.profile import Profile

HIDDEN = -3.0e38  # added to scores that must not count
ONE = 0x38  # 1 in fp8


@dataclass(frozen=True)
class Source:
    """Keys kt [D, N] and values v [N, E] in fp8, with the numbers that a mask adds to scores."""

    kt: Codes
    v: Codes
    mask: Codes | None = None  # [M, N] or [N]


def attention(profile: Profile, q: Codes, sources: Sequence[Source], kind: str | None) -> Codes:
    """bf16 softmax(q @ kt + mask) @ v for fp8 q [M, D] over all sources.

    kind: None, "causal" (of the last source), "full" or "key", as the masks are.
    """
    scores = np.concatenate(
        [_scores(q, s, kind if kind != "causal" or s is sources[-1] else None) for s in sources], 1
    )
    top = _largest(profile, scores)
    weights = fp8(profile, UNARY["exp"](arith.subtract(scores, top)))
    share = recip(product(weights, np.full((weights.shape[1], 1), ONE, np.uint8)))
    if kind is not None:  # a row that sees nothing has its maximum near HIDDEN
        height = UNARY["relu"](arith.subtract(top, constant(HIDDEN / 3)))
        share = arith.multiply(share, smaller(height, constant(1.0)))
    values = [np.pad(s.v, ((0, -len(s.v) % SIDE), (0, 0))) for s in sources]
    return arith.multiply(product(weights, np.concatenate(values)), share)


def _scores(q: Codes, source: Source, kind: str | None) -> Codes:
    """Scores of one source, whole tiles of them."""
    scores = product(q, source.kt)
    if kind == "causal":
        scores = arith.add(scores, _causal(*scores.shape))
    elif kind is not None:
        assert source.mask is not None
        scores = arith.add(scores, source.mask if kind == "full" else spread(source.mask))
    return _whole_tiles(scores, clamped=kind != "causal")


def _causal(rows: int, keys: int) -> Codes:
    """The last query sees all keys, the one before all but the last, ..."""
    hidden = np.arange(keys)[None] - np.arange(rows)[:, None] > keys - rows
    return np.where(hidden, constant(HIDDEN), np.uint16(0))


def _whole_tiles(scores: Codes, clamped: bool) -> Codes:
    """Scores with hidden ones behind them until the last tile of keys is whole; hiding them clamps
    that tile, but for a causal mask, which hides them itself."""
    keys = scores.shape[1]
    inside = keys // SIDE * SIDE
    if inside == keys:
        return scores
    result = np.full((len(scores), inside + SIDE), constant(HIDDEN))
    result[:, :keys] = scores
    if clamped:
        result[:, inside:] = smaller(result[:, inside:], constant(-HIDDEN))
    return result


def _largest(profile: Profile, scores: Codes) -> Codes:
    """The largest score of each row: tiles of keys are compared element by element."""
    best = scores[:, :SIDE]
    for start in range(SIDE, scores.shape[1], SIDE):
        best = larger(best, scores[:, start : start + SIDE])
    return across(profile, best, "max")
