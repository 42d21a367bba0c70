"""Nodes of operator sets 7 to 12, in the form that later sets have.

before: Slice-1 (x) {starts = [1], ends = [3]}      after: Slice (x, [1], [3])
before: Softmax-11 (x) {axis = 1} on [2, 3, 4]      after: the same over rows of a [2, 12] matrix
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend.onnx_builder import Builder
from tilewright.frontend.onnx_nodes import Node, front
from tilewright.frontend.onnx_values import Array, Constant, shape

# Operator -> the set in which attributes became inputs, and those inputs after the first.
_MOVED: dict[str, tuple[int, tuple[str, ...]]] = {
    "Clip": (11, ("min", "max")),
    "Dropout": (12, ("ratio",)),
    "Pad": (11, ("pads", "value")),
    "Slice": (10, ("starts", "ends", "axes")),
    "TopK": (10, ("k",)),
    "Upsample": (9, ("scales",)),
}
AXIS_ALONE = 13  # since this set softmax is that of one axis


def with_inputs(node: Node) -> None:
    """Give a node as inputs what its version has as attributes."""
    since, names = _MOVED.get(node.operator, (0, ()))
    if node.domain or node.version >= since:
        return
    for index, name in enumerate(names, start=1):
        given = node.attributes.pop(name, None)
        while len(node.operands) <= index:
            node.operands.append(None)
        if given is not None:
            node.operands[index] = _constant(f"{node.name}.{name}", given)


def _constant(name: str, given: float | int | list[float] | list[int]) -> Constant:
    array: Array = np.asarray(given)
    if array.dtype.kind == "f":
        return Constant(array.astype(np.float32), name, 1)
    return Constant(array.astype(np.int64), name, 7)


def along_axis(low: Builder, node: Node, compute: Callable[[SSAValue, int], SSAValue]) -> SSAValue:
    """A function along an axis; in older sets one over rows of all dimensions from there on."""
    x = low.tensor(node.required(0))
    sizes = shape(x)
    if node.version >= AXIS_ALONE:
        return compute(x, front(node.get("axis", -1), len(sizes)))
    axis = front(node.get("axis", 1), len(sizes))
    if axis == len(sizes) - 1:
        return compute(x, axis)
    rows = low.reshape(x, [math.prod(sizes[:axis]), math.prod(sizes[axis:])])
    return low.reshape(compute(rows, 1), sizes)
