"""ATen calls that repeat or cut out parts by position: borders, overlapping windows, diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.aten_builder import Importer, Lowered, Value, lowers, wrapped
from tilewright.frontend.aten_graph import BY_NAME, Node, TensorInfo
from tilewright.frontend.aten_ops_indexing import flattened, looked_up
from tilewright.frontend.aten_ops_windows import bordered, pair
from tilewright.frontend.imported import Array

# --------------------------------------------------------------------------- borders

_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@lowers(
    *(f"{kind}_pad{n}d" for kind in ("reflection", "replication") for n in (1, 2, 3)),
    "_pad_circular",
)  # fmt: skip
def border(importer: Importer, node: Node) -> Lowered:
    name = node.target.split(".")[1]
    mode = {"refl": "reflect", "repl": "replicate"}.get(name[:4], "circular")
    return repeated_border(importer, importer.tensor(node.get("self")), node.get("padding", node.get("pad")), mode)  # fmt: skip


def repeated_border(importer: Importer, x: SSAValue, amounts: Sequence[int], mode: str) -> SSAValue:
    """x with a border of its own elements; amounts are given from the last dimension inwards."""
    rank = len(shape_of(x))
    for index in range(len(amounts) // 2):
        low, high = amounts[2 * index : 2 * index + 2]
        axis = rank - 1 - index
        size = shape_of(x)[axis]
        own = np.arange(size, dtype=np.int64)
        places = np.pad(own, (max(low, 0), max(high, 0)), mode=_NUMPY_MODES[mode])  # type: ignore[call-overload]
        places = places[max(-low, 0) : len(places) - max(-high, 0)]
        if not np.array_equal(places, own):
            x = looked_up(importer, "gather", x, importer.constant(places), axis)
    return x


# --------------------------------------------------------------------------- windows


def windows(
    importer: Importer, x: SSAValue, axis: int, size: int, step: int, dilation: int = 1
) -> SSAValue:
    """[…, n, …] as […, windows, size, …]: windows that share nothing are a reshape."""
    shape = shape_of(x)
    count = (shape[axis] - dilation * (size - 1) - 1) // step + 1
    if step == size and dilation == 1:
        x = importer.cut(x, axis, 0, count * size)
        return importer.reshape(x, [*shape[:axis], count, size, *shape[axis + 1 :]])
    places = np.arange(count)[:, None] * step + np.arange(size)[None, :] * dilation
    return looked_up(importer, "gather", x, importer.constant(places.astype(np.int64)), axis)


@lowers("unfold")
def unfold(importer: Importer, node: Node) -> Lowered:
    """Windows along one dimension, their elements as a new last one."""
    x = importer.tensor(node.get("self"))
    axis = wrapped(node.get("dimension"), len(shape_of(x)))
    if not shape_of(x):
        x = importer.reshape(x, [1])
    found = windows(importer, x, axis, node.get("size"), node.get("step"))
    order = [d for d in range(len(shape_of(found))) if d != axis + 1]
    found = importer.transpose(found, [*order, axis + 1])
    return importer.reshape(found, importer.result().shape)


@lowers("im2col")
def im2col(importer: Importer, node: Node) -> Lowered:
    """Patches of images as columns: [n, c * kernel, positions]."""
    x = importer.tensor(node.get("self"))
    shape = importer.result().shape
    kernel, dilation, padding, stride = (
        pair(node.get(n)) for n in ("kernel_size", "dilation", "padding", "stride")
    )
    if len(shape_of(x)) == 3:
        x = importer.reshape(x, [1, *shape_of(x)])
    for i in range(2):
        x = bordered(importer, x, 2 + i, padding[i], padding[i], 0)
    x = windows(importer, x, 3, kernel[1], stride[1], dilation[1])
    x = windows(importer, x, 2, kernel[0], stride[0], dilation[0])
    return importer.reshape(importer.transpose(x, [0, 1, 3, 5, 2, 4]), shape)


@lowers("col2im")
def col2im(importer: Importer, node: Node) -> Lowered:
    """Columns added up at the places of their patches, one tap of the kernel at a time."""
    x = importer.tensor(node.get("self"))
    info = importer.result()
    kernel, dilation, padding, stride = (
        pair(node.get(n)) for n in ("kernel_size", "dilation", "padding", "stride")
    )
    height, width = (n + 2 * p for n, p in zip(node.get("output_size"), padding, strict=True))
    counts = [
        (n - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
        for i, n in enumerate((height, width))
    ]
    batch = 1 if len(info.shape) == 3 else info.shape[0]
    channels = info.shape[-3]
    parts = importer.reshape(x, [batch, channels, *kernel, *counts])
    whole = TensorInfo((batch, channels, height, width), info.dtype)
    total: SSAValue = importer.filled(0, whole)
    for row in range(kernel[0]):
        for column in range(kernel[1]):
            tap = importer.cut(importer.cut(parts, 2, row, 1), 3, column, 1)
            tap = importer.reshape(tap, [batch, channels, *counts])
            lines = importer.filled(0, TensorInfo((batch, channels, counts[0], width), info.dtype))
            tap = importer.insert(tap, lines, 3, column * dilation[1], stride[1])
            tap = importer.insert(tap, importer.filled(0, whole), 2, row * dilation[0], stride[0])
            total = importer.pointwise("elementwise_add", total, tap)
    for i in range(2):
        total = importer.cut(total, 2 + i, padding[i], shape_of(total)[2 + i] - 2 * padding[i])
    return importer.reshape(total, info.shape)


# --------------------------------------------------------------------------- positions


@lowers("meshgrid", "meshgrid.indexing")
def meshgrid(importer: Importer, node: Node) -> Lowered:
    """Each vector spread over the grid of all; with "xy" the first two change places."""
    vectors = [flattened(importer, t) for t in importer.tensors(node.get("tensors"))]
    order = list(range(len(vectors)))
    if node.get("indexing") == "xy" and len(vectors) > 1:
        order[0], order[1] = 1, 0
    found: list[Value | None] = []
    for index, vector in enumerate(vectors):
        shape = [-1 if place == index else 1 for place in order]
        shape = [shape_of(vector)[0] if n == -1 else 1 for n in shape]
        wide = importer.reshape(vector, shape)
        found.append(importer.broadcast_to(wide, importer.result(index).shape))
    return found


def places_constant(importer: Importer, places: Array) -> SSAValue:
    return importer.constant(places.astype(np.int64))


@lowers("tril_indices", "triu_indices")
def triangle_indices(importer: Importer, node: Node) -> Lowered:
    find = np.tril_indices if "tril" in node.target else np.triu_indices
    places = np.stack(find(node.get("row"), node.get("offset", 0), node.get("col")))
    return importer.constant(places.astype(importer.result().dtype.storage))


@lowers("diagonal", "diagonal_copy")
def diagonal(importer: Importer, node: Node) -> Lowered:
    x = importer.tensor(node.get("self"))
    shape = shape_of(x)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    axes = (node.get("dim1", 0), node.get("dim2", 1))
    places = np.diagonal(numbers, node.get("offset", 0), *axes)
    return looked_up(
        importer, "gather", flattened(importer, x), places_constant(importer, places), 0
    )


@lowers("diff")
def diff(importer: Importer, node: Node) -> Lowered:
    """Each element minus the one before it, n times over; truth values differ by xor."""
    x = importer.tensor(node.get("self"))
    axis = wrapped(node.get("dim", -1), len(shape_of(x)))
    parts = [importer.optional(node.get("prepend")), x, importer.optional(node.get("append"))]
    given = [importer.cast(part, importer.kind(x)) for part in parts if part is not None]
    x = given[0] if len(given) == 1 else importer.concat(given, axis)
    family = "logical_xor" if importer.kind(x) == BY_NAME["i1"] else "elementwise_sub"
    for _ in range(node.get("n", 1)):
        size = shape_of(x)[axis]
        if not size:
            break
        later, earlier = (importer.cut(x, axis, start, size - 1) for start in (1, 0))
        x = importer.pointwise(family, later, earlier)
    return x
