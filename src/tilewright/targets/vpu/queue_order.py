"""What is over when a task starts: happens-before as one clock per queue.

A queue with one engine is a chain: knowing that a task ended means knowing it of all before it.
Behind a queue with several engines only starts are a chain, so ends are a prefix and single bits
above it. Barriers add "the producer has ended".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class QueueClocks:
    """Clocks of tasks that are added in an order in which every predecessor comes first."""

    def __init__(self, engines: Sequence[int]) -> None:
        self.several = [count > 1 for count in engines]
        self.lengths = [0] * len(engines)
        self.last: list[int] = [-1] * len(engines)
        self.places: list[tuple[tuple[int, int], ...]] = []  # per task: (queue, index)
        self.starts: list[list[int]] = []  # at the start of a task: starts known per queue
        self.ends: list[list[int]] = []
        self.bits: list[list[int]] = []

    def add(self, queues: Iterable[int], predecessors: Iterable[int]) -> list[int]:
        """Add the next task of some queues; returns the predecessors that say something new.

        Predecessors have to come latest first; then what is left is the transitive reduction.
        """
        task = len(self.places)
        count = len(self.several)
        starts, ends, bits = [0] * count, [0] * count, [0] * count
        self.starts.append(starts)
        self.ends.append(ends)
        self.bits.append(bits)
        places = []
        for queue in queues:
            places.append((queue, self.lengths[queue]))
            self.lengths[queue] += 1
            before = self.last[queue]
            self.last[queue] = task
            if before >= 0:
                self._merge(task, before)
                if self.several[queue]:
                    starts[queue] = max(starts[queue], self.lengths[queue] - 1)
                else:
                    self._learn_end(task, before)
        self.places.append(tuple(places))
        kept = []
        for before in predecessors:
            if not self.ended(before, task):
                self._merge(task, before)
                self._learn_end(task, before)
                kept.append(before)
        return kept

    def ended(self, first: int, second: int) -> bool:
        """Whether the first task has certainly ended when the second starts."""
        if first == second:
            return False
        queue, index = self.places[first][0]
        known = self.ends[second][queue]
        return index < known or bool(self.bits[second][queue] >> (index - known) & 1)

    def started(self, first: int, second: int) -> bool:
        """Whether the first task has certainly started when the second starts."""
        if first == second:
            return False
        queue, index = self.places[first][0]
        return index < self.starts[second][queue] or self.ended(first, second)

    def _merge(self, task: int, before: int) -> None:
        """Everything known at the start of an earlier task is known now."""
        starts, ends, bits = self.starts[task], self.ends[task], self.bits[task]
        other_starts, other_ends, other_bits = (
            self.starts[before],
            self.ends[before],
            self.bits[before],
        )
        for queue in range(len(starts)):
            if other_starts[queue] > starts[queue]:
                starts[queue] = other_starts[queue]
            if other_bits[queue] or bits[queue]:
                self._merge_ends(ends, bits, queue, other_ends[queue], other_bits[queue])
            elif other_ends[queue] > ends[queue]:
                ends[queue] = other_ends[queue]

    @staticmethod
    def _merge_ends(ends: list[int], bits: list[int], queue: int, prefix: int, above: int) -> None:
        low = min(ends[queue], prefix)
        mask = (bits[queue] << (ends[queue] - low)) | ((1 << (ends[queue] - low)) - 1)
        mask |= (above << (prefix - low)) | ((1 << (prefix - low)) - 1)
        while mask & 1:
            run = (~mask & (mask + 1)).bit_length() - 1
            mask >>= run
            low += run
        ends[queue], bits[queue] = low, mask

    def _learn_end(self, task: int, before: int) -> None:
        starts, ends, bits = self.starts[task], self.ends[task], self.bits[task]
        for queue, index in self.places[before]:
            starts[queue] = max(starts[queue], index + 1)
            if self.several[queue]:
                if index >= ends[queue]:
                    self._merge_ends(ends, bits, queue, ends[queue], 1 << (index - ends[queue]))
            elif index + 1 > ends[queue]:
                ends[queue] = index + 1
