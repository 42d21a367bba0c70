"""StableHLO operations that look elements up by index: gathers, scatters, slices that move."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import integers, shape_of, tensor_type
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import Attribute, SSAValue, StringAttr, TensorType
from tilewright.frontend.aten_builder import integer
from tilewright.frontend.stablehlo_builder import HLOImporter, Value, extent, lowers
from tilewright.frontend.stablehlo_ops_elementwise import combined
from tilewright.frontend.stablehlo_ops_rows import KINDS, body_operation
from tilewright.frontend.stablehlo_reading import listed, numbers, written


def looked_up(importer: HLOImporter, x: SSAValue, places: SSAValue, axis: int) -> SSAValue:
    """Slices of x along an axis; the rows of a table that is a weight are an embedding."""
    shape = shape_of(x)
    if (step := _even_steps(importer, places)) is not None:
        start, count, stride = step
        return importer.reshape(
            importer.slice(
                x,
                [start if d == axis else 0 for d in range(len(shape))],
                [count if d == axis else n for d, n in enumerate(shape)],
                [stride if d == axis else 1 for d in range(len(shape))],
            ),
            [*shape[:axis], *shape_of(places), *shape[axis + 1 :]],
        )
    result = [*shape[:axis], *shape_of(places), *shape[axis + 1 :]]
    family = "embedding" if axis == 0 and len(shape) == 2 and x in importer.names else "gather"
    type_ = TensorType(tensor_type(x).element_type, result)
    return importer.call(family, [x, places], type_, {"axis": integer(axis)})


def _even_steps(importer: HLOImporter, places: SSAValue) -> tuple[int, int, int] | None:
    """Start, count and step of known places that a slice can read."""
    if places not in importer.known:
        return None
    flat = importer.known[places].reshape(-1).astype(np.int64)
    if not flat.size:
        return None
    steps = np.diff(flat)
    stride = int(steps[0]) if steps.size else 1
    return (int(flat[0]), flat.size, stride) if stride > 0 and (steps == stride).all() else None


def held(importer: HLOImporter, places: Value, last: int) -> Value:
    """Places kept inside, as StableHLO has it: from 0 to last."""
    if importer.is_known(places):
        array = importer.array(places)
        return importer.constant(np.clip(array, 0, last).astype(array.dtype))
    shape = extent(places)
    low = importer.apply("elementwise_max", places, 0, shape=shape)
    return importer.apply("elementwise_min", low, last, shape=shape)


@lowers("gather")
def gather(importer: HLOImporter, op: HLOOp) -> Value:
    """Single elements along the indexed dimensions, whole slices along the others."""
    x, places = importer.input(0), importer.operand(1)
    text = written(op, "dimension_numbers")
    names = ("offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
             "start_indices_batching_dims")  # fmt: skip
    offsets, collapsed, mapped, batched, index_batched = (listed(text, name) for name in names)
    vector = _vector_dimension(text)
    sizes = numbers(op, "slice_sizes")
    shape = shape_of(x)
    whole = [d for d in range(len(shape)) if d not in mapped and d not in batched]
    if any(sizes[d] != 1 for d in (*mapped, *batched)) or any(sizes[d] != shape[d] for d in whole):
        return _window_gather(importer, op, x, places, text, sizes)
    flat, merged = _rows(importer, x, places, vector, mapped, batched, index_batched)
    # What is left of the indexed dimensions after collapsing are dimensions of size 1.
    if len(mapped) == 1 and not batched:
        axis = mapped[0]
        found = looked_up(importer, x, flat, axis)
        labels = [*(("w", d) for d in whole if d < axis), *(("i", d) for d in range(len(shape_of(flat)))),
                  *(("w", d) for d in whole if d > axis)]  # fmt: skip
    else:
        found = looked_up(importer, merged, flat, 0)
        labels = [*(("i", d) for d in range(len(shape_of(flat)))), *(("w", d) for d in whole)]
    return _placed(importer, found, labels, offsets, whole, collapsed, batched, len(shape))


def _vector_dimension(text: str) -> int:
    """The dimension of the places that holds coordinates; 0 goes without saying."""
    found = re.search(r"\bindex_vector_dim\s*=\s*(\d+)", text)
    return int(found[1]) if found else 0


def _rows(
    importer: HLOImporter,
    x: SSAValue,
    places: Value,
    vector: int,
    mapped: Sequence[int],
    batched: Sequence[int],
    index_batched: Sequence[int],
) -> tuple[SSAValue, SSAValue]:
    """One index per slice, kept inside, and x with its indexed dimensions in front as one."""
    shape = shape_of(x)
    lead = [*batched, *mapped]
    others = [d for d in range(len(shape)) if d not in lead]
    outer = [n for d, n in enumerate(extent(places)) if d != vector]
    flat: Value | None = None
    for d in lead:
        part: Value
        if d in batched:
            own = index_batched[batched.index(d)]
            own -= own > vector
            line = np.arange(shape[d], dtype=importer.kind_of(places).storage)
            wide = [-1 if e == own else 1 for e in range(len(outer))]
            part = importer.constant(np.broadcast_to(line.reshape(wide), outer).copy())
        else:
            part = _component(importer, places, vector, mapped.index(d))
            part = held(importer, part, shape[d] - 1)
        if flat is None:
            flat = part
            continue
        scaled = importer.apply("elementwise_mul", flat, shape[d], shape=outer)
        flat = combined(importer, "elementwise_add", scaled, part)
    if flat is None:
        raise importer.refused("indexes nothing")
    merged = x
    if len(lead) > 1 or batched:
        moved = importer.transpose(x, [*lead, *others])
        merged = importer.reshape(
            moved, [math.prod(shape[d] for d in lead), *(shape[d] for d in others)]
        )
    return importer.whole(flat), merged


def _component(importer: HLOImporter, places: Value, vector: int, index: int) -> Value:
    """One coordinate of index vectors; without a vector dimension the places themselves."""
    shape = extent(places)
    if vector >= len(shape):
        return places
    outer = [n for d, n in enumerate(shape) if d != vector]
    if importer.is_known(places):
        return importer.constant(np.array(np.take(importer.array(places), index, axis=vector)))
    if shape[vector] == 1:
        return importer.reshaped(places, outer)
    return importer.reshape(importer.cut(importer.whole(places), vector, index, 1), outer)


def _placed(
    importer: HLOImporter,
    found: SSAValue,
    labels: list[tuple[str, int]],
    offsets: Sequence[int],
    whole: Sequence[int],
    collapsed: Sequence[int],
    batched: Sequence[int],
    rank: int,
) -> Value:
    """The result with its slice dimensions where `offset_dims` wants them."""
    kept = [d for d in range(rank) if d not in collapsed and d not in batched]
    result = importer.result_type().get_shape()
    indices = [label for label in labels if label[0] == "i"]
    order: list[tuple[str, int]] = []
    slices, outer = iter(kept), iter(indices)
    for d in range(len(result)):
        if d in offsets:
            source = next(slices)
            if source in whole:
                order.append(("w", source))
        else:
            order.append(next(outer))
    moved = importer.transpose(found, [labels.index(label) for label in order])
    return importer.reshape(moved, result)


def _window_gather(
    importer: HLOImporter, op: HLOOp, x: SSAValue, places: Value, text: str, sizes: list[int]
) -> Value:
    """Windows larger than one element: only a single one, which is a slice that moves."""
    mapped = listed(text, "start_index_map")
    if math.prod(extent(places)) != len(mapped) or listed(text, "operand_batching_dims"):
        raise importer.refused(
            f"takes windows of {sizes} at many places", hint="gather single elements or whole rows"
        )
    starts: list[Value] = [importer.constant(np.zeros((), np.int32)) for _ in sizes]
    line = importer.reshaped(places, [len(mapped)])
    for i, d in enumerate(mapped):
        starts[d] = importer.reshaped(_component(importer, line, 0, i), [])
    found = cut_out(importer, x, starts, sizes)
    return importer.reshape(found, importer.result_type().get_shape())


# ------------------------------------------------------------------------------ slices that move


@lowers("dynamic_slice")
def dynamic_slice(importer: HLOImporter, op: HLOOp) -> Value:
    x = importer.input(0)
    starts = [importer.operand(i) for i in range(1, len(op.operands))]
    return cut_out(importer, x, starts, numbers(op, "slice_sizes"))


def cut_out(
    importer: HLOImporter, x: SSAValue, starts: Sequence[Value], sizes: Sequence[int]
) -> SSAValue:
    """A slice: known starts at once, others by looking up rows counted from the start."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        last = shape_of(x)[axis] - size
        if last < 0:
            raise importer.refused(f"cuts {size} out of {shape_of(x)[axis]}", "TW6204")
        if importer.is_known(start):
            first = int(np.clip(int(importer.array(start)), 0, last))
            x = importer.cut(x, axis, first, size)
        elif last:
            x = looked_up(importer, x, _counted(importer, start, size, last), axis)
    return x


