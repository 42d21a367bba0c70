"""How tokens lie in inputs of fixed shape: to the right, padding on the left.

Prefill of 3 tokens in 8 places, nothing stored; then one token in a capacity of 8:

    ids        0 0 0 0 0 a b c        d
    attends    . . . . . 1 1 1        1 1 1 0 0 0 0 1     (past slots, then new tokens)
    positions  0 0 0 0 0 0 1 2        3
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewright.runtime.llm.contract import Variant

HIDDEN = np.float32(-30000.0)  # added to a score: its weight is exactly zero in f16, bf16 and fp8


def attends(variant: Variant, stored: int, count: int) -> np.ndarray:
    """What every token reads, [T, S + T]: what is stored, itself and new tokens before it.

    Padding reads itself, so that no row of attention is empty; nobody reads padding.
    """
    tokens, past = variant.tokens, variant.past
    new = np.tri(tokens, dtype=bool)
    new[:, : tokens - count] = False
    found = np.zeros((tokens, variant.capacity), bool)
    found[:, :stored] = True
    found[:, past:] = new
    found[: tokens - count] = False
    found[np.arange(tokens), past + np.arange(tokens)] = True
    return found


def within(variant: Variant, stored: int, count: int, window: int) -> np.ndarray:
    """Which keys are among the last `window` tokens of every new one, itself included, [T, S + T]."""
    places = np.arange(variant.tokens) + stored + count - variant.tokens
    keys = np.concatenate((np.arange(variant.past), places))
    return places[:, None] - keys[None] < window


def inputs(
    variant: Variant, tokens: Sequence[int], stored: int, dtype: str
) -> dict[str, np.ndarray]:
    """ids, positions and masks of an entry point for tokens behind `stored` others."""
    count, places = len(tokens), variant.tokens
    ids = np.zeros((1, places), np.int64)
    positions = np.zeros((1, places), np.int64)
    ids[0, places - count :] = tokens
    positions[0, places - count :] = np.arange(stored, stored + count)
    reads = attends(variant, stored, count)
    given = {"ids": ids, "positions": positions, "mask": _mask(reads, dtype)}
    for window in variant.windows:
        seen = reads & within(variant, stored, count, window)
        given[f"mask.{window}"] = _mask(seen, dtype)
    return given


def _mask(reads: np.ndarray, dtype: str) -> np.ndarray:
    return reads[None] if dtype == "i1" else np.where(reads, np.float32(0), HIDDEN)[None]
