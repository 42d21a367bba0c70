"""The `tensor` dialect: making, cutting, joining and reshaping tensors."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation, SSAValue

from tilewright.reference import dtypes
from tilewright.reference.bodies import Body
from tilewright.reference.dtypes import Array, ElementType
from tilewright.reference.faults import fault, name_of
from tilewright.reference.program import (
    Builder,
    Evaluate,
    Slots,
    Step,
    as_array,
    control,
    element_of,
    integers,
    operation,
    segments,
    tensor_shape,
)
from tilewright.reference.scalar_ops import attribute_of
from tilewright.reference.views import loop_index


def undefined(shape: Sequence[int], element: ElementType) -> Array:
    """Contents of memory nobody has written: NaN, or a bit pattern that is easy to recognise."""
    if element.is_float:
        return dtypes.stored(np.full(shape, np.nan, dtype=np.float32), element)
    if element.kind == "bool":
        return np.zeros(shape, dtype=np.bool_)
    return (
        np.full(element.storage.itemsize * int(np.prod(shape)), 0xA5, np.uint8)
        .view(element.storage)
        .reshape(shape)
    )


def mixed(static: tuple[int, ...], dynamic: list[SSAValue], first: int) -> Callable[..., list[int]]:
    """A function of all operand values that fills the dynamic entries of a static list.

    `first` is the number of the first dynamic operand.
    """
    places = [i for i, v in enumerate(static) if v in (DYNAMIC_INDEX, -1)] if dynamic else []
    if not places:
        fixed = list(static)
        return lambda values: fixed

    def fill(values: Sequence[Any]) -> list[int]:
        filled = list(static)
        for offset, place in enumerate(places):
            filled[place] = int(values[first + offset])
        return filled

    return fill


@operation("tensor.empty")
def empty(op: Operation, builder: Builder) -> Evaluate:
    shape = mixed(tensor_shape(op.results[0]), list(op.operands), 0)
    element = element_of(op.results[0])
    return lambda *sizes: undefined(shape(sizes), element)


@operation("tensor.splat")
def splat(op: Operation, builder: Builder) -> Evaluate:
    shape = mixed(tensor_shape(op.results[0]), list(op.operands[1:]), 1)
    return lambda *values: np.full(shape(values), as_array(values[0]))


@operation("tensor.from_elements")
def from_elements(op: Operation, builder: Builder) -> Evaluate:
    shape = tensor_shape(op.results[0])
    storage = element_of(op.results[0]).storage

    def evaluate(*values: Any) -> Array:
        return np.array([as_array(v) for v in values], dtype=storage).reshape(shape)

    return evaluate


def _body_over(op: Operation, builder: Builder) -> Callable[..., Array]:
    """The body of pad or generate: (shape, captured values) -> an array of that shape."""
    block = builder.single_block(op.regions[0], op)
    assert block.last_op is not None
    body = Body(block, list(block.last_op.operands), op)
    element = element_of(op.results[0])

    def evaluate(shape: Sequence[int], captured: Sequence[Any]) -> Array:
        indices = [loop_index(d, shape) for d in range(len(shape))]
        (values,) = body.run(indices, captured, lambda d: indices[d])
        return dtypes.stored(np.broadcast_to(values, shape), element)

    return evaluate


@operation("tensor.generate")
def generate(op: Operation, builder: Builder) -> Evaluate:
    count = len(op.operands)
    shape = mixed(tensor_shape(op.results[0]), list(op.operands), 0)
    body = _body_over(op, builder)
    return lambda *values: body(shape(values), values[count:])


@operation("tensor.pad")
def pad(op: Operation, builder: Builder) -> Evaluate:
    _, low_values, high_values = segments(op, 3)
    low = mixed(integers(attribute_of(op, "static_low")), low_values, 1)
    high = mixed(integers(attribute_of(op, "static_high")), high_values, 1 + len(low_values))
    count = len(op.operands)
    body = _body_over(op, builder)

    def evaluate(*values: Any) -> Array:
        source, before, after = values[0], low(values), high(values)
        if any(b < 0 for b in (*before, *after)):
            raise fault(op, "TW1505", "tensor.pad with a negative amount")
        shape = [b + s + a for b, s, a in zip(before, source.shape, after, strict=True)]
        result = np.array(body(shape, values[count:]))
        result[tuple(slice(b, b + s) for b, s in zip(before, source.shape, strict=True))] = source
        return result

    return evaluate


# --------------------------------------------------------------------------- slices


class SliceOf:
    """Offsets, sizes and strides of a slicing operation, static or taken from operands."""

    def __init__(self, op: Operation, first: int, groups: list[list[SSAValue]]) -> None:
        offsets, sizes, strides = groups
        self.op = op
        self.offsets = mixed(integers(attribute_of(op, "static_offsets")), offsets, first)
        first += len(offsets)
        self.sizes = mixed(integers(attribute_of(op, "static_sizes")), sizes, first)
        first += len(sizes)
        self.strides = mixed(integers(attribute_of(op, "static_strides")), strides, first)

    def __call__(self, values: Sequence[Any], shape: Sequence[int]) -> tuple[slice, ...]:
        window = []
        offsets, sizes, strides = self.offsets(values), self.sizes(values), self.strides(values)
        for axis, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
            last = offset + (size - 1) * stride
            if size < 0 or (size > 0 and (offset < 0 or last < 0 or last >= shape[axis])):
                raise fault(
                    self.op,
                    "TW1505",
                    f"{name_of(self.op)} reaches from {offset} to {last} on axis {axis}, "
                    f"which has {shape[axis]} elements",
                )
            window.append(slice(offset, offset + max(0, (size - 1) * stride + 1), stride))
        return tuple(window)


@operation("tensor.extract_slice")
def extract_slice(op: Operation, builder: Builder) -> Evaluate:
    window = SliceOf(op, 1, segments(op, 4)[1:])
    shape = tensor_shape(op.results[0])
    keep = -1 in shape

    def evaluate(*values: Any) -> Array:
        source = values[0]
        cut = source[window(values, source.shape)]
        if not keep and cut.size != math.prod(shape):
            raise fault(
                op,
                "TW1502",
                f"{name_of(op)} cuts out {list(cut.shape)}, its result has the shape {list(shape)}",
            )
        # A copy, so that a small slice does not keep a large tensor alive or shared.
        return np.array(cut if keep else cut.reshape(shape))

    return evaluate


def _count_of_one_owner() -> int:
    """What `sys.getrefcount` says of an array that only a local variable holds.

    Measured because it differs between releases of Python; same code as in `_reusable`.
    """
    slots: Slots = [np.empty(0)]
    array = slots[0]
    slots[0] = None
    return sys.getrefcount(array)


ONE_OWNER = _count_of_one_owner()


def _reusable(slots: Slots, slot: int, dies: bool) -> Array:
    """The array of a slot to write into: itself if nothing else refers to it, else a copy."""
    array = slots[slot]
    if dies:
        slots[slot] = None
        if array.base is None and array.flags.writeable and sys.getrefcount(array) == ONE_OWNER:
            return array
    return np.array(array)


@control("tensor.insert_slice", "tensor.parallel_insert_slice")
def insert_slice(op: Operation, builder: Builder) -> Step:
    window = SliceOf(op, 2, segments(op, 5)[2:])
    operands = [builder.slot(v) for v in op.operands]
    destination, target = operands[1], builder.slot(op.results[0])
    dies = destination in builder.dying and operands.count(destination) == 1

    def step(slots: Slots) -> None:
        values = [slots[i] if i != destination else None for i in operands]
        array = _reusable(slots, destination, dies)
        place = window(values, array.shape)
        source = slots[operands[0]]
        view = array[place]
        if source.size != view.size:
            raise fault(
                op,
                "TW1502",
                f"{name_of(op)} puts {list(source.shape)} into a part of shape {list(view.shape)}",
            )
        view[...] = source.reshape(view.shape)
        del view
        slots[target] = array

    return step


@operation("tensor.extract")
def extract(op: Operation, builder: Builder) -> Evaluate:
    def evaluate(tensor: Array, *indices: Any) -> Any:
        place = tuple(int(i) for i in indices)
        if any(not 0 <= i < s for i, s in zip(place, tensor.shape, strict=True)):
            raise fault(op, "TW1505", f"tensor.extract at {list(place)} of {list(tensor.shape)}")
        element = np.asarray(tensor[place])
        return int(element) if to_index else element

    to_index = element_of(op.results[0]) is dtypes.INDEX
    return evaluate


@control("tensor.insert")
def insert(op: Operation, builder: Builder) -> Step:
    operands = [builder.slot(v) for v in op.operands]
    target = builder.slot(op.results[0])
    dies = operands[1] in builder.dying

    def step(slots: Slots) -> None:
        place = tuple(int(slots[i]) for i in operands[2:])
        array = _reusable(slots, operands[1], dies)
        if any(not 0 <= i < s for i, s in zip(place, array.shape, strict=True)):
            raise fault(op, "TW1505", f"tensor.insert at {list(place)} of {list(array.shape)}")
        array[place] = slots[operands[0]]
        slots[target] = array

    return step


# --------------------------------------------------------------------------- shapes


@operation("tensor.collapse_shape", "tensor.expand_shape", "tensor.reshape")
def reshape(op: Operation, builder: Builder) -> Evaluate:
    shape = list(tensor_shape(op.results[0]))

    def reshaped(source: Array, sizes: Sequence[int]) -> Array:
        known = math.prod(size for size in sizes if size >= 0)
        fits = source.size == known if -1 not in sizes else known and source.size % known == 0
        if not fits:
            raise fault(
                op,
                "TW1502",
                f"{name_of(op)} makes a tensor of shape {list(sizes)} from {list(source.shape)}",
            )
        return source.reshape(sizes)

    if shape.count(-1) <= 1:
        return lambda source, *_: reshaped(source, shape)
    if name_of(op) == "tensor.reshape":
        return lambda source, sizes: reshaped(source, [int(s) for s in sizes])
    if name_of(op) == "tensor.expand_shape":
        sizes = mixed(integers(attribute_of(op, "static_output_shape")), list(op.operands[1:]), 1)
        return lambda *values: reshaped(values[0], sizes(values))
    groups = [integers(group) for group in attribute_of(op, "reassociation").data]
    return lambda source: source.reshape(
        [int(np.prod([source.shape[d] for d in group])) for group in groups]
    )


@operation("tensor.cast", "tensor.bitcast")
def cast(op: Operation, builder: Builder) -> Evaluate:
    source, target = element_of(op.operands[0]), element_of(op.results[0])
    if source == target:
        return lambda value: value
    return lambda value: dtypes.contiguous(value).view(target.storage)


@operation("tensor.concat")
def concat(op: Operation, builder: Builder) -> Evaluate:
    (axis,) = integers(attribute_of(op, "dim"))
    return lambda *parts: np.concatenate(parts, axis=axis)


@operation("tensor.dim")
def dim(op: Operation, builder: Builder) -> Evaluate:
    return lambda tensor, axis: int(tensor.shape[int(axis)])


@operation("tensor.rank")
def rank(op: Operation, builder: Builder) -> Evaluate:
    return lambda tensor: int(tensor.ndim)


@operation("tensor.gather")
def gather(op: Operation, builder: Builder) -> Evaluate:
    dimensions = integers(attribute_of(op, "gather_dims"))
    shape = tensor_shape(op.results[0])

    def evaluate(source: Array, indices: Array) -> Array:
        place: list[Any] = [slice(None)] * source.ndim
        for number, axis in enumerate(dimensions):
            index = indices[..., number]
            if index.size and (index.min() < 0 or index.max() >= source.shape[axis]):
                raise fault(op, "TW1505", f"tensor.gather reads outside of axis {axis}")
            place[axis] = index
        moved = np.moveaxis(source, dimensions, range(len(dimensions)))
        return dtypes.contiguous(moved[tuple(place[a] for a in dimensions)].reshape(shape))

    return evaluate
