"""Happens-before of a task list, walked in one legal order with what is known at every start.

Every task is two points, its start and its end. Queues with one engine order end before next
start, queues with several only start before next start; a barrier lies between the ends of its
producers and the starts of its consumers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.targets.vpu.task_list import TaskList


@dataclass(slots=True)
class Known:
    """What is certain at a point: tasks started (a prefix per queue) and ended (bits per queue)."""

    started: list[int]
    ended: list[int]  # one engine: a prefix; several: a set of bits

    def joined(self, other: Known, several: list[bool]) -> Known:
        return Known(
            [max(pair) for pair in zip(self.started, other.started, strict=True)],
            [
                a | b if many else max(a, b)
                for a, b, many in zip(self.ended, other.ended, several, strict=True)
            ],
        )


class Order:
    """The points of a list and the arrows between them."""

    def __init__(self, tasks: TaskList, mapping: bool) -> None:
        self.names = list(tasks.tasks)
        self.items = list(tasks.tasks.values())
        number = {name: index for index, name in enumerate(self.names)}
        self.queue_names = list(tasks.queues)
        self.several = [tasks.engines_behind(name) > 1 for name in self.queue_names]
        count = len(self.names)
        self.count = count
        # Points: starts, ends, one per barrier, one per mapping of a barrier.
        self.barrier_point = 2 * count
        self.map_point = self.barrier_point + len(tasks.barriers)
        self.points = self.map_point + len(tasks.barriers)
        self.arrows: list[list[int]] = [[] for _ in range(self.points)]
        self.inside: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # queue, index
        for task in range(count):
            self.arrows[task].append(count + task)
        for queue, names in enumerate(tasks.queues.values()):
            before = -1
            for index, name in enumerate(names):
                task = number[name]
                self.inside[task].append((queue, index))
                if before >= 0:
                    self.arrows[before if self.several[queue] else count + before].append(task)
                before = task
        for task, item in enumerate(self.items):
            for barrier in item.posts:
                self.arrows[count + task].append(self.barrier_point + barrier)
            for barrier in item.waits:
                self.arrows[self.barrier_point + barrier].append(task)
        self.reuses: list[tuple[int, int]] = []  # (old barrier, new barrier) on one physical id
        last: dict[int, int] = {}
        for barrier, entry in enumerate(tasks.barriers):
            if entry.physical is not None:
                if entry.physical in last:
                    self.reuses.append((last[entry.physical], barrier))
                last[entry.physical] = barrier
        if mapping:
            newer = dict(self.reuses)
            for task, item in enumerate(self.items):
                for barrier in item.waits:
                    if barrier in newer:
                        self.arrows[task].append(self.map_point + newer[barrier])
                for barrier in item.posts:
                    self.arrows[self.map_point + barrier].append(task)

    def describe(self, point: int) -> str:
        """A point in words, for messages."""
        if point < self.count:
            return f"start of {self.names[point]}"
        if point < 2 * self.count:
            return f"end of {self.names[point - self.count]}"
        if point < self.map_point:
            return f"barrier {point - self.barrier_point}"
        return f"mapping of barrier {point - self.map_point}"

    def cycle(self) -> list[int]:
        """Points that wait for each other in a circle; empty if there are none."""
        incoming = self._incoming()
        ready = [point for point, left in enumerate(incoming) if not left]
        for point in ready:
            for other in self.arrows[point]:
                incoming[other] -= 1
                if not incoming[other]:
                    ready.append(other)
        stuck = {point for point, left in enumerate(incoming) if left}
        if not stuck:
            return []
        back: dict[int, int] = {}
        for point in sorted(stuck, reverse=True):
            for other in self.arrows[point]:
                if other in stuck:
                    back[other] = point
        seen: dict[int, int] = {}
        point = min(back)
        path = []
        while point not in seen:
            seen[point] = len(path)
            path.append(point)
            point = back[point]
        return path[seen[point] :][::-1]

    def starts(self) -> Iterator[tuple[int, Known]]:
        """(task, what is known when it starts), in an order that respects all arrows."""
        incoming = self._incoming()
        queues = len(self.queue_names)
        nothing = Known([0] * queues, [0] * queues)
        known: dict[int, Known] = {}
        ready = deque(point for point, left in enumerate(incoming) if not left)
        while ready:
            point = ready.popleft()
            now = known.pop(point, nothing)
            if point < self.count:
                yield point, now
                now = self._after_start(point, now)
            elif point < 2 * self.count:
                now = self._after_end(point - self.count, now)
            for other in self.arrows[point]:
                before = known.get(other)
                known[other] = now if before is None else before.joined(now, self.several)
                incoming[other] -= 1
                if not incoming[other]:
                    ready.append(other)

    def ended(self, task: int, now: Known) -> bool:
        """Whether a task is certainly over."""
        if not self.inside[task]:
            return False
        queue, index = self.inside[task][0]
        if self.several[queue]:
            return bool(now.ended[queue] >> index & 1)
        return index < now.ended[queue]

    def started(self, task: int, now: Known) -> bool:
        """Whether a task has certainly begun."""
        return (
            bool(self.inside[task])
            and self.inside[task][0][1] < now.started[self.inside[task][0][0]]
        )

    def _after_start(self, task: int, now: Known) -> Known:
        started = list(now.started)
        for queue, index in self.inside[task]:
            started[queue] = max(started[queue], index + 1)
        return Known(started, now.ended)

    def _after_end(self, task: int, now: Known) -> Known:
        ended = list(now.ended)
        for queue, index in self.inside[task]:
            if self.several[queue]:
                ended[queue] |= 1 << index
            else:
                ended[queue] = max(ended[queue], index + 1)
        return Known(now.started, ended)

    def _incoming(self) -> list[int]:
        incoming = [0] * self.points
        for targets in self.arrows:
            for other in targets:
                incoming[other] += 1
        return incoming
