"""Merging states that reach the same place, so that loops come to a rest.

Two states of the same shape (same work in flight, same relative ticks) differ only in scalar
values. Registers and addresses that moved together are expressed by one new symbol: after
`x1 -= 1, x2 += 1024` the merged state says x1 = a - s, x2 = b + 1024 s. Symbols grow to the
next value at which a branch turns (a loop's last iteration), and only then without bound.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from tilewright.targets.atlas.lint.facts import Role
from tilewright.targets.atlas.lint.state import NEVER, Operation, State
from tilewright.targets.atlas.lint.values import (
    Form,
    Symbol,
    Value,
    exact_quotient,
    high_of,
    low_of,
    normal,
    raw_sum,
    replace_all,
    same,
    symbols_of,
    unknown,
    wrap,
)

LARGE = 1 << 31
FULL = 1 << 32
JOINS_BEFORE_GIVING_UP = 24  # then differing values become unknown


def covers(general: State, special: State) -> bool:
    """Whether every situation of `special` is one of `general` (same node and shape)."""
    if general.written & ~special.written:
        return False
    if general.certain and not special.certain:
        return False
    slots, others = general.slots(), special.slots()
    by = _solve(slots, others)
    for symbol, value in by.items():
        outside = low_of(value) < symbol.low or high_of(value) > symbol.high
        if outside and not _full(symbol):
            return False
    return all(a == b or same(replace_all(a, by), b) for a, b in zip(slots, others, strict=True))


def join(general: State, special: State, count: int) -> State:
    """A state that covers both; `count` joins happened here before (more means coarser)."""
    result = special.copy()
    result.certain = False
    result.written = general.written & special.written
    slots, others = general.slots(), special.slots()
    result.set_slots(join_values(slots, others, count))
    return result


def differences(one: State, other: State) -> int:
    """How many values two states of one shape differ in."""
    return sum(a != b for a, b in zip(one.slots(), other.slots(), strict=True))


def join_values(slots: list[Value], others: list[Value], count: int) -> list[Value]:
    """One value per slot that covers the slot of both sides."""
    if count > JOINS_BEFORE_GIVING_UP:
        return [a if isinstance(a, int) and a == b else _hull(a, b, True)
                for a, b in zip(slots, others, strict=True)]  # fmt: skip
    slots = _finer(slots, others)
    by = _solve(slots, others)
    turned = _solve(others, slots)
    if _unrelated(others, slots, turned) < _unrelated(slots, others, by):
        slots, others, by = others, slots, turned
    grown: dict[Symbol, Value] = {}
    for symbol, value in by.items():
        if _full(symbol):
            continue
        low, high = _grow(symbol, low_of(value), high_of(value), count)
        if (low, high) != (symbol.low, symbol.high):
            grown[symbol] = Form(0, ((Symbol(low, high, symbol.marks), 1),))
    step = Symbol(0, 1)
    result: list[Value] = []
    for a, b in zip(slots, others, strict=True):
        moved = raw_sum(b, replace_all(a, by), -1)
        kept = replace_all(a, grown)
        if isinstance(moved, int):
            moved = wrap(moved)
            result.append(normal(raw_sum(kept, Form(0, ((step, moved),))) if moved else kept))
        else:
            result.append(_hull(a, b, count > 4))
    return result


def _finer(slots: list[Value], others: list[Value]) -> list[Value]:
    """The same values over smaller steps, where `others` fall between the steps of a symbol.

    before: x = 10 + 4 s against x = 12
    after:  x = 10 + 2 t with t = 2 s
    """
    for a, b in zip(slots, others, strict=True):
        if not isinstance(a, Form) or len(a.terms) != 1:
            continue
        symbol, factor = a.terms[0]
        between = raw_sum(b, a.const, -1)
        common = abs(factor)
        for number in [between] if isinstance(between, int) else [
            between.const, *(k for _, k in between.terms)
        ]:  # fmt: skip
            common = gcd(common, number)
        parts = abs(factor) // common
        uses = [k for v in slots if isinstance(v, Form) for s, k in v.terms if s is symbol]
        if parts > 1 and all(k % parts == 0 for k in uses):
            fine = Symbol(
                symbol.low * parts, symbol.high * parts, {parts * m for m in symbol.marks}
            )
            slots = [_respell(v, symbol, fine, parts) for v in slots]
    return slots


def _respell(value: Value, symbol: Symbol, fine: Symbol, parts: int) -> Value:
    """The value with `symbol` written as `fine / parts`."""
    if isinstance(value, int):
        return value
    rest = replace_all(value, {symbol: 0})
    factor = next((k for s, k in value.terms if s is symbol), 0)
    return raw_sum(rest, Form(0, ((fine, factor // parts),))) if factor else value


def _unrelated(slots: list[Value], others: list[Value], by: dict[Symbol, Value]) -> int:
    """How many slots move in a way that one new symbol does not express."""
    return sum(
        not isinstance(raw_sum(b, replace_all(a, by), -1), int)
        for a, b in zip(slots, others, strict=True)
    )


def _solve(slots: list[Value], others: list[Value]) -> dict[Symbol, Value]:
    """What each symbol of `slots` would have to be to give `others`, where that is an integer.

    Of several answers the one nearest to the symbol's range wins.
    """
    by: dict[Symbol, Value] = {}
    open_slots = [(a, b) for a, b in zip(slots, others, strict=True) if isinstance(a, Form)]
    while True:
        votes: dict[Symbol, list[Value]] = {}
        for a, b in open_slots:
            assert isinstance(a, Form)
            free = [term for term in a.terms if term[0] not in by]
            if len(free) != 1:
                continue
            symbol, factor = free[0]
            rest = replace_all(Form(a.const, tuple(t for t in a.terms if t[0] in by)), by)
            value = exact_quotient(raw_sum(b, rest, -1), factor)
            if value is not None:
                votes.setdefault(symbol, []).append(value)
        if not votes:
            break
        for symbol, values in votes.items():
            by[symbol] = min(values, key=lambda v: _outside(symbol, v))
    for a, _ in open_slots:
        for symbol in symbols_of(a):
            by.setdefault(symbol, symbol.low)
    return by


def _outside(symbol: Symbol, value: Value) -> int:
    return max(symbol.low - low_of(value), 0) + max(high_of(value) - symbol.high, 0)


def _grow(symbol: Symbol, low: int, high: int, count: int) -> tuple[int, int]:
    """The symbol's range with low .. high taken in, stopping at marks."""
    new_low, new_high = symbol.low, symbol.high
    if high > new_high:
        marks = [m for m in symbol.marks if m >= high]
        if not marks and count >= 4:
            return 0, FULL - 1
        new_high = min(marks, default=high)
    if low < new_low:
        marks = [m for m in symbol.marks if m <= low]
        if not marks and count >= 4:
            return 0, FULL - 1
        new_low = max(marks, default=low)
    return new_low, new_high


