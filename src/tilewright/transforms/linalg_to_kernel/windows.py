"""Convolutions and poolings.

before: linalg.conv_2d_nchw_fchw {strides, dilations} ins(%x, %w) outs(%init)
after:  strategy "direct": ukernel "npu_uk_conv2d"(%x, %w [, %bias])
        strategy "im2col": the windows laid out as rows by slice, concat, reshape and transpose, then
        npu_kernel.matmul {strategy = "im2col"} with the filter

Every layout is first brought to nchw_fchw or nhwc_hwcf. A convolution over one group becomes im2col,
which feeds the matrix unit, unless its rows would be larger than 64 MiB; groups and depthwise stay
direct. `convolution=direct` or `im2col` asks for one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

from tilewright.dialects.intents import Lane, integers, shape_of, tensor_type, text
from tilewright.dialects.linalg_ext import ConvolutionOp, PoolingOp
from tilewright.dialects.npu_kernel import MatmulOp
from tilewright.dialects.xdsl_api import (
    ArrayAttr,
    Attribute,
    IntegerAttr,
    SSAValue,
    TensorType,
    i64,
)
from tilewright.transforms.linalg_to_kernel.contractions import emit_matmul
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    filled_with,
    is_undefined,
    kernel_of,
    loops_of,
)
from tilewright.transforms.linalg_to_kernel.reductions import neutral

ROWS_LIMIT_BYTES = 64 << 20


@dataclass
class Convolution:
    """A convolution in one of the two layouts, and how to shape its result."""

    x: SSAValue
    w: SSAValue
    layout: str
    groups: int
    strides: tuple[int, int]
    dilations: tuple[int, int]
    result: TensorType

    @property
    def image(self) -> tuple[int, int, int, int]:
        """Batch, channels, height, width."""
        n, *rest = shape_of(self.x)
        c, h, w = rest if self.layout == "nchw_fchw" else (rest[2], rest[0], rest[1])
        return n, c, h, w

    @property
    def window(self) -> tuple[int, int]:
        shape = shape_of(self.w)
        return shape[2:] if self.layout == "nchw_fchw" else shape[:2]  # type: ignore[return-value]

    @property
    def output(self) -> tuple[int, int]:
        shape = tuple(self.result.get_shape())
        return shape[2:] if self.layout == "nchw_fchw" else shape[1:3]  # type: ignore[return-value]

    @property
    def filters(self) -> int:
        return shape_of(self.w)[0 if self.layout == "nchw_fchw" else 3]


def convert_convolution(emitter: Emitter, op: ConvolutionOp) -> None:
    type_ = cast(TensorType, op.results[0].type)
    for value in op.operands:
        check_element(tensor_type(value).element_type)
    init = emitter.value(op.outputs[0])
    if is_undefined(init):
        raise Unmapped(
            "TW1226",
            "it adds to an initial value with undefined contents (tensor.empty)",
            "fill the output with 0 first",
        )
    conv = _normalised(emitter, op, type_)
    zero = filled_with(init) == 0
    bias = None if zero else _bias(conv, init, type_)
    choice = _choose(emitter, conv, zero or bias is not None)
    if choice == "im2col":
        start = None if zero else _start_rows(emitter, conv, init, bias)
        value = _rows_times_filter(emitter, conv, start)
    else:
        attributes: dict[str, Attribute] = {
            "strides": integers(conv.strides),
            "dilations": integers(conv.dilations),
            "layout": text(conv.layout),
            "strategy": text("direct"),
            "groups": IntegerAttr(conv.groups, i64),
        }
        x, padding = _take_padding(conv)
        if any(padding):
            attributes["padding"] = integers(padding)
        operands = [x, conv.w] + ([bias] if bias is not None else [])
        value = emitter.call("conv2d", operands, conv.result, attributes)
    emitter.values[op.results[0]] = emitter.reshape(value, type_.get_shape())


def _choose(emitter: Emitter, conv: Convolution, simple_start: bool) -> str:
    wish = emitter.settings.convolution
    if conv.groups != 1:
        if not simple_start:
            raise Unmapped(
                "TW1224",
                "it adds to a tensor and has groups",
                "start from 0 or a bias, and add the tensor afterwards",
            )
        if wish == "im2col":
            raise Unmapped("TW1224", "im2col needs one group", "use convolution=auto")
        return "direct"
    if wish != "auto":
        return wish if simple_start else "im2col"
    n, c, _, _ = conv.image
    rows = n * prod(conv.output) * c * prod(conv.window)
    size = rows * tensor_type(conv.x).element_type.size  # type: ignore[attr-defined]
    return "direct" if size > ROWS_LIMIT_BYTES and simple_start else "im2col"


def _pair(numbers: tuple[int, ...]) -> tuple[int, int]:
    """Steps of a 1-D window as those of a window of height 1."""
    return (1, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])


def _normalised(emitter: Emitter, op: ConvolutionOp, type_: TensorType) -> Convolution:
    """The operands in layout nchw_fchw or nhwc_hwcf."""
    kind = op.name.removeprefix("linalg.")
    x, w = (emitter.value(v) for v in op.inputs)
    xs, ws, out = shape_of(x), shape_of(w), tuple(type_.get_shape())
    layout, groups = "nchw_fchw", 1
    if kind == "conv_2d_nhwc_hwcf":
        layout = "nhwc_hwcf"
    elif kind == "conv_2d_nhwc_fhwc":
        layout, w = "nhwc_hwcf", emitter.transpose(w, [1, 2, 3, 0])
    elif kind in ("conv_2d_ngchw_fgchw", "conv_2d_ngchw_gfchw"):
        if kind.endswith("fgchw"):
            w = emitter.transpose(w, [1, 0, 2, 3, 4])
        g, f = shape_of(w)[:2]
        groups, x = g, emitter.reshape(x, (xs[0], g * xs[2], *xs[3:]))
        w = emitter.reshape(w, (g * f, *shape_of(w)[2:]))
        out = (out[0], g * f, *out[3:])
    elif kind == "conv_2d_nhwgc_gfhwc":
        g, f = ws[:2]
        layout, groups = "nhwc_hwcf", g
        x = emitter.reshape(x, (*xs[:3], g * xs[4]))
        w = emitter.transpose(w, [2, 3, 4, 0, 1])
        w = emitter.reshape(w, (*shape_of(w)[:3], g * f))
        out = (*out[:3], g * f)
    elif kind == "depthwise_conv_2d_nchw_chw":
        groups, w = ws[0], emitter.reshape(w, (ws[0], 1, *ws[1:]))
    elif kind == "depthwise_conv_2d_nhwc_hwc":
        layout, groups = "nhwc_hwcf", ws[2]
        w = emitter.reshape(w, (*ws[:2], 1, ws[2]))
    elif kind == "conv_1d_ncw_fcw":
        x = emitter.reshape(x, (xs[0], xs[1], 1, xs[2]))
        w, out = emitter.reshape(w, (ws[0], ws[1], 1, ws[2])), (out[0], out[1], 1, out[2])
    elif kind == "conv_1d_nwc_wcf":
        layout = "nhwc_hwcf"
        x, w = emitter.reshape(x, (xs[0], 1, *xs[1:])), emitter.reshape(w, (1, *ws))
        out = (out[0], 1, *out[1:])
    elif kind == "conv_2d":
        x, w = emitter.reshape(x, (1, 1, *xs)), emitter.reshape(w, (1, 1, *ws))
        out = (1, 1, *out)
    elif kind != "conv_2d_nchw_fchw":
        raise Unmapped("TW1221", "this convolution has no kernel", "use nchw_fchw or nhwc_hwcf")
    result = TensorType(type_.element_type, list(out))
    strides, dilations = _pair(op.steps("strides")), _pair(op.steps("dilations"))
    conv = Convolution(x, w, layout, groups, strides, dilations, result)
    first = 2 if layout == "nchw_fchw" else 1
    conv.x = _reached(emitter, x, first, conv.window, conv.output, strides, dilations)
    return conv


def _reached(
    emitter: Emitter,
    x: SSAValue,
    first: int,
    window: tuple[int, ...],
    output: tuple[int, ...],
    strides: tuple[int, int],
    dilations: tuple[int, int],
) -> SSAValue:
    """The part of an image that windows reach: a result may stop before the image ends."""
    sizes = list(shape_of(x))
    for i in range(2):
        span = dilations[i] * (window[i] - 1) + 1
        if (sizes[first + i] - span) // strides[i] + 1 > output[i]:
            sizes[first + i] = (output[i] - 1) * strides[i] + span
    if tuple(sizes) == shape_of(x):
        return x
    return emitter.slice(x, [0] * len(sizes), sizes, [1] * len(sizes))


def _bias(conv: Convolution, init: SSAValue, type_: TensorType) -> SSAValue | None:
    """The vector an initial value repeats over all but the filters, if it does."""
    found = kernel_of(init)
    if found is None or found[0] != "cast" or len(type_.get_shape()) != 4:
        return None
    op = found[1]
    maps = op.attributes.get("operand_maps")
    source = op.operands[0]
    if not isinstance(maps, ArrayAttr) or len(shape_of(source)) != 1:
        return None
    reads = loops_of(maps.data[0].data, "the bias")  # type: ignore[attr-defined]
    place = 1 if conv.layout == "nchw_fchw" else 3
    same = tensor_type(source).element_type == type_.element_type
    return source if reads == (place,) and same else None


def _take_padding(conv: Convolution) -> tuple[SSAValue, tuple[int, ...]]:
    """The image before a border of zeros, and the border as top, left, bottom, right."""
    found = kernel_of(conv.x)
    if found is None or found[0] != "pad":
        return conv.x, (0, 0, 0, 0)
    op = found[1]
    low, high = (op.attributes[k].get_values() for k in ("low", "high"))  # type: ignore[attr-defined]
    first = 2 if conv.layout == "nchw_fchw" else 1
    rest = [d for d in range(4) if d not in (first, first + 1)]
    border = op.attributes["value"].value.data  # type: ignore[attr-defined]
    if border != 0 or any(low[d] or high[d] for d in rest):
        return conv.x, (0, 0, 0, 0)
    return op.operands[0], (low[first], low[first + 1], high[first], high[first + 1])


def _start_rows(
    emitter: Emitter, conv: Convolution, init: SSAValue, bias: SSAValue | None
) -> SSAValue:
    """The initial value with one row per window position and one column per filter."""
    rows = conv.image[0] * prod(conv.output)
    if bias is not None:
        return emitter.broadcast(Lane(bias, (1,)), (0, 1), {0: rows, 1: conv.filters})
    init = emitter.reshape(init, conv.result.get_shape())
    if conv.layout == "nchw_fchw":
        init = emitter.transpose(init, [0, 2, 3, 1])
    return emitter.reshape(init, (rows, conv.filters))


def _rows_times_filter(emitter: Emitter, conv: Convolution, init: SSAValue | None) -> SSAValue:
    """im2col: one row per window position, contracted with the filter in the order of its loops."""
    (n, c, h, w), (kh, kw), (oh, ow) = conv.image, conv.window, conv.output
    depth, filters = c * kh * kw, conv.filters
    channels_first = conv.layout == "nchw_fchw"
    x = conv.x
    if (kh, kw) == conv.strides and conv.dilations == (1, 1) and (h, w) == (oh * kh, ow * kw):
        if channels_first:
            x = emitter.reshape(x, (n, c, oh, kh, ow, kw))
            x = emitter.transpose(x, [0, 2, 4, 1, 3, 5])
        else:
            x = emitter.reshape(x, (n, oh, kh, ow, kw, c))
            x = emitter.transpose(x, [0, 1, 3, 2, 4, 5])
    else:
        x = _windows(emitter, conv)
    rows = emitter.reshape(x, (n * oh * ow, depth))
    if channels_first:
        weight, turned = emitter.reshape(conv.w, (filters, depth)), True
    else:
        weight, turned = emitter.reshape(conv.w, (depth, filters)), False
    type_ = TensorType(conv.result.element_type, [n * oh * ow, filters])
    value = emit_matmul(emitter, rows, weight, type_, init, False, turned)
    if isinstance(value.owner, MatmulOp):
        value.owner.attributes["strategy"] = text("im2col")
    value = emitter.reshape(value, (n, oh, ow, filters))
    return emitter.transpose(value, [0, 3, 1, 2]) if channels_first else value


def _windows(emitter: Emitter, conv: Convolution) -> SSAValue:
    """[n, oh, ow, …window…] from one strided slice per tap."""
    (n, c, _, _), (kh, kw), (oh, ow) = conv.image, conv.window, conv.output
    channels_first = conv.layout == "nchw_fchw"
    parts = []
    for y in range(kh):
        for x in range(kw):
            at, by = (y * conv.dilations[0], x * conv.dilations[1]), conv.strides
            if channels_first:
                tap = emitter.slice(conv.x, (0, 0, *at), (n, c, oh, ow), (1, 1, *by))
                parts.append(emitter.reshape(tap, (n, c, 1, oh, ow)))
            else:
                tap = emitter.slice(conv.x, (0, *at, 0), (n, oh, ow, c), (1, *by, 1))
                parts.append(emitter.reshape(tap, (n, oh, ow, 1, c)))
    if channels_first:
        return emitter.transpose(emitter.concat(parts, 2), [0, 3, 4, 1, 2])
    return emitter.concat(parts, 3)


def convert_pooling(emitter: Emitter, op: PoolingOp) -> None:
    """before: linalg.pooling_nhwc_max ins(%x, %window) outs(%init); after: npu_uk_pool_max(%x)"""
    type_ = cast(TensorType, op.results[0].type)
    _, layout, kind = op.name.removeprefix("linalg.").split("_")
    if kind not in ("sum", "max"):
        raise Unmapped(
            "TW1221", f"{kind} pooling has no kernel", "negate, take the maximum, negate"
        )
    x = emitter.value(op.inputs[0])
    if tensor_type(x).element_type != type_.element_type:
        x = emitter.unary("cast", x, type_.element_type)
    check_element(type_.element_type)
    if filled_with(emitter.value(op.outputs[0])) != neutral(kind, type_.element_type):
        raise Unmapped(
            "TW1224",
            f"{kind} pooling starts from another value than {neutral(kind, type_.element_type)}",
            "combine the start in an op of its own",
        )
    window = tuple(tensor_type(op.inputs[1]).get_shape())
    shape, out = shape_of(x), tuple(type_.get_shape())
    if len(window) == 1:
        x = emitter.reshape(x, (shape[0], shape[1], 1, shape[2]))
        window, out, layout = (1, *window), (out[0], out[1], 1, out[2]), "nchw"
    strides, dilations = _pair(op.steps("strides")), _pair(op.steps("dilations"))
    first = 2 if layout == "nchw" else 1
    x = _reached(emitter, x, first, window, out[first : first + 2], strides, dilations)
    attributes: dict[str, Attribute] = {
        "kernel": integers(window),
        "strides": integers(strides),
        "dilations": integers(dilations),
        "layout": text(layout),
    }
    result = TensorType(type_.element_type, list(out))
    value = emitter.call(f"pool_{kind}", [x], result, attributes)
    emitter.values[op.results[0]] = emitter.reshape(value, type_.get_shape())
