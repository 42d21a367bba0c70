"""What the attention kernels must compute: bit for bit, and ideally."""

from __future__ import annotations

import math

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import product
from tilewright.targets.atlas.kernels.references import (
    TINY,
    U8,
    Codes,
    Reference,
    U,
    halves,
)
from tilewright.targets.atlas.model.references_steps import UNARY, constant, recip, row_total
from tilewright.targets.atlas.profile import Profile

_exp = UNARY["exp"]
State = tuple[Codes, Codes, Codes]  # running maximum, running sum (columns), result


def _scores(q: Codes, kt: Codes) -> Codes:
    root = constant(1 / math.sqrt(q.shape[1]))
    return arith.multiply(product(arith.pack(q, 1), arith.pack(kt, 1)), root)


def _after_block(profile: Profile, q: Codes, kt: Codes, v: Codes, state: State | None) -> State:
    scores = _scores(q, kt)
    block = row_total(profile, scores, "max")
    first = constant(-100.0) if state is None else state[0]
    order = (block, first) if state is None else (first, block)
    largest = arith.extreme(*np.broadcast_arrays(*order), larger=True)
    powers = _exp(arith.subtract(scores, largest))
    total = row_total(profile, powers, "sum")
    result = product(arith.pack(powers, 1), arith.pack(v, 1))
    if state is None:
        return largest, total, result
    fade = _exp(arith.subtract(state[0], largest))
    total = arith.add(arith.multiply(fade, state[1]), total)
    return largest, total, arith.add(arith.multiply(state[2], fade), result)


def flash_attention(profile: Profile, q: Codes, kt: Codes, v: Codes) -> Codes:
    """32 keys at a time, the maximum starting at -100."""
    state = None
    for start in range(0, kt.shape[1], 32):
        keys = slice(start, start + 32)
        state = _after_block(profile, q, kt[:, keys], v[keys], state)
    assert state is not None
    return arith.multiply(state[2], recip(state[1]))


def attention_tile(profile: Profile, q: Codes, kt: Codes, v: Codes) -> Codes:
    """All keys at once."""
    scores = arith.multiply(product(q, kt), constant(1 / math.sqrt(q.shape[1])))
    powers = _exp(arith.subtract(scores, row_total(profile, scores, "max")))
    shares = arith.multiply(powers, recip(row_total(profile, powers, "sum")))
    return product(arith.pack(shares, 1), v)


def acc_first(profile: Profile, q: Codes, kt: Codes, v: Codes) -> tuple[Codes, ...]:
    largest, total, result = _after_block(profile, q, kt, v, None)
    return halves(largest), halves(total), result


def acc_mid(
    profile: Profile, q: Codes, kt: Codes, v: Codes, largest: Codes, total: Codes, result: Codes
) -> tuple[Codes, ...]:
    state = (largest[:, :1], total[:, :1], result)
    after = _after_block(profile, q, kt, v, state)
    return halves(after[0]), halves(after[1]), after[2]


def acc_last(
    profile: Profile, q: Codes, kt: Codes, v: Codes, largest: Codes, total: Codes, result: Codes
) -> Codes:
    _, sums, results = _after_block(profile, q, kt, v, (largest[:, :1], total[:, :1], result))
    return arith.multiply(results, recip(sums))


# --- ideal ------------------------------------------------------------------------------------


def _spread(x: np.ndarray, cast: bool) -> np.ndarray:
    """How far a cast to fp8 may move each number."""
    return U8 * np.abs(x) + 2.0**-10 if cast else np.zeros_like(x)


def ideal_attention(
    q: np.ndarray,
    kt: np.ndarray,
    v: np.ndarray,
    cast: bool = True,
    mask: np.ndarray | None = None,
    root: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """softmax(q @ kt / sqrt(D)) @ v, or with another factor than 1 / sqrt(D).

    Errors: the casts move each score by at most `moved`, so each weight by a factor of
    exp(2 moved); weights and values are cast once more; sums round as usual.
    """
    root = 1 / math.sqrt(q.shape[1]) if root is None else root
    blocks = -(-kt.shape[1] // 32)
    scores = q @ kt * root
    seen = np.abs(scores).max(1, keepdims=True)
    if mask is not None:
        scores = scores + mask
    size = np.abs(q) @ np.abs(kt)
    moved = _spread(q, cast) @ np.abs(kt) + np.abs(q) @ _spread(kt, cast)
    steps = max(4.0, 1.3 * -(-q.shape[1] // 32) + 2)
    moved = root * (moved + _spread(q, cast) @ _spread(kt, cast) + steps * U * size)
    moved = moved.max(1, keepdims=True) + 2 * U * seen
    powers = np.exp(scores - scores.max(1, keepdims=True))
    total = powers.sum(1, keepdims=True)
    result = (powers / total) @ v
    weighted = (powers / total) @ np.abs(v)
    factor = np.exp(2 * moved) * (1 + U8 + 8 * U * (blocks + 2)) - 1
    lost = 2.0**-10 * np.abs(v).sum(0) + (powers / total) @ _spread(v, cast)
    return result, factor * weighted + (1 + factor) * lost + TINY


def _ideal_scores(q: np.ndarray, kt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and how far the casts and roundings of a row may move them."""
    root = 1 / math.sqrt(q.shape[1])
    moved = _spread(q, True) @ np.abs(kt) + np.abs(q) @ _spread(kt, True)
    moved = moved + _spread(q, True) @ _spread(kt, True) + 6 * U * (np.abs(q) @ np.abs(kt))
    scores = q @ kt * root
    return scores, (root * moved + 2 * U * np.abs(scores)).max(1, keepdims=True)


def _ideal_largest(
    q: np.ndarray, kt: np.ndarray, before: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The running maximum, which starts at -100."""
    scores, moved = _ideal_scores(q, kt)
    start = np.full((len(q), 1), -100.0) if before is None else before[:, :1]
    largest = np.maximum(scores.max(1, keepdims=True), start)
    return halves(largest), halves(moved + TINY)


def _ideal_last(
    q: np.ndarray,
    kt: np.ndarray,
    v: np.ndarray,
    largest: np.ndarray,
    total: np.ndarray,
    result: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(state faded + this block) over the sum; scores move by `moved`, weights by exp of that."""
    scores, moved = _ideal_scores(q, kt)
    before = largest[:, :1]
    top = np.maximum(scores.max(1, keepdims=True), before)
    powers, fade = np.exp(scores - top), np.exp(before - top)
    whole = fade * total[:, :1] + powers.sum(1, keepdims=True)
    mixed = fade * result + powers @ v
    size = fade * np.abs(result) + powers @ np.abs(v)
    factor = np.exp(4 * moved) * (1 + U8 + 24 * U) - 1
    lost = 2.0**-10 * np.abs(v).sum(0) + powers @ _spread(v, True)
    share = size / whole * 2 * factor + (1 + factor) * lost / whole
    return mixed / whole, share + TINY


ATTENTION_REFERENCES: dict[str, Reference] = {
    "attention_tile": Reference(
        attention_tile, lambda q, kt, v: ideal_attention(q, kt, v, cast=False)
    ),
    "flash_attention_bf16": Reference(flash_attention, ideal_attention),
    "attention_acc_first": Reference(acc_first, lambda q, kt, v: _ideal_largest(q, kt, None)),
    "attention_acc_mid": Reference(
        acc_mid, lambda q, kt, v, largest, total, result: _ideal_largest(q, kt, largest)
    ),
    "attention_acc_last": Reference(acc_last, _ideal_last),
}
