"""Element-wise ATen calls: arithmetic, comparisons, choices, activations, casts."""

from __future__ import annotations

import math
from typing import Any

from tilewright.dialects.xdsl_api import Attribute, SSAValue
from tilewright.frontend import near_zero
from tilewright.frontend.aten_builder import (
    Importer,
    Lowered,
    lowers,
    promoted,
    scalar_attribute,
)
from tilewright.frontend.aten_graph import BY_NAME, Node, Ref, ScalarType, TensorInfo, element_type

BOOL = BY_NAME["i1"]


def operand(importer: Importer, argument: Any) -> SSAValue | float | int | bool:
    """A tensor or number argument."""
    return importer.tensor(argument) if isinstance(argument, Ref) else argument


def common_kind(importer: Importer, *operands: SSAValue | float | int | bool) -> ScalarType:
    """The type torch compares in."""
    described = [
        (importer.kind(o), len(importer.info(o).shape)) if isinstance(o, SSAValue) else o
        for o in operands
    ]
    return promoted(described)


# Where log(1 + e^x) is x in float32: a threshold there or above changes nothing.
STRAIGHT = 17.0


def apply(importer: Importer, family: str, *operands: SSAValue | float) -> SSAValue:
    """A family on operands in the type and shape the graph gives the current node."""
    info = importer.result()
    if not any(isinstance(o, SSAValue) for o in operands):
        first, *rest = operands
        assert not isinstance(first, SSAValue)
        operands = (importer.filled(first, TensorInfo((), info.dtype)), *rest)
    return importer.pointwise(family, *operands, kind=info.dtype, shape=info.shape)


# --------------------------------------------------------------------------- two operands


def scaled(importer: Importer, value: SSAValue | float, factor: float) -> SSAValue | float:
    """value * factor, in the result's type."""
    if factor == 1:
        return value
    if not isinstance(value, SSAValue):
        return value * factor
    kind = importer.result().dtype
    return importer.pointwise("elementwise_mul", value, factor, kind=kind)


