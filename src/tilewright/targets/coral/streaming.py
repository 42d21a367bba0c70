"""Maps that do not fit, computed row by row: sliding windows with folded storage.

before: conv A -> conv B -> add, each over a whole image
after:  for every step: the next rows of A, then of B, then of the sum

A region is a run of groups over images. At each step every value in it gets `rate` new rows; a
consumer that looks ahead by its kernel lags behind by `delay` rows. Only the rows that somebody
still reads are kept; they move up when new ones come. Rows outside of an image hold its padding.
No row is computed twice and no sum changes its order, so the bits are those of whole images.
The images of a batch take turns. Images of one row, such as sound along time, are streamed by
their columns in the same way: `axis` says which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.targets.coral.groups import Group, source_of
from tilewright.targets.coral.program import Access, Node, Program, Value, identity

WINDOWS = frozenset(["conv", "q_conv", "pool"])
REDUCTIONS = frozenset(["reduce", "q_mean"])
ALONG_CHANNELS = frozenset(["softmax", "layer_norm", "rms_norm"])
BY_ROWS, BY_COLUMNS = 1, 2  # the axis that is streamed
PACES = (32, 16, 8, 4, 2)  # rows that the last group makes in a step, where there is room


@dataclass(eq=False)
class Rows:
    """The rows of a value that a region keeps."""

    value: Value
    rate: int  # new rows per step
    delay: int  # the newest row after step t is (t + 1) * rate - delay - 1
    capacity: int = 0
    order: tuple[int, ...] = (0, 1, 2, 3)  # how the whole value lies, for those from outside
    axis: int = BY_ROWS

    @property
    def image(self) -> tuple[int, int, int]:
        """How many rows there are, their pixels, and channels."""
        shape = [self.value.shape[p] for p in self.order]
        return shape[self.axis], shape[3 - self.axis], shape[3]

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
    axis: int = BY_ROWS
    groups: list[Group] = field(default_factory=list)  # on rows
    sink: Group | None = None  # a mean or sum over the image, the last group
    sink_read: tuple[Value, int] | None = None  # the image it sums, and its delay
    views: dict[Value, tuple[Value, int]] = field(default_factory=dict)  # of rows -> image, row


class _Unfit(Exception):
    """A run of groups that cannot be streamed."""


def find_region(
    program: Program,
    groups: list[Group],
    first: int,
    last: int,
    axis: int = BY_ROWS,
    pace: int = 1,
) -> Region | None:
    """The region of a run of groups, if rows can flow through all of them.

    pace: rows that the last group makes in a step.
    """
    try:
        return _Finder(program, groups, first, last, axis, pace).run()
    except _Unfit:
        return None


def faster(program: Program, groups: list[Group], region: Region) -> list[Region]:
    """The same run with more rows in a step, the most first: fewer moves, longer loops."""
    longest = max(rows.image[0] // rows.rate for rows in region.rows.values())
    found = (
        find_region(program, groups, region.first, region.last, region.axis, pace)
        for pace in PACES
        if 4 * pace <= longest
    )
    return [other for other in found if other is not None]


def _window(group: Group, axis: int) -> tuple[int, int, int]:
    """Rows a group's root reads for one of its rows: extent, stride, and how far above."""
    root, spatial = group.root, axis - 1
    if root.kind not in WINDOWS:
        return 1, 1, 0
    at = root.attributes
    size = (at["kernel"] if root.kind == "pool" else root.inputs[1].shape)[spatial]
    return (size - 1) * at["dilations"][spatial] + 1, at["strides"][spatial], at["padding"][spatial]


