"""What lint knows of a scalar register: a number, or an affine form over bounded unknowns.

A `Value` is an `int` (exactly known, kept in -2^31 .. 2^31-1) or a `Form`: a constant plus
multiples of symbols, each symbol being any integer of its range. Two registers that came from
the same unknown keep their distance exactly, which is what address checks in loops need.
"""

from __future__ import annotations

from itertools import count
from math import gcd

_HALF = 1 << 31
_FULL = 1 << 32

MAX_TERMS = 6  # of a form; sums of more unknowns are simply unknown

_numbers = count()


class Symbol:
    """An unknown integer of a range.

    `marks` are values at which some branch changes its mind; a loop widens a symbol to the
    next mark instead of to infinity. Symbols made from one another share their marks.
    """

    __slots__ = ("high", "low", "marks", "order")

    def __init__(self, low: int, high: int, marks: set[int] | None = None) -> None:
        self.low = low
        self.high = high
        self.marks: set[int] = set() if marks is None else marks
        self.order = next(_numbers)

    def __repr__(self) -> str:
        return f"s{self.order}[{self.low}..{self.high}]"


class Form:
    """const + sum of coefficient * symbol, meant modulo 2^32."""

    __slots__ = ("const", "high", "low", "terms")

    def __init__(self, const: int, terms: tuple[tuple[Symbol, int], ...]) -> None:
        self.const = const
        self.terms = terms
        low = high = const
        for symbol, factor in terms:
            if factor > 0:
                low += factor * symbol.low
                high += factor * symbol.high
            else:
                low += factor * symbol.high
                high += factor * symbol.low
        self.low = low
        self.high = high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.const == other.const and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((self.const, self.terms))

    def __repr__(self) -> str:
        return " + ".join([str(self.const), *(f"{k}*{s!r}" for s, k in self.terms)])


Value = int | Form


def wrap(number: int) -> int:
    """The same 32 bits read as a signed number."""
    return ((number + _HALF) & (_FULL - 1)) - _HALF