def _counted(importer: HLOImporter, start: Value, size: int, last: int) -> SSAValue:
    """start, start + 1, …: the places of a slice of `size` that begins at most at `last`."""
    first = importer.repeated(held(importer, start, last), [], [size])
    line = importer.constant(np.arange(size, dtype=importer.kind_of(start).storage))
    return importer.whole(combined(importer, "elementwise_add", first, line))


@lowers("dynamic_update_slice")
def dynamic_update_slice(importer: HLOImporter, op: HLOOp) -> Value:
    x, update = importer.input(0), importer.input(1)
    starts = [importer.operand(i) for i in range(2, len(op.operands))]
    shape, sizes = shape_of(x), shape_of(update)
    moving = [
        d for d, start in enumerate(starts) if shape[d] != sizes[d] and not importer.is_known(start)
    ]
    if not moving:
        offsets = [
            int(np.clip(int(importer.array(s)), 0, n - m)) if n != m else 0
            for s, n, m in zip(starts, shape, sizes, strict=True)
        ]
        if sizes == shape:
            return update
        attributes: dict[str, Attribute] = {"offsets": integers(offsets), "sizes": integers(sizes)}
        return importer.call("insert_slice", [update, x], x.type, attributes)
    if len(moving) == 1 and all(shape[d] == sizes[d] for d in range(len(shape)) if d != moving[0]):
        return _rows_replaced(importer, x, update, starts[moving[0]], moving[0])
    return _chosen_by_place(importer, x, update, starts)


