"""Reservations that repeat every so many ticks: units, issue slots, and arcs on a circle."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable


def overlaps(a: tuple[int, int], b: tuple[int, int], interval: int) -> bool:
    """Whether two spans [start, end) overlap when both repeat every `interval` ticks."""
    (a0, a1), (b0, b1) = a, b
    return (b0 - a0) % interval < a1 - a0 or (a0 - b0) % interval < b1 - b0


class SlotReservations:
    """Who is in a slot when, by start of its span; spans of different holders never overlap.

    Only neighbours of a span can meet it, so nothing is compared with all others.
    """

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.places: list[tuple[int, int]] = []  # start, number of the holder
        self.spans: dict[int, int] = {}  # number -> length
        self.held: dict[Hashable, tuple[int, int]] = {}  # holder -> its place
        self.count = 0

    def __len__(self) -> int:
        return len(self.places)

    def put(self, holder: Hashable, span: tuple[int, int]) -> None:
        """Give a holder this span, whatever it had."""
        self.drop(holder)
        self.count += 1
        place = span[0] % self.interval, self.count
        insort(self.places, place)
        self.held[holder], self.spans[self.count] = place, span[1] - span[0]

    def drop(self, holder: Hashable) -> None:
        """Take a holder out, if it is in."""
        place = self.held.pop(holder, None)
        if place is not None:
            self.places.pop(bisect_left(self.places, place))
            del self.spans[place[1]]

    def meeting(self, span: tuple[int, int], holder: Hashable) -> list[int]:
        """Ends of the spans of others that overlap this one."""
        interval, places, own = self.interval, self.places, self.held.get(holder)
        begin, length, count = span[0] % interval, span[1] - span[0], len(places)
        found = []
        k = bisect_left(places, (begin, 0))
        for number in range(k, k + count):  # those that start inside
            start, key = place = places[number % count]
            if (start - begin) % interval >= length:
                break
            if place != own:
                found.append(start + self.spans[key])
        for number in range(k - 1, k - 1 - count, -1):  # the one that starts before
            start, key = place = places[number % count]
            if place != own:
                if (begin - start) % interval < self.spans[key]:
                    found.append(start + self.spans[key])
                break
        return found


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
