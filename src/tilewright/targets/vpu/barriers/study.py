"""`tilewright vpu barriers`: assign a list's barriers within a pool, or change it until it fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.barriers.assign import Assignment, Entries, assign
from tilewright.targets.vpu.barriers.given import (
    GivenList,
    is_strict,
    ring,
    search_mapped,
    strict_cover,
)
from tilewright.targets.vpu.barriers.signals import Limits
from tilewright.targets.vpu.simulator import simulate
from tilewright.targets.vpu.task_list import Barrier, TaskList


@dataclass(slots=True)
class Study:
    """The answer: ids in order of virtual barriers, and what was changed for them."""

    feasible: bool
    physical: list[int]
    minimum_pool: int | None
    changes: list[dict[str, Any]]
    tasks: TaskList | None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = {
            "feasible": self.feasible,
            "physical": self.physical,
            "minimum_pool": self.minimum_pool,
            "changes": self.changes,
        }
        if self.reason:
            result["reason"] = self.reason
        return result


def study(tasks: TaskList, pool: int, as_given: bool = False, strict: bool = False) -> Study:
    """Physical barriers for a list within a pool; with changes unless it is taken as given."""
    _check(tasks)
    given = GivenList(tasks)
    order = given.order()
    if order is None:
        cause = "the tasks wait for each other in a circle, whatever the pool"
        return Study(False, [], None, [], None, cause)
    over = _over_limits(tasks)
    found = None if over else _as_given(given, pool, strict)
    if as_given:
        minimum = None if over else _minimum_as_given(given, strict)
        if found is None:
            reason = (
                over or f"the list as given needs {minimum or 'more than ' + str(pool)} barriers"
            )
            return Study(False, [], minimum, [], None, reason)
        return Study(True, found, minimum, [], _with_ids(tasks, found))
    least = _least_after_changes(tasks, given, order)
    if found is not None:
        return Study(
            True, found, min(least, max(found, default=-1) + 1), [], _with_ids(tasks, found)
        )
    if pool < least:
        reason = "some task both waits and posts, which needs 2 barriers"
        return Study(False, [], least, [], None, reason)
    changed = _legalise(tasks, given, order, pool)
    if changed is None:
        return Study(
            False,
            [],
            least,
            [],
            None,
            f"{pool} barriers of {tasks.machine.slots} slots are too few",
        )
    made, changes = changed
    physical = [barrier.physical or 0 for barrier in made.barriers]
    return Study(True, physical, least, changes, made)


def _check(tasks: TaskList) -> None:
    places = tasks.places()
    for name, queues in places.items():
        if not queues:
            raise TilewrightError("TW7051", f"task {name!r} stands in no queue")
    producers, consumers = [0] * len(tasks.barriers), [0] * len(tasks.barriers)
    for item in tasks.tasks.values():
        for barrier in item.posts:
            producers[barrier] += item.slots
        for barrier in item.waits:
            consumers[barrier] += item.slots
    for number, barrier in enumerate(tasks.barriers):
        if (barrier.producers, barrier.consumers) != (producers[number], consumers[number]):
            raise TilewrightError(
                "TW7051",
                f"barrier {number} says {barrier.producers} producers and {barrier.consumers} "
                f"consumers, its users count {producers[number]} and {consumers[number]} slots",
            )


def _over_limits(tasks: TaskList) -> str:
    side = tasks.machine.side_slots
    for number, barrier in enumerate(tasks.barriers):
        if max(barrier.producers, barrier.consumers) > side:
            return f"barrier {number} uses more than {side} slots on one side"
    storage = tasks.machine.storage
    for names in tasks.queues.values() if storage is not None else ():
        posted: dict[int, int] = {}
        for name in names:
            item = tasks.tasks[name]
            posted = {barrier: posted.get(barrier, 0) + 1 for barrier in item.posts}
            if storage and any(n > storage.consecutive(item.engine) for n in posted.values()):
                return "one barrier is posted more often in a row than descriptors are stored"
    return ""


def _as_given(given: GivenList, pool: int, strict: bool) -> list[int] | None:
    found = ring(given, pool)
    if strict:
        if found is not None and is_strict(given, found):
            return found
        found = strict_cover(given)
        return found if found is not None and max(found, default=-1) < pool else None
    return found if found is not None else search_mapped(given, pool)


def _minimum_as_given(given: GivenList, strict: bool) -> int | None:
    if strict:
        found = strict_cover(given)
        return None if found is None else max(found, default=-1) + 1
    count = len(given.signals)
    low, high = 0, count
    while low < high:  # more ids never make the ring stick, except at its very edge
        middle = (low + high) // 2
        if ring(given, middle) is not None:
            high = middle
        else:
            low = middle + 1
    while high and (ring(given, high - 1) or search_mapped(given, high - 1)) is not None:
        high -= 1
    return high


def _with_ids(tasks: TaskList, physical: list[int]) -> TaskList:
    barriers = [
        replace(barrier, physical=number)
        for barrier, number in zip(tasks.barriers, physical, strict=True)
    ]
    return replace(tasks, barriers=barriers)


def _least_after_changes(tasks: TaskList, given: GivenList, order: list[int]) -> int:
    if not given.signals:
        return 0
    if any(item.waits and item.posts for item in given.items):
        return 2
    return 1 if _as_given(given, 1, False) or _legalise(tasks, given, order, 1) else 2


def _legalise(
    tasks: TaskList, given: GivenList, order: list[int], pool: int
) -> tuple[TaskList, list[dict[str, Any]]] | None:
    """The list with other barriers that keep at least its order, and what was added."""
    free = replace(tasks, barriers=[replace(b, physical=None) for b in tasks.barriers])
    run = simulate(free)
    order = sorted(order, key=lambda task: (run.start[task], order.index(task)))
    place = {task: n for n, task in enumerate(order)}
    edges = [
        sorted({place[p] for b in given.items[task].waits for p in given.signals[b].producers})
        for task in order
    ]
    entries = Entries(
        queues=[tuple(given.standing[task]) for task in order],
        engines_behind=given.engines,
        slots=[given.items[task].slots for task in order],
        engines=[given.items[task].engine for task in order],
        starts=[run.start[task] for task in order],
        ends=[run.end[task] for task in order],
    )
    limits = Limits(tasks.machine.side_slots, tasks.machine.storage)
    best: tuple[int, TaskList, Assignment] | None = None
    for way in assign(entries, edges, pool, limits):
        made = _rebuilt(tasks, given, order, way)
        makespan = simulate(made).makespan
        if best is None or makespan < best[0]:
            best = (makespan, made, way)
    if best is None:
        return None
    _, made, way = best
    clocks, known = given.clocks(order)
    changes: list[dict[str, Any]] = []
    for signal in way.signals:
        for first in signal.producers:
            for second in signal.consumers:
                before, after = order[first], order[second]
                if not clocks.ended(known[before], known[after]):
                    changes.append(
                        {"change": "order", "from": given.names[before], "to": given.names[after]}
                    )
    changes.append(
        {"change": "barriers", "before": len(tasks.barriers), "after": len(made.barriers)}
    )
    return made, changes


def _rebuilt(tasks: TaskList, given: GivenList, order: list[int], way: Assignment) -> TaskList:
    waits: list[list[int]] = [[] for _ in given.names]
    posts: list[list[int]] = [[] for _ in given.names]
    barriers = []
    for number, (signal, physical) in enumerate(zip(way.signals, way.physical, strict=True)):
        for entry in signal.producers:
            posts[order[entry]].append(number)
        for entry in signal.consumers:
            waits[order[entry]].append(number)
        barriers.append(
            Barrier(
                physical,
                sum(given.items[order[entry]].slots for entry in signal.producers),
                sum(given.items[order[entry]].slots for entry in signal.consumers),
            )
        )
    items = {
        name: replace(given.items[n], waits=tuple(waits[n]), posts=tuple(posts[n]))
        for n, name in enumerate(given.names)
    }
    return replace(tasks, tasks=items, barriers=barriers)
