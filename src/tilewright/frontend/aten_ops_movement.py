"""ATen calls that move values: views, transposes, slices, joins, and writes into slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.xdsl_api import Attribute, SSAValue
from tilewright.frontend.aten_builder import (
    Assembly,
    Importer,
    Lowered,
    Undefined,
    Value,
    lowers,
    scalar_attribute,
    wrapped,
)
from tilewright.frontend.aten_graph import Node, TensorInfo, element_type

# --------------------------------------------------------------------------- another shape


@lowers(
    "view", "_unsafe_view", "reshape", "flatten.using_ints", "unflatten.int", "unsqueeze",
    "squeeze", "squeeze.dim", "squeeze.dims", "view_as", "reshape_as", "_reshape_alias",
    "view_copy", "unsqueeze_copy", "squeeze_copy.dim",
)  # fmt: skip
def reshape(importer: Importer, node: Node) -> Lowered:
    """The graph knows the new shape, also where the call says -1."""
    return importer.reshape(importer.tensor(node.get("self")), importer.result().shape)


@lowers("view.dtype")
def bitcast(importer: Importer, node: Node) -> Lowered:
    raise importer.unsupported(
        "reads the bits of a tensor as another type",
        "write it with arithmetic; .to(dtype) converts values, not bits",
    )


@lowers("permute", "permute_copy")
def permute(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    rank = len(shape_of(x))
    return importer.transpose(x, [wrapped(d, rank) for d in node.get("dims")])


@lowers("transpose.int", "t", "transpose_copy.int", "numpy_T", "mT", "swapaxes")
def transpose(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    order = list(range(len(shape_of(x))))
    if len(order) < 2:
        return x
    a = wrapped(node.get("dim0", node.get("axis0", -2)), len(order))
    b = wrapped(node.get("dim1", node.get("axis1", -1)), len(order))
    order[a], order[b] = order[b], order[a]
    return importer.transpose(x, order)


@lowers("movedim.int", "movedim.intlist")
def movedim(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    rank = len(shape_of(x))
    source, target = (
        [wrapped(d, rank) for d in ([v] if isinstance(v, int) else v)]
        for v in (node.get("source"), node.get("destination"))
    )
    rest = iter(d for d in range(rank) if d not in source)
    placed = dict(zip(target, source, strict=True))
    return importer.transpose(x, [placed[d] if d in placed else next(rest) for d in range(rank)])


@lowers("expand", "expand_as", "broadcast_to", "expand_copy")
def expand(importer: Importer, node: Node) -> Lowered:
    value = importer.value(node.get("self"))
    info = importer.result()
    if importer.info(value) == info:
        return value
    return importer.broadcast_to(importer.tensor(node.get("self")), info.shape)


@lowers("repeat", "tile")
def repeat(importer: Importer, node: Node) -> Lowered:
    """Each dimension n becomes (count, n), the count is a broadcast, and both are merged."""
    x = importer.tensor(node.get("self"))
    counts = list(node.get("repeats", node.get("dims")))
    shape = list(shape_of(x))
    rank = max(len(shape), len(counts))
    shape = [1] * (rank - len(shape)) + shape
    counts = [1] * (rank - len(counts)) + counts
    thin = [n for size in shape for n in (1, size)]
    wide = [n for count, size in zip(counts, shape, strict=True) for n in (count, size)]
    spread = importer.broadcast_to(importer.reshape(x, thin), wide)
    return importer.reshape(spread, importer.result().shape)


@lowers("repeat_interleave.self_int")
def repeat_interleave(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    if node.get("dim") is None:
        x = importer.reshape(x, [math.prod(shape_of(x))])
    dim = wrapped(node.get("dim") or 0, len(shape_of(x)))
    shape = list(shape_of(x))
    thin = importer.reshape(x, [*shape[: dim + 1], 1, *shape[dim + 1 :]])
    wide = importer.broadcast_to(thin, [*shape[: dim + 1], node.get("repeats"), *shape[dim + 1 :]])
    return importer.reshape(wide, importer.result().shape)


@lowers("pixel_shuffle")
def pixel_shuffle(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    factor = node.get("upscale_factor")
    *lead, channels, height, width = shape_of(x)
    first = len(lead)
    parts = importer.reshape(x, [*lead, channels // factor**2, factor, factor, height, width])
    order = [*range(first), first, first + 3, first + 1, first + 4, first + 2]
    return importer.reshape(importer.transpose(parts, order), importer.result().shape)


@lowers("pixel_unshuffle")
def pixel_unshuffle(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    factor = node.get("downscale_factor")
    *lead, channels, height, width = shape_of(x)
    first = len(lead)
    parts = importer.reshape(
        x, [*lead, channels, height // factor, factor, width // factor, factor]
    )
    order = [*range(first), first, first + 2, first + 4, first + 1, first + 3]
    return importer.reshape(importer.transpose(parts, order), importer.result().shape)


# --------------------------------------------------------------------------- slices


def stretch(node: Node, size: int) -> tuple[int, int, int]:
    """Start, count and step of a slice along a dimension, as Python would take it."""
    step = node.get("step", 1)
    start, end = node.get("start"), node.get("end")
    begin, stop, _ = slice(start, end, step).indices(size)
    return begin, max(0, -(-(stop - begin) // step)), step


@lowers("slice.Tensor", "slice_copy.Tensor")
def slice_(importer: Importer, node: Node) -> Lowered:
    value = importer.value(node.get("self"))
    info = importer.info(value)
    dim = wrapped(node.get("dim", 0), len(info.shape))
    start, count, step = stretch(node, info.shape[dim])
    if count == info.shape[dim]:
        return value
    if not isinstance(value, SSAValue):
        found = _stretch_of_unwritten(value, dim, start, count, step)
        if found is not None:
            return found
    return importer.cut(importer.tensor(node.get("self")), dim, start, count, step)


def _stretch_of_unwritten(
    value: Undefined | Assembly, dim: int, start: int, count: int, step: int
) -> Value | None:
    """A stretch that nobody has written, or that was written as a whole; None if neither."""
    shape = list(value.info.shape)
    shape[dim] = count
    empty = Undefined(TensorInfo(tuple(shape), value.info.dtype))
    if isinstance(value, Undefined):
        return empty
    if dim != value.dim or step != 1:
        return None
    part = value.parts.get(start)
    if part is not None and shape_of(part) == tuple(shape):
        return part
    ranges = [(begin, begin + shape_of(p)[dim]) for begin, p in value.parts.items()]
    untouched = all(end <= start or begin >= start + count for begin, end in ranges)
    return empty if untouched else None


@lowers("narrow")
def narrow(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    dim = wrapped(node.get("dim"), len(shape_of(x)))
    start = node.get("start") % shape_of(x)[dim] if shape_of(x)[dim] else 0
    return importer.cut(x, dim, start, node.get("length"))


@lowers("select.int", "select_copy.int")
def select(importer: Importer, node: Node) -> Lowered:
    value = importer.value(node.get("self"))
    if isinstance(value, Undefined):
        return Undefined(importer.result())
    x = importer.tensor(node.get("self"))
    shape = shape_of(x)
    dim = wrapped(node.get("dim"), len(shape))
    part = importer.cut(x, dim, wrapped(node.get("index"), shape[dim]), 1)
    return importer.reshape(part, importer.result().shape)


def cut_up(importer: Importer, x: SSAValue, dim: int, sizes: Sequence[int]) -> list[Value | None]:
    """Consecutive stretches of x; None for those nobody reads."""
    found: list[Value | None] = []
    start = 0
    for index, size in enumerate(sizes):
        found.append(importer.cut(x, dim, start, size) if importer.is_needed(index) else None)
        start += size
    return found


def even_sizes(total: int, size: int) -> list[int]:
    return [min(size, total - start) for start in range(0, total, size)] or [0]


@lowers("split.Tensor", "split_with_sizes", "split.sizes", "chunk", "tensor_split.sections")
def split(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    dim = wrapped(node.get("dim", 0), len(shape_of(x)))
    total = shape_of(x)[dim]
    if "split_size" in node.arguments and isinstance(node.get("split_size"), int):
        return cut_up(importer, x, dim, even_sizes(total, node.get("split_size")))
    if "chunks" in node.arguments:
        return cut_up(importer, x, dim, even_sizes(total, -(-total // node.get("chunks"))))
    if "sections" in node.arguments:
        count = node.get("sections")
        sizes = [total // count + (i < total % count) for i in range(count)]
        return cut_up(importer, x, dim, sizes)
    return cut_up(importer, x, dim, node.get("split_sizes", node.get("split_size")))


@lowers("unbind.int")
def unbind(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    dim = wrapped(node.get("dim", 0), len(shape_of(x)))
    parts = cut_up(importer, x, dim, [1] * shape_of(x)[dim])
    return [
        importer.reshape(part, importer.result(index).shape) if isinstance(part, SSAValue) else None
        for index, part in enumerate(parts)
    ]


# --------------------------------------------------------------------------- joins


@lowers("cat", "concat", "concatenate")
def cat(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    parts = [
        importer.cast(part, info.dtype)
        for part in importer.tensors(node.get("tensors"))
        if math.prod(shape_of(part)) or len(shape_of(part)) == len(info.shape)
    ]
    dim = wrapped(node.get("dim", 0), len(info.shape))
    parts = [part for part in parts if shape_of(part)[dim]] or parts[:1]
    return parts[0] if len(parts) == 1 else importer.concat(parts, dim)


@lowers("stack")
def stack(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    dim = wrapped(node.get("dim", 0), len(info.shape))
    shape = [1 if d == dim else n for d, n in enumerate(info.shape)]
    parts = [
        importer.reshape(importer.cast(part, info.dtype), shape)
        for part in importer.tensors(node.get("tensors"))
    ]
    return parts[0] if len(parts) == 1 else importer.concat(parts, dim)


@lowers("constant_pad_nd", "pad")
def pad(importer: Importer, node: Node) -> Lowered:
    """Borders are given from the last dimension inwards; a negative one cuts off."""
    x = importer.tensor(node.get("self"))
    if node.get("mode", "constant") != "constant":
        from tilewright.frontend.aten_ops_borders import repeated_border

        return repeated_border(importer, x, node.get("pad"), node.get("mode"))
    rank, amounts = len(shape_of(x)), node.get("pad")
    low, high = [0] * rank, [0] * rank
    for index in range(len(amounts) // 2):
        low[rank - 1 - index], high[rank - 1 - index] = amounts[2 * index : 2 * index + 2]
    for dim in range(rank):
        size = shape_of(x)[dim] + min(low[dim], 0) + min(high[dim], 0)
        x = importer.cut(x, dim, max(-low[dim], 0), size)
    low, high = [max(n, 0) for n in low], [max(n, 0) for n in high]
    if not any(low) and not any(high):
        return x
    number = scalar_attribute(node.get("value") or 0, element_type(importer.kind(x)))
    attributes: dict[str, Attribute] = {
        "low": integers(low), "high": integers(high), "value": number,
    }  # fmt: skip
    return importer.call("pad", [x], importer.type_of(importer.result()), attributes)


@lowers("roll")
def roll(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    shifts, dims = node.get("shifts"), node.get("dims", [])
    if not dims:
        flat = importer.reshape(x, [math.prod(shape_of(x))])
        return importer.reshape(_rolled(importer, flat, 0, shifts[0]), shape_of(x))
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(importer, x, wrapped(dim, len(shape_of(x))), shift)
    return x


def _rolled(importer: Importer, x: SSAValue, dim: int, shift: int) -> SSAValue:
    size = shape_of(x)[dim]
    shift = shift % size if size else 0
    if not shift:
        return x
    tail = importer.cut(x, dim, size - shift, shift)
    return importer.concat([tail, importer.cut(x, dim, 0, size - shift)], dim)


# --------------------------------------------------------------------------- writes into slices


@lowers("slice_scatter")
def slice_scatter(importer: Importer, node: Node) -> Lowered:
    """A write into a stretch; when such writes cover an undefined tensor, they are a concat."""
    value = importer.value(node.get("self"))
    info = importer.info(value)
    dim = wrapped(node.get("dim", 0), len(info.shape))
    start, count, step = stretch(node, info.shape[dim])
    written = importer.value(node.get("src"))
    if count == info.shape[dim]:
        return written
    if isinstance(written, Undefined):
        return value
    source = importer.cast(importer.tensor(node.get("src")), info.dtype)
    if not isinstance(value, SSAValue) and step == 1:
        joined = _write(importer, value, source, dim, start)
        if joined is not None:
            return joined
    return importer.insert(source, importer.tensor(node.get("self")), dim, start, step)


def _write(
    importer: Importer, value: Undefined | Assembly, part: SSAValue, dim: int, start: int
) -> Value | None:
    """The tensor after one more write: joined when nothing is missing; None if writes overlap."""
    parts = dict(value.parts) if isinstance(value, Assembly) else {}
    if isinstance(value, Assembly) and value.dim != dim:
        return None
    size = value.info.shape[dim]
    if start in parts and shape_of(parts[start])[dim] != shape_of(part)[dim]:
        return None
    parts[start] = part
    ends = 0
    whole = True
    for begin in sorted(parts):
        if begin < ends:
            return None
        whole = whole and begin == ends
        ends = begin + shape_of(parts[begin])[dim]
    if whole and ends == size:
        return importer.concat([parts[begin] for begin in sorted(parts)], dim)
    return Assembly(value.info, dim, parts)


@lowers("select_scatter")
def select_scatter(importer: Importer, node: Node) -> Lowered:
    info = importer.info(importer.value(node.get("self")))
    dim = wrapped(node.get("dim"), len(info.shape))
    index = wrapped(node.get("index"), info.shape[dim])
    shape = [1 if d == dim else n for d, n in enumerate(info.shape)]
    source = importer.cast(importer.tensor(node.get("src")), info.dtype)
    part = importer.reshape(source, shape)
    value: Any = importer.value(node.get("self"))
    if not isinstance(value, SSAValue):
        joined = _write(importer, value, part, dim, index)
        if joined is not None:
            return joined
    return importer.insert(part, importer.tensor(node.get("self")), dim, index)
