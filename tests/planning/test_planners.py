"""Planners never overlap buffers; the exact one is never beaten and is right on small cases."""

from __future__ import annotations

import importlib.util
import random
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.planning import exact
from tilewright.planning.best_fit import best_fit
from tilewright.planning.bounds import lower_bound, peak_live
from tilewright.planning.buffers import Buffer, align_up, peak_of
from tilewright.planning.exact import Limits, fit
from tilewright.planning.first_fit import first_fit
from tilewright.planning.generate import cut_rectangle
from tilewright.planning.orders import ORDERS
from tilewright.planning.plan import plan
from tilewright.planning.verify import check_plan, violations

_spec = importlib.util.spec_from_file_location(
    "random_buffers", Path(__file__).with_name("random_buffers.py")
)
assert _spec and _spec.loader
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
buffer_sets = _module.buffer_sets

QUICK = Limits(work=3_000_000, cp_sat_time=0.2)
needs_native = pytest.mark.skipif(exact.native is None, reason="the native search is not built")


def smallest_peak(buffers: list[Buffer]) -> int:
    """By brute force: some order of first fit gives the best plan."""
    best = 10**9
    for order in permutations(buffers):
        offsets: dict[str, int] = {}
        placed: list[Buffer] = []
        for buffer in order:
            tops = [0] + [offsets[p.name] + p.size for p in placed if p.overlaps_in_time(buffer)]
            for start in sorted({align_up(top, buffer.alignment) for top in tops}):
                if all(
                    not p.overlaps_in_time(buffer)
                    or offsets[p.name] + p.size <= start
                    or start + buffer.size <= offsets[p.name]
                    for p in placed
                ):
                    offsets[buffer.name] = start
                    break
            placed.append(buffer)
        best = min(best, peak_of(buffers, offsets))
    return best


@given(buffer_sets(), st.sampled_from(sorted(ORDERS)))
@settings(max_examples=80, deadline=None)
def test_greedy_planners_never_overlap(buffers: list[Buffer], order: str):
    for planner in (first_fit, best_fit):
        offsets = planner(buffers, order)
        assert violations(buffers, offsets) == []
        assert peak_of(buffers, offsets) >= lower_bound(buffers)


@given(buffer_sets(most=14))
@settings(max_examples=60, deadline=None)
def test_exact_is_never_worse_than_greedy(buffers: list[Buffer]):
    least = plan(buffers, strategy="exact", limits=QUICK)
    for strategy in ("first-fit", "best-fit", "auto", "none"):
        other = plan(buffers, strategy=strategy, limits=QUICK)
        assert least.regions["memory"].peak <= other.regions["memory"].peak
    assert least.regions["memory"].bound <= least.regions["memory"].peak


@pytest.mark.parametrize("engines", [pytest.param(("search",), marks=needs_native), ("cp-sat",)])
@given(buffer_sets(most=6, alignments=(1, 1, 2, 3, 4), largest=9))
@settings(max_examples=60, deadline=None)
def test_exact_equals_brute_force(engines: tuple[str, ...], buffers: list[Buffer]):
    part = plan(buffers, strategy="exact", limits=Limits(engines=engines)).regions["memory"]
    assert part.peak == smallest_peak(buffers)
    assert part.optimal


@needs_native
@given(buffer_sets(most=12, alignments=(1, 2), largest=12), st.integers(-3, 6))
@settings(max_examples=80, deadline=None)
def test_the_two_engines_agree_on_what_fits(buffers: list[Buffer], slack: int):
    capacity = max(1, lower_bound(buffers) + slack)
    answers = [fit(buffers, capacity, Limits(engines=(e,)))[0] for e in ("search", "cp-sat")]
    assert answers[0] == answers[1]
    assert answers[0] in ("solved", "infeasible")


@needs_native
@pytest.mark.parametrize("member", exact.MEMBERS)
@given(seed=st.integers(0, 10**9))
@example(seed=5007557)  # raising one offset changes the order in which sums are built
@settings(max_examples=60, deadline=None)
def test_every_search_agrees_with_brute_force(member: str, seed: int):
    buffers, capacity = small(seed)
    limits = Limits(engines=("search",), members=(member,), seed=seed)
    status, offsets = fit(buffers, capacity, limits)
    assert status == ("solved" if fits_somehow(buffers, capacity) else "infeasible")
    if status == "solved":
        assert violations(buffers, offsets, {"memory": capacity}) == []


