"""Edges that addresses demand: RAW, WAR and WAW between tasks in one order.

Memory is a map from intervals to who wrote them last and who has read them since. A reader gets
edges from the writers, a writer from the readers, or from the writers where nobody read. Nothing
is ever left out because of modelled times.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from tilewright.targets.vpu.task_list import Range

try:
    from tilewright.targets.vpu import _vpu as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None

RAW, WAR, WAW = "RAW", "WAR", "WAW"
_KINDS = (RAW, WAR, WAW)
_LARGEST = 1 << 60  # addresses that the native map can hold
_RANK = {RAW: 0, WAR: 1, WAW: 2}


class _IntervalMap:
    """Disjoint intervals of one memory, sorted; each has writers and readers since."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.writer: list[int] = []  # -1: nobody yet
        self.readers: list[tuple[int, ...]] = []

    def cut(self, first: int, end: int) -> tuple[int, int]:
        """Make interval borders at both ends; the positions of what lies between."""
        for place in (first, end):
            index = bisect_right(self.firsts, place) - 1
            if index >= 0 and self.firsts[index] < place < self.ends[index]:
                self._insert(
                    index + 1, place, self.ends[index], self.writer[index], self.readers[index]
                )
                self.ends[index] = place
        return bisect_left(self.firsts, first), bisect_left(self.firsts, end)

    def read(self, task: int, first: int, end: int) -> set[int]:
        """Note a reader; returns the writers of what it reads."""
        found: set[int] = set()
        low, high = self.cut(first, end)
        at, index = first, low
        while at < end:
            if index < high and self.firsts[index] == at:
                if self.writer[index] >= 0:
                    found.add(self.writer[index])
                if task not in self.readers[index]:
                    self.readers[index] = (*self.readers[index], task)
                at = self.ends[index]
            else:  # bytes that nobody has touched: remember who read them
                until = self.firsts[index] if index < high else end
                self._insert(index, at, until, -1, (task,))
                high += 1
                at = until
            index += 1
        return found

    def write(self, task: int, first: int, end: int) -> tuple[set[int], set[int]]:
        """Make a task the owner; returns readers since the last write, and writers nobody read."""
        readers: set[int] = set()
        writers: set[int] = set()
        low, high = self.cut(first, end)
        for index in range(low, high):
            if self.readers[index]:
                readers.update(self.readers[index])
            elif self.writer[index] >= 0:
                writers.add(self.writer[index])
        self.firsts[low:high] = [first]
        self.ends[low:high] = [end]
        self.writer[low:high] = [task]
        self.readers[low:high] = [()]
        return readers, writers

    def _insert(
        self, index: int, first: int, end: int, writer: int, readers: tuple[int, ...]
    ) -> None:
        self.firsts.insert(index, first)
        self.ends.insert(index, end)
        self.writer.insert(index, writer)
        self.readers.insert(index, readers)


Accesses = Sequence[tuple[Sequence[Range], Sequence[Range]]]
Edges = list[list[tuple[int, str]]]


def address_edges(accesses: Accesses) -> Edges:
    """Per task its (earlier task, kind) edges, sorted; tasks are (reads, writes) in order."""
    spaces: dict[str, int] = {}

    def rows(ranges: Sequence[Range]) -> list[tuple[int, int, int, int, int]]:
        return [
            (spaces.setdefault(r.space, len(spaces)), r.address, r.bytes, r.count, r.stride)
            for r in ranges
        ]

    def small(ranges: Sequence[Range]) -> bool:
        return all(r.address >= 0 and r.bytes > 0 and r.end < _LARGEST for r in ranges)

    if native is None or not all(small(r) and small(w) for r, w in accesses):
        return plain_address_edges(accesses)
    plain = [(rows(reads), rows(writes)) for reads, writes in accesses]
    found = native.address_edges(plain, len(spaces))
    return [[(other, _KINDS[kind]) for other, kind in edges] for edges in found]


def plain_address_edges(accesses: Accesses) -> Edges:
    """The same in Python, for source trees without native parts and to compare with."""
    memory: dict[str, _IntervalMap] = {}
    result: Edges = []
    for task, (reads, writes) in enumerate(accesses):
        found: dict[int, str] = {}
        for item in reads:
            space = memory.setdefault(item.space, _IntervalMap())
            for first, end in item.runs():
                for other in space.read(task, first, end):
                    found[other] = RAW
        for item in writes:
            space = memory.setdefault(item.space, _IntervalMap())
            for first, end in item.runs():
                readers, writers = space.write(task, first, end)
                for other in readers:
                    _keep(found, other, WAR)
                for other in writers:
                    _keep(found, other, WAW)
        found.pop(task, None)
        result.append(sorted(found.items()))
    return result


def _keep(found: dict[int, str], other: int, kind: str) -> None:
    if other not in found or _RANK[kind] < _RANK[found[other]]:
        found[other] = kind
