"""ATen calls that look values up by index: embeddings, gathers, indexed writes. Most run on the host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import Attribute, SSAValue, StringAttr
from tilewright.frontend.aten_builder import (
    Importer,
    Lowered,
    broadcast_shape,
    integer,
    lowers,
    wrapped,
)
from tilewright.frontend.aten_graph import BY_NAME, Node, TensorInfo
from tilewright.frontend.imported import Array

SINGLE_WRITES = 16  # up to so many positions are choices that a device can make


def flattened(importer: Importer, x: SSAValue) -> SSAValue:
    """x as a vector."""
    return importer.reshape(x, [math.prod(shape_of(x))])


def scattered(
    importer: Importer, x: SSAValue, places: SSAValue, updates: SSAValue, kind: str | None
) -> SSAValue:
    """x with rows at places replaced by updates, or combined with them; rows lie along axis 0."""
    attributes: dict[str, Attribute] = {} if kind is None else {"reduction": StringAttr(kind)}
    return importer.call("scatter", [x, places, updates], x.type, attributes)


@lowers("embedding")
def embedding(importer: Importer, node: Node) -> Lowered:
    table, indices = importer.tensor(node.get("weight")), importer.tensor(node.get("indices"))
    return looked_up(importer, "embedding", table, indices, 0)


def looked_up(
    importer: Importer, family: str, x: SSAValue, indices: SSAValue, axis: int
) -> SSAValue:
    shape = shape_of(x)
    result = (*shape[:axis], *shape_of(indices), *shape[axis + 1 :])
    type_ = importer.type_of(TensorInfo(result, importer.kind(x)))
    return importer.call(family, [x, indices], type_, {"axis": integer(axis)})


@lowers("index_select")
def index_select(importer: Importer, node: Node) -> Lowered:
    x, indices = importer.tensor(node.get("self")), importer.tensor(node.get("index"))
    axis = wrapped(node.get("dim"), len(shape_of(x)))
    return looked_up(
        importer, "gather", x, importer.reshape(indices, [math.prod(shape_of(indices))]), axis
    )


@lowers("flip")
def flip(importer: Importer, node: Node) -> Lowered:
    """Dimensions in reverse order."""
    x = importer.tensor(node.get("self"))
    for dim in node.get("dims"):
        axis = wrapped(dim, len(shape_of(x)))
        order = np.arange(shape_of(x)[axis], dtype=np.int64)[::-1].copy()
        if len(order) > 1:
            x = looked_up(importer, "gather", x, importer.constant(order), axis)
    return x


@lowers("item", "_local_scalar_dense")
def item(importer: Importer, node: Node) -> Lowered:
    """A number for Python is a tensor without dimensions here; a size has to be known."""
    x = importer.tensor(node.get("self"))
    if not importer.kind(x).is_float:
        raise node.error(
            "TW6102",
            f"{node.target} takes a number out of a tensor, which depends on the data",
            "compute with the tensor itself; sizes have to be fixed",
        )
    return importer.reshape(x, [])


def _known(importer: Importer, node: Node, x: SSAValue) -> Array:
    """The contents of a tensor on which the shape of the result depends."""
    array = importer.contents(x)
    if array is None:
        raise node.error(
            "TW6102",
            f"{node.target} gives a shape that depends on the data",
            "replace it by a mask of fixed size, such as torch.where",
        )
    return array


@lowers("nonzero", "nonzero_numpy", "argwhere", "where")
def nonzero(importer: Importer, node: Node) -> Lowered:
    """Where a known tensor is not zero."""
    x = importer.tensor(node.get("self", node.get("condition")))
    array = _known(importer, node, x)
    places = np.argwhere(array).astype(np.int64)
    if "nonzero_numpy" in node.target or "where.default" in node.target.replace("argwhere", ""):
        return [importer.constant(np.ascontiguousarray(column)) for column in places.T]
    return importer.constant(places)


@lowers("masked_select")
def masked_select(importer: Importer, node: Node) -> Lowered:
    """The elements where a known mask holds, one after the other."""
    x, mask = importer.tensor(node.get("self")), importer.tensor(node.get("mask"))
    array = _known(importer, node, mask)
    shape = broadcast_shape(shape_of(x), shape_of(mask))
    kept = np.broadcast_to(array, shape).reshape(-1)
    places = importer.constant(np.flatnonzero(kept).astype(np.int64))
    flat = flattened(importer, importer.broadcast_to(x, shape))
    return looked_up(importer, "gather", flat, places, 0)


@lowers("index.Tensor", "_unsafe_index.Tensor")
def index(importer: Importer, node: Node) -> Lowered:
    """x[.., i, j, ..]: neighbouring indexed dimensions are merged and looked up as one."""
    x = importer.tensor(node.get("self"))
    places = integer_indices(importer, node, node.get("indices"))
    axes = [axis for axis, place in enumerate(places) if place is not None]
    if axes != list(range(axes[0], axes[0] + len(axes))):  # what they choose comes first
        rest = [axis for axis in range(len(shape_of(x))) if axis not in axes]
        x = importer.transpose(x, [*axes, *rest])
        places = [places[axis] for axis in axes]
        axes = list(range(len(axes)))
    shape = shape_of(x)
    first, last = axes[0], axes[-1]
    chosen = [place for place in places if place is not None]
    common = broadcast_shape(*(shape_of(place) for place in chosen))
    flat = joined(importer, chosen, [shape[axis] for axis in axes], common)
    merged = importer.reshape(
        x, [*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]]
    )
    return looked_up(importer, "gather", merged, flat, first)


def joined(
    importer: Importer, chosen: Sequence[SSAValue], sizes: Sequence[int], common: Sequence[int]
) -> SSAValue:
    """Indices into several dimensions as one into these dimensions merged."""
    flat: Any = None
    for place, size in zip(chosen, sizes, strict=True):
        place = from_front(importer, place, size)
        if flat is None:
            flat = place
            continue
        scaled = importer.pointwise("elementwise_mul", flat, size)
        flat = importer.pointwise("elementwise_add", scaled, place)
    return importer.broadcast_to(flat, common)


def integer_indices(
    importer: Importer, node: Node, references: Sequence[Any]
) -> list[SSAValue | None]:
    """Index tensors per dimension; a known mask is the positions where it holds."""
    found: list[SSAValue | None] = []
    for reference in references:
        place = None if reference is None else importer.tensor(reference)
        if place is not None and importer.kind(place).name in ("i1", "ui8"):
            mask = importer.contents(place)
            if mask is None:
                raise node.error(
                    "TW6102",
                    f"{node.target} with a mask gives a shape that depends on the data",
                    "keep the shape and use torch.where",
                )
            for part in np.nonzero(mask):
                found.append(importer.constant(part.astype(np.int64)))
            continue
        found.append(None if place is None else importer.cast(place, BY_NAME["i64"]))
    return found


def from_front(importer: Importer, place: SSAValue, size: int) -> SSAValue:
    """Indices counted from the front."""
    if place in importer.known and (importer.known[place] >= 0).all():
        return place
    info = importer.info(place)
    later = importer.pointwise("elementwise_add", place, size)
    return importer.select(importer.compare("lt", place, 0), later, place, info)


@lowers("index_copy")
def index_copy(importer: Importer, node: Node) -> Lowered:
    """Writes at positions along a dimension: one choice per position, by comparing indices."""
    x = importer.tensor(node.get("self"))
    info = importer.info(x)
    dim = wrapped(node.get("dim"), len(info.shape))
    places, source = importer.tensor(node.get("index")), importer.tensor(node.get("source"))
    source = importer.cast(source, info.dtype)
    count = shape_of(source)[dim]
    if count > SINGLE_WRITES:
        from tilewright.frontend.aten_ops_lookup import written_slices

        return written_slices(importer, x, dim, places, source, None)
    numbers = np.arange(info.shape[dim], dtype=np.int64)
    numbers = numbers.reshape([-1 if d == dim else 1 for d in range(len(info.shape))])
    for position in range(count):
        place = importer.cast(importer.cut(places, 0, position, 1), BY_NAME["i64"])
        place = importer.reshape(place, [1] * len(info.shape))
        here = importer.compare("eq", importer.constant(numbers), place)
        x = importer.select(here, importer.cut(source, dim, position, 1), x, info)
    return x
