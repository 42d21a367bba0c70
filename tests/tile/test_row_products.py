"""Columns of products side by side: the plan, and that it changes no value."""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import costs_of
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.blocks import whole
from tilewright.tile.row_products import best_plan, make_plan

V1 = load_profile("atlas-v1")
SIZES = {"columns": st.integers(1, 7), "deep": st.integers(1, 40), "rows": st.integers(1, 2)}


@settings(max_examples=200, deadline=None)
@given(**SIZES, parts=st.integers(1, 9))
def test_every_column_gets_all_its_steps_in_order(columns, deep, rows, parts):
    costs = costs_of(V1, rows)
    plan = make_plan(columns, deep, parts, costs)
    pieces = sorted((p for unit in plan.pieces for p in unit), key=lambda p: p.start)
    for column in range(columns):
        own = [p for p in pieces if p.column == column]
        assert [k for p in own for k in p.steps] == list(range(deep))
        for before, after in pairwise(own):
            end = before.start + len(before.steps) * costs.step[before.unit]
            assert after.start >= end + (costs.switch if after.unit != before.unit else 0)


@settings(max_examples=100, deadline=None)
@given(**SIZES)
def test_a_unit_does_one_thing_at_a_time(columns, deep, rows):
    costs = costs_of(V1, rows)
    plan = best_plan(columns, deep, rows, costs)
    for unit in (0, 1):
        pieces = plan.pieces[unit]
        for before, after in pairwise(pieces):
            end = before.start + len(before.steps) * costs.step[unit]
            assert after.start >= end + (costs.switch if after.column != before.column else 0)
    work = columns * deep / (1 / costs.step[0] + 1 / costs.step[1])
    assert plan.ticks >= work


def test_three_columns_keep_both_units_busy():
    plan = best_plan(3, 24, 2, costs_of(V1, 2))
    assert plan.ticks / (3 * 2 * 24) < 38


@tw.kernel
def side_by_side(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M, 64):
        deep, across = whole(a.K).parts(), whole(out.N).parts()
        columns = [[b[k, n] for k in deep] for n in across]
        for c, y in tw.row_products([a[m, k] for k in deep], columns):
            out[m, across[c]] = y


@tw.kernel
def one_by_one(a: tw.fp8["M", "K"], b: tw.fp8["K", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        out[m, :] = a[m, :] @ b[:, :]


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.generate])
@example(rows=217, deep=493, wide=97)  # sums wait in VMEM, and the last iteration has its own code
@given(rows=st.integers(1, 230), deep=st.integers(1, 700), wide=st.integers(1, 170))
def test_sums_are_the_same(rows, deep, wide):
    random = np.random.default_rng(rows * deep + wide)
    a = random.standard_normal((rows, deep), np.float32)
    b = random.standard_normal((deep, wide), np.float32)
    expected = one_by_one.eager(a, b)
    np.testing.assert_array_equal(side_by_side.eager(a, b), expected)
    np.testing.assert_array_equal(side_by_side(a, b), expected)
