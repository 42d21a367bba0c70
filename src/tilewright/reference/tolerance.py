"""Comparing what a program left in memory with what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_CHUNK = 1 << 20  # elements compared at a time


@dataclass(frozen=True)
class Tolerance:
    """Allowed error: absolute + relative * |expected|."""

    relative: float
    absolute: float


@dataclass(frozen=True)
class Difference:
    """One element and how far it is off."""

    index: tuple[int, ...]
    flat: int  # element number in row-major order
    expected: float | int
    actual: float | int
    error: float  # absolute; inf where only one of the two is NaN or an infinity


@dataclass(frozen=True)
class Comparison:
    """How two arrays differ; `worst` is the largest error, also where it is allowed."""

    elements: int
    different: int
    worst: Difference | None

    @property
    def holds(self) -> bool:
        return self.different == 0


def compare(expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance | None) -> Comparison:
    """Compare arrays of one type, bit by bit without a tolerance. NaN equals any NaN."""
    left, right = expected.reshape(-1), actual.reshape(-1)
    different, worst, found = 0, -1.0, -1
    for start in range(0, len(left), _CHUNK):
        a, b = left[start : start + _CHUNK], right[start : start + _CHUNK]
        error, wrong = _errors(a, b, tolerance)
        different += int(wrong.sum())
        # Without a tolerance only differing elements count: -0 and +0 are 0 apart.
        ranked = error if tolerance else np.where(wrong, error, -1.0)
        place = int(ranked.argmax())
        if ranked[place] > worst:
            worst, found = float(ranked[place]), start + place
    if found < 0:
        return Comparison(len(left), different, None)
    index = tuple(int(i) for i in np.unravel_index(found, expected.shape))
    shown = Difference(index, found, _number(left[found]), _number(right[found]), worst)
    return Comparison(len(left), different, shown)


def _errors(
    expected: np.ndarray, actual: np.ndarray, tolerance: Tolerance | None
) -> tuple[np.ndarray, np.ndarray]:
    """Absolute error and verdict of each element."""
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    same = expected.view(bits) == actual.view(bits)
    with np.errstate(invalid="ignore", over="ignore"):
        a, b = expected.astype(np.float64), actual.astype(np.float64)
        same |= np.isnan(a) & np.isnan(b)
        if tolerance:
            same |= a == b
        error = np.where(same | (a == b), 0.0, np.abs(a - b))
        error = np.where(np.isnan(error), np.inf, error)
        if tolerance is None:
            return error, ~same
        allowed = tolerance.absolute + tolerance.relative * np.abs(a)
        # An infinite expectation allows nothing but itself.
        allowed = np.where(np.isfinite(a), allowed, 0.0)
        return error, ~same & ~(error <= allowed)


def _number(value: Any) -> float | int:
    return int(value) if np.issubdtype(type(value), np.integer) else float(value)
