"""Padding stays where it is: fewer bytes move, and every bit of a result is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from late_runs import run_late

import tilewright as tw


@tw.kernel
def local(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            out[m, n] = tw.exp(x[m, n]) / (y[m, n] + 2.0)


@tw.kernel
def mixing(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            out[m, n] = x[m, n] + tw.col_sum(y[m, n]) * tw.row_max(y[m, n])


@tw.kernel
def several(
    x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out_sum: tw.bf16["M", 1], out_fp8: tw.fp8["M", "N"],
    out: tw.bf16["M", "N"],
):  # fmt: skip
    for m in tw.grid(x.M):
        out[m, :] = x[m, :] * y[m, :]
        out_sum[m, :] = tw.row_sum(x[m, :])
        out_fp8[m, :] = tw.to_fp8(y[m, :])


@tw.kernel
def read_back(x: tw.bf16["M", "N"], y: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    middle = tw.scratch(tw.bf16[x.M, x.N])
    for m in tw.grid(x.M):
        middle[m, :] = tw.exp(x[m, :])
    for m in tw.grid(x.M):
        out[m, :] = y[m, :] + tw.col_sum(middle[m, :])


@pytest.mark.parametrize("kernel", [local, mixing, several, read_back], ids=lambda k: k.name)
@pytest.mark.parametrize("shape", [(1, 200), (3, 16), (40, 5), (33, 47), (64, 64), (1, 1)])
@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_same_bits(kernel: Any, shape: tuple[int, int], profile: str) -> None:
    random = np.random.default_rng(1)
    arrays = [random.normal(size=shape) for _ in range(2)]
    compiled = kernel.compile(*arrays, target=profile)
    wanted: Any = kernel.eager(*arrays, profile=profile)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for got, want in zip(run_late(compiled, *arrays), wanted, strict=True):
        assert got.tobytes() == want.tobytes()
    assert compiled.lint().clean


def test_only_elements_move() -> None:
    """3 of 32 rows: the engine is busy for a tenth of the time."""
    few = local.compile(M=3, N=256, target="atlas-v1")
    many = local.compile(M=32, N=256, target="atlas-v1")
    assert few.cycles < 0.25 * many.cycles
