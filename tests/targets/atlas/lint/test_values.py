"""Abstract values against all concrete values they stand for."""

from __future__ import annotations

from itertools import product

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tilewright.targets.atlas.lint.joining import join_values
from tilewright.targets.atlas.lint.scalar import CONDITIONS, OPERATIONS, compare
from tilewright.targets.atlas.lint.state import State
from tilewright.targets.atlas.lint.transfers import note_turning_point, refine
from tilewright.targets.atlas.lint.values import (
    Form,
    Symbol,
    Value,
    normal,
    overlap,
    raw_sum,
    residue,
    signed_range,
    symbols_of,
    unknown,
    unsigned_range,
    wrap,
)

MASK = (1 << 32) - 1
FEW = settings(max_examples=120, deadline=None)


def concrete(value: Value, at: dict[Symbol, int]) -> int:
    """The register's 32 bits, unsigned, for one choice of the unknowns."""
    if isinstance(value, int):
        return value & MASK
    return (value.const + sum(k * at[s] for s, k in value.terms)) & MASK


def choices(*values: Value) -> list[dict[Symbol, int]]:
    """Every choice of the unknowns in the values."""
    symbols = sorted({s for v in values for s in symbols_of(v)}, key=lambda s: s.order)
    ranges = [range(s.low, s.high + 1) for s in symbols]
    return [dict(zip(symbols, point, strict=True)) for point in product(*ranges)]


NEAR = st.one_of(
    st.integers(-70, 70),
    st.sampled_from([0x7FFFFFF0, -0x80000000, -0x7FFFFFF0, 0x7FFFFFFF, 1024, 4096]),
)


@st.composite
def values(draw: st.DrawFn, symbols: tuple[Symbol, ...] = ()) -> Value:
    const = draw(NEAR)
    if draw(st.booleans()):
        return wrap(const)
    if symbols and draw(st.booleans()):
        symbol = draw(st.sampled_from(symbols))
    else:
        low = draw(st.integers(-3, 3))
        symbol = Symbol(low, low + draw(st.integers(1, 5)))
    factor = draw(st.sampled_from([-1024, -32, -3, -1, 1, 2, 7, 32, 1024]))
    return normal(Form(const, ((symbol, factor),)))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Value, Value]:
    shared = Symbol(draw(st.integers(-2, 0)), draw(st.integers(1, 4)))
    return draw(values((shared,))), draw(values((shared,)))


def as_python(name: str, a: int, b: int) -> int:
    signed_a, signed_b = wrap(a), wrap(b)
    return {
        "add": a + b, "sub": a - b, "xor": a ^ b, "or": a | b, "and": a & b,
        "sll": a << (b & 31), "srl": a >> (b & 31), "sra": signed_a >> (b & 31),
        "slt": int(signed_a < signed_b), "sltu": int(a < b),
    }[name] & MASK  # fmt: skip


def holds(name: str, a: int, b: int) -> bool:
    if not name.endswith("u"):
        a, b = wrap(a), wrap(b)
    return {"eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b, "ltu": a < b, "geu": a >= b}[
        name
    ]


def may_be(value: Value, number: int) -> bool:
    """Whether an abstract result admits a number, as far as ranges and strides tell."""
    low, high = unsigned_range(value)
    low_signed, high_signed = signed_range(value)
    step, rest = residue(value, 1 << 31)
    return (
        low <= number <= high
        and low_signed <= wrap(number) <= high_signed
        and number % step == rest % step
    )


@FEW
@given(
    pairs(), st.sampled_from(["add", "sub", "xor", "or", "and", "sll", "srl", "sra", "slt", "sltu"])
)
def test_scalar_results_cover_all_numbers(pair: tuple[Value, Value], name: str) -> None:
    a, b = pair
    result = OPERATIONS[name](a, b)
    known = set(symbols_of(a)) | set(symbols_of(b))
    for at in choices(a, b):
        expected = as_python(name, concrete(a, at), concrete(b, at))
        if set(symbols_of(result)) <= known:
            assert concrete(result, at) == expected
        else:
            assert may_be(result, expected)


@FEW
@given(pairs(), st.sampled_from(sorted(CONDITIONS.values())))
def test_comparisons_hold_for_all_numbers(pair: tuple[Value, Value], name: str) -> None:
    a, b = pair
    outcome = compare(name, a, b)
    results = {holds(name, concrete(a, at), concrete(b, at)) for at in choices(a, b)}
    if outcome is not None:
        assert results == {outcome}


