"""Batches that do not fit, computed part by part along their leading axis.

before: product A -> norm -> product B, each over all images or rows
after:  for every part: A of this part, its norm, its B

A run of groups is cut when every element of a part depends on the same part of the values it reads:
the first axis with a size is one that no operation mixes. Parts are contiguous, so what lies whole
elsewhere is read and written in place, and reshapes need no care. What only the run itself reads
is kept for one part. No sum changes its order, so the bits are those of whole values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import gcd

from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.program import Access, Node, Program, Shape, Value

ROWS = frozenset(["softmax", "layer_norm", "rms_norm", "cumsum", "sort", "argsort"])
SEARCHES = frozenset(["argmax", "argmin"])
IMAGES = frozenset(["conv", "q_conv", "pool"])
REDUCTIONS = frozenset(["reduce", "q_mean"])
AT_THEIR_INDEX = frozenset(["iota"])  # elements that are numbers of their place
BOTH, HEAD, ROW = "both", "head", "row"  # what a part is of, where heads are cut in rows


@dataclass(eq=False)
class Slices:
    """Groups `first` to `last` (inclusive), carried out for one part after the other."""

    first: int
    last: int
    turns: int  # parts
    kept: list[Value]  # whole values that others read
    groups: list[Group] = field(default_factory=list)  # on one part
    views: dict[Value, Value] = field(default_factory=dict)  # a part -> the stored value it is of
    readers: dict[Value, int] = field(default_factory=dict)  # value of one part -> its last reader
    parts_of_head: int = 0  # where heads are cut in rows (slicing_rows.py)
    by: dict[Value, str] = field(default_factory=dict)  # a part -> what it is of, there
    sink: Group | None = None

    @property
    def inner(self) -> list[Value]:
        """Values of which only one part is kept."""
        return list(self.readers)


class Unfit(Exception):
    """A run of groups that cannot be cut."""


def leading(shape: tuple[int, ...]) -> int:
    """The first axis that has a size."""
    found = next((axis for axis, size in enumerate(shape) if size > 1), None)
    if found is None:
        raise Unfit
    return found


def find_slices(program: Program, groups: list[Group], first: int, last: int) -> Slices | None:
    """The finest cut of a run of groups, if it can be cut."""
    try:
        return Cutter(program, groups, first, last).run()
    except Unfit:
        return None


def coarser(program: Program, groups: list[Group], cut: Slices) -> list[Slices]:
    """The same run in fewer parts, the fewest first."""
    counts = [n for n in range(2, cut.turns) if cut.turns % n == 0]
    found = (Cutter(program, groups, cut.first, cut.last, n) for n in counts)
    return [cutter.run() for cutter in found]


class Cutter:
    """Cuts a run of groups along the first axis with a size."""

    def __init__(
        self, program: Program, groups: list[Group], first: int, last: int, turns: int = 0
    ) -> None:
        self.definitions = program.definitions()
        self.first, self.last = first, last
        self.groups = groups[first : last + 1]
        self.made = {v for g in self.groups for v in g.members}
        later = [v for g in groups[last + 1 :] for v in g.reads()] + program.outputs
        outside = {source_of(v, self.definitions) for v in later}
        kept = [v for g in self.groups for v in g.stored if v in outside]
        self.turns = turns
        self.region = Slices(first, last, turns, kept)
        self.cut: dict[Value, Value] = {}

    def run(self) -> Slices:
        wanted = [self.cut_inputs(node) for group in self.groups for node in group.nodes]
        values = [v for row in wanted for v in row]
        values += [node.output for group in self.groups for node in group.nodes]
        common = 0
        for value in values:
            common = gcd(common, value.shape[leading(value.shape)])
        self.turns = self.region.turns = self.turns or common
        if self.turns < 2 or common % self.turns:
            raise Unfit
        return self.finish(wanted)

    def finish(self, wanted: list[list[Value]]) -> Slices:
        """The run on parts; `wanted` are the operands of every node that are cut."""
        rows = iter(wanted)
        for index, group in enumerate(self.groups):
            nodes = [self.on_part(node, next(rows)) for node in group.nodes]
            stored = [self.cut[v] for v in group.stored]
            self.region.groups.append(Group(nodes[0], nodes, stored))
            for value in group.reads():
                source = source_of(value, self.definitions)
                if source in self.region.readers:
                    self.region.readers[source] = self.first + index
            for value in group.stored:
                self.region.views[self.cut[value]] = value
                if value not in self.region.kept:
                    self.region.readers[value] = self.first + index
        return self.region

    def part(self, value: Value) -> Value:
        """The value of one part."""
        if value not in self.cut:
            shape, name = self.part_shape(value), f"{value.name}_part"
            self.cut[value] = Value(name, shape, value.dtype, None, value.scale, value.zero)
        return self.cut[value]

    def part_shape(self, value: Value) -> Shape:
        axis = leading(value.shape)
        return tuple(n // self.turns if k == axis else n for k, n in enumerate(value.shape))

    def on_part(self, node: Node, cut: list[Value]) -> Node:
        inputs = [self.part(v) if v in cut else v for v in node.inputs]
        for whole, value in zip(node.inputs, inputs, strict=True):
            if whole in cut and whole not in self.made:
                self.region.views[value] = source_of(whole, self.definitions)
        return replace(node, inputs=inputs, output=self.part(node.output))

    def cut_inputs(self, node: Node) -> list[Value]:
        """Operands of which a part needs the same part only; the others must come from outside."""
        found = self.elementwise(node) if node.elementwise else self.other(node)
        for value in node.inputs:
            if value not in found and source_of(value, self.definitions) in self.made:
                raise Unfit
        return found

    def elementwise(self, node: Node) -> list[Value]:
        axis = leading(node.output.shape)
        if node.kind in AT_THEIR_INDEX:
            raise Unfit
        found, whole = [], []
        for value, access in zip(node.inputs, node.accesses, strict=True):
            (found if self.follows(value, access, axis) else whole).append(value)
        if set(found) & set(whole):
            raise Unfit
        return found

    def follows(self, value: Value, access: Access, axis: int) -> bool:
        """Whether an operand is read along the axis that is cut."""
        along = [k for k, by in enumerate(access) if by == axis]
        if not along or value.elements == 1:
            return False
        if along != [leading(value.shape)]:
            raise Unfit
        return True

    def other(self, node: Node) -> list[Value]:
        x, y = node.inputs[0], node.output
        axis, made = leading(x.shape), leading(y.shape)
        at = node.attributes
        if x.shape[axis] != y.shape[made] or (x in node.inputs[1:] and node.kind != "concat"):
            raise Unfit
        if node.kind in IMAGES:
            return self.image(node, axis, made)
        if node.kind in REDUCTIONS:
            if axis in at["axes"]:
                raise Unfit
            return [x]
        if node.kind in SEARCHES and at["axis"] != axis:
            return [x]
        if node.kind in ROWS and axis == made < len(x.shape) - 1:
            return [x]
        if node.kind == "batch_matmul" and axis == made < 2:
            return [x, node.inputs[1]] if axis == 0 else [x]
        if node.kind == "transpose" and at["permutation"][made] == axis:
            return [x]
        if axis != made:
            raise Unfit
        if node.kind == "slice" and at["offsets"][axis] == 0 and at["strides"][axis] == 1:
            return [x]
        if node.kind == "pad" and at["low"][axis] == 0:
            return [x]
        if node.kind == "concat" and at["axis"] != axis:
            if any(leading(v.shape) != axis or v.data is not None for v in node.inputs):
                raise Unfit
            return list(node.inputs)
        raise Unfit

    def image(self, node: Node, axis: int, made: int) -> list[Value]:
        """Images of a batch, or rows and pixels that a window of one element looks at."""
        at, x = node.attributes, node.inputs[0]
        if axis != made or axis == 3 or ("order" in at and (axis or at["order"][0])):
            raise Unfit
        if axis:
            size = at["kernel"] if node.kind == "pool" else node.inputs[1].shape[:2]
            spatial = axis - 1
            before, after = at["padding"][spatial], at["padding"][spatial + 2]
            if size[spatial] != 1 or at["strides"][spatial] != 1 or before or after:
                raise Unfit
        return [x]