def small(seed: int) -> tuple[list[Buffer], int]:
    """A few buffers about as large as the memory, some aligned, some fixed.

    Those that live bytes alone refute are left out.
    """
    chance = random.Random(seed)
    while True:
        capacity = chance.randint(4, 8)
        buffers = []
        for index in range(chance.randint(3, 7)):
            lower = chance.randint(0, 5)
            alignment = chance.choice((1, 1, 1, 2, 3))
            size = chance.choice((1, 1, 2, 2, 3, 4))
            fixed = chance.random() < 0.1
            offset = alignment * chance.randint(0, capacity // alignment) if fixed else None
            upper = lower + chance.choice((1, 2, 3, 4))
            buffers.append(Buffer(f"b{index}", size, lower, upper, alignment, offset=offset))
        if lower_bound(buffers) <= capacity:
            return buffers, capacity


def fits_somehow(
    buffers: list[Buffer], capacity: int, placed: tuple[tuple[Buffer, int], ...] = ()
) -> bool:
    """By trying every offset for every buffer in turn."""
    if len(placed) == len(buffers):
        return True
    buffer = buffers[len(placed)]
    offsets = range(0, capacity - buffer.size + 1, buffer.alignment)
    if buffer.offset is not None:
        offsets = [buffer.offset] if buffer.offset + buffer.size <= capacity else []
    return any(
        all(
            not other.overlaps_in_time(buffer)
            or at + other.size <= offset
            or offset + buffer.size <= at
            for other, at in placed
        )
        and fits_somehow(buffers, capacity, (*placed, (buffer, offset)))
        for offset in offsets
    )


@needs_native
def test_thousands_of_buffers():
    buffers = [Buffer(f"b{index}", 1 + index % 3, index, index + 3) for index in range(3000)]
    limits = Limits(engines=("search",), work=20_000_000)
    status, offsets = fit(buffers, 6, limits)
    assert status == "solved"
    check_plan(buffers, offsets, {"memory": 6})
    alone = Limits(engines=("search",), work=20_000_000, members=("minimalloc",))
    assert fit(buffers, 6, alone)[0] == "limit"


@needs_native
@pytest.mark.parametrize("name", ["portfolios", ""])
def test_an_unknown_member_is_refused(name: str):
    buffers, capacity = small(1)
    with pytest.raises(ValueError, match="member"):
        fit(buffers, 2 * capacity, Limits(engines=("search",), members=(name,) if name else ()))


@needs_native
@given(buffer_sets(most=8, alignments=(1,), largest=9), st.data())
@settings(max_examples=60, deadline=None)
def test_the_two_engines_agree_around_fixed_buffers(buffers: list[Buffer], data: st.DataObject):
    fixed = replace(buffers[0], offset=data.draw(st.integers(0, 20)))
    buffers = [fixed, *buffers[1:]]
    capacity = data.draw(st.integers(10, 60))
    answers = [fit(buffers, capacity, Limits(engines=(e,))) for e in ("search", "cp-sat")]
    assert answers[0][0] == answers[1][0]
    if answers[0][0] == "solved":
        for _, offsets in answers:
            assert violations(buffers, offsets, {"memory": capacity}) == []


@needs_native
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_cut_rectangles_are_packed_without_waste(seed: int):
    buffers, known = cut_rectangle(90, 1 << 20, 60, seed)
    assert violations(buffers, known, {"memory": 1 << 20}) == []
    assert peak_live(buffers).live_bytes == 1 << 20
    status, offsets = fit(buffers, 1 << 20, Limits(engines=("search",)))
    assert status == "solved"
    check_plan(buffers, offsets, {"memory": 1 << 20})
    # One byte less is refused at once, and greedy plans need more.
    assert fit(buffers, (1 << 20) - 1, Limits())[0] == "infeasible"
    assert peak_of(buffers, first_fit(buffers, "size")) > 1 << 20


GAP = [
    Buffer("a", 1, 5, 7),
    Buffer("b", 2, 1, 4),
    Buffer("c", 1, 3, 7),
    Buffer("d", 2, 6, 8),
    Buffer("e", 1, 3, 6),
    Buffer("f", 2, 1, 3),
    Buffer("g", 2, 7, 9),
    Buffer("j", 1, 5, 6),
]


def test_live_bytes_are_not_always_enough():
    # 4 bytes are live at most, yet every plan needs 5. c and e take over the half of f, a and j
    # that of b. When e and j end, d only fits between c and a, in the middle; when c and a end,
    # g finds one byte on either side of d.
    assert peak_live(GAP).live_bytes == lower_bound(GAP) == 4
    part = plan(GAP, strategy="exact").regions["memory"]
    assert (part.peak, part.bound, part.optimal) == (5, 5, True)
    with pytest.raises(TilewrightError) as error:
        plan(GAP, capacity=4)
    assert error.value.code == "TW1406"
    assert "any plan needs at least 5" in error.value.message


def filled(seed: int) -> tuple[list[Buffer], int]:
    """Buffers thrown at random into a small memory for as long as live bytes allow."""
    chance = random.Random(seed)
    capacity, steps = chance.randint(4, 7), chance.randint(5, 9)
    live = [0] * steps
    buffers: list[Buffer] = []
    for _ in range(50):
        size, lower = chance.choice((1, 1, 2, 2, 3)), chance.randrange(steps)
        upper = min(steps, lower + chance.choice((1, 2, 3, 4)))
        if all(live[t] + size <= capacity for t in range(lower, upper)):
            for t in range(lower, upper):
                live[t] += size
            buffers.append(Buffer(f"b{len(buffers)}", size, lower, upper))
    return buffers, capacity


@needs_native
@given(st.integers(0, 10**6))
@settings(max_examples=150, deadline=None)
def test_the_two_engines_agree_without_slack(seed: int):
    buffers, capacity = filled(seed)
    answers = [fit(buffers, capacity, Limits(engines=(e,)))[0] for e in ("search", "cp-sat")]
    assert answers[0] == answers[1] != "limit"


@pytest.mark.parametrize("strategy", ["auto", "first-fit", "best-fit", "exact", "none"])
def test_the_same_plan_twice(strategy: str):
    buffers, _ = cut_rectangle(40, 1 << 16, 30, 7)
    first, second = (plan(buffers, strategy=strategy, limits=QUICK).to_json() for _ in range(2))
    assert repr(first) == repr(second)


def test_cp_sat_gives_the_same_plan_twice():
    buffers, _ = cut_rectangle(25, 1 << 16, 20, 3)
    limits = Limits(engines=("cp-sat",), cp_sat_time=2)
    assert fit(buffers, 1 << 16, limits) == fit(buffers, 1 << 16, limits)


def test_a_fixed_place_beyond_the_capacity_never_fits() -> None:
    """Not even for a buffer without bytes."""
    empty = Buffer("b0", 0, 0, 1, offset=11)
    for engine in ("search", "cp-sat"):
        assert fit([empty], 10, Limits(engines=(engine,)))[0] == "infeasible"
