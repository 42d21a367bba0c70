"""Physical barriers for a list as it is: nothing is moved, merged or added.

The ring hands out ids first in, first out while it plays the queues through. Where the ring gets
stuck another choice may still work, so small lists are searched. Strict reuse is a partial order
of barriers; the fewest ids that cover it follow from a matching.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from tilewright.targets.vpu.barriers.signals import Signal
from tilewright.targets.vpu.queue_order import QueueClocks
from tilewright.targets.vpu.task_list import TaskList

_MOST_STATES = 20_000
_MOST_BARRIERS = 3000  # for questions that look at all pairs


class GivenList:
    """Queues and barriers of a list by number, to be played through."""

    def __init__(self, tasks: TaskList) -> None:
        self.names = list(tasks.tasks)
        number = {name: n for n, name in enumerate(self.names)}
        self.items = list(tasks.tasks.values())
        self.queues = [[number[name] for name in names] for names in tasks.queues.values()]
        self.engines = [tasks.engines_behind(name) for name in tasks.queues]
        self.standing: list[list[int]] = [[] for _ in self.names]
        for queue, found in enumerate(self.queues):
            for task in found:
                self.standing[task].append(queue)
        self.signals = [Signal([], []) for _ in tasks.barriers]
        for task, item in enumerate(self.items):
            for barrier in item.posts:
                self.signals[barrier].producers.append(task)
            for barrier in item.waits:
                self.signals[barrier].consumers.append(task)

    def order(self) -> list[int] | None:
        """An order in which all tasks can run when barriers are no limit; None if there is none."""
        player = _Player(self, [True] * len(self.signals))
        order: list[int] = []
        moved = True
        while moved:
            moved = False
            for queue in range(len(self.queues)):
                while (task := player.startable(queue)) is not None:
                    player.run(task)
                    order.append(task)
                    moved = True
        return order if len(order) == sum(map(bool, self.standing)) else None

    def clocks(self, order: Sequence[int]) -> tuple[QueueClocks, dict[int, int]]:
        """Happens-before of the list; tasks are known there by their place in the order."""
        place = {task: n for n, task in enumerate(order)}
        clocks = QueueClocks(self.engines)
        for task in order:
            before = {
                place[p]
                for barrier in self.items[task].waits
                for p in self.signals[barrier].producers
            }
            clocks.add(self.standing[task], sorted(before, reverse=True))
        return clocks, place


class _Player:
    """Queues played through with every task over at once."""

    def __init__(self, given: GivenList, mapped: list[bool]) -> None:
        self.given = given
        self.mapped = mapped
        self.heads = [0] * len(given.queues)
        self.producers = [len(signal.producers) for signal in given.signals]
        self.consumers = [len(signal.consumers) for signal in given.signals]

    def head(self, queue: int) -> int | None:
        found = self.given.queues[queue]
        return found[self.heads[queue]] if self.heads[queue] < len(found) else None

    def startable(self, queue: int) -> int | None:
        task = self.head(queue)
        if task is None or any(self.head(q) != task for q in self.given.standing[task]):
            return None
        item = self.given.items[task]
        for barrier in item.waits:
            if not self.mapped[barrier] or self.producers[barrier]:
                return None
        return task if all(self.mapped[barrier] for barrier in item.posts) else None

    def run(self, task: int) -> list[int]:
        """Run a task; returns the barriers whose last consumer it was."""
        item = self.given.items[task]
        for queue in self.given.standing[task]:
            self.heads[queue] += 1
        for barrier in item.posts:
            self.producers[barrier] -= 1
        passed = []
        for barrier in item.waits:
            self.consumers[barrier] -= 1
            if not self.consumers[barrier]:
                passed.append(barrier)
        return passed

    def over(self) -> bool:
        return all(self.head(queue) is None for queue in range(len(self.heads)))


def ring(given: GivenList, pool: int) -> list[int] | None:
    """The ring's ids, or None where it gets stuck."""
    count = len(given.signals)
    physical = [-1] * count
    mapped = [False] * count
    free = deque(range(pool))
    following = 0
    player = _Player(given, mapped)

    def map_more() -> bool:
        nonlocal following
        before = following
        while following < count and free:
            physical[following] = free.popleft()
            mapped[following] = True
            following += 1
        return following > before

    map_more()
    moved = True
    while moved:
        moved = False
        for queue in range(len(given.queues)):
            while (task := player.startable(queue)) is not None:
                free.extend(physical[barrier] for barrier in player.run(task))
                moved = True
        moved = map_more() or moved
    return physical if player.over() and following == count else None


