"""What attention over whole heads must compute, bit for bit and ideally."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.references import (
    TINY,
    Codes,
    Ideal,
    Reference,
    constant,
    product,
    row_total,
)
from tilewright.targets.atlas.kernels.references_attention import ideal_attention
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE, to_codes

HIDDEN = -3.0e38
_ONES = np.full((SIDE, SIDE), 0x38, np.uint8)


def _whole(codes: Codes) -> Codes:
    """Zeros added until both sizes are whole tiles."""
    rows, columns = (-(-n // SIDE) * SIDE for n in codes.shape)
    padded = np.zeros((rows, columns), codes.dtype)
    padded[: codes.shape[0], : codes.shape[1]] = codes
    return padded


def _row_max(tile: Codes) -> Codes:
    return arith.reduce_extreme(tile, 1, larger=True)


def _filled(value: float) -> Codes:
    return np.full((SIDE, SIDE), to_codes(np.array([value]), "bf16")[0], np.uint16)


def block(profile: Profile, q: Codes, kt: Codes, v: Codes, mask: Codes | None) -> Codes:
    """Up to 32 queries of one head: fp8 q [m, D], kt [D, N], v [N, E]; bf16 mask [m, N]."""
    keys, width = v.shape
    queries, q, kt, v = len(q), _whole(q), _whole(kt), _whole(v)
    added = None if mask is None else _whole(mask)
    scores, largest = [], None
    for j in range(0, kt.shape[1], SIDE):
        score = None
        for d in range(0, q.shape[1], SIDE):
            score = arith.matmul(q[:, d : d + SIDE], kt[d : d + SIDE, j : j + SIDE], score)
        assert score is not None
        if added is not None:
            score = arith.add(score, added[:, j : j + SIDE])
        score[:, max(0, keys - j) :] = _filled(HIDDEN)[0, 0]
        scores.append(score)
        largest = score if largest is None else arith.extreme(largest, score, larger=True)
    assert largest is not None
    top = _row_max(largest)
    results, total = _sums(scores, top, v)
    share = arith.unary_table("vrecip")[total]
    if mask is not None:
        height = arith.relu(arith.subtract(top, _filled(HIDDEN / 3)))
        share = arith.multiply(share, arith.extreme(height, _filled(1.0), larger=False))
    return np.concatenate([arith.multiply(r, share) for r in results], axis=1)[:queries, :width]


def _sums(scores: list[Codes], top: Codes, v: Codes) -> tuple[list[Codes], Codes]:
    """The weighted sums of V, and the sum of weights."""
    total = None
    results: list[Codes | None] = [None] * (v.shape[1] // SIDE)
    for index, score in enumerate(scores):
        weights = arith.pack(arith.unary_table("vexp")[arith.subtract(score, top)], 1)
        rows = v[SIDE * index : SIDE * (index + 1)]
        for e, known in enumerate(results):
            results[e] = arith.matmul(weights, rows[:, SIDE * e : SIDE * (e + 1)], known)
        total = arith.matmul(weights, _ONES, total)
    assert total is not None
    return [r for r in results if r is not None], _row_max(total)


Mask = Callable[[tuple[int, int], tuple[Codes, ...]], Codes | None]


def _heads(mask_of: Mask) -> Callable[..., Codes]:
    def exact(profile: Profile, q: Codes, kt: Codes, v: Codes, *more: Codes) -> Codes:
        groups, repeats, rows, _ = q.shape
        mask = mask_of((rows, v.shape[1]), more)
        out = np.zeros((groups, repeats, rows, v.shape[2]), np.uint16)
        for g, r in np.ndindex(groups, repeats):
            for m in range(0, rows, SIDE):
                part = None if mask is None else mask[m : m + SIDE]
                queries = q[g, r, m : m + SIDE]
                out[g, r, m : m + SIDE] = block(profile, queries, kt[g], v[g], part)
        return out

    return exact


def _no_mask(shape: tuple[int, int], more: tuple[Codes, ...]) -> Codes | None:
    return None


def _causal(shape: tuple[int, int], more: tuple[Codes, ...]) -> Codes:
    rows, keys = shape
    hidden = np.arange(keys)[None] > np.arange(rows)[:, None] + keys - rows
    return to_codes(np.where(hidden, HIDDEN, 0.0), "bf16")


def _key_mask(shape: tuple[int, int], more: tuple[Codes, ...]) -> Codes:
    return np.broadcast_to(more[0], shape)


def _full_mask(shape: tuple[int, int], more: tuple[Codes, ...]) -> Codes:
    return more[0]


def _ideal(mask_of: Mask) -> Ideal:
    """softmax(q @ kt + mask) @ v in float64; a row that sees nothing is 0."""

    def ideal(
        q: np.ndarray, kt: np.ndarray, v: np.ndarray, *more: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        shape = (q.shape[2], v.shape[1])
        codes = tuple(to_codes(m, "bf16") for m in more)
        found = mask_of(shape, codes)
        mask = np.zeros(shape) if found is None else arith.bf16_to_f32(found).astype(np.float64)
        blind = (mask <= HIDDEN / 2).all(1, keepdims=True)
        value, error = (np.zeros((*q.shape[:3], v.shape[2])) for _ in range(2))
        for g, r in np.ndindex(*q.shape[:2]):
            found_value, found_error = ideal_attention(
                q[g, r], kt[g], v[g], cast=False, mask=mask, root=1.0
            )
            value[g, r] = np.where(blind, 0.0, found_value)
            error[g, r] = np.where(blind, TINY, found_error)
        return value, error

    return ideal


def flash(profile: Profile, q: Codes, kt: Codes, v: Codes, mask: Codes | None) -> Codes:
    """One head, 32 keys at a time: maximum, sum and result are carried and faded."""
    exp = arith.unary_table("vexp")
    top = total = result = None
    for start in range(0, v.shape[0], SIDE):
        keys = slice(start, start + SIDE)
        scores = product(q, np.ascontiguousarray(kt[:, keys]))
        if mask is not None:
            scores = arith.add(scores, np.ascontiguousarray(mask[:, keys]))
        best = row_total(profile, scores, "max")
        if top is not None:
            best = arith.extreme(top, best, larger=True)
        weights = exp[arith.subtract(scores, best)]
        summed = row_total(profile, weights, "sum")
        mixed = product(arith.pack(weights, 1), v[keys])
        if top is not None and total is not None and result is not None:
            fade = exp[arith.subtract(top, best)]
            summed = arith.add(arith.multiply(total, fade), summed)
            mixed = arith.add(arith.multiply(result, fade), mixed)
        top, total, result = best, summed, mixed
    assert top is not None and total is not None and result is not None
    share = arith.unary_table("vrecip")[total]
    if mask is not None:
        height = arith.relu(arith.subtract(top, constant(HIDDEN / 3)))
        share = arith.multiply(share, arith.extreme(height, constant(1.0), larger=False))
    return arith.multiply(result, share)


def _flash_heads(mask_of: Mask) -> Callable[..., Codes]:
    def exact(profile: Profile, q: Codes, kt: Codes, v: Codes, *more: Codes) -> Codes:
        mask = mask_of((q.shape[2], v.shape[1]), more)
        out = np.zeros((*q.shape[:3], v.shape[2]), np.uint16)
        for g, r in np.ndindex(*q.shape[:2]):
            out[g, r] = flash(profile, q[g, r], kt[g], v[g], mask)
        return out

    return exact


HEAD_REFERENCES: dict[str, Reference] = {
    "attention": Reference(_heads(_no_mask), _ideal(_no_mask)),
    "attention_causal": Reference(_heads(_causal), _ideal(_causal)),
    "attention_key_mask": Reference(_heads(_key_mask), _ideal(_key_mask)),
    "attention_mask": Reference(_heads(_full_mask), _ideal(_full_mask)),
    "attention_flash": Reference(_flash_heads(_no_mask), _ideal(_no_mask)),
    "attention_flash_causal": Reference(_flash_heads(_causal), _ideal(_causal)),
}
