"""Kernels that read what they wrote: outputs read back, scratch tensors, several stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from late_runs import run_late

import tilewright as tw
from tilewright.errors import TilewrightError

PROFILES = ("atlas-v0", "atlas-v1")


def check(kernel, *arrays) -> Any:
    want: Any = ()
    for profile in PROFILES:
        compiled = kernel.compile(*arrays, target=profile)
        want = kernel.eager(*arrays, profile=profile)
        want = want if isinstance(want, tuple) else (want,)
        for got, expected in zip(run_late(compiled, *arrays), want, strict=True):
            assert got.tobytes() == expected.tobytes()
        assert not compiled.lint().findings
    return want


@tw.kernel
def read_back(x: tw.bf16["M", "N"], out_sum: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        out_sum[m, :] = x[m, :] + 1.0
    for m in tw.grid(x.M):
        out[m, :] = out_sum[m, :] * tw.row_sum(out_sum[m, :])


@pytest.mark.parametrize("rows", [32, 50, 96, 700])
def test_an_output_is_read_back(rows):
    x = np.random.default_rng(0).normal(size=(rows, 70))
    check(read_back, x)


def test_accumulating_into_an_output():
    """Loops of Python are written out, so each reads what the one before left."""

    @tw.kernel
    def total(x: tw.bf16["B", "M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(out.M, unroll=True):
            out[m, :] = x[0, m, :]
        for b in range(1, x.B):
            for m in tw.grid(out.M, unroll=True):
                out[m, :] = out[m, :] + x[b, m, :]

    x = np.random.default_rng(1).integers(-9, 9, (4, 70, 40)).astype(float)
    (got,) = check(total, x)
    assert np.array_equal(got.astype(float), x.sum(0))


@tw.kernel
def two_layers(
    x: tw.fp8["M", "K"], w: tw.fp8["K", "N"], v: tw.fp8["N", "K"], out: tw.bf16["M", "K"]
):  # fmt: skip
    middle = tw.scratch(tw.fp8[x.M, w.N])
    largest = tw.row_max(tw.to_bf16(x[:, :]))
    for m in tw.grid(x.M, 64):
        for n in tw.grid(w.N):
            middle[m, n] = tw.to_fp8(tw.relu(x[m, :] @ w[:, n]), scale=0.25)
    kept = tw.col_max(largest)
    for m in tw.grid(x.M):
        out[m, :] = (middle[m, :] @ v[:, :]) + tw.maximum(tw.row_max(kept), 0.0)


@pytest.mark.parametrize("rows", [32, 100, 320])
def test_scratch_tensors(rows):
    """Also tiles computed in one stage and used in the next."""
    random = np.random.default_rng(2)
    x, w, v = (random.integers(-3, 4, s).astype(float) for s in ((rows, 40), (40, 100), (100, 40)))
    check(two_layers, x, w, v)


def test_columns_and_vectors_are_read_back():
    @tw.kernel
    def shares(
        x: tw.bf16["M", "N"],
        out_sum: tw.bf16["M", 1],
        out_top: tw.bf16["N"],
        out: tw.bf16["M", "N"],
    ):
        for m in tw.grid(x.M):
            out_sum[m, :] = tw.row_sum(x[m, :])
        for n in tw.grid(x.N):
            out_top[n] = tw.col_max(x[:, n])
        for m in tw.grid(x.M):
            out[m, :] = x[m, :] * out_sum[m, :] + out_top[:]

    x = np.random.default_rng(5).integers(-4, 5, (70, 40)).astype(float)
    sums, tops, out = check(shares, x)
    assert np.array_equal(sums.astype(float)[:, 0], x.sum(1))
    assert np.array_equal(tops.astype(float), x.max(0))
    want = x * x.sum(1, keepdims=True) + x.max(0)
    assert np.abs(out.astype(float) - want).max() <= np.abs(want).max() / 100


@given(st.lists(st.sampled_from("wrs"), min_size=2, max_size=7), st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_random_orders_of_reading_and_writing(steps, tiles):
    @tw.kernel
    def mixed(x: tw.bf16["M", 32], out: tw.bf16["M", 32]):
        kept = tw.scratch(tw.bf16[x.M, 32])
        for m in tw.grid(x.M):
            out[m, :] = x[m, :]
        for number, step in enumerate(steps):
            for m in tw.grid(x.M, unroll=step == "w"):
                if step == "w":
                    out[m, :] = out[m, :] + x[m, :]
                elif step == "s":
                    kept[m, :] = out[m, :] * 0.5
                elif "kept" in written:
                    out[m, :] = kept[m, :] + float(number)
            if step == "s":
                written.add("kept")

    for profile in PROFILES:
        x = np.random.default_rng(3).integers(-4, 4, (32 * tiles, 32)).astype(float)
        written: set[str] = set()
        want = mixed.eager(x, profile=profile)
        written.clear()
        compiled = mixed.compile(x, target=profile)
        assert run_late(compiled, x)[0].tobytes() == want.tobytes()


def test_a_loop_that_reads_and_writes_one_tensor():
    @tw.kernel
    def bad(x: tw.bf16["M", 32], out: tw.bf16["M", 32]):
        for m in tw.grid(x.M):
            out[m, :] = x[m, :]
        for m in tw.grid(x.M):
            out[m, :] = out[m, :] + x[m, :]

    with pytest.raises(TilewrightError, match="read and written in one loop") as caught:
        bad.compile(M=512)
    assert caught.value.code == "TW1629" and caught.value.location is not None


def test_reading_before_writing():
    @tw.kernel
    def bad(x: tw.bf16["M", 32], out: tw.bf16["M", 32]):
        for m in tw.grid(x.M):
            out[m, :] = out[m, :] + x[m, :]

    for run in (lambda: bad.compile(M=64), lambda: bad.eager(np.zeros((64, 32)))):
        with pytest.raises(TilewrightError, match="out is read before it is written"):
            run()
