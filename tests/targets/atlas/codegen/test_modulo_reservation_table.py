"""Reservations on a circle, against looking at every tick."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.targets.atlas.codegen.modulo_reservation_table import UnitReservations, overlaps

INTERVAL = 60
SPAN = st.tuples(st.integers(-100, 200), st.integers(1, 40))


def ticks(start: int, length: int) -> set[int]:
    return {tick % INTERVAL for tick in range(start, start + length)}


@given(SPAN, SPAN)
def test_spans_meet_where_they_share_a_tick(a: tuple[int, int], b: tuple[int, int]) -> None:
    (start, length), (other, size) = a, b
    shared = bool(ticks(start, length) & ticks(other, size))
    assert overlaps((start, start + length), (other, other + size), INTERVAL) == shared


def filled(wanted: list[tuple[int, int]]) -> tuple[UnitReservations, set[int]]:
    """A line with those of the spans that fit, and the ticks they take."""
    line, taken = UnitReservations(INTERVAL), set[int]()
    for start, length in wanted:
        if not ticks(start, length) & taken:
            line.take(start, length)
            taken |= ticks(start, length)
    return line, taken


@settings(max_examples=200)
@given(st.lists(SPAN, max_size=6), st.integers(-80, 80), st.integers(1, 20))
def test_first_and_last_free_ticks(spans: list[tuple[int, int]], tick: int, length: int) -> None:
    line, taken = filled(spans)
    later = (t for t in range(tick, tick + INTERVAL) if not ticks(t, length) & taken)
    assert line.first(tick, length, tick + INTERVAL - 1) == next(later, None)
    earlier = (t for t in range(tick, tick - INTERVAL, -1) if not ticks(t, length) & taken)
    assert line.last(tick, length, tick - INTERVAL + 1) == next(earlier, None)


@settings(max_examples=200)
@given(st.lists(SPAN, max_size=6), st.integers(-80, 80), st.integers(1, 20), st.integers(1, 12))
def test_with_a_grain_places_are_free_too(
    spans: list[tuple[int, int]], tick: int, length: int, grain: int
) -> None:
    line, taken = filled(spans)
    for found in (
        line.first(tick, length, tick + INTERVAL, grain),
        line.last(tick, length, tick - INTERVAL, grain),
    ):
        assert found is None or not ticks(found, length) & taken


@given(st.lists(SPAN, max_size=6))
def test_what_is_dropped_is_free_again(spans: list[tuple[int, int]]) -> None:
    line, taken = filled(spans)
    free = [t for t in range(INTERVAL) if line.gap(t) is not None]
    assert set(free) == set(range(INTERVAL)) - taken
    place = next((t for t in free), None)
    if place is not None:
        line.take(place, 1)
        assert line.gap(place) is None
        line.drop(place)
        assert line.gap(place) is not None
