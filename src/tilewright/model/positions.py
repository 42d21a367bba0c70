"""Positions: numbers that say where something is looked up, as sampling an image between its pixels does.

A coordinate of 100.3 is 100.5 in bf16: another pixel, or half of one instead of a third. What
coordinates and weights of neighbours are computed from is a few numbers per place, which the host
computes in float32; the numbers that are found there are the device's again. Where layers make
coordinates, only what follows the layers is exact.
"""

from __future__ import annotations

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.angles import few_terms
from tilewright.model.capture import Graph, Node, dtype_of

INDEXED = ("gather", "embedding", "scatter")
THROUGH = ("cast", "select", "compare", "clamp", "reshape", "slice", "concat", "transpose")


def positions_of(graph: Graph) -> set[Node]:
    """Operations on coordinates: what indices are computed from in floats, and what else is computed
    from nothing but that."""
    found: set[Node] = set()
    waiting = [
        value
        for node in graph.nodes
        for role, value in node.inputs.items()
        if node.family in INDEXED and role == "indices"
    ]
    while waiting:
        node = graph.definition.get(waiting.pop())
        if node is not None and node not in found and _is_simple(node):
            found.add(node)
            waiting += node.operands
    if not any(_is_float(node.result) for node in found):
        return set()
    for node in graph.nodes:
        made = [graph.definition.get(v) for v in node.operands if v not in graph.constants]
        if made and _is_simple(node) and all(one in found for one in made):
            found.add(node)
    return found


def _is_float(value: SSAValue) -> bool:
    return not dtype_of(value).startswith(("i", "ui"))


def _is_simple(node: Node) -> bool:
    """Whether a node only moves numbers or computes element by element, or mixes a few of them."""
    if node.family == "matmul":
        return few_terms(node)
    return node.family in THROUGH or node.family.startswith("elementwise_")
