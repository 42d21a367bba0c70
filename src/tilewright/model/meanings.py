"""What the inputs of a model are for, found by following them through the graph.

An input that ends as the indices of a table is an id below its number of rows; one that is turned
into an angle, or compared with a row of ascending numbers, is a position; one that is compared with
zero or becomes a choice is a mask.
"""

from __future__ import annotations

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.angles import WAVES, angles_of
from tilewright.model.capture import Graph, Node, dtype_of, scalars, shape_of
from tilewright.model.sample_values import FAR, Meaning, named_meaning

FLOATS = ("f32", "bf16", "f16", "f64")
# What only moves an input's numbers, or keeps them in their order.
THROUGH = (
    *("cast", "reshape", "transpose", "slice", "concat", "clamp", "elementwise_max"),
    *("elementwise_min", "select"),
)
INDEXED = ("gather", "embedding", "scatter")


def meanings_of(graph: Graph) -> dict[str, Meaning]:
    """The meaning of every input that has one, by name."""
    angles = angles_of(graph)
    found = {}
    for value, name in graph.inputs.items():
        meaning = _meaning(graph, value, angles, "position" in name.lower())
        meaning = meaning or named_meaning(name, dtype_of(value) in FLOATS)
        if meaning is not None:
            found[name] = meaning
    return found


def _meaning(graph: Graph, value: SSAValue, angles: set[Node], ordered: bool) -> Meaning | None:
    """What an input is for; ordered: its name says that it counts positions."""
    is_float = dtype_of(value) in FLOATS
    if dtype_of(value) == "i1":
        return Meaning("mask")
    seen = _Uses(graph, value, angles)
    if is_float:
        count = np.prod(shape_of(value), dtype=np.int64)
        batch = shape_of(value)[0] if shape_of(value) else 1
        return Meaning("time") if seen.turned and not seen.layers and count <= batch else None
    if seen.rows:
        below = min(seen.rows)
        return Meaning("positions" if ordered or seen.turned or seen.compared else "ids", below)
    if seen.turned or seen.compared:
        return Meaning("positions", min(seen.compared, default=FAR))
    return Meaning("mask") if seen.chosen else None


class _Uses:
    """What an input's numbers are used for: rows of tables they select, lengths of the ascending
    numbers they are compared with, whether they become angles, a choice, or go into layers."""

    def __init__(self, graph: Graph, value: SSAValue, angles: set[Node]) -> None:
        self.graph, self.angles = graph, angles
        self.rows: list[int] = []
        self.compared: list[int] = []
        self.turned = self.chosen = self.layers = False
        # A number that was added moves what the input itself may be.
        waiting, seen = [(value, 0)], {value}
        while waiting:
            value, offset = waiting.pop()
            for node in graph.users.get(value, ()):
                self._note(node, value, offset)
                shift = self._shift(node, value)
                if shift is not None and node.result not in seen:
                    seen.add(node.result)
                    waiting.append((node.result, offset + shift))

    def _note(self, node: Node, value: SSAValue, offset: int) -> None:
        if node.family in INDEXED and node.inputs.get("indices") is value:
            axis = 0 if node.family == "scatter" else node.call.integer("axis") or 0
            size = shape_of(node.inputs["x"])[axis] - offset
            if size > 0:
                self.rows.append(size)
        elif node in self.angles:
            self.turned = True
        elif node.family == "compare":
            self._compare(node, value, offset)
        elif node.family == "cast" and dtype_of(node.result) == "i1":
            self.chosen = True
        elif node.family in ("matmul", "conv2d"):
            self.layers = True
        elif node.family in ("elementwise_sub", "elementwise_mul"):
            self.chosen = self.chosen or dtype_of(value) in FLOATS

    def _compare(self, node: Node, value: SSAValue, offset: int) -> None:
        """With 0 or 1 it is a choice; with 0, 1, 2, … a position."""
        numbers = set(scalars(node).values())
        self.chosen = self.chosen or bool(numbers and numbers <= {0.0, 1.0})
        for other in node.operands:
            array = self.graph.constants.get(other)
            if other is value or array is None or array.size < 2:
                continue
            flat = np.unique(array)
            if flat.size > 1 and np.array_equal(flat, np.arange(flat.size) + flat[0]):
                self.compared.append(max(1, int(flat[-1]) + 1 - offset))

    def _shift(self, node: Node, value: SSAValue) -> int | None:
        """How far an operation moves the numbers of an input, if that is all it does."""
        if node.family in WAVES:
            return None
        if node in self.angles:
            return 0
        if node.family in THROUGH:
            choice = node.family == "select" and node.inputs.get("cond") is value
            return None if choice or dtype_of(node.result) == "i1" else 0
        if node.family != "elementwise_add":
            return None
        numbers = list(scalars(node).values())
        if not numbers:
            numbers = [
                float(array.reshape(-1)[0])
                for other in node.operands
                if (array := self.graph.constants.get(other)) is not None and np.ptp(array) == 0
            ]
        return int(numbers[0]) if numbers and float(numbers[0]).is_integer() else None
