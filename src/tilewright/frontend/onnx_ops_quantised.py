"""ONNX operators on quantised values: QuantizeLinear, DequantizeLinear and integer products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import literal, map_attribute
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    SSAValue,
    TensorType,
)
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, front, lowers, unsupported
from tilewright.frontend.onnx_ops_elementwise import cast_to
from tilewright.frontend.onnx_ops_movement import reshaped
from tilewright.frontend.onnx_ops_products import product
from tilewright.frontend.onnx_ops_windows import convolve
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    Constant,
    Value,
    element,
    is_float,
    is_unsigned,
    number_of,
    shape,
)


def is_zero(value: Value | None) -> bool:
    return value is None or (
        isinstance(value, Constant) and not np.any(value.array.astype(np.float32))
    )


def along(low: Lowering, value: Value, node: Node, sizes: Sequence[int]) -> Value:
    """A scale or zero point shaped to broadcast over x: one value, one per axis entry, or blocks."""
    own = shape(value)
    if not own or own == (1,):
        return reshaped(low, value, [])
    axis = front(node.get("axis", 1), len(sizes))
    block = node.get("block_size", 0)
    if len(own) == 1 and not block:
        column = [own[0] if d == axis else 1 for d in range(len(sizes))]
        return reshaped(low, value, column)
    if not block:
        unsupported("a scale of several dimensions without block_size")
    apart = [*own[: axis + 1], 1, *own[axis + 1 :]]
    wide = [*own[: axis + 1], block, *own[axis + 1 :]]
    spread = low.expand(low.reshape(low.tensor(value), apart), wide)
    whole = low.reshape(spread, [*own[:axis], own[axis] * block, *own[axis + 1 :]])
    if shape(whole) != tuple(sizes):
        whole = low.slice(whole, [0] * len(sizes), sizes, [1] * len(sizes))
    return whole


def with_scale(low: Lowering, family: str, x: SSAValue, scale: Value, to: Attribute) -> SSAValue:
    """A `requant` or `dequant` by a scale that broadcasts over x."""
    sizes = shape(x)
    result = TensorType(to, sizes)
    if isinstance(scale, Constant) and scale.array.size == 1:
        number = float(scale.array.astype(np.float64).reshape(-1)[0])
        return low.call(family, [x], result, {"scale": FloatAttr(number, builtin.f64)})
    operand = low.tensor(scale)
    lanes = low.lane(operand, sizes)
    maps = [
        map_attribute(len(sizes), range(len(sizes))),
        map_attribute(len(sizes), lanes.loops),
    ]
    return low.call(family, [x, operand], result, {"operand_maps": ArrayAttr(maps)})


@lowers("QuantizeLinear")
def quantise(low: Lowering, node: Node) -> Value:
    x, scale, zero = low.tensor(node.required(0)), node.required(1), node.input(2)
    number = number_of(zero) if zero is not None else node.get("output_dtype", 0) or 2
    if number not in ELEMENTS:
        raise Problem("TW6008", "tensors of this element type do not exist here")
    target = ELEMENTS[number][1]
    if is_float(target) and not node.get("saturate", 1):
        unsupported(
            "quantisation to a float without saturation", "kernels saturate: use saturate=1"
        )
    precision = node.get("precision", 0)
    kind = ELEMENTS[precision][1] if precision else element(scale)
    if not is_float(element(x)) or element(x) != kind:
        x = low.tensor(low.cast(x, kind))
    scale = along(low, low.cast(scale, kind), node, shape(x))
    return quantised(low, x, scale, zero, target, node)


def quantised(
    low: Lowering, x: SSAValue, scale: Value, zero: Value | None, target: Attribute, node: Node
) -> SSAValue:
    """round(x / scale) + zero point, saturated."""
    if is_zero(zero) and (str(target) == "f8E4M3FN" or not is_float(target)):
        return with_scale(low, "requant", x, scale, target)
    divided = low.apply("elementwise_div", x, scale)
    if is_float(target):
        result = cast_to(low, divided, _number(target))
        return low.tensor(result)
    assert isinstance(target, IntegerType)
    kind = element(x)
    rounded = low.apply("elementwise_round", divided)
    wide = low.cast(rounded, builtin.f32)
    assert zero is not None
    point = along(low, low.cast(zero, builtin.f32), node, shape(x))
    moved = low.apply("elementwise_add", wide, point)
    bits = target.width.data
    least, most = (
        (0, 2**bits - 1) if is_unsigned(target) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )
    bounds = {n: literal(v, builtin.f32).value for n, v in (("min", least), ("max", most))}
    assert kind is not None
    return low.tensor(low.cast(low.apply("clamp", moved, attributes=dict(bounds)), target))


def _number(target: Attribute) -> int:
    return next(number for number, row in ELEMENTS.items() if row[1] == target)


@lowers("DequantizeLinear")
def dequantise(low: Lowering, node: Node) -> Value:
    x, scale, zero = low.tensor(node.required(0)), node.required(1), node.input(2)
    wanted = node.get("output_dtype", 0)
    to = ELEMENTS[wanted][1] if wanted else element(scale)
    return dequantised(low, x, scale, zero, to, node)


def dequantised(
    low: Lowering, x: SSAValue, scale: Value, zero: Value | None, to: Attribute, node: Node
) -> SSAValue:
    """(x - zero point) * scale."""
    sizes = shape(x)
    axis, block = node.get("axis", 1), node.get("block_size", 0)
    if is_zero(zero) and block and sizes[axis] % block == 0 and element(scale) == to:
        attributes: dict[str, Attribute] = {
            "block": IntegerAttr(block, builtin.i64),
            "axis": IntegerAttr(front(axis, len(sizes)), builtin.i64),
        }
        return low.call("dequant", [x, low.tensor(scale)], TensorType(to, sizes), attributes)
    factor = along(low, low.cast(scale, to), node, sizes)
    if is_zero(zero):
        return with_scale(low, "dequant", x, factor, to)
    assert zero is not None
    wide = low.cast(x, builtin.i32 if not is_float(element(x)) else to)
    point = along(low, low.cast(zero, element(wide)), node, sizes)
    moved = low.apply("elementwise_sub", wide, point)
    return low.apply("elementwise_mul", low.cast(moved, to), factor)


# ---------------------------------------------------------------------------- integer products


def centred(
    low: Lowering, x: SSAValue, zero: Value | None, column: Sequence[int] | None
) -> SSAValue:
    """x - zero point in 32-bit integers; without one x stays as it is."""
    if is_zero(zero):
        return x
    assert zero is not None
    wide = low.cast(x, builtin.i32)
    point: Value = low.cast(zero, builtin.i32)
    if column is not None and len(shape(point)) == 1 and shape(point) != (1,):
        point = low.reshape(low.tensor(point), column)
    return low.apply("elementwise_sub", wide, point)


@lowers("MatMulInteger")
def integer_product(low: Lowering, node: Node) -> Value:
    left = centred(low, low.tensor(node.required(0)), node.input(2), [-1])
    right = centred(low, low.tensor(node.required(1)), node.input(3), None)
    return product(low, *_same(low, left, right), builtin.i32)


def _same(low: Lowering, left: SSAValue, right: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Operands of one integer type: both as they are, or both in 32 bits."""
    if element(left) == element(right):
        return left, right
    return low.tensor(low.cast(left, builtin.i32)), low.tensor(low.cast(right, builtin.i32))


