"""What each named chain means: the single steps it stands for, in order, with every rounding.

`expand(op)` gives the steps of a named kernel intent as element-wise, reduction and movement
intents. This is the one definition: `convert-linalg-to-npu-kernel` puts a name in place of exactly
these steps, and whoever runs or lowers a named intent may run the steps instead and get the same
bits. Each step rounds to the element type of its own result.

| intent | steps, T is the element type |
|---|---|
| elementwise_relu | max(x, 0) |
| elementwise_recip | 1 / x |
| elementwise_sigmoid | 1 / (1 + exp(-x)) |
| clamp | min(max(x, low), high) |
| silu, silu_gate | x * sigmoid(x); silu(gate) * up |
| gelu_tanh | x * (0.5 * (1 + tanh(inner_scale * (x + 0.044715 * cube(x))))) |
| gelu_erf | x * (0.5 * (1 + erf(x / sqrt 2))), or erf(x * inner_scale) where that is given |
| reduction_mean | sum / count |
| softmax | e / sum(e) with e = exp(x - max(x)) |
| rms_norm | in f32: h = x * rsqrt(mean(x * x) + epsilon); round to T; times weight |
| layer_norm | in f32: d = x - mean(x), h = d * rsqrt(mean(d * d) + epsilon), times weight, plus bias; round to T |
| rope | a * cos - b * sin and b * cos + a * sin for the pairs (a, b) |
| requant | x / scale in x's type, saturated into the result type (integers: nearest, ties to even) |
| dequant | x in T times scale in T; e8m0 scales first decoded to T |
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.dialects.intents import (
    IntentBuilder,
    Lane,
    Literal,
    literal,
    shape_of,
    tensor_type,
)
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    FloatAttr,
    IntegerType,
    Operation,
    SSAValue,
    f32,
)

GELU_CUBIC = 0.044715
GELU_INNER = math.sqrt(2.0 / math.pi)
ROOT_TWO = math.sqrt(2.0)


class Steps(IntentBuilder):
    """Element-wise steps on tensors that all have, or broadcast to, one shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape
        self.extents = dict(enumerate(shape))

    def lane(self, value: SSAValue | Literal, loops: tuple[int | None, ...] | None = None):
        if isinstance(value, Literal):
            return value
        return Lane(value, loops if loops is not None else self.aligned(value))

    def aligned(self, value: SSAValue) -> tuple[int | None, ...]:
        """Dimensions lined up from the last; size 1 is repeated."""
        shape = shape_of(value)
        first = len(self.shape) - len(shape)
        return tuple(
            None if n == 1 and self.shape[first + d] != 1 else first + d
            for d, n in enumerate(shape)
        )

    def apply(
        self, family: str, *operands: SSAValue | Literal | Lane, element: Attribute | None = None
    ) -> SSAValue:
        lanes = [x if isinstance(x, Lane) else self.lane(x) for x in operands]
        result = element or next(x.element for x in lanes if isinstance(x, Lane))
        loops = sorted({d for x in lanes if isinstance(x, Lane) for d in x.loops if d is not None})
        if any(isinstance(x, Lane) and shape_of(x.tensor) == self.shape for x in lanes):
            loops = list(range(len(self.shape)))
        return self.elementwise(family, lanes, result, self.extents, loops=loops).tensor

    def cast(self, x: SSAValue, element: Attribute) -> SSAValue:
        return x if tensor_type(x).element_type == element else self.unary("cast", x, element)


def expand(op: UKernelGenericOp) -> tuple[list[Operation], SSAValue] | None:
    """The steps of a named intent and their last value, or None for a single step."""
    call = op.call()
    if call is None or call.family.name not in MEANINGS:
        return None
    operands = call.operands_by_role(op.operands)
    steps = Steps(shape_of(op.result))
    value = MEANINGS[call.family.name](steps, call, **operands)
    return None if value is None else (steps.ops, value)


# ------------------------------------------------------------------------------- activations


