"""Weights as fp8, natively and in numpy: the codes of rounding each number by itself."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from tilewright.reference import rounding
from tilewright.reference.rounding import column_peaks, fp8_codes, round_to_fp8


@pytest.fixture(params=["native", "numpy"], autouse=True)
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "native":
        pytest.importorskip("tilewright.reference._rounding")
        assert rounding.native is not None
    else:
        monkeypatch.setattr(rounding, "native", None)
    yield


def one_by_one(numbers: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        clipped = np.clip(numbers.astype(np.float64), -448.0, 448.0)
        return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def test_every_upper_half_with_lower_halves_that_matter() -> None:
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    bits = np.concatenate([upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    numbers = bits.astype(np.uint32).view(np.float32)
    assert np.array_equal(fp8_codes(numbers), one_by_one(numbers))


def matrices(seed: int) -> Iterator[tuple[np.ndarray, np.random.Generator]]:
    """Of odd sizes, in any order of memory that weights come in."""
    random = np.random.default_rng(seed)
    for number in range(40):
        rows, columns = random.integers(1, 150, 2)
        size = 10.0 ** random.integers(-4, 4)
        matrix = (random.standard_normal((rows, columns)) * size).astype(np.float32)
        if number % 7 == 0:
            matrix[random.integers(rows), random.integers(columns)] = np.nan
        if number % 4 == 1:
            matrix = np.asfortranarray(matrix)
        if number % 4 == 2:
            matrix = np.repeat(matrix, 2, 0)[::2]
        if number % 4 == 3:
            matrix = np.repeat(matrix, 2, 1)[:, ::2]
        yield matrix, random


@pytest.mark.parametrize("seed", range(3))
def test_codes_over_divisors(seed: int) -> None:
    for number, (matrix, random) in enumerate(matrices(seed)):
        rows, columns = matrix.shape
        shape = [(1, columns), (rows, 1), None][number % 3]
        over = None if shape is None else random.uniform(0.01, 9, shape).astype(np.float32)
        factor = float(2.0 ** random.integers(-9, 9)) if number % 2 else 0.3
        wanted = matrix if over is None else matrix / over
        codes = np.full(matrix.shape, 99, np.uint8, order="F" if number % 5 == 0 else "C")
        round_to_fp8(matrix, over, factor, codes)
        assert np.array_equal(codes, one_by_one(wanted * np.float32(factor)))


@pytest.mark.parametrize("seed", range(3))
def test_peaks(seed: int) -> None:
    for matrix, _ in matrices(seed):
        assert np.array_equal(column_peaks(matrix), np.abs(matrix).max(0), equal_nan=True)
    assert np.array_equal(column_peaks(np.zeros((0, 5), np.float32)), np.zeros(5))
    assert column_peaks(np.zeros((5, 0), np.float32)).shape == (0,)


def test_divisors_that_do_not_fit() -> None:
    codes = np.zeros((3, 4), np.uint8)
    for shape in ((1, 3), (4, 1), (3, 4), (1, 1)):
        with pytest.raises(ValueError, match="divisor"):
            round_to_fp8(np.zeros((3, 4), np.float32), np.ones(shape, np.float32), 1.0, codes)


def test_the_native_part_checks_what_it_is_given() -> None:
    native = rounding.native
    if native is None:
        pytest.skip("in numpy")
    numbers, codes = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.uint8)
    for wrong in (np.zeros((4, 3), np.uint8), np.zeros((3, 8), np.uint8)[:, ::2]):
        with pytest.raises(ValueError):
            native.fp8_codes(numbers, wrong)
    with pytest.raises(ValueError):
        native.fp8_codes(np.zeros((3, 8), np.float32)[:, ::2], codes)
    for by_row in (False, True):
        with pytest.raises(ValueError):
            native.fp8_codes(numbers, codes, np.ones(5, np.float32), by_row, 1.0)
        with pytest.raises(ValueError):
            native.peaks(numbers, np.zeros(5, np.float32), by_row)
