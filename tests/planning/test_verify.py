"""The verifier accepts right plans and finds every kind of damage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.planning.buffers import Buffer
from tilewright.planning.generate import cut_rectangle
from tilewright.planning.verify import check_plan, violations

A = Buffer("a", 8, 0, 4)
B = Buffer("b", 8, 3, 6)
C = Buffer("c", 8, 4, 6)


def test_what_meets_in_time_must_not_meet_in_memory():
    assert violations([A, B], {"a": 0, "b": 8}) == []
    assert violations([A, C], {"a": 0, "c": 0}) == []
    assert violations([A, B], {"a": 0, "b": 7}) == [
        "a [0, 8) and b [7, 15) overlap at step 3",
    ]


def test_own_rules():
    assert violations([A], {}) == ["a has no offset"]
    assert violations([A], {"a": -1}) == ["a starts at -1, below 0"]
    assert violations([replace(A, alignment=4)], {"a": 6}) == ["a starts at 6, no multiple of 4"]
    assert violations([replace(A, offset=16)], {"a": 0}) == ["a is fixed at 16 but starts at 0"]
    assert violations([A], {"a": 1}, {"memory": 8}) == ["a ends at 9, beyond 8"]
    assert violations([A], {"a": 0, "z": 0}) == ["z has an offset but is no buffer"]


def test_regions_do_not_meet():
    assert violations([A, replace(B, region="other")], {"a": 0, "b": 0}) == []


def test_in_place_reuse_only_at_the_same_offset_and_step():
    heir = replace(B, reuses=("a",))
    assert violations([A, heir], {"a": 0, "b": 0}) == []
    assert len(violations([A, heir], {"a": 0, "b": 4})) == 1
    assert len(violations([A, replace(heir, lower=2)], {"a": 0, "b": 0})) == 1


def test_error():
    with pytest.raises(TilewrightError) as error:
        check_plan([A, B], {"a": 0, "b": 0})
    assert error.value.code == "TW1410"


@given(st.integers(0, 50), st.integers(0, 29), st.integers(-(1 << 16), 1 << 16))
@settings(max_examples=150, deadline=None)
def test_every_moved_buffer_is_caught(seed: int, index: int, shift: int):
    # The rectangle is full, so wherever a buffer moves it hits another one or leaves the memory.
    buffers, offsets = cut_rectangle(30, 1 << 16, 25, seed)
    assert violations(buffers, offsets, {"memory": 1 << 16}) == []
    assume(shift != 0)
    name = buffers[index % len(buffers)].name
    offsets[name] += shift
    assert violations(buffers, offsets, {"memory": 1 << 16}) != []
