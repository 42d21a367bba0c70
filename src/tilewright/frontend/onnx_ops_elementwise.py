"""Element-wise ONNX operators: arithmetic, comparisons, logic, activations, casts."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import float_attribute
from tilewright.dialects.xdsl_api import FloatAttr, IntegerAttr, SSAValue
from tilewright.frontend import angles, near_zero
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, lowers, unsupported
from tilewright.frontend.onnx_values import (
    ELEMENTS,
    Constant,
    Value,
    element,
    is_bool,
    is_float,
    is_unsigned,
    number_of,
    shape,
)

UNARY = {
    "Abs": "elementwise_abs",
    "Ceil": "elementwise_ceil",
    "Cos": "elementwise_cos",
    "Erf": "elementwise_erf",
    "Exp": "elementwise_exp",
    "Floor": "elementwise_floor",
    "Log": "elementwise_log",
    "Neg": "elementwise_neg",
    "Not": "logical_not",
    "BitwiseNot": "logical_not",
    "Reciprocal": "elementwise_recip",
    "Relu": "elementwise_relu",
    "Round": "elementwise_round",
    "Sigmoid": "elementwise_sigmoid",
    "Sin": "elementwise_sin",
    "Sqrt": "elementwise_sqrt",
    "Tanh": "elementwise_tanh",
}
BINARY = {
    "Add": "elementwise_add",
    "And": "logical_and",
    "BitwiseAnd": "logical_and",
    "BitwiseOr": "logical_or",
    "BitwiseXor": "logical_xor",
    "Div": "elementwise_div",
    "Mul": "elementwise_mul",
    "Or": "logical_or",
    "Sub": "elementwise_sub",
    "Xor": "logical_xor",
}
MANY = {
    "Max": "elementwise_max",
    "Min": "elementwise_min",
    "Sum": "elementwise_add",
    "Mean": "elementwise_add",
}
COMPARISONS = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}


@lowers(*UNARY)
def unary(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    if node.operator == "Abs" and is_unsigned(element(x)):
        return x
    return low.apply(UNARY[node.operator], x)


@lowers(*BINARY)
def binary(low: Lowering, node: Node) -> Value:
    return low.apply(BINARY[node.operator], node.required(0), node.required(1))


@lowers(*MANY)
def many(low: Lowering, node: Node) -> Value:
    result = node.required(0)
    for index in range(1, len(node.inputs)):
        result = low.apply(MANY[node.operator], result, node.required(index))
    if node.operator == "Mean" and len(node.inputs) > 1:
        result = low.apply("elementwise_div", result, len(node.inputs))
    return result


@lowers(*COMPARISONS)
def comparison(low: Lowering, node: Node) -> Value:
    left, right = node.required(0), node.required(1)
    if is_bool(element(left)):
        return low.apply("logical_not", low.apply("logical_xor", left, right))
    return low.compare(COMPARISONS[node.operator], left, right)


@lowers("Pow")
def power(low: Lowering, node: Node) -> Value:
    base, exponent = node.required(0), node.required(1)
    if isinstance(exponent, Constant) and exponent.array.size == 1:
        number = float(exponent.array.reshape(-1)[0])
        named = {0.5: "elementwise_sqrt", 2.0: "elementwise_square", 3.0: "elementwise_cube"}
        fits = is_float(element(base)) or number in (2.0, 3.0)
        if number in named and fits and len(shape(exponent)) <= len(shape(base)):
            return low.apply(named[number], base)
    kind = element(base)
    if element(exponent) == kind:
        return low.apply("elementwise_pow", base, exponent)
    if is_float(kind):
        return low.apply("elementwise_pow", base, low.cast(exponent, kind))
    # Integers to a float power: computed in float, then back to the base's type.
    wide = element(exponent) if is_float(element(exponent)) else builtin.i64
    result = low.apply("elementwise_pow", low.cast(base, wide), low.cast(exponent, wide))
    return low.cast(result, kind)


@lowers("Mod")
def modulo(low: Lowering, node: Node) -> Value:
    x, y = node.required(0), node.required(1)
    kind, of_c = element(x), bool(node.get("fmod", 0))
    if is_float(kind):
        if not of_c:
            unsupported("the remainder of floats without fmod=1, which ONNX does not define")
        return low.apply("elementwise_rem", x, y)
    quotient = low.apply("elementwise_div", x, y)
    rest = low.apply("elementwise_sub", x, low.apply("elementwise_mul", quotient, y))
    if of_c or is_unsigned(kind):
        return rest
    differs = low.apply("logical_xor", low.compare("lt", rest, 0), low.compare("lt", y, 0))
    wrong = low.apply("logical_and", low.compare("ne", rest, 0), differs)
    return low.apply("select", wrong, low.apply("elementwise_add", rest, y), rest, to=kind)


@lowers("BitShift")
def bit_shift(low: Lowering, node: Node) -> Value:
    """Shifts as products and quotients with powers of two, which wrap and vanish in the same way."""
    x, distance = node.required(0), node.required(1)
    kind = element(x)
    left = node.get("direction") == "LEFT"
    if not left and not is_unsigned(kind):
        return _shift_signed(low, x, distance)
    factor = low.apply("elementwise_pow", low.constant(2, x, "two"), distance)
    return low.apply("elementwise_mul" if left else "elementwise_div", x, factor)


def _shift_signed(low: Lowering, x: Value, distance: Value) -> Value:
    """Rounded down: the quotient in 64 bits, one less where something negative is left over."""
    if str(element(x)) == "i64":
        unsupported("a shift of 64-bit signed numbers to the right")
    wide, by = (low.cast(v, builtin.i64) for v in (x, distance))
    factor = low.apply("elementwise_pow", low.constant(2, 7, "two"), by)
    quotient = low.apply("elementwise_div", wide, factor)
    rest = low.apply("elementwise_sub", wide, low.apply("elementwise_mul", quotient, factor))
    less = low.apply("elementwise_sub", quotient, 1)
    result = low.apply("select", low.compare("lt", rest, 0), less, quotient, to=builtin.i64)
    return low.cast(result, element(x))


@lowers("Where")
def where(low: Lowering, node: Node) -> Value:
    condition, a, b = (node.required(i) for i in range(3))
    return low.apply("select", condition, a, b, to=element(a))


@lowers("Clip")
def clip(low: Lowering, node: Node) -> Value:
    x, bounds = node.required(0), (node.input(1), node.input(2))
    kind = element(x)
    attributes = {}
    for name, bound in zip(("min", "max"), bounds, strict=True):
        if isinstance(bound, Constant) and bound.array.size == 1:
            number = bound.array.reshape(-1)[0].item()
            make = FloatAttr if is_float(kind) else IntegerAttr
            if not is_float(kind) or math.isfinite(number):
                attributes[name] = make(number, kind)  # type: ignore[arg-type]
    if len(attributes) == sum(bound is not None for bound in bounds):
        return low.apply("clamp", x, attributes=attributes) if attributes else x
    for bound, family in zip(bounds, ("elementwise_max", "elementwise_min"), strict=True):
        if bound is not None:
            x = low.apply(family, x, bound)
    return x


@lowers("Cast", "CastLike")
def cast(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    to = node.get("to") if node.operator == "Cast" else number_of(node.required(1))
    return cast_to(low, x, to, bool(node.get("saturate", 1)))


def cast_to(low: Lowering, x: Value, to: int, saturate: bool = True) -> Value:
    """A cast by ONNX's rules, where they are those of the kernels."""
    if to not in ELEMENTS:
        raise Problem("TW6008", "tensors of this element type do not exist here")
    target, source = ELEMENTS[to][1], element(x)
    if source == target:
        return x
    if str(target) == "f8E8M0FNU":
        unsupported("a cast to scales in powers of two, which rounds by rules of its own")
    if is_bool(target):
        return low.compare("ne", x, 0)
    narrow = str(target).startswith(("f8", "f4"))
    if narrow and not saturate and str(target) in ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2FNUZ"):
        unsupported(f"a cast to {target} without saturation", "kernels saturate: use saturate=1")
    if str(target) == "f8E5M2" and saturate:
        wide = x if is_float(source) else low.cast(x, builtin.f32)
        if str(source) != "f32":
            wide = low.cast(wide, builtin.f32)
        largest = {n: float_attribute(v) for n, v in (("min", -57344.0), ("max", 57344.0))}
        return low.cast(low.apply("clamp", wide, attributes=largest), target)
    if str(target) in ("i4", "ui4") and is_float(source):
        x = low.cast(x, builtin.i32)  # what does not fit wraps, as in ONNX's own definition
    return low.cast(x, target)