@lowers("ConvInteger")
def integer_convolution(low: Lowering, node: Node) -> Value:
    x = centred(low, low.tensor(node.required(0)), node.input(2), None)
    w_sizes = shape(node.required(1))
    column = [w_sizes[0]] + [1] * (len(w_sizes) - 1)
    w = centred(low, low.tensor(node.required(1)), node.input(3), column)
    return convolve(low, node, *_same(low, x, w), None, builtin.i32)


@lowers("QLinearMatMul")
def quantised_product(low: Lowering, node: Node) -> Value:
    """The integer product, scaled by a_scale * b_scale / y_scale and quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (node.required(i) for i in range(8))
    left = centred(low, low.tensor(a), a_zero, None)
    right = centred(low, low.tensor(b), b_zero, None)
    total = product(low, *_same(low, left, right), builtin.i32)
    kind = builtin.f32
    scales = [low.cast(s, kind) for s in (a_scale, b_scale, y_scale)]
    real = low.apply(
        "elementwise_mul", low.cast(total, kind), low.apply("elementwise_mul", *scales[:2])
    )
    return quantised(
        low, real, along(low, scales[2], node, shape(real)), y_zero, element(y_zero), node
    )


@lowers("QLinearConv")
def quantised_convolution(low: Lowering, node: Node) -> Value:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (node.required(i) for i in range(8))
    w_sizes = shape(w)
    column = [w_sizes[0]] + [1] * (len(w_sizes) - 1)
    left = centred(low, low.tensor(x), x_zero, None)
    right = centred(low, low.tensor(w), w_zero, column)
    bias = node.input(8)
    operand = None if bias is None else low.tensor(bias)
    total = convolve(low, node, *_same(low, left, right), operand, builtin.i32)
    factor: Value = low.cast(w_scale, builtin.f32)
    if len(shape(factor)) == 1 and shape(factor) != (1,):  # channels are the result's second axis
        factor = low.reshape(low.tensor(factor), [w_sizes[0]] + [1] * (len(w_sizes) - 2))
    factor = low.apply("elementwise_mul", factor, low.cast(x_scale, builtin.f32))
    real = low.apply("elementwise_mul", low.cast(total, builtin.f32), factor)
    return quantised(low, real, low.cast(y_scale, builtin.f32), y_zero, element(y_zero), node)
