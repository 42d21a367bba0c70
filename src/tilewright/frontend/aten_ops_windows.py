"""ATen calls with sliding windows: convolutions and pooling in one, two and three dimensions.

There is one kind of window, over images. A signal is an image of height 1; a volume is a row of
images, whose windows along the depth are channels (convolutions) or a second pooling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.xdsl_api import Attribute, SSAValue, UnitAttr
from tilewright.frontend.aten_builder import (
    Importer,
    Lowered,
    integer,
    lowers,
    scalar_attribute,
)
from tilewright.frontend.aten_graph import Node, TensorInfo, element_type
from tilewright.frontend.aten_ops_indexing import looked_up


def pair(value: Any, rank: int = 2) -> list[int]:
    """One number per spatial dimension; a single one stands for all."""
    found = [value] if isinstance(value, int) else list(value)
    return found * rank if len(found) == 1 else found


def borders(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Padding before each dimension, then after each; "same" puts the odd one after."""
    rank = len(kernel)
    if padding == "valid":
        return [0] * (2 * rank)
    if padding == "same":
        total = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        return [n // 2 for n in total] + [n - n // 2 for n in total]
    return pair(padding, rank) * 2


# --------------------------------------------------------------------------- convolutions


@lowers(
    "conv1d", "conv1d.padding", "conv2d", "conv2d.padding", "conv3d", "conv3d.padding",
    "convolution", "conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input",
)  # fmt: skip
def convolution(importer: Importer, node: Node) -> Lowered:
    """A convolution of any of the three ranks, forward or transposed, batched or not."""
    x, w = importer.tensor(node.get("input")), importer.tensor(node.get("weight"))
    rank = len(shape_of(w)) - 2
    stride, dilation = (pair(node.get(n, 1), rank) for n in ("stride", "dilation"))
    padding = borders(node.get("padding", 0), shape_of(w)[2:], dilation)
    groups = node.get("groups", 1)
    shape = importer.result().shape
    if len(shape_of(x)) == rank + 1:
        x = importer.reshape(x, [1, *shape_of(x)])
    if node.get("transposed", False) or "transpose" in node.target:
        extra = pair(node.get("output_padding", 0), rank)
        x, w, padding = turned_round(importer, x, w, stride, dilation, padding, extra, groups)
        stride = [1] * rank
    if rank == 3:
        x, w, stride, dilation, padding = _depth_as_channels(
            importer, x, w, stride, dilation, padding, groups
        )
    if rank == 1:
        stride, dilation = [1, *stride], [1, *dilation]
        padding = [0, padding[0], 0, padding[1]]
        w = importer.reshape(w, [*shape_of(w)[:2], 1, shape_of(w)[2]])
        x = importer.reshape(x, [*shape_of(x)[:2], 1, shape_of(x)[2]])
    found = _images(importer, node, x, w, stride, dilation, padding, groups)
    if rank != 3:
        return importer.reshape(found, shape)
    depth, (filters, height, width) = shape[-3], shape_of(found)[1:]
    parts = importer.reshape(found, [shape_of(found)[0] // depth, depth, filters, height, width])
    return importer.reshape(importer.transpose(parts, [0, 2, 1, 3, 4]), shape)


def _images(
    importer: Importer, node: Node, x: SSAValue, w: SSAValue, stride: Sequence[int],
    dilation: Sequence[int], padding: Sequence[int], groups: int,
) -> SSAValue:  # fmt: skip
    """The convolution of images with the bias of the current node."""
    attributes: dict[str, Attribute] = {
        "strides": integers(stride),
        "padding": integers(padding),
        "dilations": integers(dilation),
        "groups": integer(groups),
    }
    operands = [x, w]
    if node.get("bias") is not None:
        operands.append(importer.tensor(node.get("bias")))
    spatial = [
        (shape_of(x)[2 + i] + padding[i] + padding[2 + i] - dilation[i] * (shape_of(w)[2 + i] - 1) - 1)
        // stride[i] + 1
        for i in range(2)
    ]  # fmt: skip
    size = (shape_of(x)[0], shape_of(w)[0], *spatial)
    type_ = importer.type_of(TensorInfo(size, importer.kind(x)))
    return importer.call("conv2d", operands, type_, attributes)


def turned_round(
    importer: Importer, x: SSAValue, w: SSAValue, stride: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], extra: Sequence[int], groups: int,
) -> tuple[SSAValue, SSAValue, list[int]]:  # fmt: skip
    """A transposed convolution as a forward one of step 1: image, filter and padding.

    Zeros stand between the elements of the image, the filter is reversed along its spatial
    dimensions and has its channels the other way round.
    """
    rank = len(stride)
    size, kernel = shape_of(x)[2:], shape_of(w)[2:]
    if any(step != 1 for step in stride):
        spread = [(n - 1) * step + 1 for n, step in zip(size, stride, strict=True)]
        info = TensorInfo((*shape_of(x)[:2], *spread), importer.kind(x))
        places: dict[str, Attribute] = {
            "offsets": integers([0] * (rank + 2)),
            "sizes": integers(shape_of(x)),
            "strides": integers([1, 1, *stride]),
        }
        x = importer.call(
            "insert_slice", [x, importer.filled(0, info)], importer.type_of(info), places
        )
    for axis, taps in enumerate(kernel, 2):
        if taps > 1:
            order = np.arange(taps, dtype=np.int64)[::-1].copy()
            w = looked_up(importer, "gather", w, importer.constant(order), axis)
    channels, filters = shape_of(w)[:2]
    parts = importer.reshape(w, [groups, channels // groups, filters, *kernel])
    parts = importer.transpose(parts, [0, 2, 1, *range(3, 3 + rank)])
    w = importer.reshape(parts, [groups * filters, channels // groups, *kernel])
    reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    low = [r - p for r, p in zip(reach, padding[:rank], strict=True)]
    high = [r - p + e for r, p, e in zip(reach, padding[rank:], extra, strict=True)]
    for axis, (before, after) in enumerate(zip(low, high, strict=True), 2):
        size_now = shape_of(x)[axis]
        count = size_now + min(before, 0) + min(after, 0)
        x = importer.cut(x, axis, max(-before, 0), count)
    return x, w, [max(n, 0) for n in (*low, *high)]


def _depth_as_channels(
    importer: Importer, x: SSAValue, w: SSAValue, stride: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], groups: int,
) -> tuple[SSAValue, SSAValue, list[int], list[int], list[int]]:  # fmt: skip
    """A convolution of volumes as one of images: the taps along the depth become channels."""
    x = bordered(importer, x, 2, padding[0], padding[3], 0)
    batch, channels, depth, height, width = shape_of(x)
    filters, inside, taps, *kernel = shape_of(w)
    count = (depth - dilation[0] * (taps - 1) - 1) // stride[0] + 1
    steps = []
    for tap in range(taps):
        part = importer.cut(x, 2, tap * dilation[0], count, stride[0])
        part = importer.transpose(part, [0, 2, 1, 3, 4])
        shape = [batch, count, groups, 1, channels // groups, height, width]
        steps.append(importer.reshape(part, shape))
    joined = steps[0] if taps == 1 else importer.concat(steps, 3)
    x = importer.reshape(joined, [batch * count, taps * channels, height, width])
    w = importer.transpose(w, [0, 2, 1, 3, 4])
    w = importer.reshape(w, [filters, taps * inside, *kernel])
    rest = [padding[1], padding[2], padding[4], padding[5]]
    return x, w, list(stride[1:]), list(dilation[1:]), rest


def bordered(
    importer: Importer, x: SSAValue, axis: int, low: int, high: int, value: float
) -> SSAValue:
    """x with a border of one number before and after along an axis."""
    if not low and not high:
        return x
    rank = len(shape_of(x))
    shape = [n + (low + high if d == axis else 0) for d, n in enumerate(shape_of(x))]
    kind = importer.kind(x)
    attributes: dict[str, Attribute] = {
        "low": integers([low if d == axis else 0 for d in range(rank)]),
        "high": integers([high if d == axis else 0 for d in range(rank)]),
        "value": scalar_attribute(value, element_type(kind)),
    }
    return importer.call("pad", [x], importer.type_of(TensorInfo(tuple(shape), kind)), attributes)


# --------------------------------------------------------------------------- pooling


def pooled(
    importer: Importer,
    family: str,
    x: SSAValue,
    kernel: Sequence[int],
    stride: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    dilation: Sequence[int],
    count_border: bool = False,
) -> SSAValue:
    """A pooling over the last dimensions, as many as the kernel has: two of them at a time."""
    rank = len(kernel)
    if rank == 3:
        x = pooled(
            importer, family, x, kernel[1:], stride[1:], low[1:], high[1:], dilation[1:], count_border
        )  # fmt: skip
        *lead, depth, height, width = shape_of(x)
        rows = importer.reshape(x, [*lead, depth, height * width])
        found = pooled(
            importer, family, rows, [kernel[0], 1], [stride[0], 1], [low[0], 0], [high[0], 0],
            [dilation[0], 1], count_border,
        )  # fmt: skip
        return importer.reshape(found, [*lead, shape_of(found)[-2], height, width])
    if rank == 1:
        *lead, width = shape_of(x)
        row = importer.reshape(x, [*lead, 1, width])
        found = pooled(
            importer, family, row, [1, *kernel], [1, *stride], [0, *low], [0, *high],
            [1, *dilation], count_border,
        )  # fmt: skip
        return importer.reshape(found, [*lead, shape_of(found)[-1]])
    *lead, height, width = shape_of(x)
    image = importer.reshape(x, [1, math.prod(lead), height, width] if len(lead) != 2 else shape_of(x))  # fmt: skip
    attributes: dict[str, Attribute] = {
        "kernel": integers(kernel),
        "strides": integers(stride),
        "padding": integers([*low, *high]),
        "dilations": integers(dilation),
    }
    if count_border and any([*low, *high]):
        attributes["count_include_pad"] = UnitAttr()
    counts = [
        (n + low[i] + high[i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, n in enumerate((height, width))
    ]
    info = TensorInfo((*shape_of(image)[:2], *counts), importer.kind(x))
    found = importer.call(family, [image], importer.type_of(info), attributes)
    return importer.reshape(found, [*lead, *counts])


def _rank(node: Node) -> int:
    """The number of spatial dimensions in a target's name."""
    return int(node.target.split("pool")[1][0])


def _reach(
    importer: Importer, node: Node, size: Sequence[int], kernel: Sequence[int],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> list[int]:  # fmt: skip
    """The border behind; with ceil_mode it grows until the last, partial window fits."""
    if not node.get("ceil_mode", False):
        return list(padding)
    outputs = importer.result().shape[-len(kernel) :]
    return [
        max(padding[i], (outputs[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 - size[i] - padding[i])
        for i in range(len(kernel))
    ]  # fmt: skip


@lowers(*(f"max_pool{n}d" for n in (1, 2, 3)), *(f"max_pool{n}d_with_indices" for n in (1, 2, 3)))
def max_pool(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    rank = _rank(node)
    kernel = pair(node.get("kernel_size"), rank)
    stride = pair(node.get("stride") or kernel, rank)
    padding, dilation = (pair(node.get(n, d), rank) for n, d in (("padding", 0), ("dilation", 1)))
    high = _reach(importer, node, shape_of(x)[-rank:], kernel, stride, padding, dilation)
    found = pooled(importer, "pool_max", x, kernel, stride, padding, high, dilation)
    places: SSAValue | None = None
    if len(node.results) > 1 and importer.is_needed(1):
        places = _places(importer, x, kernel, stride, padding, dilation)
    return [found, *[places] * (len(node.results) - 1)]


def _places(
    importer: Importer, x: SSAValue, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int],
) -> SSAValue:  # fmt: skip
    """Where in its image the first maximum of each window is: the taps side by side, a position
    among them, and a table of what each tap of each window is in the image."""
    rank, counts = len(kernel), importer.result(1).shape[-len(kernel) :]
    size = shape_of(x)[-rank:]
    lead = shape_of(x)[: len(shape_of(x)) - rank]
    whole = importer.reshape(x, [math.prod(lead), *size])
    for axis in range(rank):
        reach = (counts[axis] - 1) * stride[axis] + dilation[axis] * (kernel[axis] - 1) + 1
        behind = max(reach - size[axis] - padding[axis], 0)
        whole = bordered(importer, whole, axis + 1, padding[axis], behind, -math.inf)
    taps: list[SSAValue] = []
    places, inside = [], []
    for tap in np.ndindex(*kernel):
        part, place, within = whole, np.zeros(counts, np.int64), np.ones(counts, np.bool_)
        for axis in range(rank):
            first = tap[axis] * dilation[axis]
            part = importer.cut(part, axis + 1, first, counts[axis], stride[axis])
            steps = np.arange(counts[axis]) * stride[axis] + first - padding[axis]
            steps = steps.reshape([-1 if d == axis else 1 for d in range(rank)])
            place = place * size[axis] + steps
            within = within & (steps >= 0) & (steps < size[axis])
        taps.append(importer.reshape(part, [math.prod(lead), math.prod(counts), 1]))
        places.append(place.reshape(-1))
        inside.append(within.reshape(-1))
    joined = taps[0] if len(taps) == 1 else importer.concat(taps, 2)
    kind = importer.result(1).dtype
    info = TensorInfo(shape_of(joined)[:2], kind)
    tap_of = importer.call("argmax", [joined], importer.type_of(info), {"axis": integer(2)})
    windows = importer.constant(np.arange(math.prod(counts), dtype=np.int64) * len(taps))
    at = importer.pointwise("elementwise_add", tap_of, windows)
    # The border is chosen only where all else is minus infinity: then the first element counts.
    table, real = np.stack(places, 1), np.stack(inside, 1)
    table = np.where(real, table, table[np.arange(len(table)), real.argmax(1)][:, None])
    flat = importer.constant(np.ascontiguousarray(table).reshape(-1))
    found = looked_up(importer, "gather", flat, importer.reshape(at, [math.prod(info.shape)]), 0)
    return importer.reshape(found, importer.result(1).shape)


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(importer: Importer, node: Node) -> Lowered:
    """The border may count as zeros; what ceil_mode adds behind it never does."""
    x = importer.tensor(node.get("self"))
    rank = _rank(node)
    kernel = pair(node.get("kernel_size"), rank)
    stride = pair(node.get("stride") or kernel, rank)
    padding, ones = pair(node.get("padding", 0), rank), [1] * rank
    high = _reach(importer, node, shape_of(x)[-rank:], kernel, stride, padding, ones)
    if node.get("divisor_override") is not None:
        total = pooled(importer, "pool_sum", x, kernel, stride, padding, high, ones)
        return importer.pointwise("elementwise_div", total, float(node.get("divisor_override")))
    count_border = bool(node.get("count_include_pad", True))
    low = padding
    if count_border and high != padding:
        for axis, amount in enumerate(padding, len(shape_of(x)) - rank):
            x = bordered(importer, x, axis, amount, amount, 0)
        low, high = [0] * rank, [h - p for h, p in zip(high, padding, strict=True)]
        count_border = False
    return pooled(importer, "pool_avg", x, kernel, stride, low, high, ones, count_border)


@lowers(
    *(f"adaptive_{kind}_pool{n}d" for kind in ("avg", "max") for n in (1, 2, 3)),
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d",
)  # fmt: skip
def adaptive_pool(importer: Importer, node: Node) -> Lowered:
    """Windows between the fractions i/m and (i+1)/m of the size; of equal size where m divides it."""
    x = importer.tensor(node.get("self"))
    rank = _rank(node)
    size, wanted = shape_of(x)[-rank:], importer.result().shape[-rank:]
    kind = "max" if "max" in node.target else "avg"
    if len(node.results) > 1 and importer.is_needed(1):
        raise importer.unsupported(
            "is asked for the positions of maxima", "use its first result only"
        )
    if all(m == 1 for m in wanted):
        axes = range(len(shape_of(x)) - rank, len(shape_of(x)))
        reduction = "max" if kind == "max" else "mean"
        found: SSAValue = importer.reduction(reduction, x, list(axes), keepdims=True)
    elif not any(n % m for n, m in zip(size, wanted, strict=True)):
        kernel = [n // m for n, m in zip(size, wanted, strict=True)]
        zeros, ones = [0] * rank, [1] * rank
        found = pooled(importer, f"pool_{kind}", x, kernel, kernel, zeros, zeros, ones)
    else:
        found = x
        for axis, count in enumerate(wanted, len(shape_of(x)) - rank):
            found = _uneven(importer, found, axis, count, "max" if kind == "max" else "mean")
    return [found, *[None] * (len(node.results) - 1)]


def _uneven(importer: Importer, x: SSAValue, axis: int, count: int, kind: str) -> SSAValue:
    """One reduction for each window along an axis."""
    size = shape_of(x)[axis]
    parts: list[SSAValue] = []
    for index in range(count):
        start, end = index * size // count, -(-(index + 1) * size // count)
        part = importer.cut(x, axis, start, end - start)
        parts.append(importer.reduction(kind, part, [axis], keepdims=True))
    return parts[0] if count == 1 else importer.concat(parts, axis)
