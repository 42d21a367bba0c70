"""Products over a dimension that ends inside a tile: what both operands computed beyond the edge does
not count."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.tile import arrays

FP8 = ml_dtypes.float8_e4m3fn


def numbers(codes: np.ndarray) -> np.ndarray:
    codes = np.asarray(codes)
    return (codes.view(FP8) if codes.dtype == np.uint8 else codes).astype(np.float64)


@tw.kernel
def through_memory(
    x: tw.fp8["M", "K"],
    y: tw.fp8["K", "N"],
    out_a: tw.fp8["M", "K"],
    out_b: tw.fp8["K", "N"],
    out: tw.bf16["M", "N"],
):
    """Both operands are written by the kernel and read back: exp(0) is 1 in their padding."""
    for m in tw.grid(x.M):
        for k in tw.grid(x.K):
            out_a[m, k] = tw.to_fp8(tw.exp(tw.to_bf16(x[m, k])))
    for k in tw.grid(x.K):
        for n in tw.grid(y.N):
            out_b[k, n] = tw.to_fp8(tw.to_bf16(y[k, n]) + 2.0)
    for m in tw.grid(x.M):
        out[m, :] = out_a[m, :] @ out_b[:, :]


@tw.kernel
def at_once(
    x: tw.fp8["M", "K"],
    y: tw.fp8["N", "K"],
    out_a: tw.fp8["M", "K"],
    out_b: tw.fp8["N", "K"],
    out: tw.bf16["M", "N"],
):
    """Operands that never leave the chip, one of them transposed; sums over steps."""
    for m in tw.grid(x.M):
        for k in tw.grid(x.K):
            out_a[m, k] = tw.to_fp8(tw.cos(tw.to_bf16(x[m, k])) * 3.0)
    for n in tw.grid(y.N):
        for k in tw.grid(y.K):
            out_b[n, k] = tw.to_fp8(tw.sigmoid(tw.to_bf16(y[n, k])))
    for m in tw.grid(x.M):
        for n in tw.grid(y.N):
            total = tw.zeros()
            for k in tw.steps(x.K):
                a = tw.to_fp8(tw.cos(tw.to_bf16(x[m, k])) * 3.0)
                b = tw.to_fp8(tw.sigmoid(tw.to_bf16(y[n, k])))
                total += a @ b.T
            out[m, n] = total


def check(kernel, inputs, turned: bool) -> None:
    compiled, eager = kernel(*inputs), kernel.eager(*inputs)
    for one, other in zip(compiled, eager, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    a, b, out = (numbers(result) for result in compiled)
    expected = a @ (b.T if turned else b)
    size = np.abs(a) @ np.abs(b.T if turned else b)
    assert (np.abs(out - expected) <= size * 2.0**-6).all()


@pytest.mark.parametrize("depth", [1, 10, 31, 33, 40, 95, 96])
def test_only_the_inside_is_added(depth):
    random = np.random.default_rng(depth)
    x, y = random.normal(size=(21, depth)), random.normal(size=(depth, 40))
    check(through_memory, (x, y), turned=False)
    check(at_once, (x, random.normal(size=(40, depth))), turned=True)


def test_nothing_is_cleared_where_one_operand_is_zero_there(monkeypatch):
    """Weights come from outside: their padding is zero, and so is that of a layer with bias and ReLU."""
    monkeypatch.setattr("tilewright.tile.products.without_edge", lambda _: pytest.fail("cleared"))

    @tw.kernel
    def layers(
        x: tw.fp8["M", "K"], w: tw.fp8["K", "N"], c: tw.bf16["N"], v: tw.fp8["M", "N"],
        out: tw.bf16["M", "M"],
    ):  # fmt: skip
        for m in tw.grid(x.M):
            y = tw.to_fp8(tw.relu(tw.to_fp8(tw.exp(tw.to_bf16(x[m, :]))) @ w[:, :] + c[:]))
            out[m, :] = y @ tw.to_fp8(tw.exp(tw.to_bf16(v[:, :]))).T

    layers.compile(M=20, K=40, N=50)


@pytest.mark.parametrize("family", sorted(arrays.KEEPS_ZERO - {"cast", "requant", "dequant"}))
def test_functions_that_keep_zero(family):
    """The table against the functions themselves."""
    name = family.removeprefix("elementwise_").replace("gelu_tanh", "gelu")
    function = (lambda x: -x) if name == "neg" else getattr(tw, name)

    @tw.kernel
    def kernel(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            out[m, :] = function(x[m, :])

    assert not np.asarray(kernel.eager(np.zeros((32, 32)))).astype(np.float32).any()
