"""ONNX operators that put numbers at places apart: transposed convolutions, columns added up to images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import integers, literal
from tilewright.dialects.xdsl_api import Attribute, SSAValue
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, lowers
from tilewright.frontend.onnx_ops_movement import take, window
from tilewright.frontend.onnx_ops_windows import image, two, windows_over
from tilewright.frontend.onnx_values import Value, element, shape


def spread(
    low: Lowering, x: SSAValue, sizes: Sequence[int], offsets: Sequence[int], strides: Sequence[int]
) -> SSAValue:
    """x [n, c, …] at places apart of a tensor of zeros [n, c, *sizes]."""
    zeros = low.fill(literal(0, element(x)).value, [*shape(x)[:2], *sizes])
    places: dict[str, Attribute] = {
        "offsets": integers([0, 0, *offsets]),
        "sizes": integers(shape(x)),
        "strides": integers([1, 1, *strides]),
    }
    return low.call("insert_slice", [x, zeros], zeros.type, places)


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
    all_axes = range(len(size))
    full = [(size[i] - 1) * strides[i] + spans[i] + extra[i] for i in all_axes]
    before, after = _cropping(node, full, size, strides, rank)
    if set(strides) != {1}:
        wide = [(n - 1) * s + 1 for n, s in zip(size, strides, strict=True)]
        x = spread(low, x, wide, [0] * len(size), strides)
    for axis in range(2, len(shape(w))):
        if shape(w)[axis] > 1:
            w = take(low, w, low.integers(np.arange(shape(w)[axis])[::-1], "reverse"), axis)
    channels, per_group = shape(w)[:2]
    w = low.reshape(w, [groups, channels // groups, per_group, *kernel])
    w = low.transpose(w, [0, 2, 1, *range(3, 3 + len(kernel))])
    w = low.reshape(w, [groups * per_group, channels // groups, *kernel])
    front = [spans[i] - 1 - before[i] for i in all_axes]
    behind = [spans[i] - 1 + extra[i] - after[i] for i in all_axes]
    # Padding that cuts into the image leaves out results at the edges, for windows go one by one.
    pads = [max(0, n) for n in (*front, *behind)]
    bias = None if node.input(2) is None else low.tensor(node.required(2))
    result = windows_over(
        low, x, w, bias, element(x), [1] * len(size), dilations, pads, groups
    )  # fmt: skip
    offsets = [max(0, -n) for n in front]
    sizes = [shape(result)[2 + i] - offsets[i] - max(0, -behind[i]) for i in all_axes]
    if min(sizes) < 0:
        raise Problem("TW6009", f"its padding leaves {min(sizes)} numbers of a dimension")
    result = window(low, result, [0, 0, *offsets], [*shape(result)[:2], *sizes])
    return low.reshape(result, [*shape(result)[:2], sizes[1]]) if flat else result


def _cropping(
    node: Node, full: Sequence[int], size: Sequence[int], strides: Sequence[int], rank: int
) -> tuple[list[int], list[int]]:
    """What is cut off the full result in front and behind; below 0: what is added to it."""
    wanted = node.get("output_shape")
    mode = node.get("auto_pad", "NOTSET")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(size, strides, strict=True)][-rank:]
    lead = [0] * (2 - rank)
    if wanted is None:
        pads = node.get("pads") or [0] * (2 * rank)
        if mode == "VALID":
            pads = [0] * (2 * rank)
        return lead + list(pads[:rank]), lead + list(pads[rank:])
    target = list(full[: len(lead)]) + list(wanted[-rank:])
    before, after = [], []
    for whole, kept in zip(full, target, strict=True):
        cut = max(0, whole - kept)
        before.append(cut // 2 if mode == "SAME_UPPER" else cut - cut // 2)
        after.append(whole - kept - before[-1])
    return before, after


@lowers("Col2Im")
def columns_to_image(low: Lowering, node: Node) -> Value:
    """Columns added up at the places of their blocks, one tap of a block at a time."""
    x = low.tensor(node.required(0))
    size = low.known_list(node.required(1), "the shape of the image")
    block = low.known_list(node.required(2), "the shape of a block")
    rank = len(size)
    strides, dilations = (node.get(name) or [1] * rank for name in ("strides", "dilations"))
    pads = node.get("pads") or [0] * (2 * rank)
    whole = [size[i] + pads[i] + pads[rank + i] for i in range(rank)]
    spans = [(block[i] - 1) * dilations[i] + 1 for i in range(rank)]
    counts = [(whole[i] - spans[i]) // strides[i] + 1 for i in range(rank)]
    batch, rows, columns = shape(x)
    if min(counts) < 1 or math.prod(counts) != columns or rows % math.prod(block):
        raise Problem(
            "TW6009",
            f"blocks of {block} are at {counts} places of an image of {size}, which does not fit "
            f"columns of {[batch, rows, columns]}",
        )
    channels = rows // math.prod(block)
    x = low.reshape(x, [batch, channels, *block, *counts])
    total: SSAValue | None = None
    for tap in itertools.product(*map(range, block)):
        one = window(low, x, [0, 0, *tap, *[0] * rank], [batch, channels, *[1] * rank, *counts])
        one = low.reshape(one, [batch, channels, *counts])
        offsets = [tap[i] * dilations[i] for i in range(rank)]
        one = spread(low, one, whole, offsets, strides)
        total = one if total is None else low.apply("elementwise_add", total, one)
    assert total is not None
    return window(low, total, [0, 0, *pads[:rank]], [batch, channels, *size])
