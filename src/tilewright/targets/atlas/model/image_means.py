"""Means of whole images: rows for products, or images of one pixel."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, shape_of
from tilewright.targets.atlas.model.image_layers import sizes_of


def mean_of(graph: Graph, value: SSAValue) -> tuple[SSAValue, bool, tuple[Node, ...]] | None:
    """The image whose mean over all pixels the value [B, C] (or [B, 1, 1, C]) is, whether its
    channels come first, and the operations in between."""
    shape = shape_of(value)
    if len(shape) == 4 and shape[1:3] == (1, 1) and graph.node_of(value, "reshape"):
        shape = (shape[0], shape[3])
    if len(shape) != 2:
        return None
    node, nodes = graph.definition.get(value), []
    if node is not None and node.family == "reshape":
        inner = graph.definition.get(node.operands[0])
        if inner is None or not _keeps_channels(inner, shape):
            return None
        nodes, node = [node], inner
    first = mean_order(node) if node is not None else None
    if node is None or first is None:
        return None
    return node.operands[0], first, (node, *nodes)


def _keeps_channels(node: Node, rows: Sequence[int]) -> bool:
    shape = shape_of(node.result)
    return shape in ((*rows, 1, 1), (rows[0], 1, 1, rows[1]))


def mean_order(node: Node) -> bool | None:
    """Whether channels come first in what the node takes the mean of over rows and columns; None
    if it does something else."""
    shape = shape_of(node.operands[0]) if node.operands else ()
    if len(shape) != 4:
        return None
    if node.family == "reduction_mean" and len(node.operands) == 1:
        axes = sorted(axis % 4 for axis in node.call.integers("axes") or ())
        return True if axes == [2, 3] else False if axes == [1, 2] else None
    if node.family != "pool_avg" or any(node.call.integers("padding") or ()):
        return None
    first = not (node.call.string("layout") or "").startswith("nhwc")
    whole = sizes_of(shape, first)[:2]
    return first if tuple(node.call.integers("kernel") or ()) == whole else None


def only_means(graph: Graph, node: Node) -> bool:
    """Whether a pooling is only read as rows of means."""
    if any(node.result is value for _, value in graph.outputs):
        return False
    users = graph.users.get(node.result, ())
    return bool(users) and all(mean_of(graph, user.result) is not None for user in users)
