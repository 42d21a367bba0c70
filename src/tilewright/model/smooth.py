"""Scales moved from activations into weights, channel by channel: the same function, easier to round.

before: n = rms_norm(x) * g;             y = n @ w          n has a few channels of large values
after:  n' = rms_norm(x) * (g / s);      y = n' @ (s * w)   n' = n / s, what is large is in the weights

A channel's scale is its largest activation to the power alpha, over its largest weight to the power
1 - alpha (Xiao et al., SmoothQuant), as the nearest power of two. Multiplying by powers of two rounds nothing,
so every number of the model in floats is the same as before or 1/s of it, to the last bit.

Scales move out of three kinds of values that nothing but products with constant weights reads: norms with
a constant weight, results of products with constant weights behind which there is a bias or relu at
most, and gates whose one factor is such a result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import (
    DenseIntOrFPElementsAttr,
    SSAValue,
    TensorType,
    UnitAttr,
    arith,
)
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import watch
from tilewright.model.capture import Graph, Node, capture, dtype_of, shape_of
from tilewright.model.quantise_products import transposes, weight_axis
from tilewright.model.weights import named_weights, weight_constant, weight_of
from tilewright.reference.dtypes import numpy_type
from tilewright.transforms.canonicalize import remove_dead

SMOOTHED = "tw.smoothed"  # attribute of a norm whose weight is not to be moved into products
FLOATS = ("f32", "bf16", "f64")  # f16 could leave its range
SMALLEST = 2.0**-20  # of the largest, what channels count as at least
FURTHEST = 30  # the largest exponent of a scale
Arrays = Mapping[str, np.ndarray]


@dataclass
class Smoothed:
    """The model with scales moved, and the operations whose values are 1/s of what they were."""

    model: Imported
    alpha: float
    values: list[str] = field(default_factory=list)  # "layer: family", as steps name their sources

    def to_json(self) -> dict[str, Any]:
        return {"alpha": self.alpha, "values": self.values}


@dataclass(frozen=True)
class _Place:
    """A value whose channels are scaled: constants that are divided by scales (with the dimension
    that counts channels), products that read it, and operations whose values change with it."""

    value: SSAValue
    divided: tuple[tuple[Node, SSAValue, int], ...]
    products: tuple[Node, ...]
    changed: tuple[Node, ...]


def smooth(model: Imported, samples: Sequence[Arrays], alpha: float) -> Smoothed:
    """The simplified model with scales moved into weights. The given model stays as it is."""
    copy = replace(model, module=model.module.clone(), weights=dict(model.weights))
    graph = capture(copy)
    places = [place for node in graph.nodes if (place := _place(node, graph)) is not None]
    seen = {place.value: _Channels() for place in places}
    if seen:
        watch(copy, {value: channels.observe for value, channels in seen.items()}, samples)
    result = Smoothed(copy, alpha)
    writer = _Writer(copy, graph)
    scales = [_scales(writer, place, seen[place.value].largest, alpha) for place in places]
    # A norm that keeps its weight costs time: where no layer of a kind gains from it, none does.
    gaining = {_kind(p) for p, found in zip(places, scales, strict=True) if (found != 1).any()}
    for place, found in zip(places, scales, strict=True):
        if _kind(place) in gaining and writer.move(place, found):
            result.values += [
                f"{node.layer or node.family}: {node.family}" for node in place.changed
            ]
    remove_dead(copy.module)
    used = {*named_weights(copy.module), *copy.state}
    copy.weights = {name: array for name, array in copy.weights.items() if name in used}
    return result


def _kind(place: _Place) -> tuple[str, str]:
    """What places of identical layers have in common: family, and name without numbers."""
    last = place.changed[-1]
    return last.family, re.sub(r"\d+", "*", last.layer)


@dataclass
class _Channels:
    """The largest magnitude of every channel."""

    largest: np.ndarray = field(default_factory=lambda: np.zeros(1))

    def observe(self, array: np.ndarray) -> None:
        sizes = np.abs(np.asarray(array, np.float64)).reshape(-1, array.shape[-1])
        sizes = np.where(np.isfinite(sizes), sizes, 0)
        self.largest = np.maximum(self.largest, sizes.max(0, initial=0))


# --- where scales can move ----------------------------------------------------------------


def _place(node: Node, graph: Graph) -> _Place | None:
    """The value of a node, if scales of its channels can move into the products that read it."""
    value = node.result
    users = graph.users.get(value, ())
    if dtype_of(value) not in FLOATS or any(value is end for _, end in graph.outputs):
        return None
    if not users or not all(_multiplies(user, value, graph) for user in users):
        return None
    made = _made_of(node, graph)
    if made is None:
        return None
    divided, changed = made
    return _Place(value, tuple(divided), tuple(users), tuple(changed))


def _multiplies(user: Node, value: SSAValue, graph: Graph) -> bool:
    """Whether a node is a product of the rows of a value with constant weights."""
    return (
        user.family == "matmul"
        and user.inputs["lhs"] is value
        and user.operands.count(value) == 1
        and user.inputs["rhs"] in graph.constants
        and dtype_of(user.inputs["rhs"]) in FLOATS
        and len(shape_of(user.inputs["rhs"])) == 2
        and not transposes(user)[0]
    )


Made = tuple[list[tuple[Node, SSAValue, int]], list[Node]]


def _made_of(node: Node, graph: Graph) -> Made | None:
    """The constants that a value's channels are multiples of, and the operations in between."""
    if node.family in ("rms_norm", "layer_norm"):
        rank = len(shape_of(node.result))
        rows = [node.inputs[role] for role in ("weight", "bias") if role in node.inputs]
        if "weight" not in node.inputs or node.call.axis(rank) != rank - 1:
            return None
        if not all(_is_row(row, node, graph) for row in rows):
            return None
        return [(node, row, len(shape_of(row)) - 1) for row in rows], [node]
    if node.family == "silu_gate":
        return _through(node, node.operands.index(node.inputs["up"]), graph)
    if node.family == "elementwise_relu":
        return _through(node, 0, graph)
    return _product(node, graph)