@lowers("add.Tensor", "add.Scalar")
def add(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    if importer.result().dtype == BOOL:
        return apply(importer, "logical_or", a, b)
    return apply(importer, "elementwise_add", a, scaled(importer, b, node.get("alpha", 1)))


@lowers("sub.Tensor", "sub.Scalar")
def sub(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    return apply(importer, "elementwise_sub", a, scaled(importer, b, node.get("alpha", 1)))


@lowers("rsub.Tensor", "rsub.Scalar")
def rsub(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    return apply(importer, "elementwise_sub", b, scaled(importer, a, node.get("alpha", 1)))


@lowers("mul.Tensor", "mul.Scalar")
def mul(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    family = "logical_and" if importer.result().dtype == BOOL else "elementwise_mul"
    return apply(importer, family, a, b)


@lowers("div.Tensor", "div.Scalar", "true_divide.Tensor")
def div(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    return apply(importer, "elementwise_div", a, b)


@lowers("div.Tensor_mode", "div.Scalar_mode", "floor_divide", "floor_divide.Scalar")
def div_mode(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    mode = node.get("rounding_mode", "floor" if "floor_divide" in node.target else None)
    if mode is None:
        return apply(importer, "elementwise_div", a, b)
    return rounded_quotient(importer, a, b, mode)


def rounded_quotient(importer: Importer, a: Any, b: Any, mode: str) -> SSAValue:
    """a / b rounded down or towards zero, in the type of the current node's result."""
    info = importer.result()
    quotient = apply(importer, "elementwise_div", a, b)
    if info.dtype.is_float:
        if mode == "floor" and is_power_of_two(b):
            return importer.unary("elementwise_floor", quotient)
        if mode == "floor":
            # The quotient is rounded, perhaps up to a whole number: without the rest it is whole.
            whole = apply(importer, "elementwise_sub", a, float_remainder(importer, a, b))
            whole = importer.unary(
                "elementwise_round", apply(importer, "elementwise_div", whole, b)
            )
            if not isinstance(b, SSAValue):
                return whole if b else quotient
            return importer.select(importer.compare("eq", b, 0), quotient, whole, info)
        negative = importer.compare("lt", quotient, 0)
        up, down = (importer.unary(f"elementwise_{n}", quotient) for n in ("ceil", "floor"))
        return importer.select(negative, up, down, info)
    if mode == "trunc":
        return quotient
    # Integer division truncates; one less where the signs differ and something is left over.
    rest = apply(importer, "elementwise_sub", a, apply(importer, "elementwise_mul", quotient, b))
    left_over = importer.compare("ne", rest, 0)
    opposite = importer.compare("lt", apply(importer, "logical_xor", rest, b), 0)
    lower = importer.pointwise("logical_and", left_over, opposite)
    return importer.select(lower, apply(importer, "elementwise_sub", quotient, 1), quotient, info)


def is_power_of_two(number: Any) -> bool:
    """Whether a divisor is a number by which a division only changes the exponent."""
    return isinstance(number, int | float) and math.frexp(number)[0] in (0.5, -0.5)


def float_remainder(importer: Importer, a: Any, b: Any) -> SSAValue:
    """What is left over with the sign of the divisor, exactly."""
    info = importer.result()
    rest = apply(importer, "elementwise_rem", a, b)
    if isinstance(b, SSAValue):
        signs = (importer.compare("lt", value, 0) for value in (rest, b))
        differs = importer.pointwise("logical_xor", *signs)
        opposite = importer.pointwise("logical_and", importer.compare("ne", rest, 0), differs)
    else:
        opposite = importer.compare("gt" if b < 0 else "lt", rest, 0)
    return importer.select(opposite, apply(importer, "elementwise_add", rest, b), rest, info)


@lowers("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def remainder(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    if importer.result().dtype.is_float:
        return float_remainder(importer, a, b)
    quotient = rounded_quotient(importer, a, b, "floor")
    return apply(importer, "elementwise_sub", a, apply(importer, "elementwise_mul", quotient, b))


@lowers("maximum", "minimum", "max.other", "min.other")
def extreme(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    return apply(importer, f"elementwise_{'max' if '.max' in node.target else 'min'}", a, b)


@lowers("fmax", "fmin")
def extreme_of_numbers(importer: Importer, node: Node) -> Lowered:
    """Where one of both is no number, the other."""
    info = importer.result()
    a, b = (importer.cast(importer.tensor(node.get(n)), info.dtype) for n in ("self", "other"))
    found = apply(importer, f"elementwise_{'max' if '.fmax' in node.target else 'min'}", a, b)
    if not info.dtype.is_float:
        return found
    found = importer.select(importer.compare("ne", b, b), a, found, info)
    return importer.select(importer.compare("ne", a, a), b, found, info)


@lowers("hypot")
def hypot(importer: Importer, node: Node) -> Lowered:
    """The larger times sqrt(1 + ratio^2): squares of large numbers would overflow."""
    info = importer.result()
    both = [importer.cast(importer.tensor(node.get(n)), info.dtype) for n in ("self", "other")]
    sizes = [importer.unary("elementwise_abs", x) for x in both]
    large = apply(importer, "elementwise_max", *sizes)
    small = apply(importer, "elementwise_min", *sizes)
    # 0 and 0, and infinity with anything: the larger is the length.
    divisor = importer.select(importer.compare("eq", large, 0.0), 1.0, large, info)
    ratio = importer.pointwise("elementwise_div", small, divisor)
    ratio = importer.select(importer.compare("eq", large, math.inf), 0.0, ratio, info)
    grown = importer.pointwise("elementwise_add", importer.unary("elementwise_square", ratio), 1.0)
    return importer.pointwise("elementwise_mul", large, importer.unary("elementwise_sqrt", grown))


@lowers("signbit")
def signbit(importer: Importer, node: Node) -> Lowered:
    return _is_negative(importer, importer.tensor(node.get("self")))


@lowers("copysign.Tensor", "copysign.Scalar")
def copysign(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    size = importer.unary(
        "elementwise_abs", importer.cast(importer.tensor(node.get("self")), info.dtype)
    )
    other = operand(importer, node.get("other"))
    minus = importer.unary("elementwise_neg", size)
    if not isinstance(other, SSAValue):
        return minus if math.copysign(1.0, other) < 0 else size
    return importer.select(_is_negative(importer, other), minus, size, info)


def _is_negative(importer: Importer, x: SSAValue) -> SSAValue:
    """Of zeros too: 1 / -0 is below zero."""
    if not importer.kind(x).is_float:
        return importer.compare("lt", x, 0)
    zero = importer.compare("eq", x, 0)
    shown = importer.select(
        zero, importer.pointwise("elementwise_div", 1.0, x), x, importer.info(x)
    )
    return importer.compare("lt", shown, 0)


_POWERS = {2: "square", 3: "cube", 0.5: "sqrt", -0.5: "rsqrt", -1: "recip"}


@lowers("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "square")
def power(importer: Importer, node: Node) -> Lowered:
    base = operand(importer, node.get("self"))
    exponent = operand(importer, node.get("exponent", 2))
    kind = importer.result().dtype
    if isinstance(base, SSAValue) and not isinstance(exponent, SSAValue):
        base = importer.cast(base, kind)
        if exponent == 1:
            return base
        if exponent in _POWERS and (kind.is_float or exponent in (2, 3)):
            return importer.unary(f"elementwise_{_POWERS[exponent]}", base)
    return apply(importer, "elementwise_pow", base, exponent)


@lowers("addcmul")
def addcmul(importer: Importer, node: Node) -> Lowered:
    start, a, b = (importer.tensor(node.get(n)) for n in ("self", "tensor1", "tensor2"))
    product = importer.pointwise("elementwise_mul", a, b, kind=importer.result().dtype)
    return apply(
        importer, "elementwise_add", start, scaled(importer, product, node.get("value", 1))
    )


@lowers("lerp.Scalar", "lerp.Tensor")
def lerp(importer: Importer, node: Node) -> Lowered:
    a, b = importer.tensor(node.get("self")), importer.tensor(node.get("end"))
    weight = operand(importer, node.get("weight"))
    step = apply(importer, "elementwise_sub", b, a)
    return apply(importer, "elementwise_add", a, apply(importer, "elementwise_mul", step, weight))


# --------------------------------------------------------------------------- comparisons, logic


@lowers(
    *(f"{name}.{overload}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for overload in ("Tensor", "Scalar"))
)  # fmt: skip
def comparison(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    assert isinstance(a, SSAValue)
    kind = common_kind(importer, a, b)
    if kind == BOOL:  # as integers, where the order of false and true is plain
        kind = BY_NAME["i32"]
    return importer.compare(node.target.split(".")[1], a, b, kind)


_LOGIC = {"and": "logical_and", "or": "logical_or", "xor": "logical_xor"}


@lowers(
    *(f"{pattern.format(name)}.{overload}"
      for name in _LOGIC for pattern in ("__{}__", "bitwise_{}") for overload in ("Tensor", "Scalar"))
)  # fmt: skip
def bitwise(importer: Importer, node: Node) -> Lowered:
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    name = node.target.split(".")[1].strip("_").removeprefix("bitwise_")
    return apply(importer, _LOGIC[name], a, b)


@lowers("logical_and", "logical_or", "logical_xor")
def logical(importer: Importer, node: Node) -> Lowered:
    a, b = (importer.cast(importer.tensor(node.get(n)), BOOL) for n in ("self", "other"))
    return apply(importer, node.target.split(".")[1], a, b)


@lowers("logical_not", "bitwise_not")
def negation(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    if "logical" in node.target:
        x = importer.cast(x, BOOL)
    return importer.unary("logical_not", x)


@lowers("isnan")
def isnan(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    return importer.compare("ne", x, x)


@lowers("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(importer: Importer, node: Node) -> Lowered:
    condition = importer.tensor(node.get("condition"))
    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    return importer.select(condition, a, b, importer.result())


@lowers("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(importer: Importer, node: Node) -> Lowered:
    x, mask = importer.tensor(node.get("self")), importer.tensor(node.get("mask"))
    return importer.select(mask, operand(importer, node.get("value")), x, importer.result())


@lowers("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6")
def clamp(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    bounds = {"hardtanh": (-1.0, 1.0), "relu6": (0.0, 6.0)}
    low, high = bounds.get(node.target.split(".")[1], (None, None))
    return bounded(
        importer,
        x,
        node.get("min", node.get("min_val", low)),
        node.get("max", node.get("max_val", high)),
    )


def bounded(importer: Importer, x: SSAValue, low: float | None, high: float | None) -> SSAValue:
    """x held between bounds, either of which may be missing."""
    element = element_type(importer.kind(x))
    given: dict[str, Attribute] = {}
    if low is not None:
        given["min"] = scalar_attribute(low, element)
    if high is not None:
        given["max"] = scalar_attribute(high, element)
    return importer.call("clamp", [x], x.type, given)


@lowers("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def clamp_tensors(importer: Importer, node: Node) -> Lowered:
    x: SSAValue = importer.tensor(node.get("self"))
    for name, family in (("min", "elementwise_max"), ("max", "elementwise_min")):
        if node.get(name) is not None:
            x = apply(importer, family, x, importer.tensor(node.get(name)))
    return x


# --------------------------------------------------------------------------- one operand

_UNARY = {
    "neg": "neg", "abs": "abs", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "reciprocal": "recip", "tanh": "tanh", "sin": "sin",
    "cos": "cos", "erf": "erf", "relu": "relu", "sigmoid": "sigmoid", "floor": "floor",
    "ceil": "ceil", "round": "round",
}  # fmt: skip


@lowers(*_UNARY)
def unary(importer: Importer, node: Node) -> Lowered:
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    return importer.unary(f"elementwise_{_UNARY[node.target.split('.')[1]]}", x)


@lowers("round.decimals")
def round_decimals(importer: Importer, node: Node) -> Lowered:
    """To so many places behind the point, or before it."""
    x, places = importer.tensor(node.get("self")), node.get("decimals")
    there, back = ("elementwise_div", "elementwise_mul") if places < 0 else ("elementwise_mul", "elementwise_div")  # fmt: skip
    if places == 0:
        return importer.unary("elementwise_round", x)
    whole = importer.unary("elementwise_round", importer.pointwise(there, x, 10.0 ** abs(places)))
    return importer.pointwise(back, whole, 10.0 ** abs(places))


@lowers("silu")
def silu(importer: Importer, node: Node) -> Lowered:
    return importer.unary("silu", importer.tensor(node.get("self")))


@lowers("gelu")
def gelu(importer: Importer, node: Node) -> Lowered:
    family = "gelu_tanh" if node.get("approximate", "none") == "tanh" else "gelu_erf"
    return importer.unary(family, importer.tensor(node.get("self")))


@lowers("leaky_relu")
def leaky_relu(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    slope = importer.pointwise("elementwise_mul", x, node.get("negative_slope", 0.01))
    return importer.select(importer.compare("gt", x, 0), x, slope, importer.result())


@lowers("elu")
def elu(importer: Importer, node: Node) -> Lowered:
    alpha, scale = node.get("alpha", 1.0), node.get("scale", 1.0)
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    inner = node.get("input_scale", 1.0)
    return near_zero.elu(importer.pointwise, x, alpha * scale, scale, inner)


@lowers("softplus")
def softplus(importer: Importer, node: Node) -> Lowered:
    """log(1 + exp(beta x)) / beta, and x itself above the threshold."""
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    beta, threshold = node.get("beta", 1), node.get("threshold", 20)
    inner = importer.pointwise("elementwise_mul", x, beta) if beta != 1 else x
    curve = near_zero.softplus(importer.pointwise, inner)
    curve = importer.pointwise("elementwise_div", curve, beta) if beta != 1 else curve
    if threshold >= STRAIGHT:
        return curve
    straight = importer.compare("gt", inner, threshold)
    return importer.select(straight, x, curve, importer.result())


@lowers("hardsigmoid", "hardswish")
def hard(importer: Importer, node: Node) -> Lowered:
    """clamp(x + 3, 0, 6) / 6, times x for hardswish."""
    x = importer.tensor(node.get("self"))
    gate = bounded(importer, importer.pointwise("elementwise_add", x, 3.0), 0.0, 6.0)
    if "hardswish" in node.target:
        gate = importer.pointwise("elementwise_mul", x, gate)
    return importer.pointwise("elementwise_div", gate, 6.0)


@lowers("log1p", "expm1")
def precise(importer: Importer, node: Node) -> Lowered:
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    found = near_zero.log1p if "log1p" in node.target else near_zero.expm1
    return found(importer.pointwise, x)


@lowers("log10")
def log10(importer: Importer, node: Node) -> Lowered:
    x = importer.cast(importer.tensor(node.get("self")), importer.result().dtype)
    return importer.pointwise(
        "elementwise_mul", importer.unary("elementwise_log2", x), math.log10(2.0)
    )


# --------------------------------------------------------------------------- same values


@lowers(
    "alias", "clone", "detach", "detach_", "lift", "lift_fresh", "lift_fresh_copy", "contiguous",
    "alias_copy", "detach_copy", "positive", "resolve_conj", "resolve_neg",
)  # fmt: skip
def identity(importer: Importer, node: Node) -> Lowered:
    return importer.value(node.get("self"))


@lowers("dropout", "feature_dropout", "native_dropout", "alpha_dropout")
def dropout(importer: Importer, node: Node) -> Lowered:
    if node.get("train", False) and node.get("p", 0):
        raise node.error("TW6107", f"{node.target} is in training mode", "call model.eval() first")
    value = importer.value(node.get("input"))
    return value if len(node.results) == 1 else [value, None]


@lowers(
    "_to_copy", "to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as", "to.prim_Device"
)
def to(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    value = importer.value(node.get("self"))
    if importer.info(value) == info:
        return value
    return importer.cast(importer.tensor(node.get("self")), info.dtype)


@lowers("copy")
def copy(importer: Importer, node: Node) -> Lowered:
    """src in the shape and type of the tensor it is written over."""
    info = importer.result()
    source = importer.cast(importer.tensor(node.get("src")), info.dtype)
    return importer.broadcast_to(source, info.shape)
