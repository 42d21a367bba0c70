"""GridSample: an image read between its pixels, at places that are computed.

Every kind of interpolation is separable: a result is the sum over the taps of all axes of a pixel
times the weights of its taps. Places are computed first, axis by axis; each combination of taps is
one lookup of all channels.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from xdsl.dialects import builtin

from tilewright.dialects.xdsl_api import SSAValue, TensorType
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, lowers, unsupported
from tilewright.frontend.onnx_ops_movement import window
from tilewright.frontend.onnx_ops_rows import axis_attribute, positions
from tilewright.frontend.onnx_values import Value, element, is_float, shape

CUBIC = -0.75  # the coefficient of Keys' kernel
MODES = {"bilinear": "linear", "bicubic": "cubic"}  # as they were called before version 20


@dataclass(frozen=True)
class Axis:
    """One dimension of an image: so many pixels, and what lies beyond them.

    low, high: where coordinates are reflected. padding: "zeros", "border" or "reflection".
    """

    count: int
    low: float
    high: float
    padding: str


@dataclass(frozen=True)
class Tap:
    """A pixel of one axis: its number, its weight, and whether it lies in the image, if it may not."""

    place: SSAValue
    weight: SSAValue | None
    inside: SSAValue | None


@lowers("GridSample")
def grid_sample(low: Lowering, node: Node) -> Value:
    x, grid = low.tensor(node.required(0)), low.tensor(node.required(1))
    mode = node.get("mode", "linear")
    mode, padding = MODES.get(mode, mode), node.get("padding_mode", "zeros")
    aligned = bool(node.get("align_corners", 0))
    if mode not in ("linear", "nearest", "cubic"):
        unsupported(f"sampling of the kind {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        unsupported(f"padding of the kind {padding!r}")
    if not is_float(element(x)) or not is_float(element(grid)):
        unsupported("sampling of integers")
    batch, channels, *size = shape(x)
    if mode == "cubic" and len(size) != 2:
        unsupported("cubic sampling of anything but images", "use linear or nearest sampling")
    outer, rank = shape(grid)[1:-1], len(size)
    taps: list[list[Tap]] = []
    for number, count in enumerate(size):
        offsets = [0] * (rank + 1) + [rank - 1 - number]  # the last axis comes first
        own = low.reshape(window(low, grid, offsets, [batch, *outer, 1]), [batch, *outer])
        ends = (0.0, count - 1.0) if aligned else (-0.5, count - 0.5)
        taps.append(_taps(low, own, Axis(count, *ends, padding), mode, aligned))
    table = low.transpose(x, [0, *range(2, 2 + rank), 1])
    table = low.reshape(table, [batch * math.prod(size), channels])
    first = low.apply("elementwise_mul", positions(low, batch, 0, 1 + len(outer)), math.prod(size))
    total: SSAValue | None = None
    for chosen in itertools.product(*taps):
        pixel = _weighed(low, _looked_up(low, table, first, chosen, size), chosen, element(x))
        total = pixel if total is None else low.apply("elementwise_add", total, pixel)
    assert total is not None
    return low.transpose(total, [0, 1 + len(outer), *range(1, 1 + len(outer))])


def _looked_up(
    low: Lowering, table: SSAValue, first: SSAValue, taps: tuple[Tap, ...], size: list[int]
) -> SSAValue:
    """[n, …, channels]: the pixels at these taps; first: where each image begins in the table."""
    index: SSAValue = first
    for number, tap in enumerate(taps):
        step = math.prod(size[number + 1 :])
        part = tap.place if step == 1 else low.apply("elementwise_mul", tap.place, step)
        index = low.apply("elementwise_add", index, part)
    result = TensorType(element(table), [*shape(index), shape(table)[1]])
    return low.call("gather", [table, index], result, axis_attribute(0))


def _weighed(low: Lowering, pixels: SSAValue, taps: tuple[Tap, ...], kind: object) -> SSAValue:
    """Pixels times the weights of their taps, 0 beyond the image."""
    factor: Value | None = None
    for tap in taps:
        for part in (tap.weight, tap.inside):
            if part is not None:
                factor = part if factor is None else low.apply("elementwise_mul", factor, part)
    if factor is None:
        return pixels
    factor = low.cast(factor, element(pixels))
    column = low.reshape(low.tensor(factor), [*shape(factor), 1])
    return low.apply("elementwise_mul", pixels, column)


def _taps(low: Lowering, given: SSAValue, axis: Axis, mode: str, aligned: bool) -> list[Tap]:
    """The pixels of one axis that count for coordinates from -1 to 1, with their weights."""
    at: SSAValue = low.apply("elementwise_add", given, 1.0)
    if aligned:
        at = low.apply("elementwise_mul", at, (axis.count - 1) / 2)
    else:
        at = low.apply("elementwise_mul", at, float(axis.count))
        at = low.apply("elementwise_mul", low.apply("elementwise_sub", at, 1.0), 0.5)
    if mode == "nearest":
        at = low.apply("elementwise_round", at)
    if mode != "cubic" or axis.padding != "border":  # whose taps are clamped one by one
        at = _within(low, at, axis)
    if mode == "nearest":
        return [_tap(low, at, None, axis)]
    base = low.apply("elementwise_floor", at)
    share = low.apply("elementwise_sub", at, base)
    weights = _linear(low, share) if mode == "linear" else _cubic(low, share)
    lead = 0 if mode == "linear" else -1
    return [
        _tap(low, low.apply("elementwise_add", base, float(k + lead)), weight, axis)
        for k, weight in enumerate(weights)
    ]


def _within(low: Lowering, at: SSAValue, axis: Axis) -> SSAValue:
    """Coordinates brought back into the image; with zeros around it, to just beyond."""
    if axis.padding == "zeros":  # nothing beyond three pixels is reached from there
        return _clipped(low, at, -4.0, axis.count + 3.0)
    if axis.padding == "border":
        return _clipped(low, at, 0.0, axis.count - 1.0)
    return _reflected(low, at, axis)


def _clipped(low: Lowering, at: SSAValue, least: float, most: float) -> SSAValue:
    return low.apply("elementwise_min", low.apply("elementwise_max", at, least), most)


def _reflected(low: Lowering, at: SSAValue, axis: Axis) -> SSAValue:
    """Back and forth between both ends; coordinates between them stay as they are."""
    length = axis.high - axis.low
    if length == 0:
        return low.apply("elementwise_mul", at, 0.0)
    far = low.apply("elementwise_abs", low.apply("elementwise_sub", at, axis.low))
    turns = low.apply("elementwise_floor", low.apply("elementwise_mul", far, 0.5 / length))
    left = low.apply("elementwise_sub", far, low.apply("elementwise_mul", turns, 2 * length))
    back = low.apply("elementwise_sub", 2 * length, left)
    found = low.apply("elementwise_add", low.apply("elementwise_min", left, back), axis.low)
    for beyond, end in (("lt", axis.low), ("gt", axis.high)):
        at = low.apply("select", low.compare(beyond, at, end), found, at, to=element(at))
    return at


def _tap(low: Lowering, at: SSAValue, weight: SSAValue | None, axis: Axis) -> Tap:
    """The pixel at a whole number, which may still lie beyond the image."""
    inside = None
    if axis.padding == "zeros":
        after = low.cast(low.compare("ge", at, 0.0), element(at))
        before = low.cast(low.compare("le", at, axis.count - 1.0), element(at))
        inside = low.apply("elementwise_mul", after, before)
    elif axis.padding == "reflection":
        at = _reflected(low, at, axis)
    at = _clipped(low, at, 0.0, axis.count - 1.0)
    return Tap(low.tensor(low.cast(at, builtin.i64)), weight, inside)


def _linear(low: Lowering, share: SSAValue) -> list[SSAValue]:
    return [low.apply("elementwise_sub", 1.0, share), share]


def _cubic(low: Lowering, share: SSAValue) -> list[SSAValue]:
    """Keys' kernel at the distances of four pixels."""
    rest = low.apply("elementwise_sub", 1.0, share)

    def polynomial(x: SSAValue, *factors: float) -> SSAValue:
        total: SSAValue = low.apply("elementwise_mul", x, factors[0])
        for factor in factors[1:-1]:
            total = low.apply("elementwise_add", total, factor)
            total = low.apply("elementwise_mul", total, x)
        return low.apply("elementwise_add", total, factors[-1])

    def near(x: SSAValue) -> SSAValue:
        return polynomial(x, CUBIC + 2, -(CUBIC + 3), 0.0, 1.0)

    def far(x: SSAValue) -> SSAValue:
        return polynomial(
            low.apply("elementwise_add", x, 1.0), CUBIC, -5 * CUBIC, 8 * CUBIC, -4 * CUBIC
        )

    return [far(share), near(share), near(rest), far(rest)]
