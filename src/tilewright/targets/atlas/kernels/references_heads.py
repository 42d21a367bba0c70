"""What attention over whole heads must compute, bit for bit and ideally."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.references import (
    TINY,
    Codes,
    Ideal,
)
from tilewright.targets.atlas.kernels.references_attention import ideal_attention
from tilewright.targets.atlas.model.references_attention import HIDDEN
from tilewright.tile.layouts import to_codes

Mask = Callable[[tuple[int, int], tuple[Codes, ...]], Codes | None]


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


HEAD_IDEALS: dict[str, Ideal] = {
    "attention": _ideal(_no_mask),
    "attention_causal": _ideal(_causal),
    "attention_flash": _ideal(_no_mask),
    "attention_flash_causal": _ideal(_causal),
    "attention_key_mask": _ideal(_key_mask),
    "attention_mask": _ideal(_full_mask),
}