def _rows_replaced(
    importer: HLOImporter, x: SSAValue, update: SSAValue, start: Value, axis: int
) -> SSAValue:
    """Whole rows along an axis, replaced from a start that is not known: a cache's new entries."""
    shape = shape_of(x)
    size = shape_of(update)[axis]
    order = [axis, *(d for d in range(len(shape)) if d != axis)]
    places = _counted(importer, start, size, shape[axis] - size)
    rows, new = (importer.transpose(v, order) for v in (x, update))
    found = importer.call("scatter", [rows, places, new], rows.type)
    return importer.transpose(found, [order.index(d) for d in range(len(shape))])


def _chosen_by_place(
    importer: HLOImporter, x: SSAValue, update: SSAValue, starts: Sequence[Value]
) -> Value:
    """The update spread over the whole, and a choice by place."""
    inside: Value | None = None
    shape = shape_of(x)
    for axis, start in enumerate(starts):
        size, total = shape_of(update)[axis], shape[axis]
        if size == total:
            continue
        storage = importer.kind_of(start).storage
        first = importer.repeated(held(importer, start, total - size), [], [total])
        line = importer.constant(np.arange(total, dtype=storage))
        place = importer.whole(combined(importer, "elementwise_sub", line, first))
        within = [importer.matched(place, "ge", 0), importer.matched(place, "lt", size)]
        here = combined(importer, "logical_and", within[0], within[1])
        wide = importer.repeated(here, [axis], shape)
        inside = wide if inside is None else combined(importer, "logical_and", inside, wide)
        update = looked_up(importer, update, importer.whole(held(importer, place, size - 1)), axis)
    return update if inside is None else importer.chosen(inside, update, x)


# ---------------------------------------------------------------------------------------- scatter


