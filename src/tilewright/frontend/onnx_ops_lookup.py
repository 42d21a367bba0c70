"""ONNX operators that read and write at positions: lookups, one-hot rows, scatters."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects import builtin

from tilewright.dialects.intents import text
from tilewright.dialects.xdsl_api import (
    Attribute,
    SSAValue,
)
from tilewright.frontend.onnx_lowering import Lowering
from tilewright.frontend.onnx_nodes import Node, front, lowers
from tilewright.frontend.onnx_ops_movement import from_front, take, window
from tilewright.frontend.onnx_ops_rows import positions
from tilewright.frontend.onnx_values import (
    Constant,
    Value,
    element,
    shape,
)

# ---------------------------------------------------------------------------------- lookups


@lowers("Gather")
def gather(low: Lowering, node: Node) -> Value:
    x = node.required(0)
    axis = front(node.get("axis", 0), len(shape(x)))
    return take(low, low.tensor(x), node.required(1), axis, table=isinstance(x, Constant))


@lowers("GatherElements")
def gather_elements(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    axis = front(node.get("axis", 0), len(shape(x)))
    flat = flat_places(low, shape(x), node.required(1), axis)
    return take(low, low.reshape(x, [math.prod(shape(x))]), flat, 0)


def flat_places(low: Lowering, sizes: Sequence[int], indices: Value, axis: int) -> Value:
    """Places in the flattened tensor: the index along the axis plus what the place itself adds."""
    indices = low.cast(indices, builtin.i64)
    rank = len(sizes)
    steps = [math.prod(sizes[d + 1 :]) for d in range(rank)]
    places = np.zeros(shape(indices), np.int64)
    for d, step in enumerate(steps):
        if d != axis:
            places = places + positions(low, shape(indices)[d], d, rank).array * step
    if isinstance(indices, Constant):
        own = np.where(indices.array < 0, indices.array + sizes[axis], indices.array)
        return low.integers(own * steps[axis] + places, "places")
    scaled = low.apply("elementwise_mul", from_front(low, indices, sizes[axis]), steps[axis])
    return low.apply("elementwise_add", scaled, low.integers(places, "places"))


@lowers("GatherND")
def gather_nd(low: Lowering, node: Node) -> Value:
    x, indices = low.tensor(node.required(0)), low.tensor(node.required(1))
    sizes, batch = shape(x), node.get("batch_dims", 0)
    depth = batch + shape(indices)[-1]
    places = joint_index(low, indices, sizes[:depth], batch)
    return take(low, low.reshape(x, [math.prod(sizes[:depth]), *sizes[depth:]]), places, 0)


def joint_index(low: Lowering, indices: SSAValue, lead: Sequence[int], batch: int) -> Value:
    """One index into the joined leading dimensions from a vector of indices into each."""
    steps = [math.prod(lead[d + 1 :]) for d in range(len(lead))]
    outer = shape(indices)[:-1]
    base = np.zeros(outer, np.int64)
    for d in range(batch):
        base = base + positions(low, lead[d], d, len(outer)).array * steps[d]
    total: Value = low.integers(base, "places")
    for k in range(shape(indices)[-1]):
        one = window(low, indices, [0] * len(outer) + [k], [*outer, 1])
        one = from_front(low, low.reshape(one, outer), lead[batch + k])
        total = low.apply(
            "elementwise_add", total, low.apply("elementwise_mul", one, steps[batch + k])
        )
    return total


@lowers("OneHot")
def one_hot(low: Lowering, node: Node) -> Value:
    indices = node.required(0)
    depth = low.known_list(node.required(1), "the depth")[0]
    values = low.tensor(node.required(2))
    rank = len(shape(indices)) + 1
    axis = front(node.get("axis", -1), rank)
    number = low.tensor(low.cast(indices, builtin.i64))
    number = low.reshape(
        from_front(low, number, depth), [*shape(number)[:axis], 1, *shape(number)[axis:]]
    )
    hit = low.compare("eq", number, positions(low, depth, axis, rank))
    off, on = (low.reshape(window(low, values, [i], [1]), []) for i in range(2))
    return low.apply("select", hit, on, off, to=element(values))


@lowers("ReverseSequence")
def reverse_sequence(low: Lowering, node: Node) -> Value:
    lengths = low.known_list(node.required(1), "the lengths")
    x = low.tensor(node.required(0))
    batch, time = node.get("batch_axis", 1), node.get("time_axis", 0)
    sizes = shape(x)
    numbers = np.arange(sizes[time])[None].repeat(sizes[batch], 0)
    for row, length in enumerate(lengths):
        numbers[row, :length] = numbers[row, :length][::-1]
    parts = []
    for row in range(sizes[batch]):
        offsets = [row if d == batch else 0 for d in range(len(sizes))]
        one = window(low, x, offsets, [1 if d == batch else n for d, n in enumerate(sizes)])
        parts.append(take(low, one, low.integers(numbers[row], "order"), time))
    return parts[0] if len(parts) == 1 else low.concat(parts, batch)


@lowers("Compress")
def compress(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    chosen = np.flatnonzero(low.known(node.required(1), "the condition"))
    axis = node.get("axis")
    if axis is None:
        return take(low, low.reshape(x, [math.prod(shape(x))]), low.integers(chosen, "chosen"), 0)
    return take(low, x, low.integers(chosen, "chosen"), front(axis, len(shape(x))))


# ------------------------------------------------------------------------------------ writing


def scatter(low: Lowering, x: SSAValue, places: Value, updates: Value, reduction: str) -> SSAValue:
    """Rows of x at places along its first axis replaced by, or combined with, updates."""
    attributes: dict[str, Attribute] = {}
    if reduction != "none":
        attributes["reduction"] = text({"mul": "prod", "add": "sum"}.get(reduction, reduction))
    operands = [x, low.tensor(places), low.tensor(updates)]
    return low.call("scatter", operands, x.type, attributes)


@lowers("ScatterElements", "Scatter")
def scatter_elements(low: Lowering, node: Node) -> Value:
    x = low.tensor(node.required(0))
    axis = front(node.get("axis", 0), len(shape(x)))
    flat = flat_places(low, shape(x), node.required(1), axis)
    count = math.prod(shape(flat))
    updates = low.reshape(low.tensor(node.required(2)), [count])
    line = low.reshape(x, [math.prod(shape(x))])
    places = low.reshape(low.tensor(flat), [count])
    result = scatter(low, line, places, updates, node.get("reduction", "none"))
    return low.reshape(result, shape(x))


@lowers("ScatterND")
def scatter_nd(low: Lowering, node: Node) -> Value:
    x, indices = low.tensor(node.required(0)), low.tensor(node.required(1))
    sizes, depth = shape(x), shape(indices)[-1]
    places = low.tensor(joint_index(low, indices, sizes[:depth], 0))
    count = math.prod(shape(places))
    rows = [math.prod(sizes[:depth]), *sizes[depth:]]
    updates = low.reshape(low.tensor(node.required(2)), [count, *sizes[depth:]])
    places = low.reshape(places, [count])
    result = scatter(low, low.reshape(x, rows), places, updates, node.get("reduction", "none"))
    return low.reshape(result, sizes)


@lowers("TensorScatter")
def tensor_scatter(low: Lowering, node: Node) -> Value:
    """New keys or values written into a cache at a position per batch entry."""
    cache, update = low.tensor(node.required(0)), low.tensor(node.required(1))
    start = node.input(2)
    sizes = shape(cache)
    axis = front(node.get("axis", -2), len(sizes))
    batch, length, fresh = sizes[0], sizes[axis], shape(update)[axis]
    order = [0, axis, *(d for d in range(1, len(sizes)) if d != axis)]
    moved, new = low.transpose(cache, order), low.transpose(update, order)
    rest = shape(moved)[2:]
    first = low.integers(np.zeros((batch, 1))) if start is None else low.reshape(
        low.tensor(low.cast(start, builtin.i64)), [batch, 1]
    )  # fmt: skip
    places: Value = low.apply(
        "elementwise_add", low.integers(np.arange(fresh)[None]), low.tensor(first)
    )
    if node.get("mode", "linear") == "circular":
        wrapped = low.apply("elementwise_sub", places, length)
        beyond = low.compare("ge", places, length)
        places = low.apply("select", beyond, wrapped, places, to=builtin.i64)
    places = low.apply("elementwise_add", places, low.integers(np.arange(batch)[:, None] * length))
    rows = low.reshape(moved, [batch * length, *rest])
    flat = low.reshape(low.tensor(places), [batch * fresh])
    result = scatter(low, rows, flat, low.reshape(new, [batch * fresh, *rest]), "none")
    result = low.reshape(result, shape(moved))
    return low.transpose(result, [order.index(d) for d in range(len(sizes))])
