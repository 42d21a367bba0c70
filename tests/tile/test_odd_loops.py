"""Loops at the edges of what authors write: nothing in them, nothing that moves with them, many
pointers, results that are written over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ml_dtypes import bfloat16
from test_stages import check

import tilewright as tw
from tilewright.targets.atlas.codegen.nest import Affine, Value, Variable, Write
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.targets.atlas.codegen.waw_dependences import waw_dependent
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import kernel_of

SIDE = 32


def check_loops(kernel: Any, *arrays: Any) -> Any:
    """The kernel is right with its loops as loops."""
    with tuned(straight_instructions=0):
        return check(kernel, *arrays)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


def test_a_loop_that_computes_nothing() -> None:
    @tw.kernel
    def idle(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            _ = x[m, :] + 1.0  # nobody uses it
        for m in tw.grid(x.M):
            for _ in tw.each(3):
                _ = x[m, :] * 2.0
            out[m, :] = x[m, :] - 1.0

    check_loops(idle, normal(200, 40))


@pytest.mark.parametrize("trips", [2, 3, 5])
def test_loops_that_only_repeat(trips: int) -> None:
    """No pointer moves with the loops, so that one loop ends right behind the other."""

    def body(x: Any, out: Any) -> None:
        total = tw.scratch(tw.bf16[SIDE, SIDE], on_chip=True)
        total[:, :] = 0.0
        for _ in tw.each(trips):
            for _ in tw.each(trips):
                for _ in tw.each(2):
                    total[:, :] = total[:, :] * 0.5 + x[:, :]
        out[:, :] = total[:, :]

    kind = tw.bf16[SIDE, SIDE]
    with tuned(body_instructions=0):
        check_loops(kernel_of("repeated", {"x": kind, "out": kind}, body), normal(SIDE, SIDE))


@pytest.mark.parametrize("trips", [2, 3])
def test_results_of_few_iterations(trips: int) -> None:
    """Results leave across iterations; the first one has none to wait for."""

    @tw.kernel
    def nested(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            for n in tw.grid(x.N):
                out[m, n] = tw.tanh(x[m, n]) * tw.exp(x[m, n])

    with tuned(body_instructions=0):
        check_loops(nested, normal(3 * SIDE, trips * SIDE))


def test_sizes_of_transfers_stay_where_pointers_are_many() -> None:
    count = 12

    def body(out: Any, **inputs: Any) -> None:
        for m in tw.grid(out.M):
            for n in tw.grid(128):
                total = 0.0
                for x in inputs.values():
                    total = x[m, Block(n.start, 1, x.shape[1], n.variable)] + total
                out[m, n] = total

    widths = [(4 + k) * SIDE for k in range(count)]
    specs = {f"x{k}": tw.bf16["M", width] for k, width in enumerate(widths)}
    kernel = kernel_of("pointers", {**specs, "out": tw.bf16["M", 128]}, body)
    with tuned(body_instructions=0):
        check_loops(kernel, *(normal(2 * SIDE, width) for width in widths))


def test_the_last_result_counts() -> None:
    """An iteration writes a tile twice, or over what another one wrote."""

    @tw.kernel
    def twice(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            out[m, :] = tw.exp(x[m, :]) * 2.0
            out[m, :] = x[m, :]

    @tw.kernel
    def around(x: tw.bf16["M", "M"], out: tw.bf16["M", "M"]):
        for m in tw.grid(x.M):
            for n in tw.grid(x.M):
                out[m, n] = tw.exp(x[m, n])
                out[n, m] = x[m, n]

    assert np.array_equal(
        np.asarray(check_loops(twice, normal(192, 100))[0], np.float32),
        normal(192, 100).astype(bfloat16).astype(np.float32),
    )
    with tuned(body_instructions=0):
        check_loops(around, normal(128, 128))


@settings(deadline=None, max_examples=15)
@given(
    trips=st.integers(3, 6),
    places=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=2, max_size=4),
)
def test_results_written_over_each_other(trips: int, places: list[tuple[int, int]]) -> None:
    extent = (trips + 3) * SIDE

    def body(x: Any, out: Any) -> None:
        for m in tw.grid(extent):
            out[m, :] = 0.0
        for m in tw.grid(trips * SIDE):
            for k, (down, column) in enumerate(places):
                value = tw.tanh(x[Block(m.start, 1, extent, m.variable), :]) * (k + 1.0)
                out[Block(m.start + down, 1, extent, m.variable), Block(column, 1, 64)] = value

    specs = {"x": tw.bf16[extent, SIDE], "out": tw.bf16[extent, 64]}
    check_loops(kernel_of("over", specs, body), normal(extent, SIDE))


@given(
    trips=st.integers(1, 5),
    step=st.integers(-4, 4),
    other=st.integers(-4, 4),
    start=st.integers(-12, 12),
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 3)),
)
def test_which_results_meet(
    trips: int, step: int, other: int, start: int, sizes: tuple[int, int]
) -> None:
    loop = Variable(trips)
    a, b = (
        Write(Value(), Affine(constant, ((loop, factor),) if factor else ()), size)
        for constant, factor, size in ((start, step, sizes[0]), (0, other, sizes[1]))
    )
    touch = any(
        start + step * i < other * j + sizes[1] and other * j < start + step * i + sizes[0]
        for i in range(trips)
        for j in range(trips)
    )
    found = waw_dependent([a, b], loop) == {id(a), id(b)}
    assert found or not touch
    if step == other:
        assert found == touch


@pytest.mark.parametrize("outer", [1, 3])
def test_last_iterations_of_their_own_write_where_they_should(outer: int) -> None:
    """The result moves like nothing that is read."""

    @tw.kernel
    def narrow(x: tw.bf16["M", "N"], out: tw.bf16["M", 64]):
        for _ in tw.each(outer):
            for m in tw.grid(x.M):
                out[m, Block(0, 1, 64)] = x[m, Block(0, 1, 96)] + x[m, Block(1, 1, 96)]
                out[m, Block(1, 1, 64)] = x[m, Block(2, 1, 96)]

    with tuned(wasted_drains=0, exposed_loads=0, body_instructions=0):
        check_loops(narrow, normal(5 * SIDE, 96))


def test_constants_of_many_loops_share_registers() -> None:
    """Each loop keeps its numbers in registers; together they are more than there are."""

    def body(x: Any, out: Any) -> None:
        y = tw.scratch(tw.bf16[96, SIDE], on_chip=True)
        for m in tw.grid(96):
            y[m, :] = x[m, :]
        for k in range(12):
            for m in tw.grid(96):
                y[m, :] = tw.maximum(y[m, :] * (0.3 + k), y[m, :] - (0.7 + k)) * (1 / (k + 1))
        for m in tw.grid(96):
            out[m, :] = y[m, :]

    kind = tw.bf16[96, SIDE]
    check_loops(kernel_of("constants", {"x": kind, "out": kind}, body), normal(96, SIDE))