@FEW
@given(pairs(), st.sampled_from(sorted(CONDITIONS.values())), st.booleans(), st.integers(-1, 1))
def test_refining_loses_no_number(
    pair: tuple[Value, Value], name: str, near: bool, off: int
) -> None:
    a, b = pair
    if near:  # compare with a number that `a` reaches, or just misses
        points = choices(a)
        b = wrap(concrete(a, points[len(points) // 2]) + off)
    state = State(6, 2)
    state.x[1], state.x[2] = a, b
    points = [(concrete(a, at), concrete(b, at)) for at in choices(a, b)]
    kept = {p for p in points if holds(name, *p)}
    if not refine(state, name, a, b):
        assert not kept
        return
    x, y = state.x[1], state.x[2]
    assert {(concrete(x, at), concrete(y, at)) for at in choices(x, y)} >= kept


def blocks(start: int, length: int, block: int) -> set[int]:
    return {(start + k) // block for k in range(length)}


@FEW
@given(
    pairs(),
    st.sampled_from([1, 4, 32, 64]),
    st.sampled_from([0, 4, 32, 64]),
    st.sampled_from([1, 32]),
)
def test_overlap(pair: tuple[Value, Value], length_a: int, length_b: int, block: int) -> None:
    a, b = pair
    meets = {
        bool(blocks(concrete(a, at), length_a, block) & blocks(concrete(b, at), length_b, block))
        for at in choices(a, b)
    }
    answer = overlap(a, length_a, b, length_b, block)
    if answer == 0:
        assert meets == {False}
    elif answer == 2:
        assert meets == {True}


@example(a=64, length_a=8, b=32, length_b=32, block=1)
@example(a=32, length_a=32, b=64, length_b=8, block=32)
@given(
    st.integers(-40, 40), st.integers(0, 40), st.integers(-40, 40), st.integers(0, 40),
    st.sampled_from([1, 32]),
)  # fmt: skip
def test_overlap_of_numbers_is_known(
    a: int, length_a: int, b: int, length_b: int, block: int
) -> None:
    """Registers are read as unsigned; blocks are counted one by one."""
    first, second = (
        {(start % 2**32 + k) // block for k in range(length)}
        for start, length in ((a, length_a), (b, length_b))
    )
    assert overlap(a, length_a, b, length_b, block) == (2 if first & second else 0)


def test_overlap_is_decided_for_pointers_that_run_together() -> None:
    anything = unknown()
    assert overlap(anything, 1024, raw_sum(anything, 1024 + 32), 1024, 32) == 0
    assert overlap(anything, 1024, raw_sum(anything, 512), 1024, 32) == 1
    even = Form(0, ((Symbol(0, 100), 2048),))
    odd = Form(1024, ((Symbol(0, 100), 2048),))
    assert overlap(even, 1024, odd, 1024, 32) == 0
    assert overlap(even, 1056, odd, 1024, 32) == 1


@FEW
@given(st.lists(pairs(), min_size=1, max_size=4), st.integers(0, 30))
def test_joined_values_cover_both_sides(slots: list[tuple[Value, Value]], count: int) -> None:
    left, right = [a for a, _ in slots], [b for _, b in slots]
    joined = join_values(left, right, count)
    for side in (left, right):
        for at in choices(*side):
            point = [concrete(v, at) for v in side]
            assert all(may_be(v, number) for v, number in zip(joined, point, strict=True))


def test_joined_values_keep_their_distance() -> None:
    joined = join_values([10, 100, 5], [9, 1124, 5], 1)
    assert joined[2] == 5
    (symbol,) = symbols_of(joined[0])
    assert [joined[0], joined[1]] == [Form(10, ((symbol, -1),)), Form(100, ((symbol, 1024),))]
    assert (symbol.low, symbol.high) == (0, 1)


def test_a_range_stops_short_of_the_value_that_leaves_a_loop():
    """8 - 2 s, compared with 0 at the end of a loop: iterations go up to s = 3, not to 4."""
    state = State(1, 2)
    state.x[1] = Form(8, ((Symbol(0, 4), -2),))
    assert isinstance(state.x[1], Form)
    marks = state.x[1].terms[0][0].marks
    note_turning_point("ne", state.x[1], 0)
    assert refine(state, "ne", state.x[1], 0)
    before = Form(8, ((Symbol(0, 1, marks), -2),))
    after = join_values([before], [state.x[1]], 5)[0]
    assert signed_range(state.x[1]) == signed_range(after) == (2, 8)
