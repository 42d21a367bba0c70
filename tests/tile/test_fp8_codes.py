"""Weights become fp8 by a table; the same codes as by rounding each number."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tilewright.tile.layouts import to_codes


def rounded(array: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        clipped = np.clip(array.astype(np.float64), -448.0, 448.0)
        return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


@pytest.mark.parametrize("seed", range(3))
def test_any_float32(seed: int) -> None:
    bits = np.random.default_rng(seed).integers(0, 1 << 32, 300_000, np.uint64)
    array = bits.astype(np.uint32).view(np.float32)
    with np.errstate(invalid="ignore"):
        assert np.array_equal(to_codes(array, "fp8"), rounded(array))


def test_ties_and_their_neighbours() -> None:
    codes = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    known = np.sort(codes[np.isfinite(codes)])
    ties = (known[1:] + known[:-1]) / 2
    near = [np.nextafter(ties, np.float32(side) * np.inf, dtype=np.float32) for side in (-1, 1)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, 448, 449, 464, 480, 1e-45, np.nan], np.float32)
    array = np.tile(np.concatenate([known, ties, *near, special]).astype(np.float32), 8)
    assert array.size > 4096
    assert np.array_equal(to_codes(array, "fp8"), rounded(array))
    turned = np.resize(array, (90, 91)).T
    assert np.array_equal(to_codes(turned, "fp8"), rounded(turned))
