"""Which rows share tiles: those of one matrix of a batch, or those of all matrices.

before: 3x8x17 in three tiles of 8 rows each
after:  the same in one tile of 24 rows

All rows can lie below each other where operations work element by element or row by row. What needs
matrices of their own (attention, recurrent layers, products of two activations, sums down a matrix)
has them: then a model is lowered in the other way too, and the way is taken in which less is left to
the host and tensors are smaller. Images are stored in their own way; linear layers beside them, over
the channels of every pixel, see rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewright.model.capture import Graph, shape_of
from tilewright.targets.atlas.kernels.images import Image
from tilewright.targets.atlas.model.calls import Tensor
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
    if any(value in apart.recurrent for value in values):
        return False
    if any(value in apart.images for value in values):  # only what is beside images has rows
        tensors = _rows(apart.result)
        few = (_matrices(t.layout.shape) for t in tensors if len(t.layout.shape) > 2)
    else:
        few = (apart.canonical(shape)[:2] for shape in map(shape_of, values) if shape)
    return any(batch > 1 and math.ceil(rows / 32) * 32 * SMALLER > rows for batch, rows in few)


def _matrices(shape: tuple[int, ...]) -> tuple[int, int]:
    """How many matrices there are, and their rows."""
    return math.prod(shape[:-2]), shape[-2]


def _rows(lowered: Lowered) -> set[Tensor]:
    """What is computed and is no image."""
    tensors = {t for call in lowered.calls for t in call.tensors.values()}
    return {t for t in tensors if t.kind != "weight" and t.layout.arrangement is None}


def _bytes(lowered: Lowered) -> int:
    """Bytes of all that is computed, and of constants; beside images, which are the same both ways,
    only of rows."""
    tensors = {t for call in lowered.calls for t in call.tensors.values()}
    if any(isinstance(t.layout.arrangement, Image) for t in tensors):
        tensors = _rows(lowered)
    return sum(tensor.layout.bytes for tensor in tensors)
