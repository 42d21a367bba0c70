"""Values while an ONNX graph is read: element types, constants, and the names weights get.

A value is either a `Constant`, an array known at import time, or an SSA value of the function being
built. A constant becomes an operation only when an intent reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.xdsl_api import Attribute, IntegerType, SSAValue

Array = np.ndarray[Any, np.dtype[Any]]

INLINE_ELEMENTS = 16  # constants up to this size stand in the text of the module


def _unsigned(bits: int) -> IntegerType:
    return IntegerType(bits, builtin.Signedness.UNSIGNED)


# TensorProto.DataType number -> (name, element type, numpy type values are kept in).
ELEMENTS: dict[int, tuple[str, Attribute, Any]] = {
    1: ("float", builtin.f32, np.float32),
    2: ("uint8", _unsigned(8), np.uint8),
    3: ("int8", builtin.i8, np.int8),
    4: ("uint16", _unsigned(16), np.uint16),
    5: ("int16", builtin.IntegerType(16), np.int16),
    6: ("int32", builtin.i32, np.int32),
    7: ("int64", builtin.i64, np.int64),
    9: ("bool", builtin.i1, np.bool_),
    10: ("float16", builtin.f16, np.float16),
    11: ("double", builtin.f64, np.float64),
    12: ("uint32", _unsigned(32), np.uint32),
    13: ("uint64", _unsigned(64), np.uint64),
    16: ("bfloat16", builtin.bf16, ml_dtypes.bfloat16),
    17: ("float8e4m3fn", builtin.f8E4M3FN, ml_dtypes.float8_e4m3fn),
    18: ("float8e4m3fnuz", builtin.f8E4M3FNUZ, ml_dtypes.float8_e4m3fnuz),
    19: ("float8e5m2", builtin.f8E5M2, ml_dtypes.float8_e5m2),
    20: ("float8e5m2fnuz", builtin.f8E5M2FNUZ, ml_dtypes.float8_e5m2fnuz),
    21: ("uint4", _unsigned(4), np.uint8),
    22: ("int4", builtin.IntegerType(4), np.int8),
    23: ("float4e2m1", builtin.f4E2M1FN, ml_dtypes.float4_e2m1fn),
    24: ("float8e8m0", builtin.f8E8M0FNU, ml_dtypes.float8_e8m0fnu),
}
TYPE_NAMES: dict[int, str] = {
    0: "undefined", 8: "string", 14: "complex64", 15: "complex128", 25: "uint2", 26: "int2",
    **{number: row[0] for number, row in ELEMENTS.items()},
}  # fmt: skip
_OF_ELEMENT = {row[1]: number for number, row in ELEMENTS.items()}
_OF_NUMPY = {np.dtype(row[2]): number for number, row in reversed(ELEMENTS.items())}
_NARROW = {np.dtype(ml_dtypes.int4): np.int8, np.dtype(ml_dtypes.uint4): np.uint8}


def element_number(element: Attribute) -> int:
    """The TensorProto number of an element type."""
    return _OF_ELEMENT[element]


def number_of_array(array: Array) -> int | None:
    """The TensorProto number of an array, or None for types that have no tensors here."""
    if array.dtype == np.dtype(ml_dtypes.int4):
        return 22
    if array.dtype == np.dtype(ml_dtypes.uint4):
        return 21
    return _OF_NUMPY.get(array.dtype)


def stored(array: Array) -> Array:
    """An array as the executor and safetensors keep it: 4-bit integers one to a byte."""
    wide = _NARROW.get(array.dtype)
    return array if wide is None else array.astype(wide)


@dataclass(eq=False)
class Constant:
    """An array known at import time; `name` is what the model calls it."""

    array: Array
    name: str
    number: int
    weight: bool = False  # an initialiser, which goes to the weights when it is not tiny

    @property
    def element(self) -> Attribute:
        return ELEMENTS[self.number][1]


Value = Constant | SSAValue


def shape(value: Value) -> tuple[int, ...]:
    return tuple(value.array.shape) if isinstance(value, Constant) else shape_of(value)


def element(value: Value) -> Attribute:
    return value.element if isinstance(value, Constant) else tensor_type(value).element_type


class WeightNames:
    """Names for `dense_resource`, each an MLIR identifier and used once."""

    def __init__(self) -> None:
        self.original: dict[str, str] = {}  # resource name -> the model's name

    def name(self, wanted: str) -> str:
        """`wanted`, with everything but letters, digits, dots and underscores replaced."""
        base = re.sub(r"[^A-Za-z0-9_.]+", "_", wanted).strip(".") or "weight"
        if not re.match(r"[A-Za-z_]", base):
            base = f"w_{base}"
        found, count = base, 1
        while found in self.original:
            count += 1
            found = f"{base}_{count}"
        self.original[found] = wanted
        return found


def number_of(value: Value) -> int:
    return value.number if isinstance(value, Constant) else element_number(element(value))


def is_float(type_: Attribute) -> bool:
    return isinstance(type_, builtin.AnyFloat)


def is_unsigned(type_: Attribute) -> bool:
    return (
        isinstance(type_, builtin.IntegerType)
        and type_.signedness.data == builtin.Signedness.UNSIGNED
    )


def is_bool(type_: Attribute) -> bool:
    return type_ == builtin.i1


def identifier(name: str) -> str | None:
    """A name for an SSA value, or None when nothing of it can be kept."""
    text = "".join(c if c.isascii() and (c.isalnum() or c in "_.$-") else "_" for c in name)
    text = text.strip("_.")
    if not text:
        return None
    return text if not text[0].isdigit() else f"v{text}"
