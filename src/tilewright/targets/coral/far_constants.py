"""Weights behind the bus: which constants stay in external memory and come in layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewright.planning.buffers import align_up
from tilewright.targets.coral.groups import Group
from tilewright.targets.coral.program import Value
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
