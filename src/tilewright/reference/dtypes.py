"""Element types of tensors and exact conversions between them, for whole arrays.

A value lives in one of two forms:

*stored*   the array has the type's own width: bf16 and fp8 as `ml_dtypes` arrays, f16/f32/f64
           and integers as numpy's, `i1` as bool, `index` as int64.
*working*  floats of 32 bits or fewer are float32 arrays whose every value is a member of the
           narrow type; f64 is float64; integers and i1 look the same as stored.

`rounded` brings any float array (float32 or float64) onto a type's grid in working form, in one
rounding to nearest, ties to even. Going from float64 to a narrow type never passes through an
ordinary float32 rounding, which would round twice.

Overflow: f16, bf16, f8E5M2 and the IEEE types become infinite; f8E4M3FN saturates: everything
above 448 in magnitude, infinity included, becomes ±448 and NaN stays NaN. The finite FNUZ types
follow the same saturating rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin
from xdsl.ir import Attribute

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ElementType:
    """One element type: how it is stored, how it is computed with, how values reach its grid."""

    name: str
    kind: str  # "float", "int" or "bool"
    bits: int
    storage: np.dtype[Any]
    work: np.dtype[Any]
    signed: bool = True

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    def __str__(self) -> str:
        return self.name


# --------------------------------------------------------------------------- rounding of floats


def contiguous(values: Array) -> Array:
    """The array in C order; unlike numpy's own function this keeps rank 0."""
    return np.ascontiguousarray(values).reshape(np.shape(values))


@cache
def _byte_table(storage: np.dtype[Any]) -> Array:
    table = np.arange(256, dtype=np.uint8).view(storage).astype(np.float32)
    table.setflags(write=False)
    return table


def _as_float32_for_narrowing(values: Array) -> Array:
    return arithmetic.narrow_to_odd(values) if values.dtype == np.float64 else values


def _store_bf16(values: Array, _: ElementType) -> Array:
    bits = arithmetic.f32_to_bf16(_as_float32_for_narrowing(values))
    return bits.reshape(values.shape).view(ml_dtypes.bfloat16)


def _store_f16(values: Array, _: ElementType) -> Array:
    with np.errstate(over="ignore"):
        return _as_float32_for_narrowing(values).astype(np.float16)


def _store_f32(values: Array, _: ElementType) -> Array:
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _store_f64(values: Array, _: ElementType) -> Array:
    return values.astype(np.float64)


def _store_small(values: Array, element: ElementType) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        return _as_float32_for_narrowing(values).astype(element.storage)


def _store_saturating(values: Array, element: ElementType) -> Array:
    largest = float(ml_dtypes.finfo(element.storage).max)
    clipped = np.clip(_as_float32_for_narrowing(values), -largest, largest)
    return clipped.astype(element.storage)


_SATURATING = {"f8E4M3FN", "f8E4M3FNUZ", "f8E5M2FNUZ", "f8E4M3B11FNUZ", "f4E2M1FN"}
_STORE: dict[str, Callable[[Array, ElementType], Array]] = {
    "bf16": _store_bf16,
    "f16": _store_f16,
    "f32": _store_f32,
    "f64": _store_f64,
}


def _float(name: str, bits: int, storage: Any) -> ElementType:
    work = np.dtype(np.float64 if name == "f64" else np.float32)
    return ElementType(name, "float", bits, np.dtype(storage), work)


