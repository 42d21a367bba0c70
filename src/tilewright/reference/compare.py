"""Comparing two results: the same bits, or how far apart.

NaN equals NaN whatever its sign and payload. +0 and -0 are equal in value and differ by 0 steps; ask
for `zero_signs` to tell them apart. A step (ulp) is one member of the element type: neighbours in
its grid are one step apart, across zero as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array


@dataclass(frozen=True)
class Bound:
    """How far a result may be from the expected one, per element: any of the parts is enough.

    |actual - expected| <= absolute + relative * |expected|, or at most `steps` members apart.
    `scale` replaces |expected| when given (a magnitude per element or one for all).
    """

    absolute: float = 0.0
    relative: float = 0.0
    steps: int = 0
    scale: Array | float | None = None

    @property
    def exact(self) -> bool:
        return self.absolute == 0 and self.relative == 0 and self.steps == 0


EXACT = Bound()


@dataclass(frozen=True)
class Comparison:
    """The outcome of comparing two arrays."""

    element: str
    count: int
    different: int  # elements that are not equal
    outside: int  # elements beyond the bound
    max_absolute: float
    max_relative: float
    max_steps: int
    worst: tuple[int, ...] | None  # index of the worst element
    actual: float | int | None = None  # values there
    expected: float | int | None = None

    @property
    def within(self) -> bool:
        return self.outside == 0

    @property
    def equal(self) -> bool:
        return self.different == 0

    def __str__(self) -> str:
        if self.equal:
            return f"{self.count} {self.element} elements equal"
        return (
            f"{self.different} of {self.count} {self.element} elements differ, {self.outside} beyond "
            f"the bound; largest difference {self.max_absolute:g} (relative {self.max_relative:g}, "
            f"{self.max_steps} steps), worst at {list(self.worst or ())}: "
            f"{self.actual!r}, expected {self.expected!r}"
        )


def ordered_integers(values: Array) -> Array:
    """Floats in stored form -> integers in the same order, neighbours one apart, both zeros 0."""
    bits = values.dtype.itemsize * 8
    raw = dtypes.contiguous(values).view(f"uint{bits}").astype(np.uint64)
    sign = np.uint64(1 << (bits - 1))
    magnitude = (raw & (sign - np.uint64(1))).astype(np.int64)
    return np.where(raw & sign, -magnitude, magnitude)


def compare(
    actual: Array, expected: Array, bound: Bound = EXACT, zero_signs: bool = False
) -> Comparison:
    """How two arrays of the same type and shape differ."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        raise TilewrightError(
            "TW1504",
            f"a result of type {actual.dtype} and shape {list(actual.shape)} cannot be compared with "
            f"one of type {expected.dtype} and shape {list(expected.shape)}",
        )
    element = dtypes.of_array(expected)
    with np.errstate(all="ignore"):
        if element.is_float:
            return _compare_floats(actual, expected, element, bound, zero_signs)
        return _compare_integers(actual, expected, element, bound)


def _compare_floats(
    actual: Array,
    expected: Array,
    element: dtypes.ElementType,
    bound: Bound,
    zero_signs: bool,
) -> Comparison:
    a = dtypes.working(actual, element).astype(np.float64)
    b = dtypes.working(expected, element).astype(np.float64)
    both_nan = np.isnan(a) & np.isnan(b)
    same = both_nan | (a == b)
    if zero_signs:
        same &= both_nan | (np.signbit(a) == np.signbit(b))
    if same.all():
        return Comparison(element.name, a.size, 0, 0, 0.0, 0.0, 0, None)
    difference = np.where(same, 0.0, np.abs(a - b))
    # A number against NaN, or infinity against anything else, is infinitely wrong.
    difference = np.where(~same & ~np.isfinite(difference), np.inf, difference)
    relative = np.where(np.isinf(difference), np.inf, difference / np.abs(b))
    relative = np.where(same, 0.0, relative)
    steps = np.abs(ordered_integers(actual) - ordered_integers(expected))
    steps = np.where(same, 0, np.where(np.isnan(a) != np.isnan(b), np.iinfo(np.int64).max, steps))
    magnitude = np.abs(b) if bound.scale is None else np.broadcast_to(bound.scale, b.shape)
    allowed = bound.absolute + bound.relative * np.where(np.isfinite(magnitude), magnitude, 0.0)
    outside = ~same & ~(difference <= allowed) & ~(steps <= bound.steps)
    rank = np.where(outside, difference, -1.0) if outside.any() else difference
    worst = np.unravel_index(int(np.argmax(rank)), b.shape)
    return Comparison(
        element.name,
        int(a.size),
        int((~same).sum()),
        int(outside.sum()),
        float(difference.max()),
        float(relative.max()),
        int(steps.max()),
        tuple(int(i) for i in worst),
        float(a[worst]),
        float(b[worst]),
    )


def _compare_integers(
    actual: Array, expected: Array, element: dtypes.ElementType, bound: Bound
) -> Comparison:
    same = actual == expected
    if same.all():
        return Comparison(element.name, int(actual.size), 0, 0, 0.0, 0.0, 0, None)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    difference = np.abs(a - b)
    outside = difference > bound.absolute + bound.relative * np.abs(b) + bound.steps
    worst = np.unravel_index(int(np.argmax(difference)), b.shape)
    return Comparison(
        element.name,
        int(actual.size),
        int((~same).sum()),
        int(outside.sum()),
        float(difference.max()),
        float(np.max(np.where(b == 0, 0.0, difference / np.maximum(np.abs(b), 1)))),
        int(difference.max()),
        tuple(int(i) for i in worst),
        int(actual[worst]),
        int(expected[worst]),
    )


def compare_all(
    actual: Sequence[Array], expected: Sequence[Array], bound: Bound = EXACT
) -> list[Comparison]:
    """Every result of a run against the expected one."""
    if len(actual) != len(expected):
        raise TilewrightError(
            "TW1504", f"{len(actual)} results cannot be compared with {len(expected)}"
        )
    return [compare(a, b, bound) for a, b in zip(actual, expected, strict=True)]
