"""What one `arith` or `math` operation does to its elements, for whole arrays at once.

`scalar_function(op)` returns a function over arrays in working form (see `dtypes`). Every float
operation is the exact real result rounded once to the operation's type: + - * / and sqrt by
computing in float32, which is wide enough for the narrow types; the transcendental functions by
computing in float64 and rounding from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Operation

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array, ElementType
from tilewright.reference.faults import fault, name_of
from tilewright.reference.scalar_integers import (
    BOOL,
    COMPARISONS,
    SIGNED,
    UNSIGNED,
    ScalarFunction,
    bitcast,
    count_bits,
    float_to_integer,
    integer_to_float,
)


def attribute_of(op: Operation, name: str) -> Any:
    """An attribute wherever the operation keeps it: property or attribute dictionary."""
    return op.properties.get(name, op.attributes.get(name))


# --------------------------------------------------------------------------- floats


def maximum(a: Array, b: Array) -> Array:
    """IEEE maximum: NaN wins, +0 is above -0."""
    result = np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, result)


def minimum(a: Array, b: Array) -> Array:
    """IEEE minimum: NaN wins, -0 is below +0."""
    result = np.minimum(a, b)
    return np.where((a == 0) & (b == 0), -((-a) + (-b)), result)


def maximum_number(a: Array, b: Array) -> Array:
    """As `maximum`, but a number wins over NaN."""
    return np.where((a == 0) & (b == 0), a + b, np.fmax(a, b))


def minimum_number(a: Array, b: Array) -> Array:
    """As `minimum`, but a number wins over NaN."""
    return np.where((a == 0) & (b == 0), -((-a) + (-b)), np.fmin(a, b))


def erf(values: Array) -> Array:
    """The error function of float64 values."""
    values = np.asarray(values, dtype=np.float64)
    flat = np.fromiter(map(math.erf, values.ravel().tolist()), np.float64, values.size)
    return flat.reshape(values.shape)


def erfc(values: Array) -> Array:
    """The complementary error function of float64 values."""
    values = np.asarray(values, dtype=np.float64)
    flat = np.fromiter(map(math.erfc, values.ravel().tolist()), np.float64, values.size)
    return flat.reshape(values.shape)


def round_half_away(values: Array) -> Array:
    """Round to the nearest integer, ties away from zero, sign of zero kept."""
    whole = np.trunc(values)
    return np.copysign(whole + np.where(np.abs(values - whole) >= 0.5, np.sign(values), 0), values)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a * b + c of float32 values in float64, rounded to odd so that one more rounding is exact."""
    a, b, c = (np.asarray(x, dtype=np.float64) for x in (a, b, c))
    product = a * b
    total = product + c
    # The part of the exact sum that `total` lost (Knuth's two-sum).
    virtual = total - product
    lost = (product - (total - virtual)) + (c - virtual)
    bits = np.asarray(total).view(np.int64)
    even = (bits & 1) == 0
    away = (lost > 0) == (total > 0)
    adjust = np.isfinite(total) & (lost != 0) & even
    return np.where(adjust, np.where(away, bits + 1, bits - 1), bits).view(np.float64)


# Results of float32 arithmetic, then one rounding to the type.
_NARROW_FLOAT: dict[str, ScalarFunction] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "math.sqrt": np.sqrt,
}
# Results that are members of the type already.
_EXACT_FLOAT: dict[str, ScalarFunction] = {
    "arith.negf": np.negative,
    "arith.maximumf": maximum,
    "arith.minimumf": minimum,
    "arith.maxnumf": maximum_number,
    "arith.minnumf": minimum_number,
    "math.absf": np.abs,
    "math.copysign": np.copysign,
}
# May leave a narrow type's range only by rounding to integers, hence rounded again.
_INTEGRAL_FLOAT: dict[str, ScalarFunction] = {
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.trunc": np.trunc,
    "math.round": round_half_away,
    "math.roundeven": np.rint,
}
# Computed in float64.
_WIDE_FLOAT: dict[str, ScalarFunction] = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.tanh": np.tanh,
    "math.asin": np.arcsin,
    "math.acos": np.arccos,
    "math.atan": np.arctan,
    "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh,
    "math.atanh": np.arctanh,
    "math.atan2": np.arctan2,
    "math.cbrt": np.cbrt,
    "math.rsqrt": lambda x: 1.0 / np.sqrt(x),
    "math.powf": np.power,
    "math.fpowi": np.power,
    "math.erf": erf,
    "math.erfc": erfc,
    "math.fma": fused_multiply_add,
}


_FLOAT_TESTS: dict[str, Callable[[Array], Array]] = {
    "math.isnan": np.isnan,
    "math.isinf": np.isinf,
    "math.isfinite": np.isfinite,
}

_ORDERED: dict[int, ScalarFunction] = {
    1: np.equal,
    2: np.greater,
    3: np.greater_equal,
    4: np.less,
    5: np.less_equal,
    6: np.not_equal,
}


def compare_floats(predicate: int, a: Array, b: Array) -> Array:
    """`arith.cmpf`: 1-6 ordered, 8-13 the same or unordered, 7 ordered, 14 unordered, 0/15 constant."""
    unordered = np.isnan(a) | np.isnan(b)
    if predicate in (0, 15):
        return np.broadcast_to(np.bool_(predicate == 15), np.broadcast_shapes(a.shape, b.shape))
    if predicate in (7, 14):
        return unordered if predicate == 14 else ~unordered
    if predicate < 7:
        return _ORDERED[predicate](a, b) & ~unordered
    return _ORDERED[predicate - 7](a, b) | unordered


