"""Reservations that repeat every so many ticks: units, issue slots, and arcs on a circle."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


def overlaps(a: tuple[int, int], b: tuple[int, int], interval: int) -> bool:
    """Whether two spans [start, end) overlap when both repeat every `interval` ticks."""
    (a0, a1), (b0, b1) = a, b
    return (b0 - a0) % interval < a1 - a0 or (a0 - b0) % interval < b1 - b0


class UnitReservations:
    """What a unit does in each tick of an interval; spans never overlap."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.starts: list[int] = []
        self.ends: dict[int, int] = {}  # start -> end, possibly beyond the interval
        self.total = 0

    def take(self, tick: int, length: int) -> None:
        start = tick % self.interval
        insort(self.starts, start)
        self.ends[start] = start + length
        self.total += length

    def drop(self, tick: int) -> None:
        start = tick % self.interval
        self.starts.pop(bisect_left(self.starts, start))
        self.total -= self.ends.pop(start) - start

    def gap(self, tick: int) -> tuple[int, int] | None:
        """(ticks since the span before ended, ticks until the next one starts) where free."""
        if not self.starts:
            return 0, self.interval
        start = tick % self.interval
        k = bisect_right(self.starts, start)
        before = self.starts[k - 1]
        since = start - (self.ends[before] - (self.interval if k == 0 else 0))
        if since < 0:
            return None
        after = self.starts[k] if k < len(self.starts) else self.starts[0] + self.interval
        return since, after - start

    def busy_until(self, tick: int) -> int:
        """The end of the span that covers a tick."""
        start = tick % self.interval
        k = bisect_right(self.starts, start)
        end = self.ends[self.starts[k - 1]] - (self.interval if k == 0 else 0)
        return tick + end - start

    def first(self, tick: int, length: int, limit: int, grain: int = 0) -> int | None:
        """The first tick from `tick` to `limit` with `length` free ticks. With a grain, what
        stays free before it is a multiple of that."""
        while tick <= limit:
            free = self.gap(tick)
            if free is None:
                tick = self.busy_until(tick)
                continue
            since, left = free
            skip = -since % grain if grain and self.starts else 0
            if left - skip >= length:
                return tick + skip if tick + skip <= limit else None
            tick += left
        return None

    def last(self, tick: int, length: int, limit: int, grain: int = 0) -> int | None:
        """The last tick from `limit` to `tick` with `length` free ticks. With a grain, what
        stays free after it is a multiple of that."""
        while tick >= limit:
            free = self.gap(tick)
            if free is None:
                start = tick % self.interval
                k = bisect_right(self.starts, start)
                before = self.starts[k - 1] - (self.interval if k == 0 else 0)
                tick -= start - before + 1
                continue
            since, left = free
            skip = max(0, length - left)
            if grain and self.starts:
                skip += -(left + skip - length) % grain
            if since >= skip:
                return tick - skip if tick - skip >= limit else None
            tick -= since + 1
        return None


class IssueReservations:
    """Ticks of an interval in which decode is taken."""

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.taken = bytearray(interval)

    def is_free(self, tick: int) -> bool:
        return not self.taken[tick % self.interval]

    def take(self, tick: int) -> None:
        self.taken[tick % self.interval] = 1

    def drop(self, tick: int) -> None:
        self.taken[tick % self.interval] = 0
