"""Attention of whole tensors, by the path that was chosen for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.targets.vpu.operations.numbers import exp, lane_sum, rounded
from tilewright.targets.vpu.reference.products import in_order


def visible(queries: int, keys: int, options: dict[str, Any]) -> np.ndarray:
    """Which keys a query row sees."""
    seen = np.ones((queries, keys), bool)
    if options.get("causal"):
        seen &= np.arange(keys)[None, :] <= np.arange(queries)[:, None] + keys - queries
    if options.get("valid_keys"):
        seen[:, options["valid_keys"] :] = False
    return seen


def softmax(scores: np.ndarray, factor: float, mask: np.ndarray | None, seen: np.ndarray):
    """f32 softmax of rows; rows that see nothing give 0."""
    with np.errstate(all="ignore"):
        values = scores.astype(np.float32) * np.float32(factor)
        if mask is not None:
            values = values + mask.astype(np.float32)
        values = np.where(seen, values, np.float32(-np.inf))
        largest = values.max(axis=-1, keepdims=True)
        powers = exp(values - largest)
        result = powers / lane_sum(powers)[..., None]
    return np.where(np.isneginf(largest), np.float32(0), result)


def attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    mask: np.ndarray | None,
    scale: float | None,
    dtype: str,
    options: dict[str, Any],
) -> np.ndarray:
    """q [S, H·E], k [T, G·E], v [G·Ev, T] to [S, H·Ev]; i8 results count in units of `scale`."""
    heads, groups = options["heads"], options["groups"]
    width, value_width = q.shape[1] // heads, v.shape[0] // groups
    factor = options.get("scale")
    factor = 1 / np.sqrt(width) if factor is None else factor
    seen = visible(q.shape[0], k.shape[0], options)
    valid = slice(options.get("valid_keys") or k.shape[0])  # the rest is not even multiplied by 0
    seen, k, v = seen[:, valid], k[valid], v[:, valid]
    mask = None if mask is None else mask[:, valid]
    parts = []
    for head in range(heads):
        group = head // (heads // groups)
        own = (
            q[:, head * width : (head + 1) * width],
            k[:, group * width : (group + 1) * width],
            v[group * value_width : (group + 1) * value_width],
        )
        if options.get("path", "decomposed") == "decomposed":
            parts.append(_decomposed(*own, mask, factor, seen, scale, dtype))
        else:
            parts.append(_chained(*own, mask, factor, seen, scale, dtype, options["block"]))
    return np.concatenate(parts, axis=1)


def _decomposed(q, k, v, mask, factor, seen, scale, dtype) -> np.ndarray:
    scores = rounded(in_order(q, k), "f16")
    weights = rounded(softmax(scores, factor, mask, seen), "f16")
    sums = in_order(weights, v)
    if dtype == "i8":
        sums = sums * np.float32(1.0 / scale)
    return rounded(sums, dtype)


def _chained(q, k, v, mask, factor, seen, scale, dtype, block: int) -> np.ndarray:
    lines = q.shape[0]
    largest = np.full(lines, -np.inf, np.float32)
    total, output = np.zeros(lines, np.float32), np.zeros((lines, v.shape[0]), np.float32)
    for first in range(0, k.shape[0], block):
        keys = slice(first, first + block)
        with np.errstate(all="ignore"):
            scores = rounded(in_order(q, k[keys]), "f16").astype(np.float32) * np.float32(factor)
            if mask is not None:
                scores = scores + mask[:, keys].astype(np.float32)
            scores = np.where(seen[:, keys], scores, np.float32(-np.inf))
            now = np.maximum(largest, scores.max(axis=-1))
            hidden = np.isneginf(now)
            decay = np.where(hidden, np.float32(1), exp(largest - now))
            powers = np.where(hidden[:, None], np.float32(0), exp(scores - now[:, None]))
            total = decay * total + lane_sum(powers)
            largest = now
            product = in_order(rounded(powers, "f16"), v[:, keys])
            output = decay[:, None] * output + product
    with np.errstate(all="ignore"):
        result = np.where(total[:, None] == 0, np.float32(0), output / total[:, None])
        if dtype == "i8":
            result = result * np.float32(1.0 / np.float64(scale))
    return rounded(result, dtype)
