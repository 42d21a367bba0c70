"""StableHLO operations that move elements, and those that make them from nothing."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import (
    Attribute,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    SSAValue,
    TensorType,
)
from tilewright.frontend.aten_builder import integer, scalar_attribute
from tilewright.frontend.aten_graph import TensorInfo, element_type
from tilewright.frontend.stablehlo_builder import HLOImporter, Value, extent, lowers
from tilewright.frontend.stablehlo_reading import number, numbers


@lowers("constant")
def constant(importer: HLOImporter, op: HLOOp) -> Value:
    """Small and large constants alike are known; what is read at run time becomes a weight."""
    type_ = importer.result_type()
    value = op.get("value")
    kind = importer.result_kind()
    shape = tuple(type_.get_shape())
    if isinstance(value, DenseResourceAttr):
        name = value.resource_handle.data
        if name not in importer.resources:
            raise importer.refused(f"names the resource {name}, which is not there", "TW6204")
        array = np.frombuffer(importer.resources[name], dtype=kind.storage)
        if array.size != math.prod(shape):
            raise importer.refused(
                f"names the resource {name}, which holds {array.size} elements, not {type_}",
                "TW6204",
            )
        found = importer.resource(name, TensorInfo(shape, kind))
        importer.weights[name] = array.reshape(shape)
        importer.names[found] = name
        return found
    if not isinstance(value, DenseIntOrFPElementsAttr):
        raise importer.refused(f"holds {type(value).__name__}, dense<…> is needed", "TW6204")
    return importer.constant(literal_array(value, shape, kind.storage))


def literal_array(value: DenseIntOrFPElementsAttr, shape: tuple[int, ...], storage) -> np.ndarray:
    """The elements of `dense<…>`; one element stands for all."""
    raw = value.data.data
    width = 1 if storage == np.bool_ else storage.itemsize
    count = math.prod(shape)
    if storage == np.bool_ and len(raw) not in (1, count):  # packed, eight to a byte
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
        return bits[:count].astype(np.bool_).reshape(shape)
    array = np.frombuffer(raw, dtype=np.uint8 if storage == np.bool_ else storage)
    if storage == np.bool_:
        array = array != 0
    if len(raw) == width and count != 1:
        return np.broadcast_to(array.reshape(()), shape)
    return np.ascontiguousarray(array).reshape(shape)


@lowers("iota")
def iota(importer: HLOImporter, op: HLOOp) -> Value:
    axis = number(op, "iota_dimension")
    return importer.call("iota", [], importer.result_type(), {"axis": integer(axis)})


@lowers("broadcast_in_dim")
def broadcast_in_dim(importer: HLOImporter, op: HLOOp) -> Value:
    dims = numbers(op, "broadcast_dimensions")
    return importer.repeated(importer.operand(0), dims, importer.result_type().get_shape())


@lowers("reshape")
def reshape(importer: HLOImporter, op: HLOOp) -> Value:
    return importer.reshaped(importer.operand(0), importer.result_type().get_shape())


@lowers("transpose")
def transpose(importer: HLOImporter, op: HLOOp) -> Value:
    return importer.reordered(importer.operand(0), numbers(op, "permutation"))


@lowers("slice")
def slice_(importer: HLOImporter, op: HLOOp) -> Value:
    x = importer.operand(0)
    starts, limits, steps = (
        numbers(op, name) for name in ("start_indices", "limit_indices", "strides")
    )
    shape = extent(x)
    if not len(starts) == len(limits) == len(steps) == len(shape):
        raise importer.refused(f"cuts rank {len(shape)} with other bounds", "TW6204")
    if any(
        not 0 <= a <= b <= n or s < 1
        for a, b, s, n in zip(starts, limits, steps, shape, strict=True)
    ):
        raise importer.refused(f"reaches outside {list(shape)}", "TW6204")
    sizes = [-(-(b - a) // s) for a, b, s in zip(starts, limits, steps, strict=True)]
    if tuple(sizes) == shape:
        return x
    return importer.slice(importer.whole(x), starts, sizes, steps)


@lowers("concatenate")
def concatenate(importer: HLOImporter, op: HLOOp) -> Value:
    parts = [importer.input(i) for i in range(len(op.operands))]
    parts = [part for part in parts if math.prod(shape_of(part))] or parts[:1]
    return parts[0] if len(parts) == 1 else importer.concat(parts, number(op, "dimension"))


@lowers("reverse")
def reverse(importer: HLOImporter, op: HLOOp) -> Value:
    return reversed_along(importer, importer.input(0), numbers(op, "dimensions"))


def reversed_along(importer: HLOImporter, x: SSAValue, axes: list[int]) -> SSAValue:
    """Elements in the opposite order along axes."""
    if x in importer.known:
        return importer.constant(np.ascontiguousarray(np.flip(importer.known[x], tuple(axes))))
    for axis in axes:
        size = shape_of(x)[axis]
        if size > 1:
            places = importer.constant(np.arange(size - 1, -1, -1, dtype=np.int32))
            x = importer.call("gather", [x, places], x.type, {"axis": integer(axis)})
    return x


@lowers("pad")
def pad(importer: HLOImporter, op: HLOOp) -> Value:
    low, high, interior = (
        numbers(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    value = importer.operand(1)
    filler = importer.constant_of(value)
    if filler is None:
        return _padded_with(importer, value, low, high, interior)
    return padded(importer, importer.input(0), filler, low, high, interior)


def padded(
    importer: HLOImporter,
    x: SSAValue,
    filler: float,
    low: list[int],
    high: list[int],
    interior: list[int] | None = None,
) -> SSAValue:
    """x with a border; negative borders cut, interior ones spread the elements."""
    element = element_type(importer.kind(x))
    shape = shape_of(x)
    if interior is not None and any(interior):
        steps = [n + 1 for n in interior]
        wide = [max(0, (n - 1) * s + 1) for n, s in zip(shape, steps, strict=True)]
        canvas = importer.filled(filler, TensorInfo(tuple(wide), importer.kind(x)))
        attributes: dict[str, Attribute] = {
            "offsets": integers([0] * len(shape)),
            "sizes": integers(shape),
            "strides": integers(steps),
        }
        x = importer.call("insert_slice", [x, canvas], canvas.type, attributes)
        shape = shape_of(x)
    if any(n < 0 for n in (*low, *high)):
        offsets = [max(0, -n) for n in low]
        sizes = [n - max(0, -a) - max(0, -b) for n, a, b in zip(shape, low, high, strict=True)]
        x = importer.slice(x, offsets, sizes, [1] * len(shape))
        shape = shape_of(x)
        low, high = ([max(0, n) for n in side] for side in (low, high))
    if not any((*low, *high)):
        return x
    result = [a + n + b for n, a, b in zip(shape, low, high, strict=True)]
    return importer.call(
        "pad",
        [x],
        TensorType(element, result),
        {"low": integers(low), "high": integers(high), "value": scalar_attribute(filler, element)},
    )


def _padded_with(
    importer: HLOImporter, value: Value, low: list[int], high: list[int], interior: list[int]
) -> Value:
    """A border that depends on the inputs: chosen by where the border is."""
    x = importer.input(0)
    zero = padded(importer, x, 0, low, high, interior)
    ones = importer.constant(np.ones(shape_of(x), np.bool_))
    inside = padded(importer, ones, 0, low, high, interior)
    return importer.chosen(inside, zero, importer.repeated(value, [], shape_of(zero)))
