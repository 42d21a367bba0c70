"""Registers given out and taken back, in straight code and on the circle of a modulo schedule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.modulo_registers import assign, lifetimes
from tilewright.targets.atlas.codegen.register_allocation import PAIRS, RegisterAllocator
from tilewright.targets.atlas.codegen.tuning import TUNING, tuned
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import Kind


def tile(size: int = 2) -> Register:
    return Register(Kind.M, size)


def whole(*registers: Register) -> dict[Register, tuple[int, int]]:
    return {r: (0, r.size) for r in registers}


# --- straight code ----------------------------------------------------------------------------


def test_a_register_is_free_after_its_last_access_has_completed() -> None:
    a, b = tile(), tile()
    allocator = RegisterAllocator([[a], [a], [b]], {})
    allocator.access(0, whole(a), done=10)
    assert allocator.physical(a) == 0
    allocator.release(50)
    assert 0 not in allocator.pairs  # one access is still to come
    allocator.access(1, whole(a), done=60)
    assert allocator.next_release(0) == 60
    allocator.release(59)
    assert 0 not in allocator.pairs
    allocator.release(60)
    allocator.access(2, whole(b), done=70)
    assert allocator.physical(b) == 0


def test_halves_share_a_pair_and_make_it_whole_again() -> None:
    a, b, c = tile(1), tile(1), tile(2)
    allocator = RegisterAllocator([[a], [b], [c]], {})
    allocator.access(0, whole(a), 5)
    allocator.access(1, whole(b), 5)
    assert (allocator.physical(a), allocator.physical(b)) == (0, 1)
    assert len(allocator.pairs) == PAIRS - 1
    allocator.release(5)
    assert len(allocator.pairs) == PAIRS and not allocator.singles
    allocator.access(2, whole(c), 9)
    assert allocator.physical(c) == 0


def test_the_file_ends_after_its_pairs() -> None:
    tiles = [tile() for _ in range(PAIRS + 1)]
    allocator = RegisterAllocator([[t] for t in tiles], {})
    for k, t in enumerate(tiles[:-1]):
        assert allocator.has_room([t])
        allocator.access(k, whole(t), 100)
    assert not allocator.has_room([tiles[-1]])
    assert len({allocator.physical(t) for t in tiles[:-1]}) == PAIRS


def test_carried_registers_are_never_given_out() -> None:
    held, a = tile(), tile()
    allocator = RegisterAllocator([[a]], {held: 0})
    allocator.access(0, whole(a), 1)
    assert allocator.physical(held) == 0 and allocator.physical(a) == 2


def test_accumulators_go_out_in_program_order() -> None:
    first, second, third = (Register(Kind.ACC, 1, 0) for _ in range(3))
    allocator = RegisterAllocator([[first], [second], [third]], {})
    assert not allocator.has_room([second])  # the first in the program comes first
    allocator.access(0, {first: (0, 1)}, 10)
    allocator.access(1, {second: (0, 1)}, 20)
    assert not allocator.has_room([third])  # a unit has two
    allocator.release(10)
    assert allocator.has_room([third])


# --- modulo placement -------------------------------------------------------------------------


def placed(spans: dict[Register, tuple[int, int]], interval: int) -> Any:
    """A placement in which each value is touched at the start and the end of its span."""
    at: dict[Any, int] = {}
    touches: dict[Register, list[Any]] = {}
    for register, (start, end) in spans.items():
        first, last = SimpleNamespace(latency=1), SimpleNamespace(latency=1)
        keys = [_Step(first), _Step(last)]
        at[keys[0]], at[keys[1]] = start, end - 1
        touches[register] = keys
    return SimpleNamespace(interval=interval, at=at, graph=SimpleNamespace(touches=touches))


class _Step:
    def __init__(self, row: Any) -> None:
        self.latency = row.latency


def test_values_that_never_overlap_share_a_register() -> None:
    a, b = tile(), tile()
    found = assign(placed({a: (0, 10), b: (10, 20)}, 20), {})
    assert lifetimes(placed({a: (0, 10)}, 20)) == {a: (0, 10)}
    assert found is not None and found[a] == found[b]


def test_a_value_that_wraps_around_meets_the_next_iteration() -> None:
    a, b = tile(), tile()
    found = assign(placed({a: (15, 25), b: (2, 6)}, 20), {})  # a is alive from 0 to 5 as well
    assert found is not None and found[a] != found[b]


def test_as_many_values_as_registers_and_not_one_more() -> None:
    full = {tile(): (0, 20) for _ in range(32)}
    found = assign(placed(full, 20), {})
    assert found is not None and sorted(found.values()) == list(range(0, 64, 2))
    assert assign(placed({**full, tile(1): (3, 4)}, 20), {}) is None
    assert assign(placed(full, 20), {tile(): 0}) is None


# --- tuning -----------------------------------------------------------------------------------


def test_settings_hold_for_a_block_and_go_back() -> None:
    before = TUNING.body_instructions
    with tuned(body_instructions=5):
        assert TUNING.body_instructions == 5
    assert TUNING.body_instructions == before
    for wrong in ({"no_such": 1}, {"body_instructions": -1}):
        with pytest.raises(TilewrightError, match="no setting"), tuned(**wrong):
            pass
    assert TUNING.body_instructions == before
