"""Integer arithmetic of whole arrays, and conversions between integers, floats and bits.

Integers wrap modulo 2^bits. What MLIR leaves undefined is fixed here: division by zero gives 0, shifts by
the width or more leave nothing, floats that do not fit an integer saturate and NaN becomes 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array, ElementType

ScalarFunction = Callable[..., Array]


def _divide_towards_zero(a: Array, b: Array) -> Array:
    divisor = np.where(b == 0, np.ones_like(b), b)
    quotient = a // divisor
    inexact_negative = (quotient < 0) & (quotient * divisor != a)
    return np.where(b == 0, np.zeros_like(quotient), quotient + inexact_negative)


def _divide_down(a: Array, b: Array) -> Array:
    return np.where(b == 0, np.zeros_like(a), a // np.where(b == 0, np.ones_like(b), b))


def _divide_up(a: Array, b: Array) -> Array:
    divisor = np.where(b == 0, np.ones_like(b), b)
    quotient = a // divisor
    return np.where(b == 0, np.zeros_like(a), quotient + (quotient * divisor != a))


def _remainder(a: Array, b: Array) -> Array:
    return a - _divide_towards_zero(a, b) * b


def _shift(function: ScalarFunction) -> ScalarFunction:
    """A shift whose distance may reach the width (then every bit is gone)."""

    def shifted(a: Array, b: Array) -> Array:
        width = a.dtype.itemsize * 8
        distance = b.astype(np.uint64)
        safe = np.minimum(distance, np.uint64(width - 1)).astype(a.dtype)
        result = function(a, safe)
        gone = distance >= np.uint64(width)
        fill = function(result, np.ones_like(safe)) if function is np.right_shift else result * 0
        return np.where(gone, fill, result)

    return shifted


def _integer_power(a: Array, b: Array) -> Array:
    """a to the power b with wrap-around; negative powers truncate to 0 unless a is 1 or -1."""
    result = np.power(a, np.maximum(b, 0))
    sign = np.where(b % 2 == 0, np.abs(a), a)
    small = np.where(np.abs(a) == 1, sign, np.zeros_like(a))
    return np.where(b < 0, small, result)


SIGNED: dict[str, ScalarFunction] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": _divide_towards_zero,
    "arith.floordivsi": _divide_down,
    "arith.ceildivsi": _divide_up,
    "arith.remsi": _remainder,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.shrsi": _shift(np.right_shift),
    "math.absi": np.abs,
    "math.ipowi": _integer_power,
}
UNSIGNED: dict[str, ScalarFunction] = {
    "arith.divui": _divide_down,
    "arith.ceildivui": _divide_up,
    "arith.remui": lambda a, b: np.where(b == 0, a, a % np.where(b == 0, np.ones_like(b), b)),
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
    "arith.shli": _shift(np.left_shift),
    "arith.shrui": _shift(np.right_shift),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
}
BOOL: dict[str, ScalarFunction] = {
    "arith.andi": np.logical_and,
    "arith.ori": np.logical_or,
    "arith.xori": np.logical_xor,
    "arith.addi": np.logical_xor,
    "arith.subi": np.logical_xor,
    "arith.muli": np.logical_and,
}
COMPARISONS: tuple[tuple[ScalarFunction, bool], ...] = (
    (np.equal, True),
    (np.not_equal, True),
    (np.less, True),
    (np.less_equal, True),
    (np.greater, True),
    (np.greater_equal, True),
    (np.less, False),
    (np.less_equal, False),
    (np.greater, False),
    (np.greater_equal, False),
)


def count_bits(name: str, values: Array, element: ElementType) -> Array:
    bits = dtypes.unsigned_view(values, element).astype(np.uint64)
    if name == "math.ctpop":
        return np.bitwise_count(bits).astype(element.work)
    if name == "math.cttz":
        lowest = bits & (~bits + np.uint64(1))
        count = np.bitwise_count(lowest - np.uint64(1)).astype(np.int64)
        return np.where(bits == 0, element.bits, count).astype(element.work)
    for distance in (1, 2, 4, 8, 16, 32):
        bits = bits | (bits >> np.uint64(distance))
    return (element.bits - np.bitwise_count(bits).astype(np.int64)).astype(element.work)


# --------------------------------------------------------------------------- conversions


def integer_to_float(
    values: Array, source: ElementType, target: ElementType, signed: bool
) -> Array:
    """Integers, read signed or unsigned, rounded once to a float type (working form)."""
    numbers = (dtypes.signed_view if signed else dtypes.unsigned_view)(values, source)
    if source.bits > 53 and target is not dtypes.F64:
        # Beyond 53 bits a float64 would round first: keep 53 bits and a sticky last one.
        large = np.abs(numbers.astype(np.float64)) >= 2.0**53
        if large.any():
            eleven = numbers.dtype.type(11)
            sticky = ((numbers & numbers.dtype.type(0x7FF)) != 0).astype(numbers.dtype)
            numbers = np.where(large, ((numbers >> eleven) | sticky) << eleven, numbers)
    return dtypes.rounded(numbers.astype(np.float64), target)


def float_to_integer(values: Array, target: ElementType, signed: bool) -> Array:
    """Truncate towards zero; out of range saturates and NaN becomes 0 (undefined in MLIR)."""
    numbers = np.trunc(np.asarray(values, dtype=np.float64))
    low, high = (-(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1)
    if not signed or target.kind == "bool":
        low, high = 0, 2**target.bits - 1
    numbers = np.where(np.isnan(numbers), 0.0, numbers)
    too_high = numbers >= float(high) + (1.0 if target.bits <= 52 else 0.0)
    clipped = np.where(too_high, 0.0, np.maximum(numbers, float(low)))
    whole = clipped.astype(np.int64 if signed else np.uint64)
    whole = np.where(too_high, np.asarray(high, dtype=whole.dtype), whole)
    return dtypes.wrapped(whole, target)


def bitcast(values: Array, source: ElementType, target: ElementType) -> Array:
    """The same bits read as another type of the same width (working form to working form)."""
    if source.kind == "bool" or target.kind == "bool":
        return dtypes.wrapped(values, target)
    bits = dtypes.contiguous(dtypes.stored(values, source)).view(target.storage)
    return dtypes.working(bits.reshape(np.shape(values)), target)


def convert(values: Array, source: ElementType, target: ElementType) -> Array:
    """A value-preserving cast between any two types, signed integers (working form)."""
    if source == target:
        return values
    if source.is_float and target.is_float:
        return dtypes.rounded(values, target)
    if target.is_float:
        return integer_to_float(values, source, target, source.signed and source.kind != "bool")
    if source.is_float:
        return float_to_integer(values, target, target.signed)
    return dtypes.wrapped(values, target)
