"""Why an engine stands idle: a dependence, memory, a port, or a barrier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.targets.vpu.scheduling.emit import PORT_ORDER
from tilewright.targets.vpu.scheduling.plan import TASK
from tilewright.targets.vpu.scheduling.schedule import Schedule

DEPENDENCY, MEMORY, PORT, BARRIER = "dependency", "memory", "port", "barrier"


@dataclass(frozen=True, slots=True)
class Gap:
    """Idle time of a queue before a task, and what that task waited for."""

    first: int
    end: int
    why: str
    task: str

    def to_json(self) -> dict[str, Any]:
        return {"from": self.first, "to": self.end, "why": self.why}


def idle_gaps(schedule: Schedule, compute_only: bool = True) -> dict[str, list[Gap]]:
    """The gaps of every queue that has tasks; after the last task a queue is done, not idle."""
    result = {}
    run, made = schedule.run, schedule.draft
    for queue, entries in made.queues.items():
        if not entries or (compute_only and queue.startswith("dma")):
            continue
        gaps, busy = [], 0
        for entry in entries:
            if run.start[entry] > busy:
                reason = _reason(schedule, entry)
                gaps.append(Gap(busy, run.start[entry], reason, made.labels[entry]))
            busy = max(busy, run.end[entry])
        result[queue] = gaps
    return result


def _reason(schedule: Schedule, entry: int) -> str:
    """What held an entry back last."""
    cause, what = schedule.run.cause[entry]
    if cause == "map":
        return BARRIER
    if cause != "wait":
        return PORT if schedule.draft.items[entry].engine == "dma" else DEPENDENCY
    last, kind = _awaited(schedule, entry, what)
    if kind in ("WAR", "WAW"):
        return MEMORY
    if kind == PORT_ORDER:
        return PORT
    if kind is None:
        return BARRIER  # an order that only the pool of barriers asked for
    if schedule.draft.steps[last].kind != TASK:
        return MEMORY  # data that had to leave and come back
    if schedule.draft.items[last].engine != "dma":
        return DEPENDENCY
    return _reason_of_transfer(schedule, last)


def _reason_of_transfer(schedule: Schedule, entry: int) -> str:
    """Why a transfer did not run earlier."""
    run = schedule.run
    cause, what = run.cause[entry]
    if not run.start[entry]:
        return DEPENDENCY
    if cause == "map":
        return BARRIER
    if cause in ("head", "engine"):
        return PORT
    _, kind = _awaited(schedule, entry, what)
    return MEMORY if kind in ("WAR", "WAW") else DEPENDENCY


def _awaited(schedule: Schedule, entry: int, barrier: int) -> tuple[int, str | None]:
    """The producer that ended last, and the kind of edge from it; None if there is no edge."""
    run = schedule.run
    producers = schedule.assignment.signals[barrier].producers
    last = max(producers, key=lambda p: run.end[p])
    kinds = dict(schedule.draft.edges[entry])
    if last in kinds:
        return last, kinds[last]
    ends = {p: kind for p, kind in kinds.items() if run.end[p] == run.end[last]}
    if ends:
        other = min(ends)
        return other, ends[other]
    return last, None
