"""Maps that do not fit, computed row by row: sliding windows with folded storage.

before: conv A -> conv B -> add, each over a whole image
after:  for every step: the next rows of A, then of B, then of the sum

A region is a run of groups over images. At each step every value in it gets `rate` new rows; a
consumer that looks ahead by its kernel lags behind by `delay` rows. Only the rows that somebody
still reads are kept; they move up when new ones come. Rows outside of an image hold its padding.
No row is computed twice and no sum changes its order, so the bits are those of whole images.
The images of a batch take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.program import Access, Node, Program, Value, identity

WINDOWS = frozenset(["conv", "q_conv", "pool"])
REDUCTIONS = frozenset(["reduce", "q_mean"])


@dataclass(eq=False)
class Rows:
    """The rows of a value that a region keeps."""

    value: Value
    rate: int  # new rows per step
    delay: int  # the newest row after step t is (t + 1) * rate - delay - 1
    capacity: int = 0
    order: tuple[int, ...] = (0, 1, 2, 3)  # how the whole value lies, for those from outside

    @property
    def image(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        _, height, width, channels = (self.value.shape[p] for p in self.order)
        return height, width, channels

    @property
    def row(self) -> int:
        """Elements of a row."""
        return self.image[1] * self.image[2]

    @property
    def bytes(self) -> int:
        return self.capacity * self.row * (self.value.bytes // self.value.elements)

    @property
    def padding(self) -> int:
        """What a byte of a row outside of the image holds."""
        return self.value.zero & 0xFF if self.value.scale is not None else 0


@dataclass(eq=False)
class Region:
    """Groups `first` to `last` (inclusive), carried out `steps` times on a few rows each."""

    first: int
    last: int
    steps: int
    rows: dict[Value, Rows]
    fetched: list[Value]  # images from outside
    kept: list[Value]  # whole images that others read
    turns: int = 1  # images of the batch
    groups: list[Group] = field(default_factory=list)  # on rows
    sink: Group | None = None  # a mean or sum over the image, the last group
    sink_read: tuple[Value, int] | None = None  # the image it sums, and its delay
    views: dict[Value, tuple[Value, int]] = field(default_factory=dict)  # of rows -> image, row

    @property
    def buffer_bytes(self) -> int:
        return sum(-(-rows.bytes // 16) * 16 for rows in self.rows.values())


class _Unfit(Exception):
    """A run of groups that cannot be streamed."""


def find_region(program: Program, groups: list[Group], first: int, last: int) -> Region | None:
    """The region of a run of groups, if rows can flow through all of them."""
    try:
        return _Finder(program, groups, first, last).run()
    except _Unfit:
        return None


def _window(group: Group) -> tuple[int, int, int]:
    """Rows a group's root reads for one of its rows: extent, stride, and how far above."""
    root = group.root
    if root.kind not in WINDOWS:
        return 1, 1, 0
    at = root.attributes
    height = at["kernel"][0] if root.kind == "pool" else root.inputs[1].shape[0]
    return (height - 1) * at["dilations"][0] + 1, at["strides"][0], at["padding"][0]


