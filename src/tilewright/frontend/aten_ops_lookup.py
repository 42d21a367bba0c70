"""ATen calls that look up, order and write single elements: gather, scatter, sort, topk, one_hot.

Elements are found in the flattened tensor, where one index says everything: a lookup is a `gather`
of it, a write a `scatter` into it. Both, and orders, are computed by the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue, UnitAttr
from tilewright.frontend.aten_builder import Importer, Lowered, broadcast_shape, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, Ref, TensorInfo
from tilewright.frontend.aten_ops_indexing import (
    flattened,
    from_front,
    integer_indices,
    joined,
    looked_up,
    scattered,
)
from tilewright.frontend.aten_ops_rows import position_attributes

I64 = BY_NAME["i64"]


def flat_places(importer: Importer, sizes: Sequence[int], indices: SSAValue, axis: int) -> SSAValue:
    """Places in the flattened tensor: the index along the axis plus what the place itself adds."""
    indices = from_front(importer, importer.cast(indices, I64), sizes[axis])
    shape = shape_of(indices)
    steps = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    places = np.zeros(shape, np.int64)
    for d, step in enumerate(steps):
        if d != axis:
            own = np.arange(shape[d], dtype=np.int64)
            places = places + own.reshape([-1 if i == d else 1 for i in range(len(shape))]) * step
    scaled = importer.pointwise("elementwise_mul", indices, steps[axis])
    return importer.pointwise("elementwise_add", scaled, importer.constant(places))


def gathered(importer: Importer, x: SSAValue, indices: SSAValue, axis: int) -> SSAValue:
    """Elements of x at indices along an axis, each at its own place along the others."""
    if not shape_of(x):
        return importer.broadcast_to(x, shape_of(indices))
    shape = shape_of(indices)
    if not shape:
        indices = importer.reshape(indices, [1])
    places = flat_places(importer, shape_of(x), indices, axis)
    return importer.reshape(looked_up(importer, "gather", flattened(importer, x), places, 0), shape)


@lowers("gather", "take_along_dim")
def gather(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    indices = importer.tensor(node.get("index", node.get("indices")))
    if node.get("dim") is None:
        indices = flattened(importer, indices)
        return looked_up(
            importer, "gather", flattened(importer, x),
            from_front(importer, importer.cast(indices, I64), math.prod(shape_of(x))), 0,
        )  # fmt: skip
    axis = wrapped(node.get("dim"), len(shape_of(x)))
    if "take_along" in node.target:  # the only one that broadcasts
        a, b = list(shape_of(x)), list(shape_of(indices))
        lead_a, lead_b = ([n for d, n in enumerate(s) if d != axis] for s in (a, b))
        common = list(broadcast_shape(lead_a, lead_b))
        x = importer.broadcast_to(x, [*common[:axis], a[axis], *common[axis:]])
        indices = importer.broadcast_to(indices, [*common[:axis], b[axis], *common[axis:]])
    return gathered(importer, x, indices, axis)


@lowers("take")
def take(importer: Importer, node: Node) -> Lowered:
    x = flattened(importer, importer.tensor(node.get("self")))
    places = importer.cast(importer.tensor(node.get("index")), I64)
    return looked_up(importer, "gather", x, from_front(importer, places, shape_of(x)[0]), 0)


# --------------------------------------------------------------------------- writes

_REDUCTIONS = {
    "add": "sum", "sum": "sum", "multiply": "prod", "prod": "prod", "amax": "max", "amin": "min",
}  # fmt: skip


@lowers(
    "scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce", "scatter_add",
    "scatter_reduce.two",
)  # fmt: skip
def scatter(importer: Importer, node: Node) -> Lowered:
    """Elements written, or combined with what is there; of equal places the last one stays."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    axis = wrapped(node.get("dim"), len(info.shape))
    indices = importer.tensor(node.get("index"))
    given = node.get("src", node.get("value"))
    count = shape_of(indices)
    if isinstance(given, Ref):
        source = importer.cast(importer.tensor(given), info.dtype)
        for d, n in enumerate(count):
            source = importer.cut(source, d, 0, n)
    else:
        source = importer.filled(given, TensorInfo(count, info.dtype))
    shape = info.shape or (1,)
    if not info.shape:
        x, source, indices = (importer.reshape(v, [1]) for v in (x, source, indices))
    places = flattened(importer, flat_places(importer, shape, indices, axis))
    kind = node.get("reduce", "add" if "scatter_add" in node.target else None)
    flat, updates = flattened(importer, x), flattened(importer, source)
    found = combined(importer, flat, places, updates, kind, bool(node.get("include_self", True)))
    return importer.reshape(found, info.shape)


def combined(
    importer: Importer, x: SSAValue, places: SSAValue, updates: SSAValue, kind: str | None,
    include: bool,
) -> SSAValue:  # fmt: skip
    """x with updates at places; without `include` what was there does not count."""
    if kind is None:
        return scattered(importer, x, places, updates, None)
    info, element = importer.info(x), importer.info(updates)
    ones = importer.filled(1, element)
    if not include:
        floats = info.dtype.is_float
        limits = np.iinfo(info.dtype.storage) if not floats else None
        neutral = {
            "prod": 1,
            "amax": limits.min if limits else -math.inf,
            "amin": limits.max if limits else math.inf,
        }.get(kind, 0)
        x = scattered(importer, x, places, importer.filled(neutral, element), None)
    if kind != "mean":
        return scattered(importer, x, places, updates, _REDUCTIONS[kind])
    total = scattered(importer, x, places, updates, "sum")
    counts = importer.filled(1 if include else 0, info)
    counts = scattered(importer, counts, places, ones, "sum")
    counts = importer.pointwise("elementwise_max", counts, 1)
    if not info.dtype.is_float:
        raise importer.unsupported("takes means of integers", "convert to float first")
    return importer.pointwise("elementwise_div", total, counts)


