"""Tensors of a kernel's own in VMEM: read and changed in one loop, in the author's order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_stages import check

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import kernel_of

SIDE = 32


@tw.kernel
def product_in_parts(a: tw.fp8["M", "K"], w: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    """a @ w for 64 rows at a time, their sums on chip while the contraction passes by"""
    sums = tw.scratch(tw.bf16[64, w.N], on_chip=True)
    for m in tw.grid(a.M, 64):
        for r in tw.grid(m.size):
            sums[r, :] = 0.0
        for k in tw.grid(w.K, 64):
            for r in tw.grid(m.size):
                acc = tw.accumulator(sums[r, :])
                acc += a[r.within(m), k] @ w[k, :]
                sums[r, :] = acc
        for r in tw.grid(m.size):
            out[r.within(m), :] = sums[r, :]


@tw.kernel
def product_at_once(a: tw.fp8["M", "K"], w: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    """The same without parts"""
    for m in tw.grid(a.M):
        out[m, :] = a[m, :] @ w[:, :]


@pytest.mark.parametrize("shape", [(150, 200, 100), (256, 512, 64), (64, 64, 32), (40, 70, 33)])
def test_sums_on_chip_add_up_as_in_one_chain(shape: tuple[int, int, int]) -> None:
    rows, deep, wide = shape
    random = np.random.default_rng(1)
    a, w = random.normal(size=(rows, deep)), random.normal(size=(deep, wide)) / 8
    got = check(product_in_parts, a, w)[0]
    assert got.tobytes() == product_at_once.eager(a, w).tobytes()


@tw.kernel
def running(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    """Sums of all tiles so far, one tile that every iteration changes"""
    total = tw.scratch(tw.bf16[32, 32], on_chip=True)
    total[:, :] = 0.0
    for m in tw.grid(x.M):
        for n in tw.grid(x.N):
            total[:, :] = total[:, :] + x[m, n]
            out[m, n] = total[:, :]


def test_every_iteration_sees_what_the_one_before_left() -> None:
    x = np.random.default_rng(2).normal(size=(128, 256))
    got = np.asarray(check(running, x)[0], np.float32)
    tiles = x.reshape(4, 32, 8, 32).transpose(0, 2, 1, 3).reshape(32, 32, 32)
    want = np.cumsum(tiles, axis=0).reshape(4, 8, 32, 32).transpose(0, 2, 1, 3).reshape(128, 256)
    assert np.allclose(got, want, atol=0.3, rtol=0.05)


def moved(block: Block, tiles: int, extent: int) -> Block:
    """A block so many tiles further on, in a tensor of this extent."""
    return Block(block.start + tiles, block.tiles, extent, block.variable)


@settings(deadline=None, max_examples=25)
@given(
    trips=st.integers(3, 9),
    steps=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.sampled_from("+-*m")),
        min_size=1,
        max_size=4,
    ),
    backwards=st.booleans(),
)
def test_random_dependences_between_iterations(trips: int, steps: Any, backwards: bool) -> None:
    """Tiles are computed from tiles that this or another iteration wrote."""
    extent = (trips + 3) * SIDE
    doing = {
        "+": lambda a, b: a * 0.5 + b,
        "-": lambda a, b: a - b * 0.5,
        "*": lambda a, b: tw.tanh(a) * b,
        "m": tw.maximum,
    }

    def body(x: Any, out: Any) -> None:
        y = tw.scratch(tw.bf16[extent, SIDE], on_chip=True)
        for m in tw.grid(extent):
            y[m, :] = x[m, :]
        for m in tw.grid(trips * SIDE):
            before = y[moved(m, steps[0][0], extent), :]
            for target, first, second, kind in steps:
                if backwards:
                    target, first, second = 3 - target, 3 - first, 3 - second
                a, b = (y[moved(m, shift, extent), :] for shift in (first, second))
                y[moved(m, target, extent), :] = doing[kind](a, b)
                y[moved(m, second, extent), :] = tw.minimum(a, b)  # as they were
            y[moved(m, 1, extent), :] = y[moved(m, 1, extent), :] - before * 0.25
        for m in tw.grid(extent):
            out[m, :] = y[m, :]

    kind = tw.bf16["M", 32]
    kernel = kernel_of("random_dependences", {"x": kind, "out": kind}, body)
    with tuned(straight_instructions=0):  # loops stay loops
        check(kernel, np.random.default_rng(trips).normal(size=(extent, SIDE)))


def test_a_number_fills_any_tensor() -> None:
    @tw.kernel
    def filled(x: tw.bf16["M", "N"], out_wide: tw.bf16["M", "N"], out: tw.fp8["M", "N"]):
        for m in tw.grid(x.M, 64):
            out_wide[m, :] = 1.5
            out[m, :] = 2

    wide, narrow = check(filled, np.zeros((100, 70)))
    assert (wide.astype(np.float32) == 1.5).all() and (narrow.astype(np.float32) == 2).all()


def test_an_accumulator_starts_as_bf16() -> None:
    @tw.kernel
    def wrong(a: tw.fp8["M", 32], out: tw.bf16["M", 32]):
        for m in tw.grid(a.M):
            acc = tw.accumulator(a[m, :])
            acc += a[m, :] @ a[m, :]
            out[m, :] = acc

    with pytest.raises(TilewrightError, match="an accumulator holds bf16") as raised:
        wrong.eager(np.zeros((32, 32)))
    assert raised.value.code == "TW1647"


def test_what_does_not_fit_on_chip_is_an_error() -> None:
    @tw.kernel
    def large(x: tw.bf16["M", 64], out: tw.bf16["M", 64]):
        y = tw.scratch(tw.bf16[10240, 64], on_chip=True)
        for m in tw.grid(x.M):
            y[m, :] = x[m, :]
        for m in tw.grid(x.M):
            out[m, :] = y[m, :]

    with pytest.raises(TilewrightError) as raised:
        large.compile(x=(10240, 64))
    assert raised.value.code == "TW1454"


def test_a_block_of_a_block_keeps_both_shifts() -> None:
    @tw.kernel
    def shifted(x: tw.bf16["M", 32], y: tw.bf16["L", 32], out: tw.bf16["M", 32]):
        for m in tw.grid(x.M, 64):
            for r in tw.grid(m.size):
                out[r.within(m), :] = x[r.within(m), :] - y[(r + 32).within(m + 32), :]

    x, y = (np.random.default_rng(3).normal(size=(rows, 32)) for rows in (128, 192))
    got = np.asarray(check(shifted, x, y)[0], np.float32)
    assert np.allclose(got, x - y[64:], atol=0.05)


def test_a_block_that_leaves_the_block_around_is_an_error() -> None:
    @tw.kernel
    def far(x: tw.bf16["M", 32], out: tw.bf16["M", 32]):
        for m in tw.grid(x.M):
            for r in tw.grid(64):
                out[r.within(m), :] = x[r.within(m), :]

    with pytest.raises(TilewrightError, match="64 elements do not lie within a block of 32") as at:
        far.compile(x=(128, 32))
    assert at.value.code == "TW1604"


def test_a_complete_tensor_is_read_where_it_is_needed():
    """Weights arrive beside a loop that does not use them; nothing writes them again."""

    @tw.kernel
    def later(x: tw.bf16["M", 32], w: tw.fp8["K", 32], y: tw.fp8[32, "K"], out: tw.bf16["M", 32], out_y: tw.bf16[32, 32]):  # fmt: skip
        copied = tw.scratch(tw.fp8[w.K, 32], on_chip=True)
        for k in tw.grid(w.K):
            copied[k, :] = w[k, :]
        weights = copied.completed()
        for m in tw.grid(x.M):
            out[m, :] = tw.exp(x[m, :])
        out_y[:, :] = y[:, :] @ weights[:, :]

    random = np.random.default_rng(4)
    operands = [random.normal(size=s) for s in ((320, 32), (96, 32), (32, 96))]
    check(later, *operands)


def test_a_complete_tensor_is_not_written():
    @tw.kernel
    def again(x: tw.bf16[32, 32], out: tw.bf16[32, 32]):
        y = tw.scratch(tw.bf16[32, 32], on_chip=True)
        y[:, :] = x[:, :]
        y.completed()[:, :] = x[:, :]
        out[:, :] = y[:, :]

    with pytest.raises(TilewrightError, match="is complete and cannot be assigned"):
        again(np.zeros((32, 32)))