@lowers("scatter")
def scatter(importer: HLOImporter, op: HLOOp) -> Value:
    """Single elements along the indexed dimensions, whole slices along the others, written in order."""
    if len(op.operands) != 3:
        raise importer.refused("writes several tensors at a time")
    x, places, updates = importer.input(0), importer.operand(1), importer.input(2)
    text = written(op, "scatter_dimension_numbers")
    names = ("update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
             "input_batching_dims", "scatter_indices_batching_dims")  # fmt: skip
    windows, inserted, mapped, batched, index_batched = (listed(text, name) for name in names)
    vector = _vector_dimension(text)
    shape = shape_of(x)
    whole = [d for d in range(len(shape)) if d not in mapped and d not in batched]
    kept = [d for d in range(len(shape)) if d not in inserted and d not in batched]
    sizes = {d: shape_of(updates)[w] for d, w in zip(kept, windows, strict=True)}
    name = body_operation(op.regions[0])
    block = op.regions[0].blocks[0]
    replaces = (
        len(list(block.ops)) == 1
        and block.last_op is not None
        and (block.last_op.operands[0] is block.args[1])
    )
    if not replaces and (name not in KINDS or importer.kind(x).name == "i1"):
        raise importer.refused("combines with a body that is no sum, product, maximum or minimum")
    if any(sizes[d] != shape[d] for d in whole if d in sizes):
        raise importer.refused("writes parts of rows", hint="write whole rows")
    if any(sizes.get(d, 1) != 1 for d in mapped):
        if replaces and math.prod(extent(places)) == len(mapped):
            return _one_window(importer, x, places, updates, mapped, kept)
        raise importer.refused("writes windows at many places", hint="write single rows")
    flat, merged = _rows(importer, x, places, vector, mapped, batched, index_batched)
    lead = [*batched, *mapped]
    lands = _lands(importer, places, vector, mapped, shape)
    if len(lead) == 1 and not batched:
        merged = importer.transpose(x, [*lead, *whole])
    outer = [d for d in range(len(shape_of(updates))) if d not in windows]
    slices = [w for d, w in zip(kept, windows, strict=True) if d in whole]
    units = [w for w in windows if w not in slices]
    new = importer.transpose(updates, [*outer, *units, *slices])
    count = math.prod(shape_of(flat))
    new = importer.reshape(new, [count, *(shape[d] for d in whole)])
    attributes = {} if replaces or name is None else {"reduction": StringAttr(KINDS[name])}
    rows = shape_of(merged)[0]
    if lands is not None:  # what is written elsewhere goes to one more row, which nobody keeps
        flat = importer.whole(importer.chosen(lands, flat, rows))
        spare = importer.slice(
            merged,
            [0] * len(shape_of(merged)),
            [1, *shape_of(merged)[1:]],
            [1] * len(shape_of(merged)),
        )
        merged = importer.concat([merged, spare], 0)
    found = importer.call(
        "scatter", [merged, importer.reshape(flat, [count]), new], merged.type, attributes
    )
    if lands is not None:
        found = importer.slice(
            found,
            [0] * len(shape_of(found)),
            [rows, *shape_of(found)[1:]],
            [1] * len(shape_of(found)),
        )
    back = importer.reshape(found, [*(shape[d] for d in lead), *(shape[d] for d in whole)])
    order = [*lead, *whole]
    return importer.transpose(back, [order.index(d) for d in range(len(shape))])


def _lands(
    importer: HLOImporter, places: Value, vector: int, mapped: Sequence[int], shape: Sequence[int]
) -> SSAValue | None:
    """Which writes are inside of their target; None if all of them are known to be."""
    found: SSAValue | None = None
    for number, d in enumerate(mapped):
        part = _component(importer, places, vector, number)
        if importer.is_known(part):
            array = importer.array(part)
            if ((array >= 0) & (array < shape[d])).all():
                continue
        part = importer.whole(part)
        inside = importer.matched(part, "eq", held(importer, part, shape[d] - 1))
        found = inside if found is None else importer.apply("logical_and", found, inside)
    return found


def _one_window(
    importer: HLOImporter,
    x: SSAValue,
    places: Value,
    updates: SSAValue,
    mapped: Sequence[int],
    kept: Sequence[int],
) -> Value:
    """A single window written: the same as an update of a slice."""
    shape = shape_of(x)
    starts: list[Value] = [importer.constant(np.zeros((), np.int32)) for _ in shape]
    line = importer.reshaped(places, [len(mapped)])
    for i, d in enumerate(mapped):
        starts[d] = importer.reshaped(_component(importer, line, 0, i), [])
    given = iter(shape_of(updates))
    update = importer.reshape(updates, [next(given) if d in kept else 1 for d in range(len(shape))])
    if all(importer.is_known(s) for s in starts):
        offsets = [int(importer.array(s)) for s in starts]
        sizes = shape_of(update)
        attributes: dict[str, Attribute] = {"offsets": integers(offsets), "sizes": integers(sizes)}
        return importer.call("insert_slice", [update, x], x.type, attributes)
    return _chosen_by_place(importer, x, update, starts)
