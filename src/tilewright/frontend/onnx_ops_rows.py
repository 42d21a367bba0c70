"""ONNX operators along rows: reductions, softmax, norms, rotary embedding, positions of extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import float_attribute, integers, text
from tilewright.dialects.xdsl_api import Attribute, IntegerAttr, SSAValue, TensorType, UnitAttr
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, front, lowers, unsupported
from tilewright.frontend.onnx_older import along_axis
from tilewright.frontend.onnx_values import Constant, Value, element, is_float, shape

# operator -> (step before, reduction, step after)
REDUCTIONS = {
    "ReduceL1": ("elementwise_abs", "sum", None),
    "ReduceL2": ("elementwise_square", "sum", "elementwise_sqrt"),
    "ReduceLogSum": (None, "sum", "elementwise_log"),
    "ReduceMax": (None, "max", None),
    "ReduceMean": (None, "mean", None),
    "ReduceMin": (None, "min", None),
    "ReduceProd": (None, "prod", None),
    "ReduceSum": (None, "sum", None),
    "ReduceSumSquare": ("elementwise_square", "sum", None),
}


def axis_attribute(axis: int) -> dict[str, Attribute]:
    return {"axis": IntegerAttr(axis, builtin.i64)}


def reduced_axes(low: Lowering, node: Node, rank: int) -> list[int] | None:
    """The axes to reduce; None when the operator is to do nothing."""
    axes = low.axes(node, 1, rank)
    if not axes:
        return None if node.get("noop_with_empty_axes", 0) else list(range(rank))
    return axes


@lowers(*REDUCTIONS)
def reduction(low: Lowering, node: Node) -> Value:
    before, kind, after = REDUCTIONS[node.operator]
    x = low.tensor(node.required(0))
    axes = reduced_axes(low, node, len(shape(x)))
    if before:
        x = low.apply(before, x)
    if axes:
        x = reduce(low, kind, x, axes, bool(node.get("keepdims", 1)))
    return low.apply(after, x) if after else x


def reduce(low: Lowering, kind: str, x: SSAValue, axes: Sequence[int], keepdims: bool) -> SSAValue:
    """A reduction; an empty one gives the value that changes nothing."""
    sizes = shape(x)
    if math.prod(sizes[a] for a in axes) == 0:
        if kind == "mean":
            unsupported("the mean of nothing is not a number")
        lowest = {"sum": 0, "prod": 1}.get(kind)
        if lowest is None:
            floats = is_float(element(x))
            if not floats:
                unsupported("the extreme of no integers is not defined")
            lowest = -np.inf if kind == "max" else np.inf
        kept = [1 if d in axes else n for d, n in enumerate(sizes) if keepdims or d not in axes]
        return low.tensor(low.constant(np.full(kept, lowest), x, "empty_reduction"))
    if element(x) == builtin.i1:
        family = {"max": "logical_or", "min": "logical_and"}.get(kind)
        if family is None:
            unsupported(f"a {kind} of booleans is not defined")
        wide = low.tensor(low.cast(x, builtin.i32))
        return low.compare("ne", low.reduction(kind, wide, axes, keepdims), 0)
    if kind == "mean" and not is_float(element(x)):
        total = low.reduction("sum", x, axes, keepdims)
        return low.apply("elementwise_div", total, math.prod(sizes[a] for a in axes))
    return low.reduction(kind, x, axes, keepdims)


@lowers("ReduceLogSumExp")
def log_sum_exp(low: Lowering, node: Node) -> Value:
    """log(sum(exp(x))), shifted by the maximum so that it does not overflow."""
    x = low.tensor(node.required(0))
    axes = reduced_axes(low, node, len(shape(x)))
    if axes is None:
        return x
    top = reduce(low, "max", x, axes, True)
    if 0 in shape(x):
        return low.apply(
            "elementwise_log", reduce(low, "sum", x, axes, bool(node.get("keepdims", 1)))
        )
    e = low.apply("elementwise_exp", low.apply("elementwise_sub", x, top))
    result = low.apply("elementwise_log", low.reduction("sum", e, axes, True))
    result = low.apply("elementwise_add", result, top)
    if node.get("keepdims", 1):
        return result
    return low.reshape(result, [n for d, n in enumerate(shape(x)) if d not in axes])


@lowers("Softmax")
def softmax(low: Lowering, node: Node) -> Value:
    return along_axis(
        low, node, lambda x, axis: low.call("softmax", [x], x.type, axis_attribute(axis))
    )


@lowers("LogSoftmax")
def log_softmax(low: Lowering, node: Node) -> Value:
    def compute(x: SSAValue, axis: int) -> SSAValue:
        shifted = low.apply("elementwise_sub", x, low.reduction("max", x, [axis], True))
        total = low.reduction("sum", low.apply("elementwise_exp", shifted), [axis], True)
        return low.apply("elementwise_sub", shifted, low.apply("elementwise_log", total))

    return along_axis(low, node, compute)


@lowers("Hardmax")
def hardmax(low: Lowering, node: Node) -> Value:
    def compute(x: SSAValue, axis: int) -> SSAValue:
        sizes = [1 if d == axis else n for d, n in enumerate(shape(x))]
        attributes = {**axis_attribute(axis), "keepdims": UnitAttr()}
        best = low.call("argmax", [x], TensorType(builtin.i64, sizes), attributes)
        numbers = positions(low, shape(x)[axis], axis, len(sizes))
        return low.tensor(low.cast(low.compare("eq", numbers, best), element(x)))

    return along_axis(low, node, compute)


def positions(low: Lowering, count: int, axis: int, rank: int) -> Constant:
    """0 … count - 1 along an axis, the other dimensions of size 1."""
    sizes = [count if d == axis else 1 for d in range(rank)]
    return low.integers(np.arange(count).reshape(sizes), "positions")


# ------------------------------------------------------------------------------------- norms


@lowers("LayerNormalization", "RMSNormalization")
def normalisation(low: Lowering, node: Node) -> Value | list[Value]:
    """Normalise the dimensions from `axis` on: one row, whatever their number."""
    x = low.tensor(node.required(0))
    sizes = shape(x)
    axis = front(node.get("axis", -1), len(sizes))
    width = math.prod(sizes[axis:])
    family = "layer_norm" if node.operator == "LayerNormalization" else "rms_norm"
    operands = [low.reshape(x, [*sizes[:axis], width])]
    for index in range(1, 3):
        value = node.input(index)
        if value is not None:
            if math.prod(shape(value)) != width:
                value = low.expand(value, sizes[axis:])
            operands.append(low.reshape(low.tensor(value), [width]))
    attributes = row_attributes(node, axis)
    result = low.call(family, operands, operands[0].type, attributes)
    results: list[Value] = [low.reshape(result, sizes)]
    if node.has_output(1) or node.has_output(2):
        results += _statistics(low, operands[0], sizes, axis, node.get("epsilon", 1e-5))
    return results


def row_attributes(node: Node, axis: int) -> dict[str, Attribute]:
    """Attributes of a norm along an axis."""
    return {"epsilon": float_attribute(node.get("epsilon", 1e-5)), **axis_attribute(axis)}


def _statistics(
    low: Lowering, rows: SSAValue, sizes: Sequence[int], axis: int, epsilon: float
) -> list[Value]:
    """Mean and 1 / deviation of each row, with the reduced dimensions of size 1."""
    wide = low.tensor(low.cast(rows, builtin.f32))
    last = len(shape(wide)) - 1
    mean = low.reduction("mean", wide, [last], True)
    squares = low.apply("elementwise_square", low.apply("elementwise_sub", wide, mean))
    variance = low.reduction("mean", squares, [last], True)
    inverse = low.apply("elementwise_rsqrt", low.apply("elementwise_add", variance, epsilon))
    kept = [*sizes[:axis], *([1] * (len(sizes) - axis))]
    return [low.reshape(mean, kept), low.reshape(inverse, kept)]


@lowers("BatchNormalization")
def batch_normalisation(low: Lowering, node: Node) -> Value:
    """Per-channel scale and shift; with constant statistics they are one factor and one term."""
    if node.get("training_mode", 0):
        unsupported("batch normalisation in training mode", "export the model for inference")
    x, *statistics = (node.required(i) for i in range(5))
    epsilon = node.get("epsilon", 1e-5)
    column = [-1] + [1] * (len(shape(x)) - 2)
    if all(isinstance(s, Constant) for s in statistics):
        scale, bias, mean, variance = (s.array.astype(np.float64) for s in statistics)  # type: ignore
        factor = scale / np.sqrt(variance + epsilon)
        term = bias - mean * factor
        made = [
            low.constant(v.reshape(column), x, f"{node.name}.{n}")
            for n, v in (("scale", factor), ("shift", term))
        ]
        return low.apply("elementwise_add", low.apply("elementwise_mul", x, made[0]), made[1])
    size = [shape(x)[1], *column[1:]]
    scale, bias, mean, variance = (
        low.cast(low.reshape(low.tensor(s), size), element(x)) for s in statistics
    )
    centred = low.apply("elementwise_sub", x, mean)
    root = low.apply("elementwise_rsqrt", low.apply("elementwise_add", variance, epsilon))
    scaled = low.apply("elementwise_mul", low.apply("elementwise_mul", centred, root), scale)
    return low.apply("elementwise_add", scaled, bias)


@lowers("InstanceNormalization")
def instance_normalisation(low: Lowering, node: Node) -> Value:
    return _by_group(low, node, shape(node.required(0))[1])


@lowers("GroupNormalization")
def group_normalisation(low: Lowering, node: Node) -> Value:
    return _by_group(low, node, node.get("num_groups"))


def _by_group(low: Lowering, node: Node, groups: int) -> SSAValue:
    """Rows of one group each as a layer norm without weights, then scale and shift per channel."""
    x = low.tensor(node.required(0))
    batch, channels, *space = sizes = shape(x)
    rows = low.reshape(x, [batch, groups, math.prod(sizes[1:]) // groups])
    flat = low.call("layer_norm", [rows], rows.type, row_attributes(node, 2))
    result = low.reshape(flat, sizes)
    column = [channels] + [1] * len(space)
    for index, family in ((1, "elementwise_mul"), (2, "elementwise_add")):
        value = low.tensor(node.required(index))
        if math.prod(shape(value)) != channels:  # before version 21: one value per group
            value = low.expand(low.reshape(value, [groups, 1]), [groups, channels // groups])
        result = low.apply(family, result, low.reshape(value, column))
    return result


@lowers("LpNormalization")
def lp_normalisation(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    axis, p = front(node.get("axis", -1), len(shape(x))), node.get("p", 2)
    if p not in (1, 2):
        unsupported(f"a norm with p = {p}")
    before = low.apply("elementwise_abs" if p == 1 else "elementwise_square", x)
    length = low.reduction("sum", before, [axis], True)
    if p == 2:
        length = low.apply("elementwise_sqrt", length)
    divided = low.apply("elementwise_div", x, length)
    zero = low.constant(0, x)
    return low.apply("select", low.compare("eq", length, 0), zero, divided, to=element(x))


# ------------------------------------------------------------------------- rotary embedding


@lowers("RotaryEmbedding")
def rotary_embedding(low: Lowering, node: Node) -> Value:
    """x [batch, heads, length, width] turned by the angles of its positions."""
    x, tables = low.tensor(node.required(0)), [node.required(1), node.required(2)]
    rank = len(shape(x))
    if rank == 3:
        heads = node.get("num_heads", 0)
        if not heads:
            raise Problem("TW6009", "a rank-3 input needs the attribute num_heads")
        batch, length, hidden = shape(x)
        x = low.reshape(x, [batch, length, heads, hidden // heads])
        head_axis = 2
    else:
        head_axis = 1
    width = shape(x)[-1]
    turned = node.get("rotary_embedding_dim", 0) or width
    places = node.input(3)
    style = "interleaved" if node.get("interleaved", 0) else "split_half"
    angles = []
    for table in tables:
        value = low.tensor(table)
        if places is not None:
            index = low.tensor(places)
            sizes = [*shape(index), shape(value)[-1]]
            result = TensorType(element(value), sizes)
            value = low.call("gather", [value, index], result, axis_attribute(0))
        batch, length, pairs = shape(value)
        if pairs != turned // 2:
            value = low.slice(value, [0, 0, 0], [batch, length, turned // 2], [1, 1, 1])
            pairs = turned // 2
        sizes = [batch, length, 1, pairs] if head_axis == 2 else [batch, 1, length, pairs]
        angles.append(low.reshape(value, sizes))
    whole = list(shape(x))
    part = x
    if turned != width:
        part = low.slice(x, [0] * 4, [*whole[:3], turned], [1] * 4)
    result = low.call("rope", [part, *angles], part.type, {"style": text(style)})
    if turned != width:
        rest = low.slice(x, [0, 0, 0, turned], [*whole[:3], width - turned], [1] * 4)
        result = low.concat([result, rest], 3)
    return low.reshape(result, shape(node.required(0)))


# ------------------------------------------------------------------------ positions and order


@lowers("ArgMax", "ArgMin")
def extreme_position(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    sizes = shape(x)
    axis = front(node.get("axis", 0), len(sizes))
    keep = bool(node.get("keepdims", 1))
    attributes: dict[str, Attribute] = axis_attribute(axis)
    if keep:
        attributes["keepdims"] = UnitAttr()
    kept = [1 if d == axis else n for d, n in enumerate(sizes) if keep or d != axis]
    last = bool(node.get("select_last_index", 0))
    if last:
        x = flip(low, x, axis)
    family = node.operator.lower()
    result = low.call(family, [x], TensorType(builtin.i64, kept), attributes)
    return low.apply("elementwise_sub", sizes[axis] - 1, result) if last else result


def flip(low: Lowering, x: SSAValue, axis: int) -> SSAValue:
    """x with one dimension in reverse order."""
    order = low.integers(np.arange(shape(x)[axis])[::-1], "reverse")
    return low.call("gather", [x, low.tensor(order)], x.type, axis_attribute(axis))


@lowers("CumSum")
def running_sum(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    rank = len(shape(x))
    axis = front(low.known_list(node.required(1), "axis")[0], rank)
    reverse, exclusive = node.get("reverse", 0), node.get("exclusive", 0)
    if reverse:
        x = flip(low, x, axis)
    if exclusive:
        sizes = list(shape(x))
        low_pad = [1 if d == axis else 0 for d in range(rank)]
        type_ = TensorType(element(x), [n + p for n, p in zip(sizes, low_pad, strict=True)])
        pads: dict[str, Attribute] = {"low": integers(low_pad), "high": integers([0] * rank)}
        x = low.slice(low.call("pad", [x], type_, pads), [0] * rank, sizes, [1] * rank)
    result = low.call("cumsum", [x], x.type, axis_attribute(axis))
    return flip(low, result, axis) if reverse else result


@lowers("TopK")
def top(low: Lowering, node: Node) -> list[Value]:
    x = low.tensor(node.required(0))
    count = low.known_list(node.required(1), "k")[0]
    rank = len(shape(x))
    axis = front(node.get("axis", -1), rank)
    attributes = axis_attribute(axis)
    if node.get("largest", 1):
        attributes["descending"] = UnitAttr()
    sizes = [count if d == axis else n for d, n in enumerate(shape(x))]
    ordered = low.call("sort", [x], x.type, attributes)
    values = low.slice(ordered, [0] * rank, sizes, [1] * rank)
    if not node.has_output(1):
        return [values]
    order = low.call("argsort", [x], TensorType(builtin.i64, shape(x)), attributes)
    return [values, low.slice(order, [0] * rank, sizes, [1] * rank)]
