"""Resize as kernels: every kind of interpolation is separable, so it is one step per axis.

Nearest neighbours are lookups at positions known at import; linear and cubic interpolation along an
axis is a matrix product with a constant matrix that has the weights of each result element in a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend import interpolation
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, Problem, unsupported
from tilewright.frontend.onnx_ops_movement import take
from tilewright.frontend.onnx_ops_products import product
from tilewright.frontend.onnx_values import Array, Constant, element, shape

# Attributes that change nothing in this kind of interpolation; exporters write them all the same.
UNREAD = {
    "nearest": ("cubic_coeff_a", "exclude_outside", "extrapolation_value", "antialias"),
    "linear": ("cubic_coeff_a", "nearest_mode", "extrapolation_value"),
    "cubic": ("nearest_mode", "extrapolation_value"),
}


def axis_plan(low: Lowering, node: Node, x: SSAValue) -> SSAValue:
    """x resized along each of its axes in turn."""
    rank = len(shape(x))
    sizes, scales = _sizes(low, node, shape(x))
    mode = node.get("mode", "nearest")
    node.seen.update(UNREAD.get(mode, ()))
    node.seen.add(1)  # a region of interest: read when a crop is resized
    if node.get("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        unsupported("resizing of a crop")
    for axis in range(rank):
        old, new, scale = shape(x)[axis], sizes[axis], scales[axis]
        if old == new and scale == 1.0:
            continue
        coordinates = _coordinates(node, old, new, scale)
        if mode == "nearest":
            places = _nearest(_rounding(node, scale), coordinates)
            x = take(low, x, low.integers(np.clip(places, 0, old - 1), "places"), axis)
        else:
            weights = _matrix(node, mode, coordinates, old, scale)
            x = _along(low, x, low.constant(weights, low_number(x), f"{node.name}.weights"), axis)
    return x


def low_number(x: SSAValue) -> int:
    from tilewright.frontend.onnx_values import number_of

    return number_of(x)


def _sizes(low: Lowering, node: Node, own: tuple[int, ...]) -> tuple[list[int], list[float]]:
    """The result's sizes and the scale of each axis."""
    rank = len(own)
    first = 1 if _plain(node) else 2
    scales_value, sizes_value = node.input(first), node.input(3)
    axes = [axis % rank for axis in node.get("axes") or range(rank)]
    sizes, scales = list(own), [1.0] * rank
    if scales_value is not None and shape(scales_value) != (0,):
        given = low.known(scales_value, "the scales").astype(np.float64).reshape(-1)
        for axis, scale in zip(axes, given, strict=True):
            sizes[axis], scales[axis] = math.floor(own[axis] * scale), float(scale)
        return sizes, scales
    if sizes_value is None:
        raise Problem("TW6009", "neither scales nor sizes are given")
    wanted = low.known_list(sizes_value, "the sizes")
    factors = [n / own[axis] for axis, n in zip(axes, wanted, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        one = min(factors) if policy == "not_larger" else max(factors)
        factors = [one] * len(factors)
        wanted = [math.floor(own[axis] * one + 0.5) for axis in axes]
    for axis, n, factor in zip(axes, wanted, factors, strict=True):
        sizes[axis], scales[axis] = n, factor
    return sizes, scales


def _coordinates(node: Node, old: int, new: int, scale: float) -> Array:
    """Where each result element lies on the input's axis."""
    x = np.arange(new, dtype=np.float64)
    exact = old * scale  # before it was rounded down to a whole number
    mode = (
        "asymmetric" if _plain(node) else node.get("coordinate_transformation_mode", "half_pixel")
    )
    forms: dict[str, Callable[[], Any]] = {
        "asymmetric": lambda: x / scale,
        "align_corners": lambda: x * (old - 1) / (exact - 1) if exact != 1 else x * 0,
        "half_pixel": lambda: (x + 0.5) / scale - 0.5,
        "pytorch_half_pixel": lambda: (x + 0.5) / scale - 0.5 if exact > 1 else x * 0,
        "half_pixel_symmetric": lambda: old / 2 * (1 - new / exact) + (x + 0.5) / scale - 0.5,
    }
    if mode not in forms:
        unsupported(f"coordinates of the kind {mode!r}")
    return np.asarray(forms[mode]())


def _plain(node: Node) -> bool:
    """Whether the node is of a version that knows one kind of coordinates only."""
    return node.operator == "Upsample" or node.version < 11


def _rounding(node: Node, scale: float) -> str:
    if not _plain(node):
        return node.get("nearest_mode", "round_prefer_floor")
    return "floor" if scale >= 1 else "ceil"


def _nearest(mode: str, x: Array) -> Array:
    forms = {
        "round_prefer_floor": lambda: np.ceil(x - 0.5),
        "round_prefer_ceil": lambda: np.floor(x + 0.5),
        "floor": lambda: np.floor(x),
        "ceil": lambda: np.ceil(x),
    }
    return forms[mode]().astype(np.int64)


def _matrix(node: Node, mode: str, x: Array, old: int, scale: float) -> Array:
    """Row i holds the weights of the input's elements for result element i."""
    cubic = interpolation.cubic(node.get("cubic_coeff_a", -0.75))
    kernels = {"linear": (interpolation.linear, 1.0), "cubic": (cubic, 2.0)}
    if mode not in kernels:
        unsupported(f"interpolation of the kind {mode!r}")
    kernel, reach = kernels[mode]
    shrink = min(scale, 1.0) if node.get("antialias", 0) else 1.0
    outside = bool(node.get("exclude_outside", 0))
    return interpolation.matrix(x, old, kernel, reach, shrink, outside)


def _along(low: Lowering, x: SSAValue, matrix: Constant, axis: int) -> SSAValue:
    """The matrix applied along one axis of x."""
    rank = len(shape(x))
    order = [d for d in range(rank) if d != axis] + [axis]
    moved = low.transpose(x, order)
    lead = shape(moved)[:-1]
    flat = low.reshape(moved, [math.prod(lead), shape(moved)[-1]])
    turned = Constant(np.ascontiguousarray(matrix.array.T), matrix.name, matrix.number)
    result = product(low, flat, low.tensor(turned), element(x))
    result = low.reshape(result, [*lead, shape(turned)[1]])
    return low.transpose(result, [order.index(d) for d in range(rank)])
