"""When an engine is free: the idle gaps of its past, and its future."""

from __future__ import annotations

from bisect import bisect_right, insort

_KEPT_GAPS = 256  # older gaps are given up, which keeps long schedules linear


class Timeline:
    """One engine, one task at a time; tasks may be put into gaps between earlier ones."""

    __slots__ = ("frontier", "gaps")

    def __init__(self) -> None:
        self.gaps: list[tuple[int, int]] = []  # (end, first) of idle times, in order
        self.frontier = 0  # idle from here on

    def earliest(self, ready: int, cycles: int) -> int:
        """The first start at or after `ready` with enough idle time."""
        if ready < self.frontier and self.gaps:
            for end, first in self.gaps[bisect_right(self.gaps, (ready, ready)) :]:
                start = first if first > ready else ready
                if start + cycles <= end:
                    return start
        return ready if ready > self.frontier else self.frontier

    def take(self, start: int, cycles: int) -> None:
        """Occupy idle time."""
        if start >= self.frontier:
            if start > self.frontier:
                self.gaps.append((start, self.frontier))
                if len(self.gaps) > _KEPT_GAPS:
                    del self.gaps[0]
            self.frontier = start + cycles
            return
        position = bisect_right(self.gaps, (start, start))
        end, first = self.gaps.pop(position)
        if first < start:
            insort(self.gaps, (start, first))
        if start + cycles < end:
            insort(self.gaps, (end, start + cycles))


def earliest_together(timelines: list[Timeline], ready: int, cycles: int) -> int:
    """The first start at which all engines are idle for long enough."""
    start = ready
    while True:
        latest = max(timeline.earliest(start, cycles) for timeline in timelines)
        if latest == start:
            return start
        start = latest
