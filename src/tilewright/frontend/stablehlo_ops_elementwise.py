"""StableHLO operations on single elements: arithmetic, comparisons, choices, conversions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import AnyFloat, Attribute, SSAValue, StringAttr
from tilewright.frontend.aten_builder import scalar_attribute
from tilewright.frontend.aten_graph import BY_NAME, element_type
from tilewright.frontend.stablehlo_builder import (
    HLOImporter,
    Value,
    View,
    base,
    extent,
    lowers,
    order_of,
)
from tilewright.frontend.stablehlo_reading import number, written

UNARY = {
    "stablehlo.negate": "elementwise_neg",
    "stablehlo.abs": "elementwise_abs",
    "stablehlo.exponential": "elementwise_exp",
    "stablehlo.log": "elementwise_log",
    "stablehlo.sqrt": "elementwise_sqrt",
    "stablehlo.rsqrt": "elementwise_rsqrt",
    "stablehlo.tanh": "elementwise_tanh",
    "stablehlo.sine": "elementwise_sin",
    "stablehlo.cosine": "elementwise_cos",
    "stablehlo.logistic": "elementwise_sigmoid",
    "stablehlo.floor": "elementwise_floor",
    "stablehlo.ceil": "elementwise_ceil",
    "stablehlo.round_nearest_even": "elementwise_round",
    "stablehlo.not": "logical_not",
    "chlo.erf": "elementwise_erf",
    "chlo.square": "elementwise_square",
}
BINARY = {
    "stablehlo.add": "elementwise_add",
    "stablehlo.subtract": "elementwise_sub",
    "stablehlo.multiply": "elementwise_mul",
    "stablehlo.divide": "elementwise_div",
    "stablehlo.maximum": "elementwise_max",
    "stablehlo.minimum": "elementwise_min",
    "stablehlo.power": "elementwise_pow",
    "stablehlo.and": "logical_and",
    "stablehlo.or": "logical_or",
    "stablehlo.xor": "logical_xor",
}
# On truth values, arithmetic is logic.
TRUTH = {
    "elementwise_add": "logical_or",
    "elementwise_mul": "logical_and",
    "elementwise_max": "logical_or",
    "elementwise_min": "logical_and",
}
# The number that leaves the other operand as it is; those on the right only.
NEUTRAL = {
    "elementwise_mul": 1,
    "elementwise_max": -math.inf,
    "elementwise_min": math.inf,
    "logical_and": True,
    "logical_or": False,
}
NEUTRAL_RIGHT = {"elementwise_div": 1, "elementwise_sub": 0}


def through(importer: HLOImporter, value: Value, function: Callable[[SSAValue], SSAValue]) -> Value:
    """An operation on every element, done before elements are repeated."""
    if isinstance(value, View):
        return View(function(value.tensor), value.loops, value.shape)
    return function(value)


@lowers(*UNARY)
def unary(importer: HLOImporter, op: HLOOp) -> Value:
    name = written(op, "name") if op.name == "stablehlo.composite" else op.name
    return through(importer, importer.operand(0), lambda x: importer.unary(UNARY[name], x))


@lowers(*BINARY)
def binary(importer: HLOImporter, op: HLOOp) -> Value:
    left, right = importer.operand(0), importer.operand(1)
    return combined(importer, BINARY[op.name], left, right)


def combined(importer: HLOImporter, family: str, left: Value, right: Value) -> Value:
    """Two values of one shape combined; what changes nothing is left out."""
    kind = importer.kind_of(left)
    if kind.name == "i1":
        family = TRUTH.get(family, family)
    neutral = NEUTRAL.get(family)
    if family.startswith("logical") and kind.name != "i1":
        neutral = None
    if not importer.is_known(left) or not importer.is_known(right):
        if neutral is not None and importer.constant_of(right) == neutral:
            return left
        if neutral is not None and importer.constant_of(left) == neutral:
            return right
        if family in NEUTRAL_RIGHT and importer.constant_of(right) == NEUTRAL_RIGHT[family]:
            return left
        if family == "elementwise_add" and not kind.is_float:
            for one, other in ((left, right), (right, left)):
                if importer.constant_of(one) == 0:
                    return other
        if family == "elementwise_max" and kind.is_float:
            for one, other in ((left, right), (right, left)):
                if importer.constant_of(one) == 0:
                    return through(importer, other, lambda x: importer.unary("elementwise_relu", x))
    if family == "elementwise_mul" and kind.is_float:
        for one, other in ((left, right), (right, left)):
            if one == other:
                return through(importer, one, lambda x: importer.unary("elementwise_square", x))
            if _is_square(one, other):
                return through(importer, other, lambda x: importer.unary("elementwise_cube", x))
    if same_view(left, right):
        # Both repeat the same way: combine first, repeat after.
        assert isinstance(left, View)
        assert isinstance(right, View)
        inner = combined(importer, family, left.tensor, right.tensor)
        if isinstance(inner, SSAValue):
            return View(inner, left.loops, left.shape)
    return importer.spread(family, left, right, shape=extent(left))


def same_view(left: Value, right: Value) -> bool:
    """Whether two views read tensors of one shape through the same loops."""
    return (
        isinstance(left, View)
        and isinstance(right, View)
        and left.loops == right.loops
        and left.tensor.type == right.tensor.type
    )


def _is_square(value: Value, of: Value) -> bool:
    """Whether a value is the square of another."""
    if order_of(value) is None or order_of(value) != order_of(of):
        return False
    owner: Any = base(value).owner
    symbol = getattr(owner, "symbol", None)
    return symbol is not None and symbol.data == "npu_uk_elementwise_square" and (
        owner.operands[0] is base(of)
    )  # fmt: skip


@lowers("compare")
def compare(importer: HLOImporter, op: HLOOp) -> Value:
    left, right = importer.operand(0), importer.operand(1)
    direction = written(op, "comparison_direction").lower()
    kind = importer.kind_of(left)
    if kind.name == "i1":
        left, right = (importer.convert(v, BY_NAME["i32"]) for v in (left, right))
    unsigned = kind.name.startswith("u") and direction not in ("eq", "ne")
    attributes = {"predicate": StringAttr(f"u{direction}" if unsigned else direction)}
    shape, truth = extent(left), BY_NAME["i1"]
    return importer.spread("compare", left, right, shape=shape, to=truth, attributes=attributes)


@lowers("select")
def select(importer: HLOImporter, op: HLOOp) -> Value:
    condition, a, b = (importer.operand(i) for i in range(3))
    shape = extent(a)
    if extent(condition) != shape:
        condition = importer.repeated(condition, [], shape)
    if a == b:
        return a
    return importer.chosen(condition, a, b)


@lowers("clamp")
def clamp(importer: HLOImporter, op: HLOOp) -> Value:
    low, x, high = (importer.operand(i) for i in range(3))
    shape = extent(x)
    low, high = (v if extent(v) == shape else importer.repeated(v, [], shape) for v in (low, high))
    bounds = [importer.constant_of(v) for v in (low, high)]
    element = element_type(importer.kind_of(x))
    if isinstance(element, AnyFloat) and None not in bounds:
        attributes: dict[str, Attribute] = {
            name: scalar_attribute(bound, element)
            for name, bound in zip(("min", "max"), bounds, strict=True)
        }
        return through(importer, x, lambda v: importer.call("clamp", [v], v.type, attributes))
    held = combined(importer, "elementwise_max", x, low)
    return combined(importer, "elementwise_min", held, high)


@lowers("convert")
def convert(importer: HLOImporter, op: HLOOp) -> Value:
    return importer.convert(importer.operand(0), importer.result_kind())


@lowers("reduce_precision")
def reduce_precision(importer: HLOImporter, op: HLOOp) -> Value:
    """Rounding to fewer bits is going there and back, for formats that are types."""
    if op.get("format") is not None:
        form = written(op, "format")
    else:
        form = f"e{number(op, 'exponent_bits')}m{number(op, 'mantissa_bits')}"
    names = {"e8m23": "f32", "e8m7": "bf16", "e5m10": "f16", "e11m52": "f64", "e5m2": "f8E5M2"}
    x = importer.operand(0)
    if form not in names:
        raise importer.refused(f"rounds to {form}", hint="round to bf16 or f16")
    return importer.convert(importer.convert(x, BY_NAME[names[form]]), importer.kind_of(x))


# ---------------------------------------------------------------------------- integers and bits


@lowers("remainder")
def remainder(importer: HLOImporter, op: HLOOp) -> Value:
    """x - y * (x / y rounded to zero): the sign of x. Of floats the quotient may be rounded up to a
    whole number, so they have a family of their own."""
    x, y = importer.operand(0), importer.operand(1)
    if importer.is_known(x) and importer.is_known(y):
        with np.errstate(all="ignore"):
            return known(importer, np.fmod(importer.array(x), importer.array(y)))
    if importer.kind_of(x).is_float:
        return combined(importer, "elementwise_rem", x, y)
    ratio = combined(importer, "elementwise_div", x, y)
    return combined(importer, "elementwise_sub", x, combined(importer, "elementwise_mul", ratio, y))


def known(importer: HLOImporter, array: Any) -> Value:
    """An array computed here, in the element type of the result."""
    return importer.constant(np.asarray(array).astype(importer.result_kind().storage))
