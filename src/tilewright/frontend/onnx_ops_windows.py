"""ONNX operators with sliding windows: convolutions and pooling, in one to three dimensions.

There is one kind of window, over images. A signal is an image of height 1; a volume is a row of
images, whose windows along the depth are channels (convolutions) or a second pooling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import builtin

from tilewright.dialects.intents import integers
from tilewright.dialects.xdsl_api import Attribute, IntegerAttr, SSAValue, TensorType, UnitAttr
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, lowers, unsupported
from tilewright.frontend.onnx_ops_movement import border, window
from tilewright.frontend.onnx_values import Value, element, is_float, shape


def image(low: Lowering, x: SSAValue) -> SSAValue:
    """[n, c, w] as [n, c, 1, w]; images and volumes as they are."""
    sizes = shape(x)
    if not 3 <= len(sizes) <= 5:
        unsupported(
            f"a window over {len(sizes) - 2} dimensions", "windows have one to three dimensions"
        )
    return low.reshape(x, [*sizes[:2], 1, sizes[2]]) if len(sizes) == 3 else x


def two(values: Sequence[int] | None, one: int, rank: int) -> list[int]:
    """Sizes per spatial dimension, with one in front for images of one dimension."""
    given = list(values) if values else [one] * rank
    return [one] * (2 - rank) + given


def padding_of(
    node: Node, size: Sequence[int], kernel: Sequence[int], strides: Sequence[int],
    dilations: Sequence[int], rank: int, ceil: bool = False,
) -> list[int]:  # fmt: skip
    """Before every dimension, then behind (top, left, bottom, right); a window that ceil_mode adds is
    reached by more of it."""
    mode = node.get("auto_pad", "NOTSET")
    pads = node.get("pads") or [0] * (2 * rank)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before = [0] * (2 - rank) + list(pads[:rank])
    after = [0] * (2 - rank) + list(pads[rank:])
    for i in range(len(size)):
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
    """How many windows there are along each dimension."""
    found = []
    for i, n in enumerate(size):
        span, room = dilations[i] * (kernel[i] - 1) + 1, n + pads[i] + pads[i + len(size)]
        if span > room and n:
            unsupported(f"a window over {span} of {room} numbers, padding included")
        found.append(max(0, (room - span) // strides[i] + 1))
    return found


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
    groups = node.get("group", 1)
    result = windows_over(low, x, w, bias, to, strides, dilations, pads, groups)
    sizes = shape(result)
    return low.reshape(result, [*sizes[:2], sizes[3]]) if flat else result


def windows_over(
    low: Lowering, x: SSAValue, w: SSAValue, bias: SSAValue | None, to: Attribute,
    strides: Sequence[int], dilations: Sequence[int], pads: Sequence[int], groups: int,
) -> SSAValue:  # fmt: skip
    """A convolution of images or volumes."""
    size, kernel = shape(x)[2:], shape(w)[2:]
    volumes, depth = len(size) == 3, 0
    if volumes:
        depth = counts(size, kernel, strides, pads, dilations)[0]
        x, w = _depth_as_channels(low, x, w, depth, strides[0], dilations[0], pads, groups)
        strides, dilations, pads = strides[1:], dilations[1:], [*pads[1:3], *pads[4:]]
        size, kernel = size[1:], kernel[1:]
    attributes = window_attributes(strides, pads, dilations)
    if groups != 1:
        attributes["groups"] = IntegerAttr(groups, builtin.i64)
    sizes = [shape(x)[0], shape(w)[0], *counts(size, kernel, strides, pads, dilations)]
    operands = [x, w] if bias is None else [x, w, bias]
    result: SSAValue = low.call("conv2d", operands, TensorType(to, sizes), attributes)
    if volumes:
        rows = low.reshape(result, [sizes[0] // depth, depth, *sizes[1:]])
        return low.transpose(rows, [0, 2, 1, 3, 4])
    return result


def _depth_as_channels(
    low: Lowering, x: SSAValue, w: SSAValue, count: int, stride: int, dilation: int,
    pads: Sequence[int], groups: int,
) -> tuple[SSAValue, SSAValue]:  # fmt: skip
    """Volumes as images of all windows along the depth, whose taps become channels."""
    x = border(low, x, [0, 0, pads[0], 0, 0], [0, 0, pads[3], 0, 0], 0)
    batch, channels, _, height, width = shape(x)
    filters, inside, taps, *kernel = shape(w)
    steps = []
    for tap in range(taps):
        offsets, sizes = [0, 0, tap * dilation, 0, 0], [batch, channels, count, height, width]
        part = window(low, x, offsets, sizes, [1, 1, stride, 1, 1])
        part = low.transpose(part, [0, 2, 1, 3, 4])
        steps.append(
            low.reshape(part, [batch, count, groups, 1, channels // groups, height, width])
        )
    joined = steps[0] if taps == 1 else low.concat(steps, 3)
    images = low.reshape(joined, [batch * count, taps * channels, height, width])
    w = low.transpose(w, [0, 2, 1, 3, 4])
    return images, low.reshape(w, [filters, taps * inside, *kernel])


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
    family, counted = "pool_max", False
    if node.operator == "AveragePool":
        family = "pool_avg"
        if node.get("count_include_pad", 0):
            given = padding_of(node, size, kernel, strides, dilations, rank)
            if given != pads or rank == 3:
                # Only the padding of the model counts, not what ceil_mode adds behind it.
                sides = len(size)
                x = border(low, x, [0, 0, *given[:sides]], [0, 0, *given[sides:]], 0)
                pads = [n - m for n, m in zip(pads, given, strict=True)]
            else:
                counted = True
    p = node.get("p", 2)
    if node.operator == "LpPool":
        family = "pool_sum"
        x = low.apply("elementwise_abs", x) if p != 2 else low.apply("elementwise_square", x)
        if p > 2:
            x = low.apply("elementwise_pow", x, float(p))
    if family != "pool_max" and not is_float(element(x)):
        unsupported("an average of integers")
    result = _pooled(low, family, x, kernel, strides, pads, dilations, counted)
    if node.operator == "LpPool" and p == 2:
        result = low.apply("elementwise_sqrt", result)
    elif node.operator == "LpPool" and p > 2:
        result = low.apply("elementwise_pow", result, 1.0 / p)
    sizes = shape(result)
    return low.reshape(result, [*sizes[:2], sizes[3]]) if flat else result


def _pooled(
    low: Lowering, family: str, x: SSAValue, kernel: Sequence[int], strides: Sequence[int],
    pads: Sequence[int], dilations: Sequence[int], counted: bool,
) -> SSAValue:  # fmt: skip
    """A pooling over the last two dimensions of images, and then over the depth of volumes: the
    numbers under a window without padding are a box, so averages of averages are right."""
    size = shape(x)[2:]
    if len(size) == 3:
        batch, channels, depth, height, width = shape(x)
        images = low.reshape(x, [batch, channels * depth, height, width])
        sides = [*pads[1:3], *pads[4:]]
        found = _pooled(low, family, images, kernel[1:], strides[1:], sides, dilations[1:], counted)
        height, width = shape(found)[2:]
        rows = low.reshape(found, [batch, channels, depth, height * width])
        ends = [pads[0], 0, pads[3], 0]
        found = _pooled(
            low, family, rows, [kernel[0], 1], [strides[0], 1], ends, [dilations[0], 1], counted
        )
        return low.reshape(found, [batch, channels, shape(found)[2], height, width])
    attributes = window_attributes(strides, pads, dilations)
    attributes["kernel"] = integers(kernel)
    if counted:
        attributes["count_include_pad"] = UnitAttr()
    sizes = [*shape(x)[:2], *counts(size, kernel, strides, pads, dilations)]
    return low.call(family, [x], TensorType(element(x), sizes), attributes)


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
