"""Blocks before a block: loops that grow with a loop around them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.tile as tw
from tilewright.tile.blocks import Block


@tw.kernel
def sums_before(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """Blocks of 64 rows from the second on, each with all blocks before it added."""
    total = tw.scratch(tw.bf16[64, 32], on_chip=True)
    later = Block(2, x.M // 32 - 2, x.M)
    for r in tw.grid(64):
        first = r.within(Block(0, 2, x.M))
        out[first, :] = x[first, :] * 1.0
    for s in tw.grid(x.M - 64, 64):
        span = s.within(later)
        for r in tw.grid(64):
            total[r, :] = x[r.within(span), :] * 1.0
        for c in tw.before(span, 64):
            for r in tw.grid(64):
                total[r, :] = total[r, :] + x[r.within(c), :]
        for r in tw.grid(64):
            out[r.within(span), :] = total[r, :] * 1.0


@pytest.mark.parametrize("target", ["atlas-v1", "atlas-v0"])
@pytest.mark.parametrize("blocks", [2, 3, 7])
def test_sums_of_all_before(blocks: int, target: str) -> None:
    """Small whole numbers, so that sums are exact."""
    x = np.random.default_rng(blocks).integers(-4, 5, (64 * blocks, 32)).astype(np.float32)
    wanted = np.cumsum(x.reshape(blocks, 64, 32), 0).reshape(x.shape)
    compiled = sums_before.compile(x, target=target)
    assert not [f for f in compiled.lint().findings if f.severity in ("error", "warning")]
    found = compiled.run(x)
    assert np.array_equal(np.asarray(found, np.float32), wanted)
    assert np.array_equal(np.asarray(sums_before.eager(x, profile=target), np.float32), wanted)