def _through(node: Node, index: int, graph: Graph) -> Made | None:
    """What an operand is made of, where the node's result is a multiple of it channel by channel."""
    value = node.operands[index]
    before = graph.definition.get(value)
    if before is None or not node.reads_plainly(index) or not graph.used_once(value):
        return None
    made = _product(before, graph)
    return None if made is None else (made[0], [*made[1], node])


def _product(node: Node, graph: Graph) -> Made | None:
    """A product with constant weights, perhaps with a bias behind it."""
    if node.family == "elementwise_add":
        rows = [value for value in node.operands if _is_row(value, node, graph)]
        others = [value for value in node.operands if value not in rows]
        if len(rows) != 1 or len(others) != 1 or not graph.used_once(others[0]):
            return None
        before = graph.definition.get(others[0])
        if before is None or not node.reads_plainly(node.operands.index(others[0])):
            return None
        if node.reads(node.operands.index(rows[0])) != [len(shape_of(node.result)) - 1]:
            return None
        made = _product(before, graph) if before.family == "matmul" else None
        bias = (node, rows[0], len(shape_of(rows[0])) - 1)
        return None if made is None else ([*made[0], bias], [*made[1], node])
    if node.family != "matmul" or set(node.inputs) - {"lhs", "rhs", "bias"}:
        return None
    weight, bias = node.inputs["rhs"], node.inputs.get("bias")
    if weight not in graph.constants or len(shape_of(weight)) != 2:
        return None
    divided = [(node, weight, weight_axis(node))]
    if bias is not None:
        if not _is_row(bias, node, graph):
            return None
        divided.append((node, bias, len(shape_of(bias)) - 1))
    return divided, [node]


def _is_row(value: SSAValue, node: Node, graph: Graph) -> bool:
    """Whether a value is a constant with a number for each channel of a node's result."""
    shape = shape_of(value)
    return (
        value in graph.constants
        and bool(shape)
        and shape[-1] == shape_of(node.result)[-1] == int(np.prod(shape))
        and dtype_of(value) in FLOATS
    )


# --- which scales, and moving them --------------------------------------------------------


def _scales(writer: _Writer, place: _Place, largest: np.ndarray, alpha: float) -> np.ndarray:
    """One power of two for each channel."""
    weights = np.zeros(shape_of(place.value)[-1])
    for node in place.products:
        content = np.abs(writer.content(node, node.inputs["rhs"]))
        rows = np.moveaxis(content, 1 - weight_axis(node), 0)
        weights = np.maximum(weights, rows.max(1, initial=0))
    if not largest.max(initial=0) > 0 or not weights.max(initial=0) > 0:
        return np.ones_like(weights)
    a = np.log2(np.maximum(largest / largest.max(), SMALLEST))
    w = np.log2(np.maximum(weights / weights.max(), SMALLEST))
    exponents = np.rint(alpha * a - (1 - alpha) * w)
    exponents -= np.rint(np.median(exponents))
    return 2.0 ** np.clip(exponents, -FURTHEST, FURTHEST)


class _Writer:
    """Puts scaled constants in place of those that operations read.

    A constant may be scaled twice, as the weights of a product are whose operand and result both
    are: places name it as it was captured, and what stands there now is scaled further.
    """

    def __init__(self, model: Imported, graph: Graph) -> None:
        self.model, self.graph = model, graph
        self.captured = {node: list(node.op.operands) for node in graph.nodes}

    def content(self, node: Node, value: SSAValue) -> np.ndarray:
        """What a node reads now in place of a constant."""
        now = node.op.operands[self.captured[node].index(value)]
        return np.asarray(self.graph.constants[now], np.float64).reshape(shape_of(now))

    def move(self, place: _Place, scales: np.ndarray) -> bool:
        """Divide what makes the value, multiply what reads it; nothing where that would round."""
        changes = [(node, value, axis, 1 / scales) for node, value, axis in place.divided]
        for node in place.products:
            changes.append((node, node.inputs["rhs"], 1 - weight_axis(node), scales))
        made = []
        for node, value, axis, factors in changes:
            old = self.content(node, value)
            spread = factors.reshape([-1 if d == axis else 1 for d in range(old.ndim)])
            with np.errstate(over="ignore"):
                new = (old * spread).astype(numpy_type(dtype_of(value)))
            if not np.array_equal(new.astype(np.float64) / spread, old):
                return False
            made.append((node, value, new))
        for node, value, new in made:
            self._put(node, value, new)
        last = place.changed[-1]
        if last.family in ("rms_norm", "layer_norm"):
            last.op.attributes[SMOOTHED] = UnitAttr()
        return True

    def _put(self, node: Node, value: SSAValue, new: np.ndarray) -> None:
        index, kind, base = self.captured[node].index(value), value.type, weight_of(value)
        assert isinstance(kind, TensorType)
        if base is None:  # written in the text, and small
            numbers = new.astype(np.float64).reshape(-1).tolist()
            constant = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, numbers), kind)
        else:
            name, count = f"{base}.smooth", 1
            while name in self.model.weights:
                count += 1
                name = f"{base}.smooth{count}"
            self.model.weights[name] = new
            constant = weight_constant(name, kind)
        constant.results[0].name_hint = value.name_hint
        block = node.op.parent
        assert block is not None
        block.insert_op_before(constant, node.op)
        node.op.operands[index] = constant.results[0]
        self.graph.constants[constant.results[0]] = new
