"""Operands of products and sums that are codes: without their zero point, summed exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.dialects.encodings import encoding_of, scale_of, zero_of
from tilewright.dialects.xdsl_api import TensorType
from tilewright.reference import codes
from tilewright.reference.dtypes import Array

if TYPE_CHECKING:
    from tilewright.reference.families import Call


def role_type(call: Call, role: str) -> TensorType:
    """The type of an operand."""
    return call.kernel.types()[role]


def plain(call: Call, role: str) -> Array:
    """An operand of a product or sum: codes without their zero point, or numbers with their scale."""
    values, type_ = call.values[role], role_type(call, role)
    if call.elements[role].is_float:
        scale = scale_of(type_)
        return values if scale is None else values * values.dtype.type(scale)
    zero = zero_of(type_)
    return values.astype(np.int64) - zero if zero else values


def is_encoded(call: Call) -> bool:
    """Whether any operand is codes with a meaning."""
    return any(encoding_of(type_) is not None for type_ in call.kernel.operand_types)


def sums_codes(call: Call) -> bool:
    """Whether integers with an encoding are added up, which is exact or an error."""
    return is_encoded(call) and not call.target.is_float


def exact(call: Call, values: Array) -> Array:
    """A sum in its accumulator; a sum of codes that does not fit it is an error."""
    if sums_codes(call):
        codes.check_sum(values, call.target)
    return values


def sum_of_codes(call: Call) -> Array:
    """The exact sum of codes without their zero point, over the axes of a reduction."""
    axes = call.kernel.integers("axes") or ()
    total = plain(call, "x").astype(np.int64).sum(axis=axes).reshape(call.shape)
    initial = call.values.get("init")
    return exact(call, total if initial is None else total + initial)