F64 = _float("f64", 64, np.float64)
F32 = _float("f32", 32, np.float32)
F16 = _float("f16", 16, np.float16)
BF16 = _float("bf16", 16, ml_dtypes.bfloat16)
F8E4M3FN = _float("f8E4M3FN", 8, ml_dtypes.float8_e4m3fn)
F8E5M2 = _float("f8E5M2", 8, ml_dtypes.float8_e5m2)
FLOATS: dict[str, ElementType] = {
    element.name: element
    for element in (
        F64,
        F32,
        F16,
        BF16,
        F8E4M3FN,
        F8E5M2,
        _float("f8E4M3", 8, ml_dtypes.float8_e4m3),
        _float("f8E3M4", 8, ml_dtypes.float8_e3m4),
        _float("f8E4M3FNUZ", 8, ml_dtypes.float8_e4m3fnuz),
        _float("f8E5M2FNUZ", 8, ml_dtypes.float8_e5m2fnuz),
        _float("f8E4M3B11FNUZ", 8, ml_dtypes.float8_e4m3b11fnuz),
        _float("f8E8M0FNU", 8, ml_dtypes.float8_e8m0fnu),
        _float("f4E2M1FN", 4, ml_dtypes.float4_e2m1fn),
    )
}
I1 = ElementType("i1", "bool", 1, np.dtype(np.bool_), np.dtype(np.bool_))
INDEX = ElementType("index", "int", 64, np.dtype(np.int64), np.dtype(np.int64))


@cache
def integer(bits: int, signed: bool = True) -> ElementType:
    """The integer type of a width; widths without a numpy type sit in the next wider one."""
    if bits == 1:
        return I1
    if bits > 64:
        raise TilewrightError(
            "TW1502",
            f"the reference executor has no {bits}-bit integers",
            hint="use integers of at most 64 bits",
        )
    width = next(w for w in (8, 16, 32, 64) if w >= bits)
    dtype = np.dtype(f"{'int' if signed else 'uint'}{width}")
    return ElementType(f"{'' if signed else 'u'}i{bits}", "int", bits, dtype, dtype, signed)


@cache
def element_type(attribute: Attribute) -> ElementType:
    """The element type of an MLIR type: a scalar type or the element of a shaped one."""
    if isinstance(attribute, builtin.ShapedType):
        return element_type(attribute.get_element_type())  # pyright: ignore
    if isinstance(attribute, builtin.IndexType):
        return INDEX
    if isinstance(attribute, builtin.IntegerType):
        unsigned = attribute.signedness.data == builtin.Signedness.UNSIGNED
        return integer(attribute.width.data, not unsigned)
    found = FLOATS.get(getattr(attribute, "name", ""))
    if found is None:
        raise TilewrightError(
            "TW1502",
            f"the reference executor has no values of type {attribute}",
            hint="supported: f64, f32, f16, bf16, the 8-bit floats, i1 to i64 and index",
        )
    return found


# --------------------------------------------------------------------------- the two forms


def stored(values: Array, element: ElementType) -> Array:
    """Working or wider values -> the stored form, rounded once (floats) or wrapped (integers)."""
    if element.is_float:
        # numpy drops 0-d arrays to scalars in arithmetic: keep arrays.
        values = np.asarray(values)
        if values.dtype == element.storage:
            return values
        if element.name in _STORE:
            store = _STORE[element.name]
        else:
            store = _store_saturating if element.name in _SATURATING else _store_small
        return np.asarray(store(values, element))
    return wrapped(np.asarray(values), element)


def held(values: Any, element: ElementType) -> Array:
    """Constants as a narrower float can hold them: what is finite stays finite.

    float32's smallest number, which masks are made of, would round to minus infinity, and that
    times zero is no number.
    """
    values = np.asarray(values)
    largest = float(ml_dtypes.finfo(element.storage).max)
    wide = np.abs(values) > largest
    return np.where(wide & np.isfinite(values), np.copysign(largest, values), values)


def literal(value: float, element: ElementType) -> float:
    """A single number in a narrower float: finite stays finite, and what keeps a quotient from being
    divided by zero stays more than that."""
    smallest = float(ml_dtypes.finfo(element.storage).smallest_subnormal)
    if 0 < abs(value) < smallest:
        return math.copysign(smallest, value)
    return float(held(value, element))


