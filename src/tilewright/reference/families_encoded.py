"""Kernel families on codes; the arithmetic is that of `codes`."""

from __future__ import annotations

import numpy as np

from tilewright.dialects.encodings import scale_of, zero_of
from tilewright.reference import codes
from tilewright.reference.dtypes import Array
from tilewright.reference.encoded_operands import role_type
from tilewright.reference.families import Call, family, mapped


def _result_codes(call: Call, y: Array) -> Array:
    """Numbers in units of the result's scale as codes, or as floats."""
    if call.target.is_float:
        return y
    return codes.encode(y, zero_of(call.kernel.result), call.target.bits)


@family("quantise")
def quantise(call: Call) -> Array:
    operands = mapped(call)
    x, factor = operands["x"], operands.get("factor")
    result, scale = call.kernel.result, scale_of(call.kernel.result)
    if factor is not None:
        with np.errstate(all="ignore"):
            return _result_codes(call, x.astype(np.float32) * factor.astype(np.float32))
    assert scale is not None
    if call.target.is_float:
        return x.astype(np.float64) / scale
    method = call.kernel.string("method") or "multiply"
    return codes.quantise(x, scale, zero_of(result), call.target.bits, method)


@family("dequantise")
def dequantise(call: Call) -> Array:
    type_ = role_type(call, "x")
    scale = scale_of(type_)
    assert scale is not None
    if call.elements["x"].is_float:
        return call.values["x"].astype(np.float64) * scale
    return codes.dequantise(call.values["x"], scale, zero_of(type_))


@family("rescale")
def rescale(call: Call) -> Array:
    operands = mapped(call)
    factor = operands.get("factor")
    if factor is None:
        factor = np.asarray(call.kernel.floating("factor"), dtype=np.float32)
    return _result_codes(call, codes.rescale(operands["x"], factor))


@family("rescale_fixed")
def rescale_fixed(call: Call) -> Array:
    operands = mapped(call)
    left, zero = call.kernel.integer("left") or 0, zero_of(call.kernel.result)
    return codes.rescale_fixed(operands["x"], operands["multiplier"], operands["shift"], left, zero)


@family("encoded_add")
def encoded_add(call: Call) -> Array:
    terms = []
    for role in ("lhs", "rhs"):
        type_ = role_type(call, role)
        terms.append((call.values[role], scale_of(type_) or 1.0, zero_of(type_)))
    result = call.kernel.result
    method = call.kernel.string("method") or "float"
    return codes.add((terms[0], terms[1]), scale_of(result) or 1.0, zero_of(result), method)


@family("table")
def table(call: Call) -> Array:
    return call.values["table"][call.values["x"].astype(np.int64) + 128]


@family("absmax_factor")
def absmax_factor(call: Call) -> Array:
    limit, least = call.kernel.floating("limit"), call.kernel.floating("least")
    assert limit is not None and least is not None
    return codes.absmax_factor(call.values["x"], call.axis(), limit, least)
