"""Casts with scales of every kind, and kernels with constants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels.casts import dequant

PROFILES = ("atlas-v0", "atlas-v1")


@tw.kernel
def requant(x: tw.bf16["M", "N"], out: tw.fp8["M", "N"], *, scale: float = 1.0):
    """fp8 of x * scale, saturating at 448"""
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = tw.to_fp8(x[m, n], scale=scale)


def bf16(values):
    return arith.f64_to_bf16(np.asarray(values, np.float64))


@given(
    st.one_of(st.integers(1, 1000), st.floats(1e-3, 1e4), st.sampled_from([1e-30, 2e37, 255, 256])),
    st.sampled_from(PROFILES),
)
@settings(max_examples=8, deadline=None)
def test_any_positive_scale(scale, profile):
    """Whole numbers of a byte as the machine scales, others rounded to bf16 and multiplied."""
    x = bf16(np.random.default_rng(0).normal(size=(40, 33)) * 30)
    got = requant(x, target=profile, scale=scale).view(np.uint8)
    if scale == int(scale) and scale <= 255:
        want = arith.pack(x, int(scale))
    else:
        want = arith.pack(arith.multiply(x, bf16([[scale]])), 1)
    assert np.array_equal(got, want)
    assert np.array_equal(requant.eager(x, profile=profile, scale=scale).view(np.uint8), want)
    back = dequant(got, target=profile, scale=scale).view(np.uint16)
    if scale == int(scale) and scale <= 255:
        want = arith.unpack(got, int(scale))
    else:
        want = arith.multiply(arith.unpack(got, 1), bf16([[1 / scale]]))
    assert np.array_equal(back, want)


def test_a_scale_is_close_to_exact():
    """Within the roundings of the scale, of the product and of fp8."""
    x = np.random.default_rng(1).normal(size=(64, 64)) * 20
    y = requant(x, scale=0.37).astype(np.float64)
    assert np.all(np.abs(y - x * 0.37) <= np.abs(x * 0.37) * (2**-4 + 3 * 2**-8) + 2**-10)


@pytest.mark.parametrize("profile", PROFILES)
def test_rows_and_columns_of_scales(profile):
    @tw.kernel
    def both(
        x: tw.bf16["M", "N"], channel: tw.bf16["N"], row: tw.bf16["M", 1],
        out: tw.bf16["M", "N"],
    ):  # fmt: skip
        for m in tw.grid(out.M):
            small = tw.to_fp8(x[m, :], scale=channel[:])
            out[m, :] = tw.to_bf16(small, scale=row[m, :])

    random = np.random.default_rng(2)
    x, channel, row = (bf16(random.random(s) + 0.2) for s in ((50, 70), 70, (50, 1)))
    got = both(x, channel, row, target=profile).view(np.uint16)
    small = arith.unpack(arith.pack(arith.multiply(x, channel[None]), 1), 1)
    assert np.array_equal(got, arith.multiply(small, arith.unary_table("vrecip")[row]))


@tw.kernel
def shifted(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"], *, by: float = 1.0, twice: bool = False):
    for m in tw.grid(x.M):
        y = x[m, :] + by
        out[m, :] = y + by if twice else y


def test_constants_are_given_by_name():
    x = np.zeros((3, 5))
    assert shifted(x).astype(float).max() == 1
    assert shifted(x, by=3).astype(float).max() == 3
    assert shifted(x, by=3, twice=True).astype(float).max() == 6
    assert shifted.given(by=2.0)(x).astype(float).max() == 2
    assert shifted.eager(x, by=4.0).astype(float).max() == 4
    assert shifted.compile(M=3, N=5, by=5.0).run(x).astype(float).max() == 5
    assert "5.0" in shifted.ir(M=3, N=5, by=5.0)
    assert shifted.given(by=2.0) is shifted.given(by=2.0)


def test_constants_that_do_not_fit():
    with pytest.raises(TilewrightError) as caught:
        shifted(np.zeros((3, 5)), by="much")
    assert caught.value.code == "TW1646" and "by = 'much'" in caught.value.message

    @tw.kernel
    def needs(x: tw.bf16["M"], out: tw.bf16["M"], *, factor: int):
        out[:] = x[:] * factor

    with pytest.raises(TilewrightError, match="needs a value for factor") as caught:
        needs(np.ones(4))
    assert caught.value.code == "TW1646"
    assert needs(np.ones(4), factor=3).astype(float).tolist() == [3.0] * 4


def test_sizes_that_no_array_has():
    @tw.kernel
    def repeated(x: tw.bf16["N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(out.M):
            out[m, :] = x[:]

    assert repeated(np.ones(32), M=40).shape == (40, 32)
