"""ATen calls with sliding windows: convolutions, pooling, upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.xdsl_api import Attribute, SSAValue, UnitAttr
from tilewright.frontend.aten_builder import Importer, Lowered, integer, lowers
from tilewright.frontend.aten_graph import Node, TensorInfo


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


@lowers("conv2d", "conv2d.padding", "conv1d", "conv1d.padding", "convolution")
def convolution(importer: Importer, node: Node) -> Lowered:
    """A 2-D convolution; one dimension is an image of height 1, no batch dimension a batch of 1."""
    x, w = importer.tensor(node.get("input")), importer.tensor(node.get("weight"))
    rank = len(shape_of(w)) - 2
    if node.get("transposed", False) or rank > 2:
        kind = "transposed" if node.get("transposed", False) else f"{rank}-dimensional"
        raise importer.unsupported(f"is {kind}", "only 1-D and 2-D forward convolutions are known")
    stride, dilation = (pair(node.get(n, 1), rank) for n in ("stride", "dilation"))
    padding = borders(node.get("padding", 0), shape_of(w)[2:], dilation)
    shape = importer.result().shape
    if rank == 1:
        stride, dilation = [1, *stride], [1, *dilation]
        padding = [0, padding[0], 0, padding[1]]
        w = importer.reshape(w, [*shape_of(w)[:2], 1, shape_of(w)[2]])
    batched = len(shape_of(x)) == rank + 2
    *lead, channels = shape_of(x)[: len(shape_of(x)) - rank]
    spatial = shape_of(x)[len(shape_of(x)) - rank :]
    image = importer.reshape(x, [*(lead or [1]), channels, *([1] * (2 - rank)), *spatial])
    full = [*(shape[:2] if batched else (1, shape[0])), *([1] * (2 - rank)), *shape[-rank:]]
    attributes: dict[str, Attribute] = {
        "strides": integers(stride),
        "padding": integers(padding),
        "dilations": integers(dilation),
        "groups": integer(node.get("groups", 1)),
    }
    operands = [image, w]
    if node.get("bias") is not None:
        operands.append(importer.tensor(node.get("bias")))
    type_ = importer.type_of(TensorInfo(tuple(full), importer.kind(x)))
    return importer.reshape(importer.call("conv2d", operands, type_, attributes), shape)


def pooled(
    importer: Importer,
    family: str,
    x: SSAValue,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1, 1),
    count_border: bool = False,
) -> SSAValue:
    """A pooling intent whose result has the shape the graph names."""
    shape = importer.result().shape
    if len(shape_of(x)) == 3:
        x = importer.reshape(x, [1, *shape_of(x)])
    attributes: dict[str, Attribute] = {
        "kernel": integers(kernel),
        "strides": integers(stride),
        "padding": integers(padding),
        "dilations": integers(dilation),
    }
    if count_border:
        attributes["count_include_pad"] = UnitAttr()
    type_ = importer.type_of(TensorInfo((1, *shape)[-4:], importer.kind(x)))
    return importer.reshape(importer.call(family, [x], type_, attributes), shape)


def _with_ceiling(
    importer: Importer, node: Node, size: Sequence[int], kernel: Sequence[int],
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
) -> list[int]:  # fmt: skip
    """Borders; with ceil_mode the far side grows until the last, partial window fits."""
    far = list(padding)
    if node.get("ceil_mode", False):
        outputs = importer.result().shape[-2:]
        for i in range(2):
            reach = (outputs[i] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1
            far[i] = max(padding[i], reach - size[i] - padding[i])
    return [*padding, *far]


@lowers("max_pool2d", "max_pool2d_with_indices")
def max_pool(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    kernel = pair(node.get("kernel_size"))
    stride = pair(node.get("stride") or kernel)
    padding, dilation = pair(node.get("padding", 0)), pair(node.get("dilation", 1))
    full = _with_ceiling(importer, node, shape_of(x)[-2:], kernel, stride, padding, dilation)
    if len(node.results) > 1 and importer.is_needed(1):
        raise importer.unsupported("is asked for positions", "use its first result only")
    found = pooled(importer, "pool_max", x, kernel, stride, full, dilation)
    return [found, *[None] * (len(node.results) - 1)]


@lowers("avg_pool2d")
def average_pool(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    kernel = pair(node.get("kernel_size"))
    stride = pair(node.get("stride") or kernel)
    padding = pair(node.get("padding", 0))
    count_border = bool(node.get("count_include_pad", True)) and any(padding)
    if node.get("divisor_override") is not None:
        raise importer.unsupported("overrides the divisor", "multiply the average instead")
    full = _with_ceiling(importer, node, shape_of(x)[-2:], kernel, stride, padding, (1, 1))
    if count_border and full[2:] != padding:
        raise importer.unsupported(
            "counts its border in partial windows", "use ceil_mode=False or count_include_pad=False"
        )
    return pooled(importer, "pool_avg", x, kernel, stride, full, count_border=count_border)


@lowers("adaptive_avg_pool2d", "_adaptive_avg_pool2d", "adaptive_max_pool2d")
def adaptive_pool(importer: Importer, node: Node) -> Lowered:
    """Windows of equal size; sizes that do not divide evenly have no such windows."""
    x = importer.tensor(node.get("self"))
    size, wanted = shape_of(x)[-2:], importer.result().shape[-2:]
    if any(n % m for n, m in zip(size, wanted, strict=True)):
        raise importer.unsupported(
            f"makes {size[0]}x{size[1]} into {wanted[0]}x{wanted[1]}",
            "choose an output size that divides the input size",
        )
    kernel = [n // m for n, m in zip(size, wanted, strict=True)]
    family = "pool_max" if "max" in node.target else "pool_avg"
    found = pooled(importer, family, x, kernel, kernel, [0, 0, 0, 0])
    if len(node.results) > 1 and importer.is_needed(1):
        raise importer.unsupported("is asked for positions", "use its first result only")
    return [found, *[None] * (len(node.results) - 1)]


@lowers("upsample_nearest2d", "upsample_nearest2d.vec")
def upsample(importer: Importer, node: Node) -> Lowered:
    """Every pixel repeated: a broadcast between two reshapes."""
    x = importer.tensor(node.get("self", node.get("input")))
    n, c, height, width = shape_of(x)
    tall, wide = importer.result().shape[-2:]
    if tall % height or wide % width:
        raise importer.unsupported(
            f"makes {height}x{width} into {tall}x{wide}", "scale by whole numbers"
        )
    thin = importer.reshape(x, [n, c, height, 1, width, 1])
    spread = importer.broadcast_to(thin, [n, c, height, tall // height, width, wide // width])
    return importer.reshape(spread, importer.result().shape)
