"""Where control transfers go, and what a branch taken or not tells about registers."""

from __future__ import annotations

from tilewright.targets.atlas.lint.facts import Facts
from tilewright.targets.atlas.lint.scalar import CONDITIONS, NEGATED, compare, distance
from tilewright.targets.atlas.lint.session import FAR, Session
from tilewright.targets.atlas.lint.state import State
from tilewright.targets.atlas.lint.values import (
    Form,
    Symbol,
    Value,
    add,
    high_of,
    low_of,
    residue,
    unsigned,
)

MAX_TARGETS = 64  # of one jalr that lint follows


def transfer(run: Session, state: State, facts: Facts, index: int) -> list[State]:
    tick = state.now
    slots = run.profile.delay_slots
    if state.since < slots:
        run.settle(state, tick, FAR)
        accept = run.profile.delay_slot_transfer == "accept"
        run.report(
            state, "TW2016", index,
            f"{facts.shown} stands in a delay slot of another control transfer",
            hint=f"{slots} other instructions must follow every branch and jump", tick=tick,
            severity="warning" if accept else None,
        )  # fmt: skip
        if not accept:
            state.since = 0
            state.now += 1
            return run.follow(state, None)
    state.since = 0
    tick = run.dispatch(state, facts, tick)
    state.now = tick + 1
    condition = CONDITIONS.get(facts.mnemonic)
    if condition is None:
        return _jump(run, state, facts, index, tick)
    a, b = state.x[facts.rs1], state.x[facts.rs2]
    outcome = compare(condition, a, b)
    if not (isinstance(a, int) and isinstance(b, int)):
        note_turning_point(condition, a, b)
    if outcome is False:
        return run.follow(state, None)
    target = _targets_of(run, state, facts, index)
    if outcome is True:
        return _go(run, state, facts, index, tick, target)
    state.certain = False
    other = state.copy()
    result: list[State] = []
    if refine(state, condition, a, b):
        result += _go(run, state, facts, index, tick, target)
    if refine(other, NEGATED[condition], a, b):
        result += run.follow(other, None)
    return result


def _jump(run: Session, state: State, facts: Facts, index: int, tick: int) -> list[State]:
    targets = _targets_of(run, state, facts, index)
    if facts.rd:
        state.x[facts.rd] = (index + 1) * run.profile.pc_step
    if facts.mnemonic == "jal":
        return _go(run, state, facts, index, tick, targets)
    if targets is None:
        run.report(
            state, "TW2020", index, "jalr goes to an address that is not known", certain=False,
            hint="lint follows jalr only to addresses computed from constants",
        )  # fmt: skip
        run.ended = True
        return []
    if len(targets) > 1:
        state.certain = False
    result: list[State] = []
    for target in targets:
        run.jumped.add(target // run.profile.pc_step)
        copy = state.copy() if len(targets) > 1 else state
        result += _go(run, copy, facts, index, tick, [target])
    return result


def _go(
    run: Session, state: State, facts: Facts, index: int, tick: int, targets: list[int] | None
) -> list[State]:
    """Take a transfer to a target in pc units, unless the machine refuses it."""
    assert targets is not None
    target = targets[0]
    step = run.profile.pc_step
    if target < 0 or target % step:
        run.settle(state, tick + 1, 0)
        run.report(
            state, "TW2018", index,
            f"{facts.shown} goes to address {target}, which is no instruction", tick=tick + 1,
        )  # fmt: skip
        return run.follow(state, None)
    # The machine looks ahead in a straight line, whatever an older transfer will do to its slots.
    count, window = len(run.facts), state.window
    ahead = window[1] + len(window) - 2 if len(window) > 1 else min(window)
    if ahead >= count or any(address >= count for address in window):
        if run.repairs is not None:
            run.repairs.slots_missing = True
        run.report(
            state, "TW2017", index,
            f"{facts.shown} is followed by fewer than {run.profile.delay_slots} instructions, "
            "so it is not taken",
            tick=tick + 1, hint="append nops to the program",
        )  # fmt: skip
        return run.follow(state, None)
    return run.follow(state, [target // step])


def _targets_of(run: Session, state: State, facts: Facts, index: int) -> list[int] | None:
    """Possible targets in pc units; None when a jalr may go anywhere."""
    step = run.profile.pc_step
    if facts.mnemonic != "jalr":
        offset = facts.immediate if step == 4 else facts.immediate // 4
        return [index * step + offset]
    target = unsigned(add(state.x[facts.rs1], facts.immediate))
    if target is None:
        return None
    if isinstance(target, int):
        return [target]
    low, high = low_of(target), high_of(target)
    stride, _ = residue(target, 0)
    if (high - low) // stride >= MAX_TARGETS:
        return None
    return list(range(low, high + 1, stride))


def note_turning_point(condition: str, a: Value, b: Value) -> None:
    """Remember at which value of its symbol a branch changes its mind."""
    line = _line(distance(condition, a, b))
    if line is not None:
        symbol, const, factor = line
        root = -const // factor
        symbol.marks.update((root - 1, root, root + 1))


def refine(state: State, condition: str, a: Value, b: Value) -> bool:
    """Learn from a condition that holds; False if it cannot."""
    difference = distance(condition, a, b)
    line = _line(difference)
    if line is None:
        return True
    symbol, const, factor = line
    low, high = symbol.low, symbol.high
    if condition == "eq":
        if const % factor:
            return False
        low = high = -const // factor
        if not symbol.low <= low <= symbol.high:
            return False
    elif condition == "ne":
        if const % factor == 0:
            root = -const // factor
            low += root == low
            high -= root == high
    elif condition in ("lt", "ltu"):  # const + factor * s <= -1
        if factor > 0:
            high = min(high, (-1 - const) // factor)
        else:
            low = max(low, -((-1 - const) // -factor))
    elif factor > 0:  # const + factor * s >= 0
        low = max(low, -(const // factor))
    else:
        high = min(high, const // -factor)
    if low > high:
        return False
    if (low, high) != (symbol.low, symbol.high):
        by: Value = low if low == high else Form(0, ((Symbol(low, high, symbol.marks), 1),))
        state.substitute(symbol, by)
    return True


def _line(difference: Value | None) -> tuple[Symbol, int, int] | None:
    """(symbol, constant, factor) of a difference that depends on one symbol."""
    if isinstance(difference, Form) and len(difference.terms) == 1:
        symbol, factor = difference.terms[0]
        return symbol, difference.const, factor
    return None
