"""Where control transfers go, and what a branch taken or not tells about registers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.targets.atlas.lint.facts import Facts
from tilewright.targets.atlas.lint.scalar import distance
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

if TYPE_CHECKING:
    from tilewright.targets.atlas.lint.stepper import Stepper

MAX_TARGETS = 64


def targets_of(stepper: Stepper, state: State, facts: Facts, index: int) -> list[int] | None:
    """Possible targets in pc units; None when a jalr may go anywhere."""
    step = stepper.profile.pc_step
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
        symbol.marks.update((root, root + 1))


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
