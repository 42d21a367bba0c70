"""Flags: transfers in flight together never share one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.planning.flags import Transfer, assign_flags


def test_lowest_free_flag():
    transfers = [Transfer("a", 0, 3), Transfer("b", 1, 2), Transfer("c", 3, 5), Transfer("d", 4, 6)]
    assert assign_flags(transfers, 3) == {"a": 0, "b": 1, "c": 1, "d": 0}


def test_in_turn():
    transfers = [Transfer(name, 2 * i, 2 * i + 1) for i, name in enumerate("abcd")]
    assert assign_flags(transfers, 3, rotate=True) == {"a": 0, "b": 1, "c": 2, "d": 0}
    assert set(assign_flags(transfers, 3).values()) == {0}


def test_out_of_flags():
    with pytest.raises(TilewrightError) as error:
        assign_flags([Transfer("a", 0, 9), Transfer("b", 1, 9), Transfer("c", 2, 9)], 2)
    assert error.value.code == "TW1420"
    assert error.value.message == "c starts while all 2 flags are in use: a, b"


def test_out_of_turn():
    transfers = [Transfer("a", 0, 9), Transfer("b", 1, 2), Transfer("c", 3, 4)]
    with pytest.raises(TilewrightError) as error:
        assign_flags(transfers, 2, rotate=True)
    assert "next in turn" in error.value.message
    assert assign_flags(transfers, 2) == {"a": 0, "b": 1, "c": 1}


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 6)), max_size=20), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_enough_flags_are_enough(times: list[tuple[int, int]], count: int):
    transfers = [Transfer(f"t{i}", start, start + n) for i, (start, n) in enumerate(times)]
    most = max((sum(t.issue <= step <= t.wait for t in transfers) for step in range(30)), default=0)
    if most > count:
        with pytest.raises(TilewrightError):
            assign_flags(transfers, count)
        return
    flags = assign_flags(transfers, count)
    for a in transfers:
        for b in transfers:
            if a is not b and a.issue <= b.wait and b.issue <= a.wait:
                assert flags[a.name] != flags[b.name]
