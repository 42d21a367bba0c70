"""Lower bounds from one resource looked at alone.

A job has a head (it cannot start earlier), a time on the resource, and a tail (it takes that
long after the resource is done with it). All other resources are taken to be unlimited, and jobs
may be interrupted, so what comes out never exceeds what any real schedule needs.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """One use of a resource."""

    head: int
    time: float
    tail: int


def one_machine(jobs: Iterable[Job]) -> float:
    """When the last job is through at the earliest, heads, tails and the resource respected.

    Jackson's rule: at any moment work on the job with the longest tail among those whose head
    has passed. With interruptions allowed this is optimal, hence a bound for every schedule.
    """
    waiting = sorted(jobs, key=lambda job: job.head)
    ready: list[tuple[int, float]] = []  # (-tail, time left)
    now: float = 0
    finish: float = 0
    index = 0
    while index < len(waiting) or ready:
        if not ready:
            now = max(now, waiting[index].head)
        while index < len(waiting) and waiting[index].head <= now:
            job = waiting[index]
            heapq.heappush(ready, (-job.tail, job.time))
            index += 1
        tail, left = heapq.heappop(ready)
        # The last ones go on to their end: what a sum with `now` rounds away would stay for ever.
        spent = min(left, waiting[index].head - now) if index < len(waiting) else left
        now += spent
        if spent < left:
            heapq.heappush(ready, (tail, left - spent))
        else:
            finish = max(finish, now - tail)
    return finish


def two_machines(times: Sequence[tuple[float, float]]) -> float:
    """The least time in which two different machines finish all jobs when jobs may be divided.

    Each job is (time on the first, time on the second). Work goes to the machine that is
    relatively better at it until both are done together.
    """
    order = sorted(
        (pair for pair in times if pair[0] and pair[1]), key=lambda pair: pair[0] / pair[1]
    )
    first, second = 0.0, float(sum(pair[1] for pair in order))
    for on_first, on_second in order:
        if first + on_first >= second - on_second:
            # Divide this job so that both end together.
            share = (second - first) / (on_first + on_second)
            return first + share * on_first
        first += on_first
        second -= on_second
    return max(first, second)
