"""Which rows share tiles: those of one matrix of a batch, or those of all matrices.

before: 3x8x17 in three tiles of 8 rows each
after:  the same in one tile of 24 rows

All rows can lie below each other where operations work element by element or row by row. What needs
matrices of their own (attention, images, recurrent layers, products of two activations, sums down a
matrix) has them: then a model is lowered in the other way too, and the way is taken in which less is
left to the host and tensors are smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.model.capture import Graph, shape_of
from tilewright.targets.atlas.model.lowering import Lowered, Lowering

SMALLER = 0.75  # of the bytes of tensors, at most, so that another layout is worth it


def lower(graph: Graph, make: Callable[[bool], Lowering]) -> Lowered:
    """The calls of a model in the better of both layouts; make: lowers with rows merged, or not."""
    apart = make(False)
    usual = apart.run()
    if not _may_gain(graph, apart):
        return usual
    merged = make(True).run()
    better = len(merged.host) <= len(usual.host) and len(merged.inputs) <= len(usual.inputs)
    return merged if better and _bytes(merged) <= SMALLER * _bytes(usual) else usual


def _may_gain(graph: Graph, apart: Lowering) -> bool:
    """Whether some batch has matrices of few rows, and nothing is known to need them apart."""
    values = [node.result for node in graph.nodes]
    if any(node.family == "gemma_attention" for node in graph.nodes):
        return False
    if any(value in apart.images or value in apart.recurrent for value in values):
        return False
    few = (apart.canonical(shape) for shape in map(shape_of, values) if shape)
    return any(batch > 1 and math.ceil(rows / 32) * 32 * SMALLER > rows for batch, rows, _ in few)


def _bytes(lowered: Lowered) -> int:
    """Bytes of all that is computed, and of constants."""
    tensors = {t for call in lowered.calls for t in call.tensors.values()}
    return sum(tensor.layout.bytes for tensor in tensors)