class _Finder:
    def __init__(self, program: Program, groups: list[Group], first: int, last: int) -> None:
        self.program = program
        self.definitions = program.definitions()
        self.first, self.last = first, last
        self.groups = groups[first : last + 1]
        self.made = {v for g in self.groups for v in g.members}
        self.rows: dict[Value, Rows] = {}
        self.fetched: list[Value] = []
        later = [v for g in groups[last + 1 :] for v in g.reads()] + program.outputs
        outside = {source_of(v, self.definitions) for v in later}
        reshaped = {n.inputs[0] for n in program.nodes if n.kind == "reshape"}
        self.kept = [v for g in self.groups for v in g.stored if v in outside]
        if any(v in reshaped and v not in self.kept for v in self.made):
            raise _Unfit

    def run(self) -> Region:
        sink = self.groups[-1] if self.groups[-1].root.kind in REDUCTIONS else None
        reads = [self.image_reads(group) for group in self.groups]
        rates = self.rates(reads)
        steps = delay = 0
        turns = self.groups[0].root.output.shape[0]
        for group, read in zip(self.groups, reads, strict=True):
            extent, stride, above = _window(group)
            rate = rates[group]
            delay = 0
            for value in read:
                rows = self.rows[value]
                delay = max(delay, -(-(rows.delay + extent - stride - above) // stride))
            for value in read:
                rows = self.rows[value]
                rows.capacity = max(
                    rows.capacity, rows.rate, rows.rate - rows.delay + delay * stride + above
                )
            if group is sink:
                height = group.root.inputs[0].shape[1]
                steps = max(steps, -(-(height + delay) // rate))
                break
            for value in group.stored:
                self.rows[value] = Rows(value, rate, delay, rate)
                steps = max(steps, -(-(value.shape[1] + delay) // rate))
        region = Region(self.first, self.last, steps, self.rows, self.fetched, self.kept, turns)
        for group, read in zip(self.groups, reads, strict=True):
            if group is sink:
                region.sink, region.sink_read = group, (group.root.inputs[0], delay)
                break
            region.groups.append(_on_rows(region, group, set(read)))
        return region

    def image_reads(self, group: Group) -> list[Value]:
        """Images a group reads row by row; everything else it reads must not depend on the row."""
        root = group.root
        shape = root.output.shape
        if root.kind in REDUCTIONS:
            self.check_sum(group)
            return [root.inputs[0]]
        if len(shape) != 4 or shape[0] != self.groups[0].root.output.shape[0] or shape[1] < 2:
            raise _Unfit
        if not (root.elementwise or root.kind in WINDOWS):
            raise _Unfit
        found: list[Value] = []
        if root.kind in WINDOWS:
            self.check_window(root)
            found.append(root.inputs[0])
        for node in group.nodes:
            if not node.elementwise:
                continue
            for value, access in zip(node.inputs, node.accesses, strict=True):
                if value in group.members:
                    continue
                if value.data is None and access == identity(4):
                    found.append(value)
                elif 1 in access or (0 in access and shape[0] > 1):
                    raise _Unfit
        for value in found:
            if value not in self.made and value not in self.fetched:
                if source_of(value, self.definitions) in self.made:
                    raise _Unfit
                self.fetched.append(value)
        return list(dict.fromkeys(found))

    def check_sum(self, group: Group) -> None:
        """A sum or mean over rows and columns, at the end, adds up as rows come."""
        root = group.root
        summed = root.kind == "q_mean" or root.attributes["reduce"] in ("sum", "mean")
        image = root.inputs[0]
        if group is not self.groups[-1] or not summed or image not in self.made:
            raise _Unfit
        if tuple(root.attributes["axes"]) != (1, 2):
            raise _Unfit

    def check_window(self, root: Node) -> None:
        at = root.attributes
        if root.kind == "pool" and (at["padding"][0] or at["padding"][2]):
            raise _Unfit  # padding is no number there
        if root.kind == "conv" and root.output.dtype == "f32":
            weights = root.inputs[1].data
            if weights is None or not np.isfinite(weights).all():
                raise _Unfit  # 0 * infinity
        if "order" in at and (root.inputs[0] in self.made or at["order"][0] != 0):
            raise _Unfit

    def rates(self, reads: list[list[Value]]) -> dict[Group, int]:
        """Rows per step of every group: the last makes one, others what their readers need."""
        wanted: dict[Value, int] = {}
        rates: dict[Group, int] = {}
        for group, read in zip(reversed(self.groups), reversed(reads), strict=True):
            known = {wanted[v] for v in group.stored if v in wanted}
            if group is self.groups[-1]:
                known = known or {1}
            if len(known) != 1:
                raise _Unfit
            rates[group] = known.pop()
            stride = _window(group)[1]
            for value in read:
                if wanted.setdefault(value, rates[group] * stride) != rates[group] * stride:
                    raise _Unfit
            for value in group.stored:
                wanted[value] = rates[group]
        for group, read in zip(self.groups, reads, strict=True):
            for value in read:
                order = (0, 1, 2, 3)
                if value is group.root.inputs[0]:
                    order = group.root.attributes.get("order", order)
                if value in self.fetched and value not in self.rows:
                    self.rows[value] = Rows(value, wanted[value], 0, wanted[value], order)
                elif value in self.fetched and self.rows[value].order != order:
                    raise _Unfit
        return rates


def _on_rows(region: Region, group: Group, images: set[Value]) -> Group:
    """The same group on a few rows: its images are parts of the rows that are kept."""
    root = group.root
    extent, stride, above = _window(group)
    made = region.rows[group.stored[0]] if group.stored else None
    assert made is not None
    needed = (made.rate - 1) * stride + extent
    replaced: dict[Value, Value] = {}

    def view(value: Value, reads: int, start: int) -> Value:
        rows = region.rows[value]
        _, width, channels = rows.image
        name = f"{value.name}_rows"
        part = Value(name, (1, reads, width, channels), value.dtype, None, value.scale, value.zero)
        region.views[part] = (value, start)
        return part

    def first_row(value: Value, extra: int, step: int) -> int:
        """Where in the kept rows of an image this step's reading begins."""
        rows = region.rows[value]
        return rows.capacity - (rows.rate - rows.delay + made.delay * step + extra)

    nodes = []
    for node in group.nodes:
        inputs: list[Value] = []
        for index, value in enumerate(node.inputs):
            if value in replaced:
                inputs.append(replaced[value])
            elif value in images and node is root and root.kind in WINDOWS and index == 0:
                inputs.append(view(value, needed, first_row(value, above, stride)))
            elif value in images:
                inputs.append(view(value, made.rate, first_row(value, 0, 1)))
            else:
                inputs.append(value)
        old = node.output
        shape = (1, made.rate, *old.shape[2:])
        if old in group.stored:
            output = view(old, made.rate, region.rows[old].capacity - made.rate)
        else:
            output = Value(f"{old.name}_row", shape, old.dtype, None, old.scale, old.zero)
        replaced[old] = output
        attributes: dict[str, Any] = {k: v for k, v in node.attributes.items() if k != "order"}
        if "padding" in attributes:
            _, left, _, right = attributes["padding"]
            attributes["padding"] = (0, left, 0, right)
        accesses: list[Access] = list(node.accesses)
        nodes.append(Node(node.kind, inputs, output, attributes, accesses, node.location))
    return Group(nodes[0], nodes, [replaced[v] for v in group.stored])
