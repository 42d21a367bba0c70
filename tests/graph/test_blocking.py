"""How large products are cut into parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.model.blocking import (
    KIB,
    PART,
    SIDE,
    WHOLE,
    Cut,
    cut,
    group_of,
    padded,
    rows_left_over,
    rows_pass_by,
    staged_rows,
    sums_bytes,
)
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def test_small_products_stay_whole():
    assert cut(1024, 768, 3072, V1) is None


def test_a_deep_product_keeps_its_sums():
    assert cut(1024, 3072, 768, V1) == Cut(512, 128)
    assert cut(1024, 3072, 768, V1, sums=False) == Cut(256)


def test_parts_with_sums_on_chip_are_whole_groups_of_rows():
    assert cut(1024, 2560, 960, V1) == Cut(384, 128)


def test_projections_and_gates_keep_as_many_rows_as_fit_beside_their_weights():
    assert staged_rows(1024, 768, 2, 4, V1) is None
    assert staged_rows(1024, 960, 2, 4, V1) == 512
    assert staged_rows(2048, 960, 2, 4, V1) == 704  # two parts of it, and one of 640
    assert staged_rows(2048, 960, 2, 6, V1) == 512  # 704 rows do not fit beside more columns
    assert staged_rows(2000, 960, 2, 4, V1) == 672


def test_rows_pass_by_weights_that_fit_where_these_would_come_twice():
    assert rows_pass_by(1024, 960, 320, 1024 * 320, 512, V1)  # keys and values of a decoder
    assert rows_pass_by(1024, 960, 960, 4 * 1024 * 960, 512, V1)  # its output projection
    assert not rows_pass_by(1024, 960, 960, 1024 * 960, 512, V1)  # queries: no room for next rows
    assert not rows_pass_by(1024, 960, 2560, 1024 * 2560, 512, V1)  # these weights do not fit
    assert not rows_pass_by(512, 960, 320, 512 * 320, 512, V1)  # weights come once in any case
    assert not rows_pass_by(9000, 2560, 1, 9000, 352, V1)  # a single column fills no tile
    assert not rows_pass_by(1024, 960, 320, 1024 * 320, 512, load_profile("atlas-v0"))


def test_a_wide_product_keeps_its_rows():
    assert cut(4096, 1024, 8192, V1) == Cut(832)


def test_a_part_holds_more_than_a_whole_operand():
    """One part of all rows, in whose body everything is used, takes a quarter less than two."""
    assert cut(416, 2048, 512, V1) == Cut(416)
    assert cut(416, 2048, 512, V1, sums=False) == Cut(416)


@settings(max_examples=200)
@given(st.integers(1, 6000), st.integers(1, 6000), st.integers(1, 6000))
def test_every_cut_fits(rows: int, deep: int, wide: int):
    found = cut(rows, deep, wide, V1)
    m, k, n = (-(-size // SIDE) for size in (rows, deep, wide))
    if found is None:
        assert m * k <= WHOLE
        assert (m * k + 2 * k) * KIB < V1.vmem_bytes  # with the weights that are used and arrive
        return
    height = found.rows // SIDE
    assert found.rows % SIDE == 0 and height <= m
    if found.depth:
        assert sums_bytes(height, found.depth // SIDE, n) <= V1.vmem_bytes
        assert 2 * height * n * KIB < V1.vmem_bytes
    else:
        assert (height * k <= PART and (height + 2) * k * KIB < V1.vmem_bytes) or height == 1


def test_a_deep_product_of_few_rows_leaves_room_for_two_columns_of_weights():
    # 768 tiles of rows fit, but not beside twice 384 tiles of weights.
    found = cut(64, 12288, 960, V1)
    assert found is not None and found.depth


@given(rows=st.integers(1, 1200), deep=st.integers(1, 4096), wide=st.integers(2, 1200))
def test_all_bodies_of_a_part_are_alike_or_counted(rows: int, deep: int, wide: int) -> None:
    """Rows that are left over load the weights of a part again, which is worth no part more."""
    found = cut(rows, deep, wide, V1)
    if found is None or not found.depth:
        return
    across, depth = -(-wide // SIDE), found.depth // SIDE
    heights = [min(found.rows, rows - first) for first in range(0, rows, found.rows)]
    tiles = [-(-height // SIDE) for height in heights]
    for height in tiles:
        group = group_of(height, across, depth)
        assert 1 <= group <= height
        assert rows_left_over(height, across, depth) == (height % group > 0)
    for height in tiles[:-1]:
        prime = all(height % part for part in range(2, height))
        assert not rows_left_over(height, across, depth) or prime or height * across * 2 > 800


@pytest.mark.parametrize(("rows", "tiles"), [(97, 4), (257, 9), (300, 10), (340, 11), (416, 13)])
def test_weights_come_once_however_many_rows_there_are(rows: int, tiles: int) -> None:
    """9 tiles of rows were two groups of 4 and one left over, for which all weights came again."""
    machine = replace(V1, vmem_bytes=tiles * 44 * KIB)
    net = ModelBuilder("rows")
    x = net.input("x", (1, rows, 1600))
    net.output("y", net.linear(x, 160, "product"))
    program = tw.compile(net.build(), target=machine)
    assert program.verify().ok
    (step,) = [s for s in program.report().to_json()["steps"] if s["kernel"] == "linear"]
    passes = 1 + (tiles == 13)
    others = padded(rows) * (1600 + 2 * 160)
    assert step["dram_bytes"] - others < (passes + 0.25) * 1600 * 160
