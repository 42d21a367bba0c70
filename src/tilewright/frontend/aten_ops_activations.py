"""ATen calls that are short formulas of element-wise intents: activations, tests, trigonometry."""

from __future__ import annotations

import math

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend import angles, near_zero
from tilewright.frontend.aten_builder import Importer, Lowered, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, Ref
from tilewright.frontend.aten_ops_elementwise import apply, bounded, operand
from tilewright.frontend.aten_ops_rows import axes_of, per_channel, reduced


def own(importer: Importer, node: Node) -> SSAValue:
    """The operand in the type of the result."""
    x = importer.tensor(node.get("self", node.get("input")))
    return importer.cast(x, importer.result().dtype)


# --------------------------------------------------------------------------- activations


@lowers("glu")
def glu(importer: Importer, node: Node) -> Lowered:
    """The first half along a dimension, times the sigmoid of the second."""
    x = own(importer, node)
    axis = wrapped(node.get("dim", -1), len(shape_of(x)))
    half = shape_of(x)[axis] // 2
    value, gate = importer.cut(x, axis, 0, half), importer.cut(x, axis, half, half)
    gate = importer.unary("elementwise_sigmoid", gate)
    return importer.pointwise("elementwise_mul", value, gate)


@lowers("prelu", "_prelu_kernel")
def prelu(importer: Importer, node: Node) -> Lowered:
    """x, times a slope of its channel where it is negative."""
    x = own(importer, node)
    slope = importer.tensor(node.get("weight"))
    if "_kernel" not in node.target and len(shape_of(x)) > 1 and math.prod(shape_of(slope)) > 1:
        slope = per_channel(importer, slope, len(shape_of(x)))
    scaled = importer.pointwise("elementwise_mul", x, slope)
    return importer.select(importer.compare("gt", x, 0), x, scaled, importer.result())


@lowers("rrelu")
def rrelu(importer: Importer, node: Node) -> Lowered:
    """Outside training the slope is the middle of its range."""
    x = own(importer, node)
    slope = (node.get("lower", 0.125) + node.get("upper", 1 / 3)) / 2
    scaled = importer.pointwise("elementwise_mul", x, slope)
    return importer.select(importer.compare("ge", x, 0), x, scaled, importer.result())


