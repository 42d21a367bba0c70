"""Which tensors of a model move without their padding.

A tensor of 3 rows lies in tiles of 32: moving all of a tile takes ten times as long. What a call
reads, it can read without; what it writes may stay unwritten beyond the edges, if all who read it
there leave that out as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.atlas.model.buffer_assignment import BufferAssignment
from tilewright.targets.atlas.model.launches import Launch, StoredTensor
from tilewright.tile.layouts import SIDE

PRODUCTS = ("gated", "linear", "project")
SEVERAL = (
    "together",
    "rows",
    "depth",
    "resident",
)  # options with loops around the loop that loads weights
# Options with which a call reads whole tiles also at the end of its rows.
WHOLE_TILES = ("together", "resident", "stacked")
MUCH_PADDING = 1 / 60  # of the rows of a tensor
# Kernels that read whole tiles, so that they can leave out what lies beyond an edge.
READ_TILES = (
    "attention", "attention_linear", "copy", "gated", "linear", "move", "norm", "pointwise", "product", "project",
    "quantise", "recurrent", "reduce", "residue", "softmax", "split_heads",
)  # fmt: skip


@dataclass(frozen=True)
class Moves:
    """unwritten: results whose padding may be anything in DRAM. one_way: tensors that calls only read
    from DRAM, or only write to it."""

    unwritten: frozenset[StoredTensor]
    one_way: frozenset[StoredTensor]

    @staticmethod
    def of(calls: Sequence[Launch], places: BufferAssignment) -> Moves:
        read = {
            tensor
            for index, call in enumerate(calls)
            for tensor in call.operands.values()
            if not places.on_chip(tensor, index)
        }
        written = {tensor for call in calls for tensor in call.results.values()}
        one_way = {t for t in read ^ written if t.layout.arrangement is None}
        return Moves(unwritten(calls, places), frozenset(one_way))

    def inside(self, call: Launch, parameter: str, tensor: StoredTensor) -> bool:
        """Whether a call moves only what lies inside a tensor's edges. That takes transfers of their
        own: in products, which have many beside them, only where padding is much, or is loaded
        again with all weights."""
        if tensor in self.unwritten:
            return True
        if parameter in call.results:
            return tensor in self.one_way
        if call.kernel not in PRODUCTS:
            return tensor in self.one_way or tensor.kind not in ("weight", "constant")
        if tensor.kind == "weight":
            return not any(call.options.get(option) for option in SEVERAL)
        return _has_much_padding(tensor)


def _has_much_padding(tensor: StoredTensor) -> bool:
    rows = tensor.layout.matrix[0]
    return -rows % SIDE >= MUCH_PADDING * rows


def unwritten(calls: Sequence[Launch], places: BufferAssignment) -> frozenset[StoredTensor]:
    """Results with much padding: nobody here looks at it, and the host never does."""
    readers: dict[StoredTensor, list[Launch]] = {}
    for call in calls:
        for tensor in call.operands.values():
            readers.setdefault(tensor, []).append(call)
    found = {
        call.output
        for call in calls
        if call.output.kind in ("activation", "input", "output")  # loops write inputs again
        and call.output.layout.arrangement is None
        and call.output.layout.order in ("tiles", "panels", "rows")
        and _has_much_padding(call.output)
        and all(reader.kernel in READ_TILES for reader in readers.get(call.output, ()))
    }

    def spreads(reader: Launch) -> bool:
        """Whether what is beyond an edge gets to where somebody looks at it."""
        takes_all = any(reader.options.get(option) for option in WHOLE_TILES)
        return takes_all and (reader.output not in found or reader.output in places.stays)

    while seen := {t for t in found if any(map(spreads, readers.get(t, ())))}:
        found -= seen
    return frozenset(found)