def unknown(low: int = -_HALF, high: int = _HALF - 1, step: int = 1) -> Value:
    """Some multiple of `step` above `low`, at most `high`."""
    if high - low < step:
        return wrap(low)
    return Form(low, ((Symbol(0, (high - low) // step), step),))


def same(a: Value, b: Value) -> bool:
    """Whether two register contents are equal, whatever the unknowns."""
    difference = raw_sum(a, b, -1)
    return isinstance(difference, int) and difference % _FULL == 0


def low_of(value: Value) -> int:
    return value if isinstance(value, int) else value.low


def high_of(value: Value) -> int:
    return value if isinstance(value, int) else value.high


def _collect(const: int, terms: dict[Symbol, int]) -> Value:
    """The value of a sum, exact as an integer (not wrapped)."""
    kept = tuple(sorted(((s, k) for s, k in terms.items() if k), key=lambda term: term[0].order))
    return Form(const, kept) if kept else const


def raw_sum(a: Value, b: Value, factor: int = 1) -> Value:
    """a + factor * b as integers, without wrapping."""
    if isinstance(a, int) and isinstance(b, int):
        return a + factor * b
    terms: dict[Symbol, int] = {}
    const = 0
    for value, k in ((a, 1), (b, factor)):
        if isinstance(value, int):
            const += k * value
        else:
            const += k * value.const
            for symbol, coefficient in value.terms:
                terms[symbol] = terms.get(symbol, 0) + k * coefficient
    return _collect(const, terms)


def normal(value: Value) -> Value:
    """The register content for an integer result, brought near zero.

    A form whose range does not fit 32 bits stays a form: it is exact modulo 2^32, keeps its
    distance to others, and `signed` and `unsigned` refuse to read it as one range.
    """
    if isinstance(value, int):
        return wrap(value)
    if value.low >= -_HALF and value.high < _FULL and value.low < _HALF:
        return value
    if len(value.terms) > MAX_TERMS:
        step = 1 << 31
        for _, factor in value.terms:
            step = gcd(step, factor)
        return unknown(-_HALF + value.const % step, _HALF - 1, step)
    terms = {symbol: wrap(factor) for symbol, factor in value.terms}
    middle = (value.low + value.high) // 2
    return _collect(value.const - (middle - wrap(middle)), terms)


def add(a: Value, b: Value) -> Value:
    return normal(raw_sum(a, b))


def subtract(a: Value, b: Value) -> Value:
    return normal(raw_sum(a, b, -1))


def multiply(a: Value, factor: int) -> Value:
    return normal(raw_sum(0, a, factor))


def signed(value: Value) -> Value | None:
    """The value read as signed, or None where that is no single form."""
    if isinstance(value, int):
        return value
    return value if value.low >= -_HALF and value.high < _HALF else None


def unsigned(value: Value) -> Value | None:
    """The value read as unsigned, or None where that is no single form."""
    if isinstance(value, int):
        return value & (_FULL - 1)
    if value.low >= 0:
        return value if value.high < _FULL else None
    if value.high < 0 and value.low >= -_FULL:
        return Form(value.const + _FULL, value.terms)
    return None


def signed_range(value: Value) -> tuple[int, int]:
    form = signed(value)
    return (-_HALF, _HALF - 1) if form is None else (low_of(form), high_of(form))


def unsigned_range(value: Value) -> tuple[int, int]:
    form = unsigned(value)
    return (0, _FULL - 1) if form is None else (low_of(form), high_of(form))


def residue(value: Value, modulus: int) -> tuple[int, int]:
    """(g, r): the value is r modulo g, where g is the largest divisor of `modulus` known.

    Modulus 0 asks for the largest g of all (0 for a number that is exactly known).
    """
    if isinstance(value, int):
        return modulus, value % modulus if modulus else value
    step = modulus
    for _, factor in value.terms:
        step = gcd(step, factor)
    return step, value.const % step


def symbols_of(value: Value) -> tuple[Symbol, ...]:
    return () if isinstance(value, int) else tuple(symbol for symbol, _ in value.terms)


def replace(value: Value, symbol: Symbol, by: Value) -> Value:
    """The value with `symbol` replaced, as an integer form."""
    if isinstance(value, int):
        return value
    for own, factor in value.terms:
        if own is symbol:
            rest = _collect(value.const, {s: k for s, k in value.terms if s is not symbol})
            return raw_sum(rest, by, factor)
    return value


def replace_all(value: Value, by: dict[Symbol, Value]) -> Value:
    """The value with all symbols replaced at once; symbols not named stay."""
    if isinstance(value, int):
        return value
    result: Value = value.const
    for symbol, factor in value.terms:
        target = by.get(symbol)
        result = raw_sum(result, Form(0, ((symbol, 1),)) if target is None else target, factor)
    return result


def exact_quotient(value: Value, divisor: int) -> Value | None:
    """value / divisor where that is an integer form."""
    if isinstance(value, int):
        return value // divisor if value % divisor == 0 else None
    if value.const % divisor or any(k % divisor for _, k in value.terms):
        return None
    return Form(value.const // divisor, tuple((s, k // divisor) for s, k in value.terms))


def _overlap_known(start_a: int, length_a: int, start_b: int, length_b: int, block: int) -> int:
    """The same for numbers, as nearly all are where there is one way to go."""
    most = _FULL - 1
    start_a, length_a, start_b, length_b = (
        start_a & most, length_a & most, start_b & most, length_b & most,
    )  # fmt: skip
    if not length_a or not length_b:
        return 0
    before = (start_b + length_b - 1) // block < start_a // block
    after = (start_a + length_a - 1) // block < start_b // block
    return 0 if before or after else 2


def overlap(
    start_a: Value, length_a: Value, start_b: Value, length_b: Value, block: int = 1
) -> int:
    """Whether two byte ranges share a block: 0 never, 1 possibly, 2 always.

    Starts are register contents read as unsigned, lengths likewise.
    """
    if (
        isinstance(start_a, int) and isinstance(length_a, int)
        and isinstance(start_b, int) and isinstance(length_b, int)
    ):  # fmt: skip
        return _overlap_known(start_a, length_a, start_b, length_b, block)
    low_a, high_a = unsigned_range(length_a)
    low_b, high_b = unsigned_range(length_b)
    if high_a == 0 or high_b == 0:
        return 0
    a, b = unsigned(start_a), unsigned(start_b)
    if a is None or b is None:
        apart = raw_sum(start_a, start_b, -1)
        if isinstance(apart, int) and max(high_a, high_b) < _HALF - block:
            # Unknown places at a known distance.
            return int(-high_a - block < wrap(apart) < high_b + block)
        return 1
    if isinstance(a, int) and isinstance(b, int) and low_a == high_a and low_b == high_b:
        first_a, last_a = a // block, (a + low_a - 1) // block
        first_b, last_b = b // block, (b + low_b - 1) // block
        return 2 if first_a <= last_b and first_b <= last_a else 0
    # Distance of the starts; unaligned ranges may touch up to one block more on either side.
    slack = 0
    for value in (a, b, length_a, length_b):
        if residue(value, block) != (block, 0):
            slack = block - 1
    distance = raw_sum(a, b, -1)
    low, high = low_of(distance), high_of(distance)
    # They meet when -length_a < distance < length_b.
    if high <= -high_a - slack or low >= high_b + slack:
        return 0
    if low > -low_a and high < low_b and low_a and low_b:
        return 2
    # Strides may step over the other range: look at the distances actually possible.
    step, rest = residue(distance, 0)
    if step > 1 and not slack:
        lowest = max(low, 1 - high_a)
        if lowest + (rest - lowest) % step > min(high, high_b - 1):
            return 0
    return 1