def working(values: Array, element: ElementType) -> Array:
    """The stored form -> the form to compute with (exact)."""
    values = np.asarray(values)
    if values.dtype == element.work:
        return values
    if element is BF16:
        return arithmetic.bf16_to_f32(contiguous(values).view(np.uint16))
    if element.is_float and element.storage.itemsize == 1:
        return _byte_table(element.storage)[values.view(np.uint8)]
    return values.astype(element.work)


def rounded(values: Array, element: ElementType) -> Array:
    """A float32 or float64 array -> the same values on the type's grid, in working form."""
    values = np.asarray(values)
    if element is F32:
        with np.errstate(over="ignore"):
            return values if values.dtype == np.float32 else values.astype(np.float32)
    if element is F64:
        return values.astype(np.float64, copy=False)
    if element is BF16:
        bits = arithmetic.f32_to_bf16(_as_float32_for_narrowing(values))
        return arithmetic.bf16_to_f32(bits).reshape(values.shape)
    return working(stored(values, element), element)


def wrapped(values: Array, element: ElementType) -> Array:
    """Integers of any width -> the type's width, modulo 2^bits."""
    if element.kind == "bool":
        if values.dtype == np.bool_:
            return values
        return (values & 1).astype(np.bool_)
    if values.dtype == np.bool_:
        # The single bit of an i1 is a sign bit in MLIR's signed reading; as a number it is 0 or 1.
        return values.astype(element.storage)
    result = values.astype(element.storage, copy=False)
    unused = element.storage.itemsize * 8 - element.bits
    if unused:
        result = (result << unused) >> unused
    return result


def unsigned_view(values: Array, element: ElementType) -> Array:
    """Integers read as unsigned, in a numpy unsigned type of the container's width."""
    if values.dtype == np.bool_:
        return values.astype(np.uint8)
    result = values.astype(np.dtype(f"uint{element.storage.itemsize * 8}"))
    unused = element.storage.itemsize * 8 - element.bits
    if unused:
        result &= result.dtype.type((1 << element.bits) - 1)
    return result


def signed_view(values: Array, element: ElementType) -> Array:
    """Integers read as signed two's complement; an i1 that is set reads as -1."""
    if values.dtype == np.bool_:
        return -values.astype(np.int8)
    return values.astype(np.dtype(f"int{element.storage.itemsize * 8}"), copy=False)


# --------------------------------------------------------------------------- bytes and texts


def from_bytes(data: bytes, element: ElementType, shape: tuple[int, ...]) -> Array:
    """Little-endian bytes, one element after the other, as MLIR and safetensors keep them."""
    raw = np.frombuffer(data, dtype=np.uint8)
    array = raw != 0 if element.kind == "bool" else raw.view(element.storage)
    return array.reshape(shape)


def from_safetensors(array: Array, element: ElementType) -> Array:
    """A weight as numpy loaded it (bf16 and fp8 may come as raw integers) in stored form."""
    if array.dtype == element.storage:
        return array
    raw_integer = array.dtype.kind in "iuV" and array.dtype.itemsize == element.storage.itemsize
    if element.is_float and raw_integer:
        return array.view(element.storage)
    if element.kind == "bool":
        return array != 0
    raise TilewrightError(
        "TW1504",
        f"a weight of numpy type {array.dtype} was given where {element.name} is needed",
        hint="store the weight in the type the module names",
    )


def of_array(array: Array) -> ElementType:
    """The element type of a numpy array."""
    dtype = array.dtype
    if dtype == np.bool_:
        return I1
    if dtype.kind in "iu":
        return integer(dtype.itemsize * 8, dtype.kind == "i")
    for element in FLOATS.values():
        if element.storage == dtype:
            return element
    raise TilewrightError("TW1502", f"the reference executor has no values of numpy type {dtype}")


def numpy_type(name: str) -> np.dtype:
    """The numpy type of an element type as MLIR spells it."""
    if name in FLOATS:
        return FLOATS[name].storage
    if name == "index":
        return np.dtype(np.int64)
    return integer(int(name.lstrip("sui")), not name.startswith("u")).storage
