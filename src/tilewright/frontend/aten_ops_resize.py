"""ATen calls that resize images: nearest neighbours, linear and cubic interpolation, any factor."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend import interpolation
from tilewright.frontend.aten_builder import Importer, Lowered, lowers
from tilewright.frontend.aten_graph import Node
from tilewright.frontend.aten_ops_indexing import looked_up
from tilewright.frontend.aten_ops_products import product
from tilewright.frontend.imported import Array


def _both(*names: str) -> list[str]:
    """A call as it is, and with sizes or factors as lists."""
    return [form for name in names for form in (name, f"{name}.vec")]


def factors(node: Node, rank: int) -> list[float | None]:
    """The factors the call gives, one per dimension; None where sizes say everything."""
    given = node.get("scale_factors")
    if given:
        return [float(factor) for factor in given]
    names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}
    return [node.get(name) for name in names[rank]]


@lowers(
    *_both(*(f"upsample_nearest{n}d" for n in (1, 2, 3))),
    *_both(*(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3))),
)
def nearest(importer: Importer, node: Node) -> Lowered:
    """Whole factors repeat elements, others look them up; torch finds places in float32."""
    x = importer.tensor(node.get("self", node.get("input")))
    rank = len(shape_of(x)) - 2
    wanted = importer.result().shape[2:]
    exact = 0.5 if "exact" in node.target else 0.0
    for axis, (new, factor) in enumerate(zip(wanted, factors(node, rank), strict=True), 2):
        old = shape_of(x)[axis]
        step = np.float32(1 / factor) if factor else np.float32(old) / np.float32(new)
        at = (np.arange(new, dtype=np.float32) + np.float32(exact)) * step
        places = np.minimum(np.floor(at).astype(np.int64), old - 1)
        x = _repeated(importer, x, axis, places)
    return x


def _repeated(importer: Importer, x: SSAValue, axis: int, places: Array) -> SSAValue:
    """Elements of x at places along an axis: a broadcast where each is repeated equally often."""
    shape = shape_of(x)
    old, new = shape[axis], len(places)
    if new % old == 0 and (places == np.repeat(np.arange(old), new // old)).all():
        thin = importer.reshape(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
        wide = importer.broadcast_to(thin, [*shape[: axis + 1], new // old, *shape[axis + 1 :]])
        return importer.reshape(wide, [*shape[:axis], new, *shape[axis + 1 :]])
    return looked_up(importer, "gather", x, importer.constant(places), axis)


@lowers(
    *_both(
        "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"
    ),
    *_both("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
)
def interpolated(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self", node.get("input")))
    rank = len(shape_of(x)) - 2
    wanted = importer.result().shape[2:]
    for axis, (new, factor) in enumerate(zip(wanted, factors(node, rank), strict=True), 2):
        old = shape_of(x)[axis]
        weights = _weights(node, old, new, factor)
        if old == new and np.array_equal(weights, np.eye(old)):
            continue
        x = along(importer, x, weights, axis)
    return x


def _weights(node: Node, old: int, new: int, factor: float | None) -> Array:
    """Row i holds the weights of result element i."""
    cubic, smooth = "bicubic" in node.target, node.target.split(".")[1].endswith("_aa")
    index = np.arange(new, dtype=np.float64)
    if node.get("align_corners", False):
        step = (old - 1) / (new - 1) if new > 1 else 0.0
        at = index * step
    else:
        step = 1 / factor if factor else old / new
        at = (index + 0.5) * step - 0.5
        if not cubic and not smooth:
            at = np.maximum(at, 0.0)
    kernel = interpolation.cubic(-0.5 if smooth else -0.75) if cubic else interpolation.linear
    shrink = min(1.0, 1 / step) if smooth and step > 0 else 1.0
    return interpolation.matrix(at, old, kernel, 2.0 if cubic else 1.0, shrink, smooth)


def along(importer: Importer, x: SSAValue, weights: Array, axis: int) -> SSAValue:
    """A constant matrix applied along one axis of x."""
    rank = len(shape_of(x))
    order = [*(d for d in range(rank) if d != axis), axis]
    moved = importer.transpose(x, order)
    lead: Sequence[int] = shape_of(moved)[:-1]
    flat = importer.reshape(moved, [math.prod(lead), shape_of(moved)[-1]])
    kind = importer.kind(x)
    turned = importer.constant(np.ascontiguousarray(weights.T).astype(kind.storage))
    found = importer.reshape(product(importer, flat, turned), [*lead, len(weights)])
    return importer.transpose(found, [order.index(d) for d in range(rank)])
