"""Reservations that repeat every so many ticks: issue slots, and arcs on a circle."""

from __future__ import annotations


def overlaps(a: tuple[int, int], b: tuple[int, int], interval: int) -> bool:
    """Whether two spans [start, end) overlap when both repeat every `interval` ticks."""
    (a0, a1), (b0, b1) = a, b
    return (b0 - a0) % interval < a1 - a0 or (a0 - b0) % interval < b1 - b0


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