@lowers("Identity")
def identity(low: Lowering, node: Node) -> Value:
    return node.required(0)


@lowers("Dropout")
def dropout(low: Lowering, node: Node) -> list[Value]:
    ratio, training = node.input(1), node.input(2)
    if training is not None and bool(low.known(training, "training_mode").reshape(-1)[0]):
        known = 0.5 if ratio is None else float(low.known(ratio, "ratio").reshape(-1)[0])
        if known:
            unsupported("dropout in training mode is random", "export the model for inference")
    x = node.required(0)
    mask = Constant(np.ones(shape(x), np.bool_), f"{node.name}.mask", 9)
    return [x, mask]


# ------------------------------------------------------------------------------- activations


@lowers("Gelu")
def gelu(low: Lowering, node: Node) -> Value:
    tanh = node.get("approximate", "none") == "tanh"
    return low.apply("gelu_tanh" if tanh else "gelu_erf", node.required(0))


@lowers("Swish")
def swish(low: Lowering, node: Node) -> Value:
    x, alpha = node.required(0), node.get("alpha", 1.0)
    if alpha == 1.0:
        return low.apply("silu", x)
    gate = low.apply("elementwise_sigmoid", low.apply("elementwise_mul", x, alpha))
    return low.apply("elementwise_mul", x, gate)


