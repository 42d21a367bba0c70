"""Angles: what sin and cos are taken of, where that comes from the inputs of a model.

A position of 4000 or a time of 999 times a frequency is an angle of hundreds of turns. Rounded to
bf16 it is off by radians, and the sine of it is noise. Such angles, and their sines, are computed in
float32 by the host; they are tables of a few rows. An angle that layers of the device compute is no
better than bf16 to begin with, and stays there.
"""

from __future__ import annotations

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, dtype_of, shape_of

WAVES = ("elementwise_sin", "elementwise_cos")
LAYERS = (
    *("conv2d", "gemma_attention", "rms_norm", "layer_norm", "softmax"),
    *("pool_max", "pool_avg", "pool_sum", "silu_gate"),
)
TERMS = 16  # of a product that makes angles of coordinates; with more of them it is a layer


def angles_of(graph: Graph) -> set[Node]:
    """Operations that are computed in float32: sin and cos of angles, and what makes the angles."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.family in WAVES and node not in found:
            behind = _behind(graph, node)
            found |= behind or set()
    return found


def _behind(graph: Graph, wave: Node) -> set[Node] | None:
    """All that a sine is computed from, with itself; None if layers are part of it."""
    seen, waiting = {wave}, list(wave.operands)
    while waiting:
        node = graph.definition.get(waiting.pop())
        if node is None or node in seen or dtype_of(node.result).startswith(("i", "ui")):
            continue
        if node.family in LAYERS or (node.family == "matmul" and not few_terms(node)):
            return None
        seen.add(node)
        waiting += node.operands
    return seen


def few_terms(node: Node) -> bool:
    """Whether a product mixes so few numbers that it is no layer."""
    lhs: SSAValue = node.inputs["lhs"]
    return shape_of(lhs)[-2 if node.call.flag("transpose_lhs") else -1] <= TERMS