@lowers("index_put", "_unsafe_index_put")
def index_put(importer: Importer, node: Node) -> Lowered:
    """x[i, j, …] = values, or += with accumulate."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    values = importer.cast(importer.tensor(node.get("values")), info.dtype)
    add = bool(node.get("accumulate", False))
    masked = _masked_write(importer, node, x, values, add)
    if masked is not None:
        return masked
    places = integer_indices(importer, node, node.get("indices"))
    axes = [axis for axis, place in enumerate(places) if place is not None]
    rest = [axis for axis in range(len(info.shape)) if axis not in axes]
    chosen = [place for place in places if place is not None]
    common = broadcast_shape(*(shape_of(place) for place in chosen))
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    lead = [info.shape[d] for d in rest if d < axes[0]] if together else []
    tail = [info.shape[d] for d in rest][len(lead) :]
    values = importer.broadcast_to(values, [*lead, *common, *tail])
    first = len(lead)
    order = [*range(first, first + len(common)), *range(first), *range(first + len(common), first + len(common) + len(tail))]  # fmt: skip
    updates = importer.transpose(values, order)
    count, width = math.prod(common), math.prod(info.shape[d] for d in rest)
    updates = importer.reshape(updates, [count, width])
    front = importer.transpose(x, [*axes, *rest])
    rows = importer.reshape(front, [math.prod(info.shape[a] for a in axes), width])
    flat = joined(importer, chosen, [info.shape[a] for a in axes], common)
    flat = importer.reshape(flat, [count])
    found = scattered(importer, rows, flat, updates, "sum" if add else None)
    found = importer.reshape(found, shape_of(front))
    back = [*axes, *rest]
    return importer.transpose(found, [back.index(d) for d in range(len(back))])


def _masked_write(
    importer: Importer, node: Node, x: SSAValue, values: SSAValue, add: bool
) -> SSAValue | None:
    """One mask over the first dimensions and a value that is the same wherever it holds."""
    references = node.get("indices")
    if len(references) != 1 or references[0] is None:
        return None
    mask = importer.tensor(references[0])
    if importer.kind(mask).name not in ("i1", "ui8") or mask in importer.known:
        return None
    info, rank = importer.info(x), len(shape_of(mask))
    width = info.shape[rank:]
    shape = shape_of(values)
    if len(shape) > len(width) and math.prod(shape[: len(shape) - len(width)]) != 1:
        raise node.error(
            "TW6102",
            f"{node.target} writes as many values as the mask selects, which depends on the data",
            "use torch.where with a value of the mask's shape",
        )
    tail = shape[max(0, len(shape) - len(width)) :]
    value = importer.reshape(values, tail)
    wide = importer.reshape(mask, [*shape_of(mask), *[1] * len(width)])
    if add:
        value = importer.pointwise("elementwise_add", x, value)
    return importer.select(wide, value, x, info)


@lowers("masked_scatter")
def masked_scatter(importer: Importer, node: Node) -> Lowered:
    """Where the mask holds, the next element of the source."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    mask = importer.broadcast_to(importer.tensor(node.get("mask")), info.shape)
    source = flattened(importer, importer.cast(importer.tensor(node.get("source")), info.dtype))
    count = math.prod(info.shape)
    numbers = importer.cast(importer.reshape(mask, [count]), I64)
    running = importer.call("cumsum", [numbers], numbers.type, position_attributes(0))
    places = importer.pointwise("elementwise_sub", running, 1)
    places = importer.pointwise("elementwise_max", places, 0)
    places = importer.pointwise("elementwise_min", places, shape_of(source)[0] - 1)
    values = importer.reshape(looked_up(importer, "gather", source, places, 0), info.shape)
    return importer.select(mask, values, x, info)


@lowers("index_add", "index_fill.int_Scalar", "index_fill.int_Tensor")
def index_add(importer: Importer, node: Node) -> Lowered:
    """Slices along a dimension added to, or filled with a number."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    axis = wrapped(node.get("dim"), len(info.shape))
    places = flattened(importer, importer.tensor(node.get("index")))
    count = shape_of(places)[0]
    size = [count if d == axis else n for d, n in enumerate(info.shape or (1,))]
    if "source" in node.arguments:
        source = importer.cast(importer.tensor(node.get("source")), info.dtype)
        if node.get("alpha", 1) != 1:
            source = importer.pointwise("elementwise_mul", source, node.get("alpha"))
        source = importer.reshape(source, size)
    else:
        value = node.get("value")
        if isinstance(value, Ref):
            value = importer.cast(importer.tensor(value), info.dtype)
            source = importer.broadcast_to(value, size)
        else:
            source = importer.filled(value, TensorInfo(tuple(size), info.dtype))
    kind = "sum" if "source" in node.arguments else None
    return written_slices(importer, x, axis, places, source, kind)


def written_slices(
    importer: Importer, x: SSAValue, axis: int, places: SSAValue, source: SSAValue, kind: str | None
) -> SSAValue:
    """Slices of x along an axis replaced or added to."""
    shape = shape_of(x)
    sizes = shape or (1,)
    order = [axis, *(d for d in range(len(sizes)) if d != axis)]
    rows = importer.transpose(importer.reshape(x, sizes), order)
    updates = importer.transpose(source, order)
    places = from_front(importer, importer.cast(places, I64), sizes[axis])
    found = scattered(importer, rows, places, updates, kind)
    back = importer.transpose(found, [order.index(d) for d in range(len(order))])
    return importer.reshape(back, shape)


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
    info = importer.result()
    x = importer.tensor(node.get("self"))
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
