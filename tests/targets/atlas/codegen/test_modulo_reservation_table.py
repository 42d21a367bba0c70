"""Reservations on a circle, against looking at every tick."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.targets.atlas.codegen._codegen import SlotReservations, UnitReservations
from tilewright.targets.atlas.codegen.modulo_reservation_table import overlaps

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


@settings(max_examples=200)
@given(st.lists(SPAN, max_size=9), SPAN, st.integers(0, 8), st.booleans())
def test_neighbours_are_all_that_a_span_meets(
    spans: list[tuple[int, int]], asked: tuple[int, int], own: int, moved: bool
) -> None:
    """The same as comparing a span with every other holder's."""
    slot, held = SlotReservations(INTERVAL), dict[int, tuple[int, int]]()
    for name, (start, length) in enumerate(spans):
        span = (start, start + length)
        if not any(overlaps(span, other, INTERVAL) for other in held.values()):
            held[name] = span
            slot.put(name, span)
    if moved and own in held:  # a holder that is there gets another span, here a shorter one
        held[own] = (held[own][0], held[own][0] + 1)
        slot.put(own, held[own])
    span = (asked[0], asked[0] + asked[1])
    met = [o for n, o in held.items() if n != own and overlaps(span, o, INTERVAL)]
    found = slot.meeting(span, own)
    assert {end % INTERVAL for end in found} == {end % INTERVAL for _, end in met}
    for name in list(held):
        slot.drop(name)
    assert not slot.meeting(span, -1) and not len(slot)
