"""MX formats against their definition, number by number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.reference.microscaling import (
    FORMATS,
    Blocks,
    Format,
    decode,
    encode,
    packed,
    rounded,
    unpacked,
)

# Exponent and fraction bits, bias, and codes at the top that are no numbers.
FLOATS = {
    "mxfp8": (4, 3, 7, 1),
    "mxfp8-e5m2": (5, 2, 15, 4),
    "mxfp6": (2, 3, 1, 0),
    "mxfp6-e3m2": (3, 2, 3, 0),
    "mxfp4": (2, 1, 1, 0),
}


def element(name: str, code: int) -> float:
    """What a code stands for, from the specification's tables."""
    if name == "mxint8":
        return (code - 256 if code > 127 else code) / 64
    exponent_bits, fraction_bits, bias, _ = FLOATS[name]
    sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
    exponent = code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = (code & (1 << fraction_bits) - 1) / (1 << fraction_bits)
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)


def numbers_of(name: str) -> dict[int, float]:
    """All codes that are numbers."""
    if name == "mxint8":
        return {code: element(name, code) for code in range(256) if code != 128}
    exponent_bits, fraction_bits, _, without = FLOATS[name]
    half = 1 << (exponent_bits + fraction_bits)
    return {
        s * half + c: element(name, s * half + c) for s in (0, 1) for c in range(half - without)
    }


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_is_what_the_specification_says(name: str) -> None:
    form, known = FORMATS[name], numbers_of(name)
    assert max(known.values()) == form.largest
    assert math.frexp(form.largest)[1] - 1 == form.exponent
    codes = np.array([list(known)], np.uint8)
    for scale in (1, 100, 127, 130, 240):
        scales = np.full((1, -(-codes.size // 32)), scale, np.uint8)
        found = decode(Blocks(form, codes, scales))
        wanted = np.array([list(known.values())]) * 2.0 ** (scale - 127)
        with np.errstate(over="ignore"):
            assert np.array_equal(found, wanted.astype(np.float32))
    assert np.isnan(decode(Blocks(form, codes[:, :1], np.array([[255]], np.uint8)))).all()


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(FORMATS)),
    st.integers(0, 1 << 20),
    st.integers(1, 70),
    st.integers(-100, 100),
)
def test_numbers_become_the_nearest(name: str, seed: int, count: int, power: int) -> None:
    draw = np.random.default_rng(seed)
    given = np.ldexp(draw.normal(size=(2, count)) * draw.choice([0, 1, 30], (2, count)), power)
    given = given.astype(np.float32)
    blocks, known = encode(given, name), np.array(sorted(set(numbers_of(name).values())))
    found = decode(blocks)
    for row, column in np.ndindex(2, count):
        block = given[row, column // 32 * 32 : column // 32 * 32 + 32].astype(np.float64)
        largest = np.abs(block).max()
        scale = int(blocks.scales[row, column // 32]) - 127
        if largest:
            assert scale == max(-127, math.frexp(largest)[1] - 1 - FORMATS[name].exponent)
        share = math.ldexp(float(given[row, column]), -scale)
        off = np.abs(known - share).min()
        assert abs(math.ldexp(float(found[row, column]), -scale) - share) == off
    again = decode(encode(found, name))
    assert np.array_equal(again, found)


def test_ties_go_to_even_and_what_is_too_large_to_the_largest() -> None:
    given = np.array([[4.0, 5.0, 2.5, 1.25, 0.25, 0.75, -0.25, 7.9, 7.0]])
    assert decode(encode(given, "mxfp4"))[0].tolist() == [4, 4, 2, 1, 0, 1, 0, 6, 6]


def test_what_is_no_number_makes_its_block_none() -> None:
    given = np.ones((2, 40), np.float32)
    given[0, 3], given[1, 39] = np.inf, np.nan
    found = decode(encode(given, "mxfp8"))
    assert np.isnan(found[0, :32]).all() and np.isnan(found[1, 32:]).all()
    assert (found[0, 32:] == 1).all() and (found[1, :32] == 1).all()
    extremes = np.array([[3.4e38, -1e-38]], np.float32)
    assert np.isfinite(decode(encode(extremes, "mxint8"))).all()


@pytest.mark.parametrize("form", FORMATS.values(), ids=str)
def test_codes_lie_side_by_side(form: Format) -> None:
    codes = np.random.default_rng(0).integers(0, 1 << form.bits, (3, 64)).astype(np.uint8)
    held = packed(codes, form)
    assert held.shape == (3, 64 * form.bits // 8)
    assert np.array_equal(unpacked(held, form), codes)
    assert int.from_bytes(held[0].tobytes(), "little") == sum(
        int(code) << form.bits * place for place, code in enumerate(codes[0])
    )


def test_blocks_lie_along_an_axis() -> None:
    given = np.random.default_rng(1).normal(size=(33, 5, 3)).astype(np.float32)
    found = rounded(given, "mxfp6", 0)
    column = decode(encode(given[:, 2, 1], "mxfp6"))
    assert found.shape == given.shape and np.array_equal(found[:, 2, 1], column)
    assert rounded(given[:0], "mxfp6").shape == (0, 5, 3)


def test_what_does_not_fit_is_an_error() -> None:
    form, codes = FORMATS["mxfp4"], np.zeros((2, 40), np.uint8)
    with pytest.raises(TilewrightError, match="scales of 2x2, not 2x1"):
        decode(Blocks(form, codes, np.zeros((2, 1), np.uint8)))
    with pytest.raises(TilewrightError, match="more than 4 bits"):
        decode(Blocks(form, codes + 16, np.zeros((2, 2), np.uint8)))
    with pytest.raises(TilewrightError, match="no codes of mxfp6"):
        unpacked(np.zeros((1, 4), np.uint8), FORMATS["mxfp6"])
    with pytest.raises(TilewrightError, match="no MX format mxfp5"):
        encode(codes, "mxfp5")
