"""Weights as fp8 codes and the largest of their numbers: they come by the hundred million.

Native where it is built (`native/numbers`); in numpy with the same results elsewhere.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from tilewright.reference.arithmetic import FP8_MAX

try:
    from tilewright.reference import _rounding as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None


def fp8_codes(array: np.ndarray) -> np.ndarray:
    """The codes of float32 numbers: ties to even, what is beyond 448 saturates."""
    if native is None:
        return _by_table(array)
    flat = np.ascontiguousarray(array).reshape(1, -1)
    codes = np.empty(flat.shape, np.uint8)
    native.fp8_codes(flat, codes)
    return codes.reshape(array.shape)


def round_to_fp8(
    numbers: np.ndarray, over: np.ndarray | None, factor: float, codes: np.ndarray
) -> None:
    """Fill in the codes of numbers / over * factor, for float32 matrices.

    over: [1, columns] or [rows, 1]. Rows or columns of both matrices are neighbours in memory.
    """
    factor = float(np.float32(factor))
    if numbers.flags.f_contiguous:
        numbers, codes, over = numbers.T, codes.T, None if over is None else over.T
    rows, columns = numbers.shape
    if over is not None and over.shape not in ((1, columns), (rows, 1)):
        raise ValueError(f"{over.shape} is no divisor for each row or column of {numbers.shape}")
    if native is None:
        with np.errstate(all="ignore"):
            quotient = numbers if over is None else numbers / over
            codes[...] = _by_table(quotient * np.float32(factor))
        return
    by_row = over is not None and over.shape != (1, columns)
    divisors = None if over is None else np.ascontiguousarray(over).reshape(-1)
    native.fp8_codes(_by_rows(numbers), codes, divisors, by_row, factor)


def column_peaks(numbers: np.ndarray) -> np.ndarray:
    """The largest magnitude in every column of a float32 matrix; NaN where there is one."""
    if native is None or not numbers.size:
        return np.abs(numbers).max(0, initial=0.0)
    peaks = np.empty(numbers.shape[1], np.float32)
    turned = numbers.flags.f_contiguous and not numbers.flags.c_contiguous
    native.peaks(_by_rows(numbers.T if turned else numbers), peaks, turned)
    return peaks


def _by_rows(numbers: np.ndarray) -> np.ndarray:
    """The same with neighbouring numbers in each row."""
    near = numbers.strides[1] == numbers.itemsize and numbers.strides[0] % numbers.itemsize == 0
    return numbers if near else np.ascontiguousarray(numbers)


@cache
def _table() -> np.ndarray:
    """The fp8 codes of all bf16 patterns."""
    numbers = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)
    with np.errstate(invalid="ignore"):  # there are signalling NaN among them
        clipped = np.clip(numbers.astype(np.float64), -FP8_MAX, FP8_MAX)
        return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def _by_table(array: np.ndarray) -> np.ndarray:
    """The upper half of a float32, with its last bit set where the lower half is not zero, rounds to
    fp8 as the whole does: the bit remembers on which side of a tie the number was."""
    halves = np.ascontiguousarray(array, "<f4").view("<u2").reshape(*array.shape, 2)
    return _table().take(halves[..., 1] | (halves[..., 0] != 0))
