"""What in a graph is a linear layer, with what belongs to it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, scalars, shape_of
from tilewright.targets.atlas.model.kernels import UNARY


@dataclass(frozen=True)
class Linear:
    """act(x @ weight + bias), as found in the graph."""

    x: SSAValue
    weight: np.ndarray  # [K, N]
    bias: np.ndarray | None
    activation: str | None
    nodes: tuple[Node, ...]  # the product first

    @property
    def name(self) -> str:
        return self.nodes[0].layer or "linear"


def canonical(shape: tuple[int, ...], collapse: bool = True) -> tuple[int, int, int]:
    """[B, M, C] of a tensor.

    Dimensions of size 1 count for nothing: 50x1x128 are 50 rows of one batch, where they would
    fill one row of 50 tiles. Without `collapse` the last dimension but one is the rows in any case.
    """
    whole = (1,) * (3 - len(shape)) + shape
    lead = [size for size in whole[:-1] if size != 1] if collapse else list(whole[:-1])
    return math.prod(lead[:-1]), lead[-1] if lead else 1, whole[-1]


def find_linear(graph: Graph, value: SSAValue, fuse: bool = True) -> Linear | None:
    """act(x @ weight + bias) that ends in the value, inner values used nowhere else."""
    nodes = []
    activation = bias = None
    node = graph.definition.get(value)
    if node is None:
        return None
    if fuse:
        name = unary_name(node)
        if (
            name in UNARY
            and len(node.operands) == 1
            and graph.used_once(node.operands[0])
            and node.reads_plainly()
        ):
            inner = graph.node_of(node.operands[0])
            if inner is not None and inner.family in ("matmul", "elementwise_add"):
                activation, node = name, inner
                nodes.append(graph.definition[value])
    if node.family == "elementwise_add" and len(node.operands) == 2:
        first, second = node.operands
        for x, other, index in ((first, second, 0), (second, first, 1)):
            row = graph.constants.get(other)
            product = graph.node_of(x, "matmul")
            if row is not None and product is not None and graph.used_once(x):
                columns = shape_of(node.result)[-1]
                along = [len(shape_of(node.result)) - 1] if columns != 1 else []
                if (
                    row.size == columns
                    and node.reads(1 - index) == along
                    and shape_of(x) == shape_of(node.result)
                    and node.reads_plainly(index)
                ):
                    bias = np.asarray(row, np.float32).reshape(-1)
                    nodes.append(node)
                    node = product
                    break
    part = None
    if node.family == "slice" and not nodes:
        part = column_slice(node)
        product = graph.node_of(node.operands[0]) if part is not None else None
        inner = find_linear(graph, node.operands[0], fuse) if product is not None else None
        if inner is None or inner.activation is not None or part is None:
            return None
        bias = None if inner.bias is None else inner.bias[part]
        return Linear(inner.x, inner.weight[:, part], bias, None, (*inner.nodes, node))
    if node.family != "matmul" or (activation and not nodes):
        return None
    lhs, rhs = node.inputs["lhs"], node.inputs["rhs"]
    weight = graph.constants.get(rhs)
    if weight is None or weight.ndim < 2 or math.prod(weight.shape[:-2]) != 1:
        return None
    if "acc" in node.inputs or node.call.flag("transpose_lhs"):
        return None
    matrix = np.asarray(weight, np.float32).reshape(weight.shape[-2], weight.shape[-1])
    if node.call.flag("transpose_rhs") or matrix.shape[0] != shape_of(lhs)[-1]:
        matrix = matrix.T
    return Linear(lhs, matrix, bias, activation, (node, *reversed(nodes)))


def find_residual(graph: Graph, node: Node, fuse: bool = True) -> tuple[Linear, SSAValue] | None:
    """linear + other, the linear's own result used nowhere else."""
    if not fuse or node.family != "elementwise_add" or len(node.operands) != 2:
        return None
    first, second = node.operands
    shape = shape_of(node.result)
    if first is second or any(_filled(shape_of(x)) != _filled(shape) for x in (first, second)):
        return None
    if not (node.reads_plainly(0) and node.reads_plainly(1)):
        return None
    for inner, other in ((second, first), (first, second)):
        if not graph.used_once(inner) or shape_of(inner) != shape:
            continue
        linear = find_linear(graph, inner, fuse)
        if linear is not None:
            return linear, other
    return None


def _filled(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without dimensions of size 1 in front."""
    while len(shape) > 2 and shape[0] == 1:
        shape = shape[1:]
    return shape


@dataclass(frozen=True)
class Leak:
    """x, or x times a slope where it is negative."""

    slope: float | None  # None: several, the other operand of `scaled`
    above: bool  # no slope is more than 1: the result is the larger of both
    compared: Node
    scaled: Node
    index: int  # of x among the operands of `scaled`


def find_leak(graph: Graph, node: Node) -> Leak | None:
    """A leaky relu that ends in the node: x where it is positive, else x times a slope, or slopes
    of its channels; at 0 both are the same."""
    if node.family != "select" or len(node.operands) != 3:
        return None
    compared = graph.node_of(node.operands[0], "compare")
    if compared is None or scalars(compared) != {"scalar_rhs": 0.0}:
        return None
    order = {"lt": (2, 1), "le": (2, 1), "gt": (1, 2), "ge": (1, 2)}
    places = order.get(compared.call.string("predicate") or "")
    if places is None:
        return None
    x, scaled = node.operands[places[0]], graph.node_of(node.operands[places[1]], "elementwise_mul")
    if compared.operands != [x] or scaled is None or scaled.operands.count(x) != 1:
        return None
    index = scaled.operands.index(x)
    plain = [node.reads_plainly(k) for k in range(3)]
    plain += [compared.reads_plainly(), scaled.reads_plainly(index)]
    slopes = _slopes(graph, scaled, index)
    if not all(plain) or slopes is None or not np.isfinite(slopes).all():
        return None
    if not slopes.all():  # 0 times infinity is no number, where the relu is infinity
        return None
    if slopes.size == 1:
        slope = float(slopes.reshape(-1)[0])
        return None if slope == 1 else Leak(slope, slope < 1, compared, scaled, index)
    if not (slopes <= 1).all() and not (slopes >= 1).all():
        return None  # neither the larger nor the smaller of both everywhere
    return Leak(None, bool((slopes <= 1).all()), compared, scaled, index)


def _slopes(graph: Graph, scaled: Node, index: int) -> np.ndarray | None:
    """The known numbers that a product multiplies its operand of this index by."""
    literals = list(scalars(scaled).values())
    if len(scaled.operands) == 1:
        return np.asarray(literals[:1], np.float64) if literals else None
    if literals or len(scaled.operands) != 2:
        return None
    known = graph.constants.get(scaled.operands[1 - index])
    return None if known is None else np.asarray(known, np.float64)


def unary_name(node: Node) -> str:
    """The operation of a node by its short name.

    The exact GELU is computed in its tanh form, which is never more than 0.0005 away from it.
    """
    if node.family == "gelu_erf":
        return "gelu_tanh"
    return node.family.removeprefix("elementwise_")


def column_slice(node: Node) -> slice | None:
    """The columns a slice takes, if it takes all of everything else."""
    offsets, sizes = node.call.integers("offsets"), node.call.integers("sizes")
    steps = node.call.integers("strides")
    shape = shape_of(node.operands[0])
    if offsets is None or sizes is None or (steps is not None and set(steps) != {1}):
        return None
    if any(offsets[:-1]) or tuple(sizes[:-1]) != shape[:-1]:
        return None
    return slice(offsets[-1], offsets[-1] + sizes[-1])
