"""Scalar instructions over known and partly known values."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.atlas.lint.values import (
    Form,
    Value,
    add,
    exact_quotient,
    high_of,
    low_of,
    multiply,
    normal,
    raw_sum,
    residue,
    signed,
    signed_range,
    subtract,
    unknown,
    unsigned,
    unsigned_range,
    wrap,
)

_MASK = (1 << 32) - 1


def sign_extend_12(number: int) -> int:
    """The 12-bit field of a number, read as signed."""
    return ((number + 2048) & 4095) - 2048


def _bits(combine: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    def run(a: Value, b: Value) -> Value:
        if isinstance(a, int) and isinstance(b, int):
            return wrap(combine(a, b))
        (low_a, high_a), (low_b, high_b) = signed_range(a), signed_range(b)
        if low_a < 0 or low_b < 0:
            return unknown()
        return unknown(0, (1 << max(high_a, high_b).bit_length()) - 1)

    return run


_or = _bits(lambda a, b: a | b)
_xor = _bits(lambda a, b: a ^ b)


def _and(a: Value, b: Value) -> Value:
    if isinstance(a, int) and isinstance(b, int):
        return wrap(a & b)
    if isinstance(a, int):
        a, b = b, a
    if not isinstance(b, int):
        low_a, high_a = signed_range(a)
        low_b, high_b = signed_range(b)
        if low_a >= 0 and low_b >= 0:
            return unknown(0, min(high_a, high_b))
        return unknown()
    if b == 0 or b == -1:
        return 0 if b == 0 else a
    step = b & -b  # lowest bit kept
    if b > 0:
        if (b + step) & b == 0 and residue(a, step) == (step, 0):
            low, high = signed_range(a)
            if low >= 0 and high < b + step:
                return a
        return unknown(0, b, step)
    if step == -b:  # only clears low bits
        if residue(a, step) == (step, 0):
            return a
        low, high = signed_range(a)
        return unknown(low & b, high & b, step)
    return unknown()


def _shift_left(a: Value, b: Value) -> Value:
    if not isinstance(b, int):
        return unknown()
    return multiply(a, 1 << (b & 31))


def _shift_right(a: Value, b: Value, arithmetic: bool) -> Value:
    if not isinstance(b, int):
        return unknown()
    shift = b & 31
    if isinstance(a, int):
        return wrap((a if arithmetic else a & _MASK) >> shift)
    form = signed(a) if arithmetic else unsigned(a)
    if form is not None:
        exact = exact_quotient(form, 1 << shift)
        if exact is not None:
            return normal(exact)
    low, high = signed_range(a) if arithmetic else unsigned_range(a)
    return normal(unknown(low >> shift, high >> shift)) if high >> shift < 1 << 31 else unknown()


def compare(condition: str, a: Value, b: Value) -> bool | None:
    """Whether `eq ne lt ge ltu geu` holds; None where the values do not decide."""
    if isinstance(a, int) and isinstance(b, int):
        if condition.endswith("u"):
            a, b = a & _MASK, b & _MASK
        return {
            "eq": a == b, "ne": a != b, "lt": a < b, "ge": a >= b, "ltu": a < b, "geu": a >= b,
        }[condition]  # fmt: skip
    difference = distance(condition, a, b)
    if difference is None:
        return None
    low, high = low_of(difference), high_of(difference)
    if condition in ("eq", "ne"):
        equal: bool | None = None
        if low == high == 0:
            equal = True
        elif low > 0 or high < 0 or residue(difference, 0)[1]:
            equal = False
        return equal if equal is None or condition == "eq" else not equal
    less = True if high < 0 else False if low >= 0 else None
    return less if less is None or condition.startswith("lt") else not less


def distance(condition: str, a: Value, b: Value) -> Value | None:
    """a - b in the reading the condition uses, or None where that is no single form."""
    for read in (unsigned,) if condition.endswith("u") else (signed, unsigned):
        form_a, form_b = read(a), read(b)
        if form_a is not None and form_b is not None:
            return raw_sum(form_a, form_b, -1)
        if condition not in ("eq", "ne"):
            break  # only equality means the same in both readings
    return None


def _set_less(condition: str) -> Callable[[Value, Value], Value]:
    def run(a: Value, b: Value) -> Value:
        outcome = compare(condition, a, b)
        return unknown(0, 1) if outcome is None else int(outcome)

    return run


# Mnemonic -> result from the two source values; immediates come sign-extended.
OPERATIONS: dict[str, Callable[[Value, Value], Value]] = {
    "add": add,
    "sub": subtract,
    "xor": _xor,
    "or": _or,
    "and": _and,
    "sll": _shift_left,
    "srl": lambda a, b: _shift_right(a, b, False),
    "sra": lambda a, b: _shift_right(a, b, True),
    "slt": _set_less("lt"),
    "sltu": _set_less("ltu"),
}
for _name in ("add", "xor", "or", "and", "slt"):
    OPERATIONS[_name + "i"] = OPERATIONS[_name]
OPERATIONS["sltiu"] = OPERATIONS["sltu"]
for _name in ("sll", "srl", "sra"):
    OPERATIONS[_name + "i"] = OPERATIONS[_name]

# What a scalar load may bring.
LOADED: dict[str, tuple[int, int]] = {
    "lb": (-128, 127),
    "lbu": (0, 255),
    "lh": (-(1 << 15), (1 << 15) - 1),
    "lhu": (0, (1 << 16) - 1),
    "lw": (-(1 << 31), (1 << 31) - 1),
}

CONDITIONS = {"beq": "eq", "bne": "ne", "blt": "lt", "bge": "ge", "bltu": "ltu", "bgeu": "geu"}
NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "ltu": "geu", "geu": "ltu"}

__all__ = [
    "CONDITIONS",
    "LOADED",
    "NEGATED",
    "OPERATIONS",
    "Form",
    "compare",
    "distance",
    "sign_extend_12",
]
