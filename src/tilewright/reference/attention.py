"""Attention: softmax(scale * q kᵀ, masked) v, whole or in blocks of keys.

Scores are exact dot products times the scale, rounded once to the score type (f32 unless the
operation says otherwise); mask and score function act on those. The softmax and its product with v run
in float64 and the result is rounded once, so cutting the keys into blocks changes the result by at most
one rounding. A boolean mask drops keys, an additive one is added to the scaled scores, where minus
infinity drops the key whatever its score. A query whose keys are all masked gives 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array, ElementType

UNDERFLOW = 760.0  # exp(-x) is zero in float64 from 746 on
ScoreFunction = Callable[[Array], Array]


@dataclass
class RunningState:
    """What a chain of key blocks carries: row maximum, sum of exponentials, weighted sum of values."""

    maximum: Array
    total: Array
    output: Array

    def result(self) -> Array:
        """The attention output in float64; rows without any key are 0."""
        return np.where(
            self.total == 0, 0.0, self.output / np.where(self.total == 0, 1.0, self.total)
        )


def scores(
    q: Array,
    k: Array,
    scale: float | Array,
    score_type: ElementType,
    mask: Array | None = None,
    mask_element: ElementType | None = None,
    function: ScoreFunction | None = None,
) -> Array:
    """Masked scores [.., m, n] in working form of the score type; k is [.., n, d]."""
    product = np.matmul(q.astype(np.float64), np.swapaxes(k.astype(np.float64), -1, -2))
    result = dtypes.rounded(product * np.asarray(scale, dtype=np.float64), score_type)
    if function is not None:
        result = function(result)
    if mask is None:
        return result
    if mask_element is not None and mask_element.kind == "bool":
        return np.where(mask, result, np.asarray(-np.inf, dtype=result.dtype))
    added = dtypes.rounded(result + mask.astype(result.dtype), score_type)
    return np.where(np.isneginf(mask), np.asarray(-np.inf, dtype=added.dtype), added)


def weighing_keys(q: Array, k: Array, v: Array, scale: float, mask: Array) -> Array:
    """Which keys [n] may have a weight other than exactly zero, for some query.

    No score exceeds the longest query times the longest key. A key whose mask lies further below the
    row's largest than twice that, and than what the exponential still tells from zero, weighs nothing.
    """
    every = np.ones(k.shape[-2], dtype=np.bool_)
    if mask.dtype == np.bool_ or not (q.size and k.size and mask.size and np.isfinite(v).all()):
        return every
    with np.errstate(invalid="ignore", over="ignore"):
        added = mask.astype(np.float64)
        longest = [np.sqrt(np.square(x.astype(np.float64)).sum(-1).max()) for x in (q, k)]
        reach = abs(scale) * longest[0] * longest[1] * (1 + 1e-6)
        top = added.max(axis=-1, keepdims=True)
        floor = top - 1e-6 * np.abs(top) - 2 * reach - UNDERFLOW
        light = added + 1e-6 * np.abs(added) < floor  # never where something is not a number
        light |= np.isneginf(added) & np.isfinite(floor)
    return ~light.reshape(-1, light.shape[-1]).all(axis=0)


def update(state: RunningState | None, score: Array, v: Array) -> RunningState:
    """Take in one block of keys: scores [.., m, n] and values [.., n, dv]."""
    score = score.astype(np.float64)
    top = np.max(score, axis=-1, keepdims=True, initial=-np.inf)
    if state is not None:
        top = np.maximum(top, state.maximum)
    # A row that is masked so far keeps its exponentials at 0 instead of NaN.
    base = np.where(np.isneginf(top), 0.0, top)
    weights = np.exp(score - base)
    total = weights.sum(axis=-1, keepdims=True)
    output = np.matmul(weights, v.astype(np.float64))
    if state is not None:
        fade = np.exp(state.maximum - base)
        total = total + state.total * fade
        output = output + state.output * fade
    return RunningState(top, total, output)


def causal_mask(
    queries: int, keys: int, query_start: int = 0, key_start: int = 0, offset: int = 0
) -> Array:
    """True where query i may see key j: key_start + j <= query_start + i + offset."""
    query = np.arange(query_start, query_start + queries).reshape(-1, 1)
    key = np.arange(key_start, key_start + keys)
    return key <= query + offset
