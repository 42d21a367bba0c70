"""ATen calls that make tensors out of numbers, and triangles."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.aten_builder import Importer, Lowered, Undefined, lowers
from tilewright.frontend.aten_graph import Node, Ref


@lowers("ones", "ones_like", "new_ones")
def ones(importer: Importer, node: Node) -> Lowered:
    return importer.filled(1, importer.result())


@lowers("zeros", "zeros_like", "new_zeros")
def zeros(importer: Importer, node: Node) -> Lowered:
    return importer.filled(0, importer.result())


@lowers("full", "full_like", "new_full", "scalar_tensor", "fill.Scalar", "fill.Tensor")
def full(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    value = node.get("fill_value", node.get("s", node.get("value")))
    if isinstance(value, Ref):
        tensor = importer.cast(importer.tensor(value), info.dtype)
        return importer.broadcast_to(tensor, info.shape)
    return importer.filled(value, info)


@lowers("empty.memory_format", "empty_like", "new_empty", "empty_permuted", "empty_strided",
        "new_empty_strided")  # fmt: skip
def empty(importer: Importer, node: Node) -> Lowered:
    return Undefined(importer.result())


@lowers("arange", "arange.start", "arange.start_step")
def arange(importer: Importer, node: Node) -> Lowered:
    """start + step * index; torch computes it in double precision."""
    info = importer.result()
    start, step = node.get("start", 0), node.get("step", 1)
    wide = np.float64 if info.dtype.is_float else np.int64
    values = np.asarray(start, wide) + np.arange(info.shape[0], dtype=wide) * np.asarray(step, wide)
    return importer.constant(values.astype(info.dtype.storage))


@lowers("linspace")
def linspace(importer: Importer, node: Node) -> Lowered:
    """Counted up from the start in the first half, down from the end in the second."""
    info = importer.result()
    start, end, steps = float(node.get("start")), float(node.get("end")), info.shape[0]
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    index = np.arange(steps, dtype=np.float64)
    values = np.where(index < steps // 2, start + step * index, end - step * (steps - 1 - index))
    if steps == 1:
        values = np.asarray([start])
    return importer.constant(values.astype(info.dtype.storage))


@lowers("eye", "eye.m")
def eye(importer: Importer, node: Node) -> Lowered:
    info = importer.result()
    return importer.constant(np.eye(*info.shape, dtype=np.int8).astype(info.dtype.storage))


@lowers("tril", "triu")
def triangle(importer: Importer, node: Node) -> Lowered:
    """x on one side of a diagonal, 0 on the other."""
    info = importer.result()
    rows, columns = info.shape[-2:]
    offset = node.get("diagonal", 0)
    lower = np.tri(rows, columns, offset if "tril" in node.target else offset - 1, dtype=np.bool_)
    keep = importer.constant(lower if "tril" in node.target else ~lower)
    return importer.select(keep, importer.tensor(node.get("self")), 0, info)
