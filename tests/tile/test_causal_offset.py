"""The offset of a causal mask is a number, not a block."""

from __future__ import annotations

import pytest

import tilewright as tw
from tilewright.errors import TilewrightError


@tw.kernel
def masked(a: tw.fp8["M", "K"], b: tw.fp8["N", "K"], out: tw.bf16["M", "N"]):
    for m in tw.grid(a.M):
        for n in tw.grid(b.N):
            scores = a[m, :] @ b[n, :].T
            out[m, n] = tw.causal(scores, m, n, n)  # pyright: ignore[reportArgumentType]


def test_a_block_as_offset() -> None:
    with pytest.raises(TilewrightError, match="offset as a whole number, not Block"):
        masked.compile(M=64, N=64, K=32)