class _Finder:
    def __init__(
        self, program: Program, groups: list[Group], first: int, last: int, axis: int, pace: int
    ) -> None:
        self.program = program
        self.axis, self.pace = axis, pace
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
            extent, stride, above = _window(group, self.axis)
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
                length = group.root.inputs[0].shape[self.axis]
                steps = max(steps, -(-(length + delay) // rate))
                break
            for value in group.stored:
                self.rows[value] = Rows(value, rate, delay, rate, axis=self.axis)
                steps = max(steps, -(-(value.shape[self.axis] + delay) // rate))
        region = Region(
            self.first, self.last, steps, self.rows, self.fetched, self.kept, turns, self.axis
        )
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
        if len(shape) != 4 or shape[0] != self.groups[0].root.output.shape[0]:
            raise _Unfit
        if shape[self.axis] < 2 or (self.axis == BY_COLUMNS and shape[1] != 1):
            raise _Unfit
        found: list[Value] = []
        if root.kind in WINDOWS:
            self.check_window(root)
            found.append(root.inputs[0])
        elif not root.elementwise:
            found += self.same_rows(root)
        for node in group.nodes:
            if not node.elementwise:
                continue
            for value, access in zip(node.inputs, node.accesses, strict=True):
                if value in group.members:
                    continue
                if value.data is None and access == identity(4):
                    found.append(value)
                elif self.axis in access or (0 in access and shape[0] > 1):
                    raise _Unfit
        for value in found:
            if value not in self.made and value not in self.fetched:
                if source_of(value, self.definitions) in self.made:
                    raise _Unfit
                self.fetched.append(value)
        return list(dict.fromkeys(found))

    def same_rows(self, root: Node) -> list[Value]:
        """Operands of a root that mixes channels only."""
        at, shape = root.attributes, root.output.shape
        joined = root.kind == "concat" and at["axis"] == 3
        if root.kind == "slice":
            plain = all(at["offsets"][k] == 0 and at["strides"][k] == 1 for k in range(3))
            joined = plain and root.inputs[0].shape[:3] == shape[:3]
        images = root.inputs if joined else root.inputs[:1]
        if not (joined or root.kind in ALONG_CHANNELS):
            raise _Unfit
        if any(v.data is not None for v in images) or len(set(images)) != len(images):
            raise _Unfit
        return list(images)

    def check_sum(self, group: Group) -> None:
        """A sum, mean or extreme over rows and columns, at the end, is collected as rows come."""
        root = group.root
        collected = root.kind == "q_mean" or root.attributes["reduce"] != "prod"
        image, axes = root.inputs[0], root.attributes["axes"]
        if group is not self.groups[-1] or not collected or image not in self.made:
            raise _Unfit
        if len(image.shape) != 4 or not set(axes) <= {1, 2} or root.output.dtype == "i64":
            raise _Unfit
        if any(image.shape[k] > 1 and k not in axes for k in (1, 2)) or list(axes) != sorted(axes):
            raise _Unfit

    def check_window(self, root: Node) -> None:
        at = root.attributes
        order = at.get("order", (0, 1, 2, 3))
        if self.axis == BY_COLUMNS and root.inputs[0].shape[order[1]] != 1:
            raise _Unfit
        if root.kind == "pool" and (at["padding"][self.axis - 1] or at["padding"][self.axis + 1]):
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
                known = known or {self.pace}
            if len(known) != 1:
                raise _Unfit
            rates[group] = known.pop()
            stride = _window(group, self.axis)[1]
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
                    rate = wanted[value]
                    self.rows[value] = Rows(value, rate, 0, rate, order, self.axis)
                elif value in self.fetched and self.rows[value].order != order:
                    raise _Unfit
        return rates


def _on_rows(region: Region, group: Group, images: set[Value]) -> Group:
    """The same group on a few rows: its images are parts of the rows that are kept."""
    root = group.root
    extent, stride, above = _window(group, region.axis)
    made = region.rows[group.stored[0]] if group.stored else None
    assert made is not None
    needed = (made.rate - 1) * stride + extent
    replaced: dict[Value, Value] = {}

    def view(value: Value, reads: int, start: int) -> Value:
        rows = region.rows[value]
        _, across, channels = rows.image
        name = f"{value.name}_rows"
        shape = (1, reads, across, channels) if region.axis == BY_ROWS else (1, 1, reads, channels)
        part = Value(name, shape, value.dtype, None, value.scale, value.zero)
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
        shape = (1, *(made.rate if k == region.axis else old.shape[k] for k in (1, 2, 3)))
        if old in group.stored:
            output = view(old, made.rate, region.rows[old].capacity - made.rate)
        else:
            output = Value(f"{old.name}_row", shape, old.dtype, None, old.scale, old.zero)
        replaced[old] = output
        attributes: dict[str, Any] = {k: v for k, v in node.attributes.items() if k != "order"}
        if "padding" in attributes:
            sides = enumerate(attributes["padding"])  # top, left, bottom, right
            attributes["padding"] = tuple(0 if k % 2 == region.axis - 1 else n for k, n in sides)
        accesses: list[Access] = list(node.accesses)
        nodes.append(Node(node.kind, inputs, output, attributes, accesses, node.location))
    return Group(nodes[0], nodes, [replaced[v] for v in group.stored])