def search_mapped(given: GivenList, pool: int) -> list[int] | None:
    """Ids for reuse as mapped, by search; None if there are none, or the list is too large."""
    seen: set[tuple] = set()
    count = len(given.signals)
    if count > 64:
        return None

    def play(heads: tuple[int, ...], physical: list[int], last: list[int]) -> list[int] | None:
        """Go on from a state; `last` is the barrier that each id stands for, -1 when unused."""
        key = (heads, tuple(sorted(last)))
        if key in seen or len(seen) > _MOST_STATES:
            return None
        seen.add(key)
        player = _Player(given, [number >= 0 for number in physical])
        for queue, head in enumerate(heads):
            player.heads[queue] = head
        done = {task for queue, head in enumerate(heads) for task in given.queues[queue][:head]}
        for task in done:
            for barrier in given.items[task].posts:
                player.producers[barrier] -= 1
            for barrier in given.items[task].waits:
                player.consumers[barrier] -= 1
        moved = True
        while moved:  # whatever needs no new id only helps
            moved = False
            for queue in range(len(given.queues)):
                while (task := player.startable(queue)) is not None:
                    player.run(task)
                    moved = True
        if player.over():
            return physical
        for queue in range(len(given.queues)):
            task = player.head(queue)
            if task is None or any(player.head(q) != task for q in given.standing[task]):
                continue
            needed = [b for b in given.items[task].posts if physical[b] < 0]
            needed += [b for b in given.items[task].waits if physical[b] < 0]
            if not needed or any(player.producers[b] for b in given.items[task].waits):
                continue
            trial, ids = list(physical), list(last)
            for barrier in sorted(needed):
                open_ids = [
                    n
                    for n, old in enumerate(ids)
                    if old < barrier and (old < 0 or player.consumers[old] == 0)
                    and (old < 0 or given.signals[old].consumers)
                ]  # fmt: skip
                if not open_ids:
                    break
                best = max(open_ids, key=lambda n: (ids[n], -n))
                trial[barrier] = best
                ids[best] = barrier
            else:
                found = play(tuple(player.heads), trial, ids)
                if found is not None:
                    return found
        return None

    found = play(tuple([0] * len(given.queues)), [-1] * count, [-1] * pool)
    if found is not None and any(number < 0 for number in found):
        return None
    return found


def is_strict(given: GivenList, physical: Sequence[int]) -> bool:
    """Whether reuse keeps to the order that holds without it."""
    order = given.order()
    if order is None:
        return False
    clocks, place = given.clocks(order)
    last: dict[int, int] = {}
    for barrier, number in enumerate(physical):
        if number in last and not _follows(given, clocks, place, last[number], barrier):
            return False
        last[number] = barrier
    return True


def _follows(
    given: GivenList, clocks: QueueClocks, place: dict[int, int], old: int, new: int
) -> bool:
    consumers, users = given.signals[old].consumers, given.signals[new].producers
    users = users or given.signals[new].consumers
    return bool(consumers) and all(
        clocks.started(place[c], place[p]) for c in consumers for p in users
    )


def strict_cover(given: GivenList) -> list[int] | None:
    """Ids with strict reuse, as few as possible; None if the list cannot run or is too large."""
    count = len(given.signals)
    order = given.order()
    if order is None or count > _MOST_BARRIERS:
        return None
    clocks, place = given.clocks(order)
    after = [
        [new for new in range(old + 1, count) if _follows(given, clocks, place, old, new)]
        for old in range(count)
    ]
    next_of, before = [-1] * count, [-1] * count

    def augment(root: int) -> None:
        """Find a path that lets one more barrier be followed by another on its id."""
        came: dict[int, int] = {}
        waiting = deque([root])
        while waiting:
            old = waiting.popleft()
            for new in after[old]:
                if new in came:
                    continue
                came[new] = old
                if before[new] >= 0:
                    waiting.append(before[new])
                    continue
                while True:  # turn the path around
                    previous = came[new]
                    following = next_of[previous]
                    next_of[previous], before[new] = new, previous
                    if previous == root:
                        return
                    new = following

    for barrier in range(count):
        augment(barrier)
    physical = [-1] * count
    used = 0
    for barrier in range(count):
        if before[barrier] < 0:
            physical[barrier] = used
            used += 1
        else:
            physical[barrier] = physical[before[barrier]]
    return physical
