"""The front door: regions, fixed buffers, in-place reuse, and errors that say what to do."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.planning.buffers import Buffer
from tilewright.planning.plan import Region, plan
from tilewright.planning.verify import violations


def test_regions_have_their_own_addresses_capacity_and_alignment():
    buffers = [
        Buffer("x", 10, 0, 3, region="load"),
        Buffer("y", 10, 1, 4, region="load"),
        Buffer("w", 100, 0, 4, region="weight"),
    ]
    result = plan(buffers, regions=[Region("load", 64, 32), Region("weight", 100)])
    assert sorted(result.offsets[n] for n in "xy") == [0, 32]
    assert result.offsets["w"] == 0
    assert result.regions["load"].peak == 42
    assert result.regions["load"].optimal


def test_none_never_reuses():
    buffers = [Buffer("a", 10, 0, 1), Buffer("b", 6, 1, 2), Buffer("c", 4, 2, 3)]
    result = plan(buffers, strategy="none", alignment=8)
    assert result.offsets == {"a": 0, "b": 16, "c": 24}
    assert plan(buffers, alignment=8).offsets == {"a": 0, "b": 0, "c": 0}


def test_fixed_buffers_stay():
    buffers = [Buffer("io", 16, 0, 9, offset=16), Buffer("t", 16, 0, 4), Buffer("u", 24, 4, 9)]
    for strategy in ("auto", "first-fit", "best-fit", "exact", "none"):
        offsets = plan(buffers, strategy=strategy).offsets
        assert offsets["io"] == 16
        assert violations(buffers, offsets) == []
    assert plan(buffers, strategy="exact").regions["memory"].peak == 56


def test_in_place_reuse_halves_a_chain():
    chain = [Buffer(f"v{i}", 64, i, i + 2, reuses=(f"v{i - 1}",) if i else ()) for i in range(6)]
    result = plan(chain)
    assert set(result.offsets.values()) == {0}
    assert result.regions["memory"].peak == 64
    assert result.regions["memory"].optimal


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 4)), min_size=2, max_size=10))
@settings(max_examples=60, deadline=None)
def test_reuse_never_costs_memory(sizes: list[tuple[int, int]]):
    buffers: list[Buffer] = []
    for i, (size, extra) in enumerate(sizes):
        previous = buffers[-1] if buffers else None
        lower = previous.upper - 1 if previous else 0
        reuse = (previous.name,) if previous and previous.size >= size else ()
        buffers.append(Buffer(f"v{i}", size, lower, lower + 1 + extra, reuses=reuse))
    apart = [Buffer(b.name, b.size, b.lower, b.upper) for b in buffers]
    with_reuse = plan(buffers, strategy="exact").regions["memory"]
    assert with_reuse.peak <= plan(apart, strategy="exact").regions["memory"].peak
    assert with_reuse.bound <= with_reuse.peak


def error_of(*buffers: Buffer, **options) -> TilewrightError:
    with pytest.raises(TilewrightError) as error:
        plan(list(buffers), **options)
    return error.value


def test_what_cannot_fit_says_how_much_is_needed_and_what_is_live():
    error = error_of(
        Buffer("big", 600, 0, 9), Buffer("small", 300, 4, 6), Buffer("x", 300, 5, 8), capacity=1024
    )
    assert error.code == "TW1406"
    assert "any plan needs at least 1200" in error.message
    assert "at step 5 1200 bytes are live: big (600), small (300), x (300)" in error.message
    assert error.hint and error.hint.startswith("free 176 bytes there")


def test_what_only_fits_with_reuse_says_so():
    error = error_of(Buffer("a", 6, 0, 1), Buffer("b", 6, 1, 2), strategy="none", capacity=8)
    assert error.code == "TW1408"
    assert error.hint == "plan with reuse: 6 bytes may be enough"


@pytest.mark.parametrize(
    ("buffers", "code"),
    [
        ([Buffer("a", 1, 3, 3)], "TW1401"),
        ([Buffer("a", -1, 0, 3)], "TW1401"),
        ([Buffer("a", 1, 0, 3, alignment=0)], "TW1401"),
        ([Buffer("a", 1, 0, 3, alignment=4, offset=2)], "TW1401"),
        ([Buffer("a", 1, 0, 3), Buffer("a", 1, 0, 3)], "TW1402"),
        ([Buffer("a", 1, 0, 3, reuses=("z",))], "TW1403"),
        ([Buffer("a", 1, 0, 3), Buffer("b", 2, 2, 4, reuses=("a",))], "TW1403"),
        ([Buffer("a", 2, 0, 3), Buffer("b", 2, 1, 4, reuses=("a",))], "TW1403"),
        ([Buffer("a", 2, 0, 3, offset=0), Buffer("b", 2, 1, 4, offset=1)], "TW1407"),
    ],
)
def test_impossible_buffers(buffers: list[Buffer], code: str):
    assert error_of(*buffers).code == code


def test_unknown_strategy():
    assert error_of(Buffer("a", 1, 0, 3), strategy="magic").code == "TW1405"


def test_no_buffers():
    assert plan([]).offsets == {}
