"""Heads that do not fit one by one, computed a few of their rows at a time.

before: scores = q k^T of every head, softmax, times v
after:  for every head and part of its rows: these rows of the scores, their softmax, times v

All values made in such a run are [heads, rows, ...], and no operation mixes heads or rows. What is
read may lie along both (`both`), belong to a head as a whole (`head`: keys and values), or be the
same for all heads (`row`: masks); the latter two come from outside of the run.
"""

from __future__ import annotations

from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.program import Access, Node, Program, Shape, Value
from tilewright.targets.coral.slicing import (
    AT_THEIR_INDEX,
    BOTH,
    HEAD,
    REDUCTIONS,
    ROW,
    ROWS,
    SEARCHES,
    Cutter,
    Slices,
    Unfit,
)


def find_head_rows(program: Program, groups: list[Group], first: int, last: int) -> Slices | None:
    """The finest cut of a run of groups over heads into rows of heads, if it can be cut so."""
    try:
        return _RowCutter(program, groups, first, last, 0).run()
    except Unfit:
        return None


def more_head_rows(program: Program, groups: list[Group], cut: Slices) -> list[Slices]:
    """The same run with more rows at a time, the most first."""
    counts = [n for n in range(2, cut.parts_of_head) if cut.parts_of_head % n == 0]
    return [_RowCutter(program, groups, cut.first, cut.last, n).run() for n in counts]


class _RowCutter(Cutter):
    def __init__(
        self, program: Program, groups: list[Group], first: int, last: int, parts: int
    ) -> None:
        super().__init__(program, groups, first, last)
        shape = self.groups[0].root.output.shape
        if len(shape) < 3 or shape[0] < 2 or shape[1] < 2:
            raise Unfit
        self.heads, self.rows = shape[:2]
        self.parts = parts or self.rows
        self.turns = self.region.turns = self.heads * self.parts
        self.region.parts_of_head = self.parts
        self.kinds: dict[Value, str] = {}

    def run(self) -> Slices:
        wanted = [self.cut_inputs(node) for group in self.groups for node in group.nodes]
        for group in self.groups:
            for node in group.nodes:
                self.classify(node.output, BOTH)
        return self.finish(wanted)

    def classify(self, value: Value, kind: str) -> None:
        if kind == BOTH and value.shape[:2] != (self.heads, self.rows):
            raise Unfit
        if kind != BOTH and source_of(value, self.definitions) in self.made:
            raise Unfit
        if self.kinds.setdefault(value, kind) != kind:
            raise Unfit

    def part_shape(self, value: Value) -> Shape:
        kind, rows = self.kinds[value], self.rows // self.parts
        if kind == BOTH:
            return (1, rows, *value.shape[2:])
        axis = next(k for k, n in enumerate(value.shape) if n > 1)
        size = 1 if kind == HEAD else rows
        return tuple(size if k == axis else n for k, n in enumerate(value.shape))

    def on_part(self, node: Node, cut: list[Value]) -> Node:
        made = super().on_part(node, cut)
        for whole in cut:
            self.region.by[self.part(whole)] = self.kinds[whole]
        return made

    def elementwise(self, node: Node) -> list[Value]:
        if node.kind in AT_THEIR_INDEX:
            raise Unfit
        found, whole = [], []
        for value, access in zip(node.inputs, node.accesses, strict=True):
            kind = self.along(value, access)
            if kind is None:
                whole.append(value)
                continue
            self.classify(value, kind)
            found.append(value)
        if set(found) & set(whole):
            raise Unfit
        return found

    def along(self, value: Value, access: Access) -> str | None:
        """How an operand of an elementwise node follows the cut."""
        places = {dim: k for k, dim in enumerate(access) if dim in (0, 1) and value.shape[k] > 1}
        if not places:
            return None
        first = min(places.values())
        if any(n > 1 for n in value.shape[:first]):
            raise Unfit
        if set(places) == {0, 1}:
            if (places[0], places[1]) != (0, 1):
                raise Unfit
            return BOTH
        return HEAD if 0 in places else ROW

    def other(self, node: Node) -> list[Value]:
        x, at, kind = node.inputs[0], node.attributes, node.kind
        if len(x.shape) < 3 or (x in node.inputs[1:] and kind != "concat"):
            raise Unfit
        self.classify(x, BOTH)
        if kind == "batch_matmul":
            self.classify(node.inputs[1], HEAD)
            return list(node.inputs)
        alone = (
            kind in ROWS
            or (kind in REDUCTIONS and min(at["axes"]) > 1)
            or (kind in SEARCHES and at["axis"] > 1)
            or (kind == "transpose" and tuple(at["permutation"][:2]) == (0, 1))
            or (kind == "slice" and at["offsets"][:2] == (0, 0) and at["strides"][:2] == (1, 1))
            or (kind == "pad" and tuple(at["low"][:2]) == (0, 0))
        )
        if alone:
            return [x]
        if kind == "concat" and at["axis"] > 1 and all(v.data is None for v in node.inputs):
            for value in node.inputs:
                self.classify(value, BOTH)
            return list(node.inputs)
        raise Unfit