# --------------------------------------------------------------------------- by operation


def _cast_function(name: str, source: ElementType, target: ElementType) -> ScalarFunction | None:
    match name:
        case "arith.extf" | "arith.truncf":
            return lambda x: dtypes.rounded(x, target)
        case "arith.sitofp" | "arith.uitofp":
            return lambda x: integer_to_float(x, source, target, name == "arith.sitofp")
        case "arith.fptosi" | "arith.fptoui":
            return lambda x: float_to_integer(x, target, name == "arith.fptosi")
        case "arith.extsi" | "arith.index_cast":
            return lambda x: dtypes.wrapped(dtypes.signed_view(x, source), target)
        case "arith.extui" | "arith.index_castui":
            return lambda x: dtypes.wrapped(dtypes.unsigned_view(x, source), target)
        case "arith.trunci":
            return lambda x: dtypes.wrapped(x, target)
        case "arith.bitcast":
            return lambda x: bitcast(x, source, target)
        case _:
            return None


def float_function(name: str, element: ElementType) -> ScalarFunction | None:
    """The function of a float operation on one type, or None if the name is not one."""
    if name in _NARROW_FLOAT:
        function = _NARROW_FLOAT[name]
        if element in (dtypes.F32, dtypes.F64):
            return function
        return lambda *args: dtypes.rounded(function(*args), element)
    if name in _EXACT_FLOAT:
        return _EXACT_FLOAT[name]
    if name in _INTEGRAL_FLOAT:
        function = _INTEGRAL_FLOAT[name]
        return lambda x: dtypes.rounded(function(x), element)
    if name in _WIDE_FLOAT:
        function = _WIDE_FLOAT[name]

        def wide(*args: Array) -> Array:
            widened = [np.asarray(a, dtype=np.float64) for a in args]
            return dtypes.rounded(function(*widened), element)

        return wide
    return None


def integer_function(name: str, element: ElementType) -> ScalarFunction | None:
    """The function of an integer operation on one type, or None if the name is not one."""
    if element.kind == "bool" and name in BOOL:
        return BOOL[name]
    for table, view in ((SIGNED, dtypes.signed_view), (UNSIGNED, dtypes.unsigned_view)):
        if name in table:
            function = table[name]

            def call(*args: Array, function=function, view=view) -> Array:
                return dtypes.wrapped(
                    np.asarray(function(*(view(a, element) for a in args))), element
                )

            return call
    if name in ("math.ctpop", "math.ctlz", "math.cttz"):
        return lambda x: count_bits(name, x, element)
    return None


def scalar_function(op: Operation) -> ScalarFunction | None:
    """The function of an arith or math operation over working arrays; None for other operations."""
    name = name_of(op)
    if not (name.startswith("arith.") or name.startswith("math.")) or len(op.results) != 1:
        return None
    target = dtypes.element_type(op.results[0].type)
    if name == "arith.constant":
        constant = dtypes.working(constant_array(op), target)
        return lambda: constant
    source = dtypes.element_type(op.operands[0].type)
    if name == "arith.select":
        return lambda condition, a, b: np.where(condition, a, b)
    if name == "arith.cmpf":
        predicate = attribute_of(op, "predicate").value.data
        return lambda a, b: compare_floats(predicate, np.asarray(a), np.asarray(b))
    if name == "arith.cmpi":
        comparison, signed = COMPARISONS[attribute_of(op, "predicate").value.data]
        view = dtypes.signed_view if signed else dtypes.unsigned_view
        return lambda a, b: comparison(view(a, source), view(b, source))
    if name in _FLOAT_TESTS:
        return _FLOAT_TESTS[name]
    rounding = attribute_of(op, "roundingmode")
    if rounding is not None and "to_nearest_even" not in str(rounding):
        raise fault(op, "TW1502", f"{name} asks for a rounding mode other than nearest even")
    cast = _cast_function(name, source, target)
    if cast is not None:
        return cast
    return (float_function if source.is_float else integer_function)(name, source)


def constant_array(op: Operation) -> Array:
    """The stored value of an `arith.constant` that is written in the module itself."""
    value = attribute_of(op, "value")
    element = dtypes.element_type(op.results[0].type)
    if isinstance(value, builtin.DenseIntOrFPElementsAttr):
        shape = tuple(value.get_shape())
        if len(value) == 1:  # one number for all elements
            return np.broadcast_to(dtypes.from_bytes(value.data.data, element, ()), shape)
        array = dtypes.from_bytes(value.data.data, element, shape)
        array.setflags(write=False)
        return array
    if isinstance(value, builtin.FloatAttr):
        return dtypes.stored(np.asarray(value.value.data, dtype=np.float64), element)
    if isinstance(value, builtin.IntegerAttr):
        return integer_scalar(value.value.data, element)
    raise fault(
        op, "TW1502", f"a constant of kind {getattr(value, 'name', value)} has no value here"
    )


def integer_scalar(value: int, element: ElementType) -> Array:
    """A Python integer as a 0-d array of an integer type, wrapped to its width."""
    if element.kind == "bool":
        return np.asarray(bool(value & 1))
    wide = np.asarray(value & (2**64 - 1), dtype=np.uint64)
    return dtypes.wrapped(wide.astype(np.int64) if element.signed else wide, element)
