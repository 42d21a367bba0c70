"""Element types: every conversion against exact rational arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.reference.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, F64, I1

# name: significand bits, smallest exponent of a step, largest value, what overflow gives
FORMATS = {
    "f32": (24, -149, float(np.finfo(np.float32).max), "inf"),
    "f16": (11, -24, 65504.0, "inf"),
    "bf16": (8, -133, float(ml_dtypes.finfo(ml_dtypes.bfloat16).max), "inf"),
    "f8E5M2": (3, -16, 57344.0, "inf"),
    "f8E4M3FN": (4, -9, 448.0, "saturate"),
}


def exact_rounding(value: float, name: str) -> float:
    """Round to nearest even on a format's grid, in rational arithmetic."""
    bits, smallest, largest, overflow = FORMATS[name]
    if math.isnan(value):
        return value
    limit = math.inf if overflow == "inf" else largest
    if math.isinf(value):
        return math.copysign(limit, value)
    if value == 0:
        return value
    exact = Fraction(value)
    exponent = max(math.frexp(value)[1] - bits, smallest)
    step = Fraction(2) ** exponent
    quotient = abs(exact) / step
    whole = quotient.numerator // quotient.denominator
    rest = quotient - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    result = whole * step
    return math.copysign(limit if result > Fraction(largest) else float(result), value)


def stored_float(value: float, element: dtypes.ElementType) -> float:
    return float(dtypes.stored(np.asarray(value), element))


def same(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b and math.copysign(1, a) == math.copysign(1, b)


@pytest.mark.parametrize("name", list(FORMATS))
@settings(max_examples=300, deadline=None)
@given(value=st.floats(width=64))
def test_any_double_rounds_once(name: str, value: float) -> None:
    assert same(stored_float(value, dtypes.FLOATS[name]), exact_rounding(value, name))


@pytest.mark.parametrize("name", list(FORMATS))
def test_values_near_ties_round_once(name: str) -> None:
    """Members, midpoints, and midpoints off by the smallest double: where rounding twice shows."""
    element = dtypes.FLOATS[name]
    random = np.random.default_rng(3)
    bits = FORMATS[name][0]
    members = random.integers(2 ** (bits - 1), 2**bits, 200).astype(np.float64)
    members *= 2.0 ** random.integers(-14 - bits, 8 - bits, 200)
    half = members * 2.0 ** -(bits + 1)
    for values in (members, members + half, members - half):
        for moved in (values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)):
            found = dtypes.working(dtypes.stored(moved, element), element)
            wanted = [exact_rounding(v, name) for v in moved.tolist()]
            assert found.tolist() == wanted


def test_double_to_bf16_is_not_two_roundings() -> None:
    # Just above the midpoint of 1 and 1.0078125: float32 would first round it onto the midpoint.
    value = 1.0 + 2.0**-8 + 2.0**-40
    assert float(np.float32(value)) == 1.0 + 2.0**-8
    assert stored_float(value, BF16) == 1.0078125
    assert stored_float(1.0 + 2.0**-8, BF16) == 1.0


def test_f8e4m3fn_saturates() -> None:
    values = [448.0, 449.0, 464.0, 465.0, 1e30, math.inf, -500.0, -math.inf, 2.0**-10, 2.0**-9]
    wanted = [448.0] * 6 + [-448.0, -448.0, 0.0, 2.0**-9]
    assert dtypes.stored(np.array(values), F8E4M3FN).astype(np.float64).tolist() == wanted
    assert dtypes.stored(np.array([-math.nan, math.nan]), F8E4M3FN).view(np.uint8)[1] & 0x7F == 0x7F


def test_every_byte_and_half_survives_a_round_trip() -> None:
    for element in dtypes.FLOATS.values():
        if element.bits > 16 or element.bits < 8:
            continue
        width = np.dtype(f"uint{element.bits}")
        patterns = np.arange(2**element.bits, dtype=np.uint32).astype(width).view(element.storage)
        values = dtypes.working(patterns, element)
        again = dtypes.stored(values, element)
        kept = np.isnan(values) | (again.view(width) == patterns.view(width))
        assert kept.all(), element.name
        assert np.array_equal(dtypes.rounded(values, element), values, equal_nan=True)


def test_rank_zero_and_strided_arrays_keep_their_shape() -> None:
    for element in (BF16, F16, F8E4M3FN, F8E5M2, F32, F64):
        assert dtypes.rounded(np.asarray(1.1), element).shape == ()
        assert dtypes.stored(np.asarray(math.nan), element).shape == ()
        grid = (np.arange(24, dtype=np.float32) % 7).reshape(4, 6)[::2, ::3].T
        assert dtypes.stored(grid, element).astype(np.float32).tolist() == grid.tolist()
        assert dtypes.rounded(grid, element).tolist() == grid.tolist()


def test_integers_wrap_and_i1_is_a_bit() -> None:
    assert dtypes.wrapped(np.array([127, 128, 255, -129]), dtypes.integer(8)).tolist() == [
        127, -128, -1, 127,
    ]  # fmt: skip
    assert dtypes.wrapped(np.array([7, 8, 15, 16]), dtypes.integer(4)).tolist() == [7, -8, -1, 0]
    assert dtypes.wrapped(np.array([0, 1, 2, 3]), I1).tolist() == [False, True, False, True]
    assert dtypes.unsigned_view(np.array([-1], np.int8), dtypes.integer(4)).tolist() == [15]


def test_unknown_types_are_errors() -> None:
    with pytest.raises(TilewrightError, match="65-bit"):
        dtypes.integer(65)
    with pytest.raises(TilewrightError, match="float32"):
        dtypes.from_safetensors(np.zeros(2, np.float32), BF16)
    raw = np.array([0x3F80, 0xC000], np.uint16)
    assert dtypes.from_safetensors(raw, BF16).astype(np.float32).tolist() == [1.0, -2.0]
