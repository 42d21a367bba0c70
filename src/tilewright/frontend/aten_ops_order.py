"""ATen calls about order and counts: sort, topk, searchsorted, one_hot, running values.

The host orders; places in an order and counts are comparisons, added up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue, UnitAttr
from tilewright.frontend.aten_builder import Importer, Lowered, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, Ref, TensorInfo
from tilewright.frontend.aten_ops_indexing import flattened
from tilewright.frontend.aten_ops_lookup import I64, gathered
from tilewright.frontend.aten_ops_rows import position_attributes

# --------------------------------------------------------------------------- order


@lowers("sort", "sort.stable", "argsort", "argsort.stable", "msort")
def sort(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    if not shape_of(x):
        return [x, importer.filled(0, TensorInfo((), I64))][: len(node.results)]
    rank = len(shape_of(x))
    axis = wrapped(node.get("dim", 0 if "msort" in node.target else -1), rank)
    values, places = ordered(importer, x, axis, bool(node.get("descending", False)))
    if "argsort" in node.target:
        return places()
    if "msort" in node.target:
        return values()
    return [make() if importer.is_needed(i) else None for i, make in enumerate((values, places))]


def ordered(importer: Importer, x: SSAValue, axis: int, descending: bool) -> tuple[Any, Any]:
    """Functions that add the ordered values, and the places where they were."""
    attributes = position_attributes(axis)
    if descending:
        attributes["descending"] = UnitAttr()
    places = TensorInfo(shape_of(x), I64)
    return (
        lambda: importer.call("sort", [x], x.type, attributes),
        lambda: importer.call("argsort", [x], importer.type_of(places), attributes),
    )


@lowers("topk")
def topk(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    if not shape_of(x):
        return [x, importer.filled(0, TensorInfo((), I64))]
    axis = wrapped(node.get("dim", -1), len(shape_of(x)))
    makers = ordered(importer, x, axis, bool(node.get("largest", True)))
    return [
        importer.cut(make(), axis, 0, node.get("k")) if importer.is_needed(i) else None
        for i, make in enumerate(makers)
    ]


@lowers("kthvalue", "median.dim", "mode")
def kth(importer: Importer, node: Node) -> Lowered:
    """The element at a place of the order, and where it was."""
    if "mode" in node.target:
        raise importer.unsupported("counts equal values", "compute it outside the model")
    x = importer.tensor(node.get("self"))
    axis = wrapped(node.get("dim", -1), len(shape_of(x)))
    size = shape_of(x)[axis]
    at = node.get("k", (size + 1) // 2) - 1
    found = []
    for index, make in enumerate(ordered(importer, x, axis, False)):
        part = importer.cut(make(), axis, at, 1) if importer.is_needed(index) else None
        if part is not None:
            part = importer.reshape(part, importer.result(index).shape)
        found.append(part)
    if found[0] is not None and "median" in node.target and importer.kind(x).is_float:
        found[0] = _nan_if_any(importer, x, axis, found[0])
    return found


def _nan_if_any(importer: Importer, x: SSAValue, axis: int, found: SSAValue) -> SSAValue:
    """NaN where the row has one: orders put it last, a median is it."""
    number = importer.cast(importer.compare("ne", x, x), BY_NAME["i32"])
    any_ = importer.reduction("max", number, [axis])
    some = importer.reshape(importer.cast(any_, BY_NAME["i1"]), shape_of(found))
    return importer.select(some, math.nan, found, importer.info(found))


@lowers("searchsorted.Tensor", "searchsorted.Scalar", "bucketize.Tensor", "bucketize.Scalar")
def searchsorted(importer: Importer, node: Node) -> Lowered:
    """How many elements of the order come before a value: comparisons, counted."""
    order = importer.tensor(node.get("sorted_sequence", node.get("boundaries")))
    given = node.get("self")
    kind = importer.kind(order)
    values = (
        importer.tensor(given)
        if isinstance(given, Ref)
        else importer.filled(given, TensorInfo((), kind))
    )
    if node.get("sorter") is not None:
        order = gathered(
            importer, order, importer.tensor(node.get("sorter")), len(shape_of(order)) - 1
        )
    if importer.kind(values).is_float and not kind.is_float:
        kind = importer.kind(values)
    right = bool(node.get("right", False)) or node.get("side") == "right"
    shape = shape_of(values)
    wide = importer.reshape(values, [*shape, 1])
    if len(shape_of(order)) > 1:
        order = importer.reshape(order, [*shape_of(order)[:-1], 1, shape_of(order)[-1]])
    below = importer.compare("le" if right else "lt", order, wide, kind)
    if importer.kind(values).is_float:  # what is no number comes after everything
        below = importer.pointwise("logical_or", below, importer.compare("ne", wide, wide))
    numbers = importer.cast(below, I64)
    total = importer.reduction("sum", numbers, [len(shape_of(numbers)) - 1])
    return importer.cast(importer.reshape(total, shape), importer.result().dtype)


# --------------------------------------------------------------------------- counting


def hits(importer: Importer, x: SSAValue, count: int) -> SSAValue:
    """[…, count]: whether each element is the number of its place."""
    numbers = importer.constant(np.arange(count, dtype=np.int64))
    wide = importer.reshape(importer.cast(x, I64), [*shape_of(x), 1])
    return importer.compare("eq", wide, numbers)


@lowers("one_hot")
def one_hot(importer: Importer, node: Node) -> Lowered:
    count = importer.result().shape[-1]
    return importer.cast(hits(importer, importer.tensor(node.get("self")), count), I64)


@lowers("bincount")
def bincount(importer: Importer, node: Node) -> Lowered:
    """How often each number appears; its length must be known from the model."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    if x in importer.known:
        largest = int(importer.known[x].max(initial=-1))
        info = TensorInfo((max(largest + 1, node.get("minlength", 0)),), BY_NAME["i64"])
        weights = node.get("weights")
        if weights is not None:
            kind = importer.kind(importer.tensor(weights))
            info = TensorInfo(info.shape, kind if kind.name == "f32" else BY_NAME["f64"])
    elif node.results[0] in importer.graph.unknown:
        size = node.get("minlength") or "n"
        raise node.error(
            "TW6102",
            f"{node.target} is as long as the largest number of an input says",
            f"torch.nn.functional.one_hot(x, {size}).sum(0) counts numbers below {size}",
        )
    else:
        info = importer.result()
    found = importer.cast(hits(importer, x, info.shape[0]), info.dtype)
    weights = importer.optional(node.get("weights"))
    if weights is not None:
        weights = importer.reshape(importer.cast(weights, info.dtype), [*shape_of(x), 1])
        found = importer.pointwise("elementwise_mul", found, weights)
    return importer.reduction("sum", found, [0])


