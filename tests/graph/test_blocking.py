"""How large products are cut into parts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.graph.blocking import KIB, SIDE, WHOLE, Cut, cut, sums_bytes
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def test_small_products_stay_whole():
    assert cut(1024, 768, 3072, V1) is None


def test_a_deep_product_keeps_its_sums():
    assert cut(1024, 3072, 768, V1) == Cut(512, 128)
    assert cut(1024, 3072, 768, V1, sums=False) == Cut(256)


def test_a_wide_product_keeps_its_rows():
    assert cut(4096, 1024, 8192, V1) == Cut(704)


@settings(max_examples=200)
@given(st.integers(1, 6000), st.integers(1, 6000), st.integers(1, 6000))
def test_every_cut_fits(rows: int, deep: int, wide: int):
    found = cut(rows, deep, wide, V1)
    m, k, n = (-(-size // SIDE) for size in (rows, deep, wide))
    if found is None:
        assert m * k <= WHOLE
        return
    height = found.rows // SIDE
    assert found.rows % SIDE == 0 and height <= m
    if found.depth:
        assert sums_bytes(height, found.depth // SIDE, n) <= V1.vmem_bytes
        assert 2 * height * n * KIB < V1.vmem_bytes
    else:
        assert height * k <= WHOLE or height == 1