def _full(symbol: Symbol) -> bool:
    """Whether the symbol takes every value modulo 2^32."""
    return symbol.high - symbol.low >= FULL - 1


def _hull(a: Value, b: Value, coarse: bool) -> Value:
    """Any value between the two, related to nothing else."""
    if coarse:
        return unknown()
    low, high = min(low_of(a), low_of(b)), max(high_of(a), high_of(b))
    return normal(unknown(low, high)) if high < LARGE else unknown()


def blur(general: State, special: State, count: int) -> State:
    """Cover two states of different shapes: ticks become ranges, work may be in flight or not."""
    special = special.copy()
    special.rebase(general.now)
    result = special.copy()
    result.certain = False
    result.written = general.written & special.written
    result.open = general.open | special.open
    result.order = max(general.order, special.order)
    result.ordered = False
    here, there = dict(general.words), dict(special.words)
    shared = sorted(here.keys() & there.keys())
    values = join_values(
        [*general.x, general.base, *(here[a] for a in shared)],
        [*special.x, special.base, *(there[a] for a in shared)],
        count,
    )
    result.x, result.base = values[:32], values[32]
    result.words = tuple(zip(shared, values[33:], strict=True))
    flight, landed = _blur_operations(general, special, count)
    result.flight, result.unwaited = flight, landed
    result.busy = [_range(a, b) for a, b in zip(general.busy, special.busy, strict=True)]
    result.clear = [_range(a, b) for a, b in zip(general.clear, special.clear, strict=True)]
    result.engine = _range(general.engine, special.engine)
    loads = [o for o in flight if o.facts.rd and o.facts.memory == "scalar" and not o.facts.stores]
    for operation in loads:
        result.x[operation.facts.rd] = unknown()  # done or not: old or new
    if count > 4:
        _widen_times(result)
    result.horizon = min((o.high for o in flight), default=1 << 60)
    return result


def _range(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return min(a[0], b[0]), max(a[1], b[1])


def _blur_operations(
    general: State, special: State, count: int
) -> tuple[list[Operation], list[Operation]]:
    merged: dict[tuple[bool, int, int], Operation] = {}
    for state in (general, special):
        for landed, group in ((False, state.flight), (True, state.unwaited)):
            seen: dict[int, int] = {}
            for operation in group:
                nth = seen[operation.index] = seen.get(operation.index, 0) + 1
                key = (landed, operation.index, min(nth, 2))
                known = merged.get(key)
                if known is None:
                    merged[key] = operation
                    continue
                merged[key] = replace(
                    operation,
                    low=min(known.low, operation.low),
                    high=max(known.high, operation.high),
                    start=known.start if known.start == operation.start
                    else _hull(known.start, operation.start, count > 4),
                    length=known.length if known.length == operation.length
                    else _hull(known.length, operation.length, count > 4),
                    ticks=_range(known.ticks, operation.ticks),
                )  # fmt: skip
    both = {
        (False, o.index) for o in general.flight if any(p.index == o.index for p in special.flight)
    }
    flight, landed_list = [], []
    for (landed, index, _), operation in sorted(merged.items(), key=lambda kv: kv[1].order):
        if landed:
            landed_list.append(operation)
        else:
            sure = (False, index) in both
            flight.append(operation if sure else replace(operation, low=NEVER))
    return flight, landed_list


def _widen_times(state: State) -> None:
    """Everything in flight may be done already, and may take as long as it can."""
    now = state.now
    longest = max((o.ticks[1] for o in state.flight), default=0)
    queue = now + 8 * longest + 8
    flight = []
    for o in state.flight:
        high = queue if o.facts.role is Role.DMA else now + o.facts.latency
        flight.append(replace(o, low=NEVER, high=max(o.high, high)))
    state.flight = flight
    if any(o.facts.role is Role.DMA for o in flight):
        state.engine = (NEVER, max(state.engine[1], queue))
        state.clear = [
            (NEVER, max(high, queue + 1)) if high > now else (low, high)
            for low, high in state.clear
        ]
    state.busy = [(NEVER, high) for _, high in state.busy]
