"""The CMX of one tile while a schedule is being built.

Segments cover the whole memory in order of address. A free segment knows since which cycle it is
free: whoever takes it starts no earlier. That is all that reusing an address costs, so space that
was freed long ago lets a transfer run far ahead of its consumer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

try:
    from tilewright.targets.vpu import _vpu as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None

FREE = -1


@dataclass(slots=True)
class Segment:
    """A piece of memory: its owner, or FREE and since when."""

    address: int
    size: int
    owner: int
    since: int

    @property
    def end(self) -> int:
        return self.address + self.size


@dataclass(frozen=True, slots=True)
class Window:
    """A place for a buffer: when it can be used, and whose data has to go first."""

    address: int
    available: int
    victims: tuple[int, ...]
    cost: float


def tile_memory(capacity: int) -> Any:
    """The memory of a tile: native, or in Python where there are no native parts."""
    return PlainTileMemory(capacity) if native is None else native.TileMemory(capacity)


class PlainTileMemory:
    """First, best or earliest fit over segments; windows with and without victims."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.segments = [Segment(0, capacity, FREE, 0)]
        self.free_bytes = capacity

    def find(
        self,
        size: int,
        align: int,
        ready: int,
        fit: str,
        downwards: bool = False,
        victim: Callable[[int], tuple[int, float] | None] | None = None,
    ) -> Window | None:
        """The best window of `size` bytes; with `victim`, buffers may have to leave for it.

        `victim` says when a buffer's space would be free and at what cost, or None if it has
        to stay. `fit` orders windows: "earliest" by time, "best" by what is left over, "first"
        by address.
        """
        best: Window | None = None
        best_key: tuple[float, ...] = ()
        segments = self.segments
        count = len(segments)
        for index in range(count):
            segment = segments[index]
            if segment.owner != FREE and victim is None:
                continue
            for start in self._starts(index, size, align, downwards):
                found = self._window(index, start, size, victim)
                if found is None:
                    continue
                window, spare = found
                time = max(window.available, ready)
                place = -start if downwards else start
                if fit == "earliest":
                    key = (window.cost, time, spare, place)
                elif fit == "best":
                    key = (window.cost, spare, time, place)
                else:
                    key = (window.cost, place, time, spare)
                if best is None or key < best_key:
                    best, best_key = window, key
        return best

    def _starts(self, index: int, size: int, align: int, downwards: bool) -> list[int]:
        """Where a window beginning in a segment may begin: at its start, or flush with an end."""
        segment = self.segments[index]
        starts = []
        low = -(-segment.address // align) * align
        if low < segment.end:
            starts.append(low)
        if downwards or segment.size > size:
            high = (segment.end - size) // align * align
            if high > low:
                starts.append(high)
        return starts

    def _window(
        self,
        index: int,
        start: int,
        size: int,
        victim: Callable[[int], tuple[int, float] | None] | None,
    ) -> tuple[Window, int] | None:
        end = start + size
        if end > self.capacity:
            return None
        available, cost = 0, 0.0
        victims = []
        segments = self.segments
        spare = 0
        for position in range(index, len(segments)):
            segment = segments[position]
            if segment.address >= end:
                break
            if segment.owner == FREE:
                if segment.since > available:
                    available = segment.since
            else:
                if victim is None:
                    return None
                leaves = victim(segment.owner)
                if leaves is None:
                    return None
                available = max(available, leaves[0])
                cost += leaves[1]
                victims.append(segment.owner)
            spare += segment.size
        return Window(start, available, tuple(victims), cost), spare - size

    def take(self, owner: int, address: int, size: int) -> None:
        """Give free space to a buffer."""
        segments = self.segments
        end = address + size
        first = self._index(address)
        last = first
        while segments[last].end < end:
            last += 1
        pieces = []
        head, tail = segments[first], segments[last]
        if head.address < address:
            pieces.append(Segment(head.address, address - head.address, FREE, head.since))
        pieces.append(Segment(address, size, owner, 0))
        if tail.end > end:
            pieces.append(Segment(end, tail.end - end, FREE, tail.since))
        segments[first : last + 1] = pieces
        self.free_bytes -= size

    def release(self, address: int, since: int, horizon: int) -> None:
        """Free the buffer at an address; neighbours whose past no longer matters are joined."""
        segments = self.segments
        index = self._index(address)
        segment = segments[index]
        segment.owner = FREE
        segment.since = since
        self.free_bytes += segment.size
        for left in (index, index - 1):
            if 0 <= left < len(segments) - 1:
                first, second = segments[left], segments[left + 1]
                if first.owner != FREE or second.owner != FREE:
                    continue
                if first.since == second.since or max(first.since, second.since) <= horizon:
                    first.size += second.size
                    first.since = max(first.since, second.since)
                    del segments[left + 1]

    def hand_over(self, address: int, owner: int, size: int, since: int) -> None:
        """Let another buffer take the place of one; what it does not need becomes free."""
        segments = self.segments
        index = self._index(address)
        segment = segments[index]
        segment.owner = owner
        if size < segment.size:
            rest = segment.size - size
            segment.size = size
            segments.insert(index + 1, Segment(address + size, rest, FREE, since))
            self.free_bytes += rest

    def settle(self, placeholder: int, since: int) -> None:
        """Say since when the space is free that was handed over with a placeholder."""
        for segment in self.segments:
            if segment.owner == FREE and segment.since == placeholder:
                segment.since = since

    def gaps(self) -> list[tuple[int, int]]:
        """(first, end) of free bytes, adjacent segments joined."""
        found: list[tuple[int, int]] = []
        for segment in self.segments:
            if segment.owner != FREE:
                continue
            if found and found[-1][1] == segment.address:
                found[-1] = (found[-1][0], segment.end)
            else:
                found.append((segment.address, segment.end))
        return found

    def largest_free(self) -> int:
        """The longest run of free bytes."""
        return max((end - first for first, end in self.gaps()), default=0)

    def _index(self, address: int) -> int:
        """The segment that holds an address."""
        low, high = 0, len(self.segments) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.segments[middle].address <= address:
                low = middle
            else:
                high = middle - 1
        return low
