"""V5 and V6: counts, slots, reuse of physical ids, and that nothing waits in a circle."""

from __future__ import annotations

import re

from tilewright.targets.vpu.checker.findings import Findings
from tilewright.targets.vpu.checker.order import Known, Order
from tilewright.targets.vpu.task_list import TaskList


def check_counts(tasks: TaskList, findings: Findings) -> None:
    """V5: counts equal users in slots, sides stay within the slots, ids within the pool."""
    machine = tasks.machine
    producers, consumers = [0] * len(tasks.barriers), [0] * len(tasks.barriers)
    for item in tasks.tasks.values():
        for barrier in item.posts:
            producers[barrier] += item.slots
        for barrier in item.waits:
            consumers[barrier] += item.slots
    last_on_id: dict[int, int] = {}
    for number, barrier in enumerate(tasks.barriers):
        if barrier.physical is not None:
            last_on_id[barrier.physical] = number
    for number, barrier in enumerate(tasks.barriers):
        for side, counted, said in (
            ("producers", producers[number], barrier.producers),
            ("consumers", consumers[number], barrier.consumers),
        ):
            if counted != said:
                findings.add("V5", f"barrier {number} says {said} {side}, {counted} slots use it")
            if counted > machine.side_slots:
                findings.add(
                    "V5",
                    f"barrier {number} has {counted} slots of {side}, at most "
                    f"{machine.side_slots} are allowed",
                )
        if barrier.physical is not None:
            if barrier.physical >= machine.barriers:
                findings.add(
                    "V5",
                    f"barrier {number} is physical {barrier.physical}, the machine has "
                    f"{machine.barriers}",
                )
            if not consumers[number] and last_on_id[barrier.physical] != number:
                findings.add("V5", f"barrier {number} has no consumers, so its id is never free")
    _check_storage(tasks, findings)


def _check_storage(tasks: TaskList, findings: Findings) -> None:
    storage = tasks.machine.storage
    if storage is None:
        return
    for queue, names in tasks.queues.items():
        run: dict[int, int] = {}
        for name in names:
            item = tasks.tasks[name]
            run = {barrier: run.get(barrier, 0) + 1 for barrier in item.posts}
            limit = storage.consecutive(item.engine)
            for barrier, length in run.items():
                if length == limit + 1:
                    findings.add(
                        "V5",
                        f"more than {limit} consecutive tasks of {queue} post barrier {barrier}: "
                        "descriptor storage would not be recycled",
                        name,
                    )


def check_queues(tasks: TaskList, findings: Findings) -> None:
    """V6: every task stands in queues of its own engine that this machine has."""
    known = set(tasks.machine.queues())
    places = tasks.places()
    for queue, names in tasks.queues.items():
        if names and queue not in known:
            findings.add("V6", f"the machine has no queue {queue}: its tasks never run", *names[:1])
    for name, item in tasks.tasks.items():
        queues = places[name]
        if not queues:
            findings.add("V6", f"task {name} stands in no queue and never runs", name)
        for queue in queues:
            match = re.match(r"([a-z]+)(\d+)", queue)
            assert match is not None
            if match[1] != item.engine:
                findings.add("V6", f"task {name} of the {item.engine} stands in {queue}", name)
            elif item.engine != "dma" and int(match[2]) != item.tile:
                findings.add("V6", f"task {name} of tile {item.tile} stands in {queue}", name)
        if len(queues) > 1 and (item.engine != "dma" or len(queues) != tasks.machine.dma_ports):
            findings.add("V6", f"task {name} stands in {len(queues)} queues", name)


def check_cycles(tasks: TaskList, findings: Findings) -> bool:
    """V6: no circle through queues, barriers and the mapping of barriers. False if there is one.

    A circle of queues and barriers alone leaves no order to check anything else in.
    """
    for mapping in (False, True):
        order = Order(tasks, mapping)
        cycle = order.cycle()
        if cycle:
            words = " -> ".join(order.describe(point) for point in [*cycle, cycle[0]])
            names = [order.names[p % order.count] for p in cycle if p < 2 * order.count]
            findings.add("V6", f"deadlock: {words}", *dict.fromkeys(names))
            if mapping:
                findings.add(
                    "V5", "a physical id is reused by tasks that its old barrier waits for",
                    *dict.fromkeys(names),
                )  # fmt: skip
            return mapping
    return True


class StrictReuse:
    """V5 strict: by order alone, old consumers start before new producers."""

    def __init__(self, order: Order, findings: Findings) -> None:
        self.order, self.findings = order, findings
        older = {new: old for old, new in order.reuses}
        waiting: dict[int, list[int]] = {}
        for task, item in enumerate(order.items):
            for barrier in item.waits:
                waiting.setdefault(barrier, []).append(task)
        self.older, self.waiting = older, waiting

    def visit(self, task: int, now: Known) -> None:
        for barrier in self.order.items[task].posts:
            old = self.older.get(barrier)
            if old is None:
                continue
            for other in self.waiting.get(old, []):
                if not self.order.started(other, now):
                    names = self.order.names[other], self.order.names[task]
                    self.findings.add(
                        "V5",
                        f"barrier {barrier} takes the id of barrier {old}, but nothing orders "
                        f"{names[0]}, which waits for the old one, before {names[1]}",
                        *names,
                    )