@lowers("histc")
def histc(importer: Importer, node: Node) -> Lowered:
    """Elements counted in intervals of equal width; the last one has its upper end too."""
    info = importer.result()
    x = flattened(importer, importer.tensor(node.get("self")))
    low, high, bins = node.get("min", 0), node.get("max", 0), node.get("bins", 100)
    if low == high:
        raise importer.unsupported("takes its range from the data", "give min and max")
    wide = importer.cast(x, BY_NAME["f32"] if importer.kind(x).name != "f64" else BY_NAME["f64"])
    at = importer.pointwise("elementwise_sub", wide, float(low))
    at = importer.pointwise("elementwise_mul", at, bins / (high - low))
    at = importer.unary("elementwise_floor", at)
    at = importer.pointwise("elementwise_min", at, float(bins - 1))
    inside = importer.pointwise(
        "logical_and",
        importer.compare("ge", wide, float(low)),
        importer.compare("le", wide, float(high)),
    )
    at = importer.select(inside, at, -1.0, importer.info(at))
    found = importer.cast(hits(importer, at, bins), info.dtype)
    return importer.reduction("sum", found, [0])


# --------------------------------------------------------------------------- running values


@lowers("cumprod", "cummax", "cummin")
def running(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    x = importer.cast(importer.tensor(node.get("self")), info.dtype)
    if len(node.results) > 1 and importer.is_needed(1):
        raise importer.unsupported("is asked for positions", "use its first result only")
    found = x
    if info.shape:
        attributes = position_attributes(wrapped(node.get("dim"), len(info.shape)))
        found = importer.call(node.target.split(".")[1], [x], x.type, attributes)
    return found if len(node.results) == 1 else [found, None]
