"""Writes that may meet: found among those near each other as among all pairs."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from tilewright.targets.atlas.codegen.nest import Affine, Value, Variable, Write
from tilewright.targets.atlas.codegen.waw_dependences import waw_dependent


@st.composite
def loops(draw: st.DrawFn) -> tuple[list[Write], Variable | None]:
    loop = draw(st.sampled_from([None, Variable(1), Variable(2), Variable(9)]))
    around, writes = Variable(4), []
    for _ in range(draw(st.integers(1, 9))):
        steps = (
            draw(st.sampled_from([0, 32, 64, 64, -64, 100, 1024])),
            draw(st.sampled_from([0, 0, 32])),
        )
        pairs = zip((loop, around), steps, strict=True)
        terms = tuple((v, step) for v, step in pairs if v is not None and step)
        start = draw(st.integers(0, 40)) * draw(st.sampled_from([1, 16, 32]))
        size = draw(st.sampled_from([16, 32, 64, 100]))
        writes.append(Write(Value(), Affine(start, terms), size))
    return writes, loop


def bytes_of(write: Write, loop: Variable | None, turn: int) -> set[int]:
    start = write.offset.constant + (0 if loop is None else write.offset.factor(loop) * turn)
    return set(range(start, start + write.bytes))


@given(loops())
def test_what_meets_is_found(given: tuple[list[Write], Variable | None]) -> None:
    """By the bytes themselves, where what is around adds the same to both; never too few."""
    writes, loop = given
    found = waw_dependent(writes, loop)
    if loop is None and len({write.offset.terms for write in writes}) < 2:
        assert not found
        return
    turns = range(1 if loop is None else loop.trips)
    around = {id(w): tuple(t for t in w.offset.terms if t[0] is not loop) for w in writes}
    exact: set[int] = set()
    for a, b in combinations(writes, 2):
        if around[id(a)] != around[id(b)]:
            continue  # a superset of what meets is found
        reached = [set().union(*(bytes_of(w, loop, t) for t in turns)) for w in (a, b)]
        if reached[0] & reached[1]:
            exact |= {id(a), id(b)}
    assert exact <= found
    if len({write.offset.terms for write in writes}) == 1:
        assert exact == found
