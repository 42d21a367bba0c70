"""Comparison of results: steps, bounds, NaN, zeros."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import array

from tilewright.errors import TilewrightError
from tilewright.reference.compare import Bound, compare, compare_all, ordered_integers


def test_equal_results() -> None:
    a = array([1, math.nan, -0.0, math.inf], "bf16")
    b = array([1, -math.nan, 0.0, math.inf], "bf16")
    result = compare(a, b)
    assert result.equal and result.within and result.max_steps == 0
    assert compare(a, b, zero_signs=True).different == 1


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8E4M3FN", "f8E5M2"])
def test_neighbours_are_one_step_apart(element: str) -> None:
    width = array(0, element).dtype.itemsize
    patterns = np.arange(1, 0x70).astype(f"uint{width * 8}").view(array(0, element).dtype)
    order = ordered_integers(patterns)
    assert (np.diff(order) == 1).all()
    assert ordered_integers(array([0.0, -0.0], element)).tolist() == [0, 0]
    smallest = patterns[0]
    assert ordered_integers(np.array([-smallest, smallest])).tolist() == [-1, 1]


def test_bounds() -> None:
    expected = array([1.0, 2.0, 4.0], "bf16")
    actual = array([1.0078125, 2.0, 4.0625], "bf16")
    result = compare(actual, expected)
    assert (result.different, result.outside, result.max_steps) == (2, 2, 2)
    assert result.max_absolute == 0.0625 and result.worst == (2,)
    assert compare(actual, expected, Bound(steps=2)).within
    assert not compare(actual, expected, Bound(steps=1)).within
    assert compare(actual, expected, Bound(relative=1 / 64)).within
    assert compare(actual, expected, Bound(absolute=0.0625)).within
    assert "2 of 3 bf16 elements differ" in str(result)


def test_nan_against_a_number_is_never_within() -> None:
    for a, b in ((math.nan, 1.0), (1.0, math.nan), (math.inf, 1.0), (math.inf, -math.inf)):
        result = compare(array([a], "f32"), array([b], "f32"), Bound(absolute=1e30, relative=1e3))
        assert not result.within, (a, b)


def test_integers_and_masks() -> None:
    assert compare(array([1, 2], "i32"), array([1, 2], "i32")).equal
    result = compare(array([1, 5], "i32"), array([1, 2], "i32"))
    assert result.outside == 1 and result.max_absolute == 3
    assert compare(array([0, 1], "i1"), array([0, 0], "i1")).different == 1


def test_what_cannot_be_compared() -> None:
    with pytest.raises(TilewrightError, match="cannot be compared"):
        compare(array([1], "f32"), array([1], "bf16"))
    with pytest.raises(TilewrightError, match="shape"):
        compare(array([1], "f32"), array([1, 2], "f32"))
    with pytest.raises(TilewrightError, match="2 results"):
        compare_all([array([1], "f32")] * 2, [array([1], "f32")])


@given(st.floats(width=32), st.floats(width=32))
def test_steps_count_the_values_between(a: float, b: float) -> None:
    result = compare(np.array([a], np.float32), np.array([b], np.float32))
    if a == b or (math.isnan(a) and math.isnan(b)):
        assert result.equal
        return
    assert not result.equal and result.max_steps > 0
    if math.isfinite(a) and math.isfinite(b):
        moved = np.float32(a)
        for _ in range(min(result.max_steps, 20)):
            moved = np.nextafter(moved, np.float32(b))
        if result.max_steps <= 20:
            assert moved == np.float32(b)