@lowers("mish")
def mish(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    return importer.pointwise(
        "elementwise_mul",
        x,
        importer.unary("elementwise_tanh", near_zero.softplus(importer.pointwise, x)),
    )


@lowers("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    found = near_zero.softplus(importer.pointwise, importer.unary("elementwise_neg", x))
    found = importer.unary("elementwise_neg", found)
    return [found, None] if len(node.results) > 1 else found


@lowers("selu", "celu")
def scaled_elu(importer: Importer, node: Node) -> Lowered:
    x, alpha = own(importer, node), float(node.get("alpha", 1.0))
    if "selu" in node.target:
        alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
        return near_zero.elu(importer.pointwise, x, alpha * scale, scale)
    return near_zero.elu(importer.pointwise, x, alpha, inner=1 / alpha)


@lowers("hardshrink", "softshrink")
def shrink(importer: Importer, node: Node) -> Lowered:
    """Zero near zero; softshrink moves the rest towards it."""
    x = own(importer, node)
    limit = float(node.get("lambd", 0.5))
    inside = importer.compare("le", importer.unary("elementwise_abs", x), limit)
    if "soft" in node.target:
        held = bounded(importer, x, -limit, limit)
        return importer.select(
            inside, 0.0, importer.pointwise("elementwise_sub", x, held), importer.result()
        )
    return importer.select(inside, 0.0, x, importer.result())


@lowers("threshold")
def threshold(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    below = importer.compare("le", x, node.get("threshold"))
    return importer.select(below, node.get("value"), x, importer.result())


@lowers("softsign", "tanhshrink")
def against_itself(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    if "tanh" in node.target:
        return importer.pointwise("elementwise_sub", x, importer.unary("elementwise_tanh", x))
    grown = importer.pointwise("elementwise_add", importer.unary("elementwise_abs", x), 1.0)
    return importer.pointwise("elementwise_div", x, grown)


@lowers("logit")
def logit(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    if node.get("eps") is not None:
        x = bounded(importer, x, node.get("eps"), 1 - node.get("eps"))
    odds = importer.pointwise("elementwise_div", x, importer.pointwise("elementwise_sub", 1.0, x))
    return importer.unary("elementwise_log", odds)


@lowers("logsumexp", "logaddexp")
def logsumexp(importer: Importer, node: Node) -> Lowered:
    """The maximum is taken out first; where it is infinite, zero is."""
    info = importer.result()
    if "logaddexp" in node.target:
        a, b = own(importer, node), importer.cast(importer.tensor(node.get("other")), info.dtype)
        top = importer.pointwise("elementwise_max", a, b)
        top = _finite_or_zero(importer, top)
        terms = [importer.unary("elementwise_exp", importer.pointwise("elementwise_sub", v, top)) for v in (a, b)]  # fmt: skip
        total = importer.pointwise("elementwise_add", *terms)
        return importer.pointwise("elementwise_add", importer.unary("elementwise_log", total), top)
    x = own(importer, node)
    axes = axes_of(node, len(shape_of(x)))
    if not shape_of(x):
        return x
    top = importer.reduction("max", x, axes, keepdims=True)
    top = _finite_or_zero(importer, top)
    grown = importer.unary("elementwise_exp", importer.pointwise("elementwise_sub", x, top))
    total = importer.unary("elementwise_log", reduced(importer, "sum", grown, axes, True))
    found = importer.pointwise("elementwise_add", total, top)
    return importer.reshape(found, info.shape)


def _finite_or_zero(importer: Importer, x: SSAValue) -> SSAValue:
    finite = importer.compare("lt", importer.unary("elementwise_abs", x), math.inf)
    return importer.select(finite, x, 0.0, importer.info(x))


# --------------------------------------------------------------------------- tests


@lowers("sign", "sgn")
def sign(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    info = importer.result()
    if info.dtype == BY_NAME["i1"]:
        return x
    negative = importer.select(importer.compare("lt", x, 0), -1, 0, info)
    # Of NaN it is 0, as torch has it.
    return importer.select(importer.compare("gt", x, 0), 1, negative, info)


@lowers("isinf", "isfinite", "isposinf", "isneginf")
def infinite(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    name = node.target.split(".")[1]
    if not importer.kind(x).is_float:
        return importer.filled(name == "isfinite", importer.result())
    if name in ("isposinf", "isneginf"):
        return importer.compare("eq", x, math.inf if name == "isposinf" else -math.inf)
    size = importer.unary("elementwise_abs", x)
    return importer.compare("lt" if name == "isfinite" else "eq", size, math.inf)


@lowers("nan_to_num")
def nan_to_num(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    info = importer.result()
    if not info.dtype.is_float:
        return x
    import ml_dtypes

    largest = float(ml_dtypes.finfo(info.dtype.storage).max)
    high = node.get("posinf") if node.get("posinf") is not None else largest
    low = node.get("neginf") if node.get("neginf") is not None else -largest
    found = importer.select(importer.compare("eq", x, math.inf), high, x, info)
    found = importer.select(importer.compare("eq", x, -math.inf), low, found, info)
    return importer.select(importer.compare("ne", x, x), node.get("nan") or 0.0, found, info)


# --------------------------------------------------------------------------- numbers


@lowers("trunc", "fix", "frac")
def trunc(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    info = importer.result()
    if not info.dtype.is_float:
        return x
    up, down = (importer.unary(f"elementwise_{n}", x) for n in ("ceil", "floor"))
    whole = importer.select(importer.compare("lt", x, 0), up, down, info)
    return importer.pointwise("elementwise_sub", x, whole) if "frac" in node.target else whole


@lowers("fmod.Tensor", "fmod.Scalar")
def fmod(importer: Importer, node: Node) -> Lowered:
    """What is left over with the sign of the dividend."""
    from tilewright.frontend.aten_ops_elementwise import rounded_quotient

    a, b = (operand(importer, node.get(name)) for name in ("self", "other"))
    if importer.result().dtype.is_float:
        return apply(importer, "elementwise_rem", a, b)
    whole = rounded_quotient(importer, a, b, "trunc")
    return apply(importer, "elementwise_sub", a, apply(importer, "elementwise_mul", whole, b))


@lowers("addcdiv")
def addcdiv(importer: Importer, node: Node) -> Lowered:
    start, a, b = (importer.tensor(node.get(n)) for n in ("self", "tensor1", "tensor2"))
    kind = importer.result().dtype
    quotient = importer.pointwise("elementwise_div", a, b, kind=kind)
    if node.get("value", 1) != 1:
        quotient = importer.pointwise("elementwise_mul", quotient, node.get("value"))
    return apply(importer, "elementwise_add", start, quotient)


@lowers("tan", "sinh", "cosh")
def ratios(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    if node.target == "aten.tan.default":
        return importer.pointwise(
            "elementwise_div", importer.unary("elementwise_sin", x), importer.unary("elementwise_cos", x)
        )  # fmt: skip
    if "sinh" in node.target:
        return near_zero.sinh(importer.pointwise, x)
    up = importer.unary("elementwise_exp", x)
    down = importer.unary("elementwise_exp", importer.unary("elementwise_neg", x))
    total = importer.pointwise("elementwise_add", up, down)
    return importer.pointwise("elementwise_mul", total, 0.5)


@lowers("atan", "asin", "acos", "asinh", "acosh", "atanh")
def inverse(importer: Importer, node: Node) -> Lowered:
    name = node.target.removeprefix("aten.").split(".")[0]
    return angles.FUNCTIONS[name](importer.pointwise, chooser(importer), own(importer, node))


@lowers("atan2")
def angle(importer: Importer, node: Node) -> Lowered:
    kind = importer.result().dtype
    y, x = (importer.cast(importer.tensor(node.get(name)), kind) for name in ("self", "other"))
    return angles.atan2(importer.pointwise, chooser(importer), y, x)


def chooser(importer: Importer) -> angles.Choose:
    """a where a value compares with a number so, else b."""

    def choose(
        predicate: str, x: SSAValue, number: float, a: SSAValue | float, b: SSAValue | float
    ):
        return importer.select(importer.compare(predicate, x, number), a, b, importer.result())

    return choose


@lowers("erfc", "special_erfc")
def erfc(importer: Importer, node: Node) -> Lowered:
    found = importer.unary("elementwise_erf", own(importer, node))
    return importer.pointwise("elementwise_sub", 1.0, found)


@lowers("heaviside")
def heaviside(importer: Importer, node: Node) -> Lowered:
    x = own(importer, node)
    info = importer.result()
    middle = importer.cast(importer.tensor(node.get("values")), info.dtype)
    step = importer.select(importer.compare("gt", x, 0), 1, 0, info)
    return importer.select(importer.compare("eq", x, 0), middle, step, info)


@lowers("__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar", "__rshift__.Scalar",
        "bitwise_right_shift.Tensor_Scalar")  # fmt: skip
def shift(importer: Importer, node: Node) -> Lowered:
    """Integers times or divided by a power of two, rounded down."""
    from tilewright.frontend.aten_ops_elementwise import rounded_quotient

    x, amount = own(importer, node), node.get("other")
    assert not isinstance(amount, Ref)
    if "lshift" in node.target or "left" in node.target:
        return apply(importer, "elementwise_mul", x, 1 << amount)
    return rounded_quotient(importer, x, 1 << amount, "floor")
