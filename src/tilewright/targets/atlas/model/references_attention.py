"""What attention computes for one head, bit for bit.

The scores of a row are complete before their maximum is subtracted, so nothing is rescaled. The
sum of the weights comes from a matrix unit, which sees the weights as fp8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import SIDE, product
from tilewright.targets.atlas.model.references_steps import (
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
from tilewright.targets.atlas.profile import Profile

HIDDEN = -3.0e38  # added to scores that must not count
ONE = 0x38  # 1 in fp8


@dataclass(frozen=True)
class Source:
    """Keys kt [D, N] and values v [N, E] in fp8, with the numbers that a mask adds to scores."""

    kt: Codes
    v: Codes
    mask: Codes | None = None  # [M, N] or [N]


def attention(
    profile: Profile,
    q: Codes,
    sources: Sequence[Source],
    kind: str | None,
    size: int | None = None,
    span: int | None = None,
) -> Codes:
    """bf16 softmax(q @ kt + mask) @ v for fp8 q [M, D] over all sources.

    kind: None, "causal" (of the last source), "full" or "key", as the masks are. size: tiles of
    keys that are weighed at a time, against the largest score so far. span: tiles of queries that
    begin with the keys on their diagonal, if the mask is causal.
    """
    if span is not None:
        (source,) = sources
        assert size is not None
        return _in_spans(profile, q, source, kind == "causal", span * SIDE, size * SIDE)
    if size is not None:
        return _in_parts(profile, q, sources, kind, size * SIDE)
    rows, last = len(q), sources[-1].kt.shape[1]
    blind = last < rows if kind == "causal" else kind is not None  # a query may see nothing
    parts = []
    for source in sources:
        scores = product(q, source.kt)
        if kind == "causal" and source is sources[-1]:
            scores = arith.add(scores, _causal(rows, last, HIDDEN if blind else -np.inf))
        elif kind in ("full", "key"):
            assert source.mask is not None
            mask = source.mask if kind == "full" else spread(source.mask)
            scores = arith.add(scores, mask)
        parts.append(_whole_tiles(scores))
    scores = np.concatenate(parts, 1)
    top = _largest(profile, scores)
    weights = fp8(profile, UNARY["exp"](arith.subtract(scores, top)))
    share = recip(product(weights, np.full((weights.shape[1], 1), ONE, np.uint8)))
    if blind:  # a row that sees nothing has its maximum near HIDDEN
        height = UNARY["relu"](arith.subtract(top, constant(HIDDEN / 3)))
        share = arith.multiply(share, smaller(height, constant(1.0)))
    values = [np.pad(s.v, ((0, -len(s.v) % SIDE), (0, 0))) for s in sources]
    return arith.multiply(product(weights, np.concatenate(values)), share)


def _in_parts(
    profile: Profile, q: Codes, sources: Sequence[Source], kind: str | None, size: int
) -> Codes:
    """The same with `size` keys at a time; what was summed up before fades as the maximum grows."""
    rows, last = len(q), sources[-1].kt.shape[1]
    blind = last < rows if kind == "causal" else kind is not None
    state: tuple[Codes, Codes, Codes] | None = None
    for source in sources:
        count = source.kt.shape[1]
        hidden = None
        if kind == "causal" and source is sources[-1]:
            hidden = _causal(rows, last, HIDDEN if blind else -np.inf)
        elif kind in ("full", "key"):
            assert source.mask is not None
            hidden = source.mask if kind == "full" else spread(source.mask)
        for start in range(0, count, size):
            keys = slice(start, min(start + size, count))
            scores = product(q, source.kt[:, keys])
            if hidden is not None:
                scores = arith.add(scores, hidden[..., keys])
            state = _weighed(profile, _whole_tiles(scores), source.v[keys], state)
    assert state is not None
    share = recip(state[1])
    if blind:
        height = UNARY["relu"](arith.subtract(state[0], constant(HIDDEN / 3)))
        share = arith.multiply(share, smaller(height, constant(1.0)))
    return arith.multiply(state[2], share)


def _in_spans(
    profile: Profile, q: Codes, source: Source, causal: bool, span: int, size: int
) -> Codes:
    """A span of queries after the other: first the tiles of keys that only some of them see, then
    those before."""
    if not causal:
        return _in_parts(profile, q, [source], None, size)
    found, count = [], source.kt.shape[1]
    hidden = _causal(len(q), count, -np.inf)
    distance = count - len(q)
    for start in range(0, len(q), span):
        rows = q[start : start + span]
        first_own = start + distance // SIDE * SIDE
        own = slice(first_own, start + distance + len(rows))
        scores = arith.add(product(rows, source.kt[:, own]), hidden[start : start + span, own])
        state = _weighed(profile, _whole_tiles(scores), source.v[own], None)
        for first in range(0, first_own, size):
            keys = slice(first, min(first + size, first_own))
            scores = product(rows, source.kt[:, keys])
            state = _weighed(profile, scores, source.v[keys], state)
        found.append(arith.multiply(state[2], recip(state[1])))
    return np.concatenate(found)


def _weighed(
    profile: Profile, scores: Codes, values: Codes, state: tuple[Codes, Codes, Codes] | None
) -> tuple[Codes, Codes, Codes]:
    """Maximum, sum of weights and mixed values, with some keys more."""
    top = _largest(profile, scores)
    if state is not None:
        top = larger(state[0], top)
    weights = fp8(profile, UNARY["exp"](arith.subtract(scores, top)))
    total = product(weights, np.full((weights.shape[1], 1), ONE, np.uint8))
    mixed = product(weights, np.pad(values, ((0, -len(values) % SIDE), (0, 0))))
    if state is not None:
        fade = UNARY["exp"](arith.subtract(state[0], top))
        total = arith.add(arith.multiply(state[1], fade), total)
        mixed = arith.add(arith.multiply(state[2], fade), mixed)
    return top, total, mixed


def _causal(rows: int, keys: int, low: float) -> Codes:
    """The last query sees all keys, the one before all but the last, ..."""
    hidden = np.arange(keys)[None] - np.arange(rows)[:, None] > keys - rows
    return np.where(hidden, constant(low), np.uint16(0))


def _whole_tiles(scores: Codes) -> Codes:
    """Scores with minus infinities behind them until the last tile of keys is whole."""
    rows, keys = scores.shape
    result = np.full((rows, -(-keys // SIDE) * SIDE), constant(-np.inf))
    result[:, :keys] = scores
    return result


def _largest(profile: Profile, scores: Codes) -> Codes:
    """The largest score of each row: tiles of keys are compared element by element."""
    best = scores[:, :SIDE]
    for start in range(SIDE, scores.shape[1], SIDE):
        best = larger(best, scores[:, start : start + SIDE])
    return across(profile, best, "max")
