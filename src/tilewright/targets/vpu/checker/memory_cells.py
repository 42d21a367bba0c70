"""Memory as cells: who wrote them last, what they hold, who has read them since."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

Tag = tuple[int, int]  # (buffer, address of its first byte): what a byte holds


@dataclass(slots=True)
class Cell:
    first: int
    end: int
    writer: int  # -1: nobody yet
    tag: Tag | None
    readers: list[int]


class Cells:
    """All bytes of one memory that were ever touched, cut where accesses begin or end."""

    def __init__(self) -> None:
        self.borders: list[int] = []
        self.cells: list[Cell] = []

    def between(self, first: int, end: int) -> Iterator[Cell]:
        """The cells of a range, made where there are none."""
        position = bisect_right(self.borders, first) - 1
        if position < 0 or self.cells[position].end <= first:
            position += 1
        elif self.cells[position].first < first:
            self._split(position, first)
            position += 1
        at = first
        while at < end:
            if position == len(self.cells) or self.cells[position].first > at:
                until = end
                if position < len(self.cells):
                    until = min(end, self.cells[position].first)
                self.cells.insert(position, Cell(at, until, -1, None, []))
                self.borders.insert(position, at)
            elif self.cells[position].end > end:
                self._split(position, end)
            yield self.cells[position]
            at = self.cells[position].end
            position += 1

    def fill(self, first: int, end: int, writer: int, tag: Tag | None) -> None:
        """One writer for a whole range; it has to consist of whole cells."""
        low, high = bisect_left(self.borders, first), bisect_left(self.borders, end)
        self.borders[low:high] = [first]
        self.cells[low:high] = [Cell(first, end, writer, tag, [])]

    def _split(self, position: int, place: int) -> None:
        cell = self.cells[position]
        rest = Cell(place, cell.end, cell.writer, cell.tag, list(cell.readers))
        cell.end = place
        self.cells.insert(position + 1, rest)
        self.borders.insert(position + 1, place)