@lowers("LeakyRelu")
def leaky_relu(low: Lowering, node: Node) -> Value:
    return leaky_relu_of(low, node.required(0), node.get("alpha", 0.01))


def leaky_relu_of(low: Lowering, x: Value, alpha: float) -> SSAValue:
    scaled = low.apply("elementwise_mul", x, alpha)
    return low.apply("select", low.compare("lt", x, 0), scaled, x, to=element(x))


@lowers("PRelu")
def parametric_relu(low: Lowering, node: Node) -> Value:
    x, slope = node.required(0), node.required(1)
    scaled = low.apply("elementwise_mul", x, slope)
    return low.apply("select", low.compare("lt", x, 0), scaled, x, to=element(x))


@lowers("HardSigmoid")
def hard_sigmoid(low: Lowering, node: Node) -> Value:
    return hard_sigmoid_of(low, node.required(0), node.get("alpha", 0.2), node.get("beta", 0.5))


def hard_sigmoid_of(low: Lowering, x: Value, alpha: float, beta: float) -> SSAValue:
    line = low.apply("elementwise_add", low.apply("elementwise_mul", x, alpha), beta)
    kind = element(x)
    bounds = {"min": FloatAttr(0.0, kind), "max": FloatAttr(1.0, kind)}  # type: ignore[arg-type]
    return low.apply("clamp", line, attributes=dict(bounds))


@lowers("HardSwish")
def hard_swish(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    return low.apply("elementwise_mul", x, hard_sigmoid_of(low, x, 1 / 6, 0.5))


@lowers("Elu")
def elu(low: Lowering, node: Node) -> Value:
    return near_zero.elu(low.apply, node.required(0), node.get("alpha", 1.0))


@lowers("Softplus")
def softplus(low: Lowering, node: Node) -> Value:
    return near_zero.softplus(low.apply, node.required(0))


@lowers("Mish")
def mish(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    return low.apply(
        "elementwise_mul", x, low.apply("elementwise_tanh", near_zero.softplus(low.apply, x))
    )


@lowers("Softsign")
def softsign(low: Lowering, node: Node) -> Value:
    return softsign_of(low, node.required(0))


def softsign_of(low: Lowering, x: Value) -> SSAValue:
    below = low.apply("elementwise_add", low.apply("elementwise_abs", x), 1)
    return low.apply("elementwise_div", x, below)


@lowers("Sign")
def sign(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    kind = element(x)
    zero, one = low.constant(0, x), low.constant(1, x)
    positive = low.apply("select", low.compare("gt", x, 0), one, zero, to=kind)
    if is_unsigned(kind):
        return positive
    minus = low.constant(-1, x)
    return low.apply("select", low.compare("lt", x, 0), minus, positive, to=kind)


@lowers("IsNaN")
def is_nan(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    return low.compare("uno", x, x)


@lowers("IsInf")
def is_inf(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    infinity = low.constant(np.inf, x, "infinity")
    if positive and negative:
        return low.compare("eq", low.apply("elementwise_abs", x), infinity)
    if positive:
        return low.compare("eq", x, infinity)
    if negative:
        return low.compare("eq", low.apply("elementwise_neg", x), infinity)
    return low.apply("logical_xor", low.compare("eq", x, x), low.compare("eq", x, x))


@lowers("Tan")
def tangent(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    sine, cosine = low.apply("elementwise_sin", x), low.apply("elementwise_cos", x)
    return low.apply("elementwise_div", sine, cosine)


@lowers("Sinh", "Cosh")
def hyperbolic(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    if node.operator == "Sinh":
        return near_zero.sinh(low.apply, x)
    up = low.apply("elementwise_exp", x)
    down = low.apply("elementwise_exp", low.apply("elementwise_neg", x))
    return low.apply("elementwise_mul", low.apply("elementwise_add", up, down), 0.5)


@lowers("Atan", "Asin", "Acos", "Asinh", "Acosh", "Atanh")
def inverse(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    kind = element(x)

    def choose(predicate: str, value: Value, number: float, a: Value | float, b: Value | float):
        return low.apply("select", low.compare(predicate, value, number), a, b, to=kind)

    return angles.FUNCTIONS[node.operator.lower()](low.apply, choose, x)
