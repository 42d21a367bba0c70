"""The bound of one resource never exceeds what the best order needs."""

from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.planning.one_machine import Job, one_machine, two_machines

jobs = st.lists(
    st.builds(Job, st.integers(0, 20), st.integers(1, 9), st.integers(0, 20)), max_size=5
)


def makespan(order: tuple[Job, ...]) -> float:
    now = end = 0
    for job in order:
        now = max(now, job.head) + job.time
        end = max(end, now + job.tail)
    return end


@given(jobs)
@settings(max_examples=200, deadline=None)
def test_never_above_the_best_order(rows):
    best = min(makespan(order) for order in permutations(rows))
    assert one_machine(rows) <= best


@given(jobs)
@settings(max_examples=100, deadline=None)
def test_at_least_every_single_term(rows):
    bound = one_machine(rows)
    for job in rows:
        assert bound >= job.head + job.time + job.tail
    if rows:
        total = sum(job.time for job in rows)
        assert bound >= min(j.head for j in rows) + total + min(j.tail for j in rows)


def test_equal_heads_are_exact():
    # All heads equal: the rule is the optimal order, longest tail first.
    rows = [Job(7, 512, 30), Job(7, 512, 400), Job(7, 512, 0)]
    assert one_machine(rows) == min(makespan(order) for order in permutations(rows)) == 1543


def test_interruption_pays():
    # The long job is interrupted for the one with the long tail.
    assert one_machine([Job(0, 10, 0), Job(2, 2, 20)]) == 24


@pytest.mark.parametrize("rest", [1e-9, 1e-7, 1 / 3])
def test_what_sums_round_away_ends_nevertheless(rest):
    """Times of transfers are fractions of ticks: the last of them came to no end after millions."""
    rows = [Job(0, 4_217_927.3, 5), Job(0, rest, 0), Job(4_000_000, rest, 3)]
    assert one_machine(rows) == pytest.approx(4_217_932.3, rel=1e-12)


def test_nothing_to_do():
    assert one_machine([]) == 0
    assert two_machines([]) == 0


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_two_machines_never_above_the_best_division(times):
    best = min(
        max(
            sum(t[0] for t, side in zip(times, sides, strict=True) if side == 0),
            sum(t[1] for t, side in zip(times, sides, strict=True) if side == 1),
        )
        for sides in product((0, 1), repeat=len(times))
    )
    assert two_machines(times) <= best + 1e-9


def test_two_machines_divide_evenly():
    assert two_machines([(96, 35)] * 10) == pytest.approx(10 / (1 / 96 + 1 / 35))
    assert two_machines([(32, 32)] * 4) == 64