def relu(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    return steps.apply("elementwise_max", x, literal(0, tensor_type(x).element_type))


def recip(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    return steps.apply("elementwise_div", literal(1, tensor_type(x).element_type), x)


def sigmoid(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    one = literal(1, tensor_type(x).element_type)
    e = steps.apply("elementwise_exp", steps.apply("elementwise_neg", x))
    return recip(steps, call, steps.apply("elementwise_add", e, one))


def silu(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    return steps.apply("elementwise_mul", sigmoid(steps, call, x), x)


def silu_gate(steps: Steps, call: KernelCall, gate: SSAValue, up: SSAValue) -> SSAValue:
    return steps.apply("elementwise_mul", silu(steps, call, gate), up)


def clamp(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    for name, family in (("min", "elementwise_max"), ("max", "elementwise_min")):
        bound = call.attributes.get(name)
        if bound is not None:
            x = steps.apply(family, x, Literal(bound))  # type: ignore[arg-type]
    return x


def _halved(steps: Steps, x: SSAValue, inner: SSAValue) -> SSAValue:
    """x * (0.5 * (1 + inner))."""
    element = tensor_type(x).element_type
    plus = steps.apply("elementwise_add", inner, literal(1, element))
    half = steps.apply("elementwise_mul", plus, literal(0.5, element))
    return steps.apply("elementwise_mul", x, half)


def gelu_tanh(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    element = tensor_type(x).element_type
    given = call.attributes.get("inner_scale")
    factor = given.value.data if isinstance(given, FloatAttr) else GELU_INNER
    cubic = steps.apply(
        "elementwise_mul", steps.apply("elementwise_cube", x), literal(GELU_CUBIC, element)
    )
    inner = steps.apply(
        "elementwise_mul", steps.apply("elementwise_add", x, cubic), literal(factor, element)
    )
    return _halved(steps, x, steps.apply("elementwise_tanh", inner))


def gelu_erf(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    element = tensor_type(x).element_type
    given = call.attributes.get("inner_scale")
    if isinstance(given, FloatAttr):
        inner = steps.apply("elementwise_mul", x, literal(given.value.data, element))
    else:
        inner = steps.apply("elementwise_div", x, literal(ROOT_TWO, element))
    return _halved(steps, x, steps.apply("elementwise_erf", inner))


# -------------------------------------------------------------------------------------- rows


def mean(steps: Steps, call: KernelCall, x: SSAValue, init: SSAValue | None = None) -> SSAValue:
    axes = call.integers("axes") or ()
    total = steps.reduction("sum", x, axes, call.flag("keepdims"), init)
    return _divide(steps, total, _count(x, axes))


def _count(x: SSAValue, axes) -> int:
    return math.prod(shape_of(x)[axis] for axis in axes)


def _divide(steps: Steps, x: SSAValue, by: float) -> SSAValue:
    inner = Steps(shape_of(x))
    inner.ops = steps.ops
    return inner.apply("elementwise_div", x, literal(by, tensor_type(x).element_type))


def _row(steps: Steps, family: str, x: SSAValue, *others: Literal) -> SSAValue:
    """An element-wise step on a row statistic."""
    inner = Steps(shape_of(x))
    inner.ops = steps.ops
    return inner.apply(family, x, *others)


def softmax(steps: Steps, call: KernelCall, x: SSAValue) -> SSAValue:
    axis = call.axis(len(shape_of(x)))
    top = steps.reduction("max", x, [axis], keepdims=True)
    e = steps.apply("elementwise_exp", steps.apply("elementwise_sub", x, top))
    total = steps.reduction("sum", e, [axis], keepdims=True)
    return steps.apply("elementwise_div", e, total)


def _inverse_deviation(steps: Steps, call: KernelCall, x: SSAValue, axis: int) -> SSAValue:
    """1 / sqrt(mean(x * x) + epsilon) along an axis, which stays with size 1."""
    squares = steps.apply("elementwise_square", x)
    total = steps.reduction("sum", squares, [axis], keepdims=True)
    variance = _divide(steps, total, shape_of(x)[axis])
    epsilon = call.attributes["epsilon"].value.data  # type: ignore[attr-defined]
    shifted = _row(
        steps, "elementwise_add", variance, literal(epsilon, tensor_type(x).element_type)
    )
    return _row(steps, "elementwise_rsqrt", shifted)


def rms_norm(
    steps: Steps, call: KernelCall, x: SSAValue, weight: SSAValue | None = None
) -> SSAValue:
    axis = call.axis(len(shape_of(x)))
    h = steps.cast(x, f32)
    h = steps.apply("elementwise_mul", h, _inverse_deviation(steps, call, h, axis))
    h = steps.cast(h, call.result.element_type)
    return h if weight is None else steps.apply("elementwise_mul", h, Lane(weight, (axis,)))


def layer_norm(
    steps: Steps,
    call: KernelCall,
    x: SSAValue,
    weight: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> SSAValue:
    axis = call.axis(len(shape_of(x)))
    h = steps.cast(x, f32)
    centre = _divide(steps, steps.reduction("sum", h, [axis], keepdims=True), shape_of(x)[axis])
    d = steps.apply("elementwise_sub", h, centre)
    h = steps.apply("elementwise_mul", d, _inverse_deviation(steps, call, d, axis))
    if weight is not None:
        h = steps.apply("elementwise_mul", h, Lane(steps.cast(weight, f32), (axis,)))
    if bias is not None:
        h = steps.apply("elementwise_add", h, Lane(steps.cast(bias, f32), (axis,)))
    return steps.cast(h, call.result.element_type)


def rope(steps: Steps, call: KernelCall, x: SSAValue, cos: SSAValue, sin: SSAValue) -> SSAValue:
    shape = shape_of(x)
    rank, axis = len(shape), call.axis(len(shape))
    half = shape[axis] // 2
    interleaved = call.string("style") == "interleaved"

    def part(value: SSAValue, second: bool) -> SSAValue:
        """One element of every pair; tables may hold one entry per pair or per element."""
        sizes = list(shape_of(value))
        place = axis - (rank - len(sizes))
        if sizes[place] in (1, half) and sizes[place] != shape[axis]:
            return value
        offsets, strides = [0] * len(sizes), [1] * len(sizes)
        offsets[place] = int(second) if interleaved else half * second
        strides[place] = 2 if interleaved else 1
        sizes[place] = half
        return steps.slice(value, offsets, sizes, strides)

    halves = Steps(tuple(half if d == axis else n for d, n in enumerate(shape)))
    halves.ops = steps.ops
    a, b = part(x, False), part(x, True)

    def turned(p: SSAValue, q: SSAValue, family: str, second: bool) -> SSAValue:
        left = halves.apply("elementwise_mul", p, part(cos, second))
        right = halves.apply("elementwise_mul", q, part(sin, second))
        return halves.apply(family, left, right)

    first, last = turned(a, b, "elementwise_sub", False), turned(b, a, "elementwise_add", True)
    if not interleaved:
        return steps.concat([first, last], axis)
    paired = [*halves.shape[: axis + 1], 1, *halves.shape[axis + 1 :]]
    both = steps.concat([steps.reshape(v, paired) for v in (first, last)], axis + 1)
    return steps.reshape(both, shape)


# ------------------------------------------------------------------------------ quantisation


def _scale_of(steps: Steps, call: KernelCall, scale: SSAValue | None, element: Attribute):
    if scale is not None:
        return scale
    given = call.attributes.get("scale")
    return literal(given.value.data, element) if isinstance(given, FloatAttr) else None


def requant(steps: Steps, call: KernelCall, x: SSAValue, scale: SSAValue | None = None) -> SSAValue:
    element, target = tensor_type(x).element_type, call.result.element_type
    by = _scale_of(steps, call, scale, element)
    if by is not None:
        maps = call.operand_maps() if "operand_maps" in call.attributes else None
        operand = by
        if maps is not None and isinstance(by, SSAValue):
            operand = Lane(by, tuple(getattr(e, "position", None) for e in maps[1].results))
        x = steps.apply("elementwise_div", x, operand)
    if isinstance(target, IntegerType):
        bits = target.width.data
        x = steps.apply("elementwise_round", x)
        x = steps.apply("elementwise_max", x, literal(-(2 ** (bits - 1)), element))
        x = steps.apply("elementwise_min", x, literal(2 ** (bits - 1) - 1, element))
    return steps.cast(x, target)


def dequant(
    steps: Steps, call: KernelCall, x: SSAValue, scale: SSAValue | None = None
) -> SSAValue | None:
    """Values times their scale; scales in bytes have no steps of their own."""
    if call.string("scale_encoding") == "e8m0":
        return None
    target, block = call.result.element_type, call.integer("block")
    shape = shape_of(x)
    by = _scale_of(steps, call, scale, target)
    if by is None:
        return steps.cast(x, target)
    if block is None or not isinstance(by, SSAValue):
        operand: SSAValue | Literal | Lane = by
        if isinstance(by, SSAValue) and "operand_maps" in call.attributes:
            map_ = call.operand_maps()[1]
            operand = Lane(by, tuple(getattr(e, "position", None) for e in map_.results))
        return steps.apply("elementwise_mul", steps.cast(x, target), operand)
    axis = call.axis(len(shape))
    blocks = (*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :])
    inner = Steps(blocks)
    inner.ops = steps.ops
    wide = inner.cast(steps.reshape(x, blocks), target)
    loops = tuple(d for d in range(len(blocks)) if d != axis + 1)
    return steps.reshape(inner.apply("elementwise_mul", wide, Lane(by, loops)), shape)


MEANINGS: dict[str, Callable[..., SSAValue | None]] = {
    "elementwise_relu": relu,
    "elementwise_recip": recip,
    "elementwise_sigmoid": sigmoid,
    "clamp": clamp,
    "silu": silu,
    "silu_gate": silu_gate,
    "gelu_tanh": gelu_tanh,
    "gelu_erf": gelu_erf,
    "reduction_mean": mean,
    "softmax": softmax,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "rope": rope,
    "requant": requant,
    "dequant": dequant,
}
