"""Tiling of convolution and pooling: loops over images, output channels and blocks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.dialects.intents import shape_of
from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import SSAValue, arith
from tilewright.transforms.tile_emitter import INDEX, Emitter, Offset, tensor_type


@dataclass(frozen=True)
class _Layout:
    """Positions of the dimensions in image, filter and result."""

    channel: int
    row: int
    column: int
    filters: int


_NCHW, _NHWC = _Layout(1, 2, 3, 0), _Layout(3, 1, 2, 3)


@dataclass(frozen=True)
class WindowPlan:
    """Blocks of `rows` output rows and `channels` output channels."""

    layout: _Layout
    channels: int
    rows: int


def plan_window(call: KernelCall, channels: int, elements: int) -> WindowPlan | None:
    """The blocks of a convolution or pooling, or None when it is one block or cannot be cut.

    An average over a border that does not count depends on the position and stays whole.
    """
    layout = _NHWC if (call.string("layout") or "").startswith("nhwc") else _NCHW
    shape = call.result.get_shape()
    padded = any(call.integers("padding") or ())
    if call.family.name == "pool_avg" and padded and not call.flag("count_include_pad"):
        return None
    grouped = (call.integer("groups") or 1) != 1
    rows = min(shape[layout.row], max(1, elements // max(1, shape[layout.column])))
    block = shape[layout.channel] if grouped else min(shape[layout.channel], channels)
    if shape[0] == 1 and block == shape[layout.channel] and rows == shape[layout.row]:
        return None
    return WindowPlan(layout, block, rows)


def emit_window(
    plan: WindowPlan, call: KernelCall, operands: Sequence[SSAValue], emitter: Emitter
) -> SSAValue:
    """Loops with one launch inside; returns the whole result."""
    layout = plan.layout
    by_role = dict(zip(call.role_names(), operands, strict=True))
    shape = list(call.result.get_shape())
    stride = (call.integers("strides") or (1, 1))[0]
    dilation = (call.integers("dilations") or (1, 1))[0]
    weights = by_role.get("w")
    if weights is None:
        taps = (call.integers("kernel") or (1, 1))[0]
    else:
        taps = shape_of(weights)[0 if layout is _NHWC else 2]
    full = list(shape)
    full[layout.channel] = _round_up(shape[layout.channel], plan.channels)
    full[layout.row] = _round_up(shape[layout.row], plan.rows)

    def rows_read(count: int) -> int:
        return (count - 1) * stride + (taps - 1) * dilation + 1

    image = _pad_image(call, by_role["x"], layout, rows_read(full[layout.row]), emitter)
    if weights is None:
        grown = list(shape_of(image))
        grown[layout.channel] = full[layout.channel]
        image = emitter.pad(image, grown, _border(call))
    else:
        grown = list(shape_of(weights))
        grown[layout.filters] = full[layout.channel]
        weights = emitter.pad(weights, grown)
    bias = by_role.get("bias")
    if bias is not None:
        bias = emitter.pad(bias, (full[layout.channel],))

    attributes = {k: v for k, v in call.attributes.items() if k != "padding"}
    tile_shape = list(full)
    tile_shape[0], tile_shape[layout.channel], tile_shape[layout.row] = 1, plan.channels, plan.rows
    tile_type = tensor_type(tuple(tile_shape), call.result.element_type)
    cuts_channels = full[layout.channel] != plan.channels

    def body(image_index: Offset, channel: Offset, row: Offset, carried: SSAValue) -> SSAValue:
        first_row: Offset = row
        if stride != 1 and not isinstance(row, int):
            first_row = emitter.add(arith.MuliOp(row, emitter.constant(stride), INDEX))
        offsets: list[Offset] = [0, 0, 0, 0]
        sizes = list(shape_of(image))
        offsets[0], sizes[0] = image_index, 1
        offsets[layout.row], sizes[layout.row] = first_row, rows_read(plan.rows)
        if weights is None and cuts_channels:
            offsets[layout.channel], sizes[layout.channel] = channel, plan.channels
        inputs = [emitter.extract(image, offsets, sizes)]
        if weights is not None:
            where: list[Offset] = [0, 0, 0, 0]
            extent = list(shape_of(weights))
            where[layout.filters], extent[layout.filters] = channel, plan.channels
            inputs.append(emitter.extract(weights, where, extent))
        if bias is not None:
            inputs.append(emitter.extract(bias, [channel], [plan.channels]))
        value = emitter.launch(call.symbol, inputs, tile_type, attributes)
        into: list[Offset] = [0, 0, 0, 0]
        into[0], into[layout.channel], into[layout.row] = image_index, channel, row
        return emitter.insert(value, carried, into, tile_shape)

    def loop(size: int, step: int, name: str, carried: SSAValue, inner) -> SSAValue:
        if size == step:
            return inner(0, carried)
        return emitter.loop(0, size, step, carried, inner, name)

    initial = emitter.empty(full, call.result.element_type)
    value = loop(
        full[0],
        1,
        "b",
        initial,
        lambda i, a: loop(
            full[layout.channel],
            plan.channels,
            "c",
            a,
            lambda c, b: loop(full[layout.row], plan.rows, "r", b, lambda r, d: body(i, c, r, d)),
        ),
    )
    return emitter.extract(value, (0, 0, 0, 0), shape)


def _border(call: KernelCall) -> float:
    return float("-inf") if call.family.name == "pool_max" else 0.0


def _pad_image(
    call: KernelCall, image: SSAValue, layout: _Layout, rows: int, emitter: Emitter
) -> SSAValue:
    """The image with its border, and with rows enough for the last block."""
    top, left, bottom, right = call.integers("padding") or (0, 0, 0, 0)
    low, high = [0] * 4, [0] * 4
    low[layout.row], low[layout.column] = top, left
    present = shape_of(image)[layout.row] + top + bottom
    high[layout.row] = bottom + max(0, rows - present)
    high[layout.column] = right
    return emitter.pad_around(image, low, high, _border(call)) if any(low + high) else image


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step
