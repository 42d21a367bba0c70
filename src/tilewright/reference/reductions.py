"""Folding axes of an array with one combining operation.

Float sums and products are accumulated in float64 and rounded once by the caller; integer ones are
exact modulo 2^64; the extremes are exact. `combine` joins the folded values with an initial one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array, ElementType
from tilewright.reference.scalar_ops import maximum, maximum_number, minimum, minimum_number

# Combining operation -> kind of fold.
COMBINERS: dict[str, str] = {
    "arith.addf": "sum",
    "arith.addi": "sum",
    "arith.mulf": "product",
    "arith.muli": "product",
    "arith.maximumf": "max",
    "arith.maxnumf": "maxnum",
    "arith.minimumf": "min",
    "arith.minnumf": "minnum",
    "arith.maxsi": "max",
    "arith.minsi": "min",
    "arith.maxui": "umax",
    "arith.minui": "umin",
    "arith.andi": "and",
    "arith.ori": "or",
    "arith.xori": "xor",
}
_EXTREMES: dict[str, tuple[np.ufunc, Callable[[Array, Array], Array], bool]] = {
    "max": (np.maximum, maximum, True),
    "maxnum": (np.fmax, maximum_number, True),
    "min": (np.minimum, minimum, False),
    "minnum": (np.fmin, minimum_number, False),
}
_BITS: dict[str, np.ufunc] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def fold(values: Array, axes: tuple[int, ...], kind: str, element: ElementType) -> Array:
    """Fold axes (kept with size 1) of working values; sums and products come back wide."""
    if kind in ("sum", "product"):
        if element.kind == "bool":
            ufunc = np.logical_xor if kind == "sum" else np.logical_and
            return _over_axes(ufunc, values, axes)
        wide = np.float64 if element.is_float else np.int64
        ufunc = np.add if kind == "sum" else np.multiply
        return ufunc.reduce(values, axis=axes, keepdims=True, dtype=wide)
    if kind in _EXTREMES and element.is_float:
        ufunc, _, want_positive = _EXTREMES[kind]
        nothing = -np.inf if want_positive else np.inf
        result = ufunc.reduce(values, axis=axes, keepdims=True, initial=nothing).astype(
            values.dtype
        )
        return _zero_signs(values, result, axes, want_positive)
    if kind in (*_EXTREMES, "umax", "umin"):
        view = dtypes.unsigned_view if kind[0] == "u" else dtypes.signed_view
        numbers = view(values, element)
        largest = kind.removeprefix("u").startswith("max")
        ufunc = np.maximum if largest else np.minimum
        limits = np.iinfo(numbers.dtype if numbers.dtype != np.bool_ else np.int8)
        nothing = limits.min if largest else limits.max
        return dtypes.wrapped(
            ufunc.reduce(numbers, axis=axes, keepdims=True, initial=nothing), element
        )
    return _over_axes(_BITS[kind], values, axes)


def _over_axes(ufunc: np.ufunc, values: Array, axes: tuple[int, ...]) -> Array:
    for axis in axes:
        values = ufunc.reduce(values, axis=axis, keepdims=True)
    return values


def _zero_signs(values: Array, result: Array, axes: tuple[int, ...], positive: bool) -> Array:
    """Choose +0 over -0 for maxima and -0 over +0 for minima, whatever the order of elements."""
    zero = result == 0
    if not zero.any():
        return result
    preferred = (values == 0) & (np.signbit(values) != positive)
    found = np.logical_or.reduce(preferred, axis=axes, keepdims=True)
    sign = np.where(found == positive, np.float32(0.0), np.float32(-0.0)).astype(result.dtype)
    return np.where(zero, sign, result)


def combine(initial: Array, folded: Array, kind: str, element: ElementType) -> Array:
    """Initial working values joined with folded ones, rounded once to the type (working form)."""
    if kind in ("sum", "product") and element.kind != "bool":
        if element.is_float:
            wide = initial.astype(np.float64)
            joined = wide + folded if kind == "sum" else wide * folded
            return dtypes.rounded(joined, element)
        wide = initial.astype(np.int64)
        return dtypes.wrapped(wide + folded if kind == "sum" else wide * folded, element)
    if kind in ("sum", "product"):
        return np.logical_xor(initial, folded) if kind == "sum" else initial & folded
    if kind in _EXTREMES and element.is_float:
        return _EXTREMES[kind][1](initial, folded)
    if kind in ("max", "min"):
        view = dtypes.signed_view
    elif kind in ("umax", "umin"):
        view = dtypes.unsigned_view
    else:
        return _BITS[kind](initial, folded)
    choose = np.maximum if kind in ("max", "umax") else np.minimum
    return dtypes.wrapped(choose(view(initial, element), view(folded, element)), element)
