"""ONNX operators with sliding windows: convolutions and pooling, in one and two dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import integers
from tilewright.dialects.xdsl_api import Attribute, IntegerAttr, SSAValue, TensorType, UnitAttr
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, lowers, unsupported
from tilewright.frontend.onnx_ops_movement import border, take
from tilewright.frontend.onnx_values import Value, element, is_float, shape


def image(low: Lowering, x: SSAValue) -> SSAValue:
    """[n, c, w] and [n, c, h, w] as [n, c, h, w]."""
    sizes = shape(x)
    if len(sizes) == 4:
        return x
    if len(sizes) != 3:
        unsupported(
            f"a window over {len(sizes) - 2} dimensions", "windows have one or two dimensions"
        )
    return low.reshape(x, [*sizes[:2], 1, sizes[2]])


def two(values: Sequence[int] | None, one: int, rank: int) -> list[int]:
    """Sizes per spatial dimension, with one in front for images of one dimension."""
    given = list(values) if values else [one] * rank
    return [one] * (2 - rank) + given


def padding_of(
    node: Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], rank: int, ceil: bool = False,
) -> list[int]:  # fmt: skip
    """top, left, bottom, right; a window that ceil_mode adds is reached by more of it."""
    mode = node.get("auto_pad", "NOTSET")
    pads = node.get("pads") or [0] * (2 * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = [0] * (2 - rank) + list(pads[:rank])
    after = [0] * (2 - rank) + list(pads[rank:])
    for i in range(2):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            total = max(0, (-(-size[i] // strides[i]) - 1) * strides[i] + spans[i] - size[i])
            small, large = total // 2, total - total // 2
            before[i], after[i] = (small, large) if mode == "SAME_UPPER" else (large, small)
        elif mode == "VALID":
            before[i] = after[i] = 0
        if ceil:
            free = size[i] + before[i] + after[i] - spans[i]
            count = -(-free // strides[i]) + 1
            if (count - 1) * strides[i] >= size[i] + before[i]:
                count -= 1  # a window that starts in the padding after the image is left out
            after[i] = max(after[i], (count - 1) * strides[i] + spans[i] - size[i] - before[i])
    return [*before, *after]


def window_attributes(
    strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> dict[str, Attribute]:
    return {
        "strides": integers(strides),
        "padding": integers(pads),
        "dilations": integers(dilations),
    }


def counts(
    size: Sequence[int], kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int],
    dilations: Sequence[int],
) -> list[int]:  # fmt: skip
    return [
        (size[i] + pads[i] + pads[i + 2] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1
        for i in range(2)
    ]


@lowers("Conv")
def convolution(low: Lowering, node: Node) -> Value:
    x, w = low.tensor(node.required(0)), low.tensor(node.required(1))
    bias = node.input(2)
    return convolve(low, node, x, w, None if bias is None else low.tensor(bias), element(x))


def convolve(
    low: Lowering, node: Node, x: SSAValue, w: SSAValue, bias: SSAValue | None, to: Attribute
) -> SSAValue:
    rank = len(shape(x)) - 2
    flat = rank == 1
    x, w = image(low, x), image(low, w)
    size, kernel = shape(x)[2:], shape(w)[2:]
    strides, dilations = (two(node.get(name), 1, rank) for name in ("strides", "dilations"))
    pads = padding_of(node, size, kernel, strides, dilations, rank)
    attributes = window_attributes(strides, pads, dilations)
    groups = node.get("group", 1)
    if groups != 1:
        attributes["groups"] = IntegerAttr(groups, builtin.i64)
    sizes = [shape(x)[0], shape(w)[0], *counts(size, kernel, strides, pads, dilations)]
    operands = [x, w] if bias is None else [x, w, bias]
    result: SSAValue = low.call("conv2d", operands, TensorType(to, sizes), attributes)
    return low.reshape(result, [*sizes[:2], sizes[3]]) if flat else result


@lowers("ConvTranspose")
def transposed_convolution(low: Lowering, node: Node) -> Value:
    """Zeros between the elements, then a convolution with the filter turned round."""
    x, w = low.tensor(node.required(0)), low.tensor(node.required(1))
    rank = len(shape(x)) - 2
    flat = rank == 1
    x, w = image(low, x), image(low, w)
    groups = node.get("group", 1)
    size, kernel = shape(x)[2:], shape(w)[2:]
    strides, dilations = (two(node.get(name), 1, rank) for name in ("strides", "dilations"))
    extra = two(node.get("output_padding"), 0, rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    full = [(size[i] - 1) * strides[i] + spans[i] + extra[i] for i in range(2)]
    before, after = _cropping(node, full, size, strides, rank)
    batch, channels = shape(x)[:2]
    if strides != [1, 1]:
        spread = [(n - 1) * s + 1 for n, s in zip(size, strides, strict=True)]
        zeros = low.fill(low_literal(x), [batch, channels, *spread])
        places: dict[str, Attribute] = {
            "offsets": integers([0] * 4),
            "sizes": integers(shape(x)),
            "strides": integers([1, 1, *strides]),
        }
        x = low.call("insert_slice", [x, zeros], zeros.type, places)
    for axis in (2, 3):
        if shape(w)[axis] > 1:
            w = take(low, w, low.integers(np.arange(shape(w)[axis])[::-1], "reverse"), axis)
    per_group = shape(w)[1]
    w = low.reshape(w, [groups, channels // groups, per_group, *kernel])
    w = low.reshape(
        low.transpose(w, [0, 2, 1, 3, 4]), [groups * per_group, channels // groups, *kernel]
    )
    pads = [spans[i] - 1 - before[i] for i in range(2)]
    pads += [spans[i] - 1 + extra[i] - after[i] for i in range(2)]
    if min(pads) < 0:
        unsupported("padding that cuts into the image")
    attributes = window_attributes([1, 1], pads, dilations)
    if groups != 1:
        attributes["groups"] = IntegerAttr(groups, builtin.i64)
    sizes = [batch, groups * per_group, *counts(shape(x)[2:], kernel, [1, 1], pads, dilations)]
    bias = node.input(2)
    operands = [x, w] if bias is None else [x, w, low.tensor(bias)]
    result: SSAValue = low.call("conv2d", operands, TensorType(element(x), sizes), attributes)
    return low.reshape(result, [*sizes[:2], sizes[3]]) if flat else result


def low_literal(x: SSAValue):
    from tilewright.dialects.intents import literal

    return literal(0, element(x)).value


def _cropping(
    node: Node, full: Sequence[int], size: Sequence[int], strides: Sequence[int], rank: int
) -> tuple[list[int], list[int]]:
    """What is cut off the full result in front and behind."""
    wanted = node.get("output_shape")
    mode = node.get("auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(size, strides, strict=True)][2 - rank :]
    if wanted is None:
        pads = node.get("pads") or [0] * (2 * rank)
        lead = [0] * (2 - rank)
        return lead + list(pads[:rank]), lead + list(pads[rank:])
    target = list(full[: 2 - rank]) + list(wanted[-rank:])
    before, after = [0, 0], [0, 0]
    for i in range(2):
        total = full[i] - target[i]
        half = total // 2
        before[i], after[i] = (half, total - half) if mode == "SAME_UPPER" else (total - half, half)
    return before, after


# ------------------------------------------------------------------------------------ pooling


@lowers("MaxPool", "AveragePool", "LpPool")
def pooling(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    if node.has_output(1):
        unsupported("the positions of maxima as a second result")
    rank = len(shape(x)) - 2
    flat = rank == 1
    x = image(low, x)
    size = shape(x)[2:]
    kernel = two(node.get("kernel_shape"), 1, rank)
    strides, dilations = (two(node.get(name), 1, rank) for name in ("strides", "dilations"))
    ceil = bool(node.get("ceil_mode", 0))
    pads = padding_of(node, size, kernel, strides, dilations, rank, ceil)
    attributes = window_attributes(strides, pads, dilations)
    attributes["kernel"] = integers(kernel)
    family = "pool_max"
    if node.operator == "AveragePool":
        family = "pool_avg"
        if node.get("count_include_pad", 0):
            given = padding_of(node, size, kernel, strides, dilations, rank)
            if given != pads:
                # Only the padding of the model counts, not what ceil_mode adds behind it.
                x = border(low, x, [0, 0, *given[:2]], [0, 0, *given[2:]], 0)
                rest = [0, 0, pads[2] - given[2], pads[3] - given[3]]
                attributes["padding"] = integers(rest)
                size, pads = shape(x)[2:], rest
            else:
                attributes["count_include_pad"] = UnitAttr()
    p = node.get("p", 2)
    if node.operator == "LpPool":
        family = "pool_sum"
        x = low.apply("elementwise_abs", x) if p != 2 else low.apply("elementwise_square", x)
        if p > 2:
            x = low.apply("elementwise_pow", x, float(p))
    sizes = [*shape(x)[:2], *counts(size, kernel, strides, pads, dilations)]
    if family != "pool_max" and not is_float(element(x)):
        unsupported("an average of integers")
    result: SSAValue = low.call(family, [x], TensorType(element(x), sizes), attributes)
    if node.operator == "LpPool" and p == 2:
        result = low.apply("elementwise_sqrt", result)
    elif node.operator == "LpPool" and p > 2:
        result = low.apply("elementwise_pow", result, 1.0 / p)
    return low.reshape(result, [*sizes[:2], sizes[3]]) if flat else result


@lowers("GlobalAveragePool", "GlobalMaxPool")
def global_pooling(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    kind = "mean" if node.operator == "GlobalAveragePool" else "max"
    return low.reduction(kind, x, list(range(2, len(shape(x)))), True)


@lowers("LRN")
def local_response(low: Lowering, node: Node) -> Value:
    """x / (bias + alpha / size * sum of squares of neighbouring channels) ^ beta."""
    x = low.tensor(node.required(0))
    sizes = shape(x)
    width = node.get("size")
    squares = low.apply("elementwise_square", x)
    rows = low.reshape(squares, [sizes[0], 1, sizes[1], math.prod(sizes[2:])])
    below, above = (width - 1) // 2, width - 1 - (width - 1) // 2
    attributes = window_attributes([1, 1], [below, 0, above, 0], [1, 1])
    attributes["kernel"] = integers([width, 1])
    total = low.reshape(low.call("pool_sum", [rows], rows.type, attributes), sizes)
    scaled = low.apply("elementwise_mul", total, node.get("alpha", 1e-4) / width)
    base = low.apply("elementwise_add", scaled, node.get("bias", 1.0))
    return low.apply(
        "elementwise_div", x, low.apply("elementwise_pow", base, node.get("beta", 0.75))
    )


@lowers("Resize", "Upsample")
def resize(low: Lowering, node: Node) -> Value:
    """Nearest neighbours as lookups at positions known now; other kinds as one matrix per axis."""
    from tilewright.frontend.onnx_resize import axis_plan

    x = low.tensor(node.required(0))
    if not is_float(element(x)) and node.get("mode", "nearest") != "nearest":
        unsupported("interpolation between integers")
    return axis_plan(low, node, x)
