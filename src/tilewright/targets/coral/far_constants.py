"""Weights behind the bus: which constants stay in external memory and come in layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tilewright.planning.buffers import align_up
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import Node, Program, Value
from tilewright.targets.coral.storage import Storage


@dataclass(frozen=True)
class Staged:
    """A constant that is copied into data memory before the groups that read it."""

    value: Value
    place: str  # the buffer it is copied to
    groups: tuple[int, int]  # first and last that read it

    @property
    def bytes(self) -> int:
        return self.value.bytes


def split_products(program: Program, limit: int) -> Program:
    """Products whose weights are larger than a limit, in blocks of filters that are joined again."""
    nodes: list[Node] = []
    for node in program.nodes:
        weights = node.inputs[1] if node.kind in ("conv", "q_conv") else None
        if weights is None or weights.data is None or weights.bytes <= limit:
            nodes.append(node)
            continue
        filters = weights.shape[-1]
        width = limit // (weights.bytes // filters) // 16 * 16
        if node.attributes["groups"] != 1 or width < 16:
            nodes.append(node)
            continue
        parts = []
        for first in range(0, filters, width):
            block = _block(node, first, min(first + width, filters))
            nodes.append(block)
            parts.append(block.output)
        axis = len(node.output.shape) - 1
        nodes.append(Node("concat", parts, node.output, {"axis": axis}, [], node.location))
    return replace(program, nodes=nodes)


def _block(node: Node, first: int, last: int) -> Node:
    """Filters `first` to `last` (exclusive) of a product."""

    def part(value: Value) -> Value:
        assert value.data is not None
        data = np.ascontiguousarray(value.data[..., first:last])
        return Value(f"{value.name}_{first}", data.shape, value.dtype, data)

    out = node.output
    shape = (*out.shape[:-1], last - first)
    made = Value(f"{out.name}_{first}", shape, out.dtype, None, out.scale, out.zero)
    inputs = [node.inputs[0], *(part(value) for value in node.inputs[1:])]
    return Node(node.kind, inputs, made, node.attributes, [], node.location)


def stage_constants(
    groups: list[Group], storage: Storage, room: int, extents: Mapping[int, tuple[int, int]]
) -> list[Staged]:
    """The largest constants of one group each, until the others and the largest of them fit.

    extents: of groups that run again and again with others, the first and last of these.
    """
    readers: dict[Value, list[int]] = {}
    for index, group in enumerate(groups):
        for node in group.nodes:
            for value in node.inputs:
                if value.data is not None and value.elements > 1:
                    readers.setdefault(value, []).append(index)
    inside = sorted(
        (v for v in storage.constants if len(set(readers.get(v, ()))) == 1),
        key=lambda v: -v.bytes,
    )
    total = sum(align_up(v.bytes, 16) for v in storage.constants if v.elements > 1)
    staged: list[Staged] = []
    for value in inside:
        largest = max((align_up(s.bytes, 16) for s in staged), default=0)
        if total + largest <= room and staged:
            break
        total -= align_up(value.bytes, 16)
        first, last = extents.get(readers[value][0], (readers[value][0],) * 2)
        staged.append(Staged(value, f"near_{storage.constants[value]}", (first, last)))
    return staged
