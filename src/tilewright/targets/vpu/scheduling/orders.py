"""Orders of tasks to begin with; every order respects the dependences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.tile_graph import DMA


def by_priority(problem: Problem, key: Callable[[int], Any]) -> list[int]:
    """A topological order that takes the ready task with the smallest key."""
    waiting = [len(before) for before in problem.predecessors]
    ready: list[tuple[Any, int]] = []
    for task, left in enumerate(waiting):
        if not left:
            heappush(ready, (key(task), task))
    order = []
    while ready:
        _, task = heappop(ready)
        order.append(task)
        for other in problem.successors[task]:
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, (key(other), other))
    return order


def program_order(problem: Problem) -> list[int]:
    return list(problem.topological)


def tail_order(problem: Problem, tails: Sequence[int]) -> list[int]:
    """What the longest work depends on comes first: loads just in time, none too early."""
    return by_priority(problem, lambda task: (-tails[task], task))


def demand_order(problem: Problem, base: Sequence[int]) -> list[int]:
    """A base order with every load right before the first task that needs it."""
    placed = [False] * len(base)
    order: list[int] = []
    for task in base:
        if problem.tasks[task].source and problem.successors[task]:
            continue
        stack = [task]
        while stack:
            top = stack[-1]
            missing = [p for p in problem.predecessors[top] if not placed[p]]
            if missing:
                stack.extend(reversed(missing))
            else:
                stack.pop()
                if not placed[top]:
                    placed[top] = True
                    order.append(top)
    order += [task for task in base if not placed[task]]
    return order


def depth_first(problem: Problem, tails: Sequence[int]) -> list[int]:
    """Finish what was begun: after a task, first what frees its inputs. Little stays alive."""
    freed: list[int] = []
    left = [len(set(readers)) for readers in problem.readers]
    age = [0] * len(problem.tasks)
    waiting = [len(before) for before in problem.predecessors]
    ready: list[tuple[int, int, int, int]] = []
    clock = 0

    def push(task: int) -> None:
        kills = sum(problem.sizes[r] for r in problem.read_roots[task] if left[r] == 1)
        grows = sum(problem.sizes[r] for r in problem.write_roots[task])
        loads = problem.tasks[task].source is not None
        heappush(ready, (grows - kills if not loads else grows, -age[task], -tails[task], task))

    for task, count in enumerate(waiting):
        if not count:
            push(task)
    while ready:
        clock += 1
        *_, task = heappop(ready)
        freed.append(task)
        for root in problem.read_roots[task]:
            left[root] -= 1
        for other in problem.successors[task]:
            waiting[other] -= 1
            age[other] = clock
            if not waiting[other]:
                push(other)
    return demand_order(problem, freed)


def stores_first(problem: Problem, order: Sequence[int]) -> list[int]:
    """The same order with every store as soon as its data is there, which frees memory early."""
    rank = {task: place for place, task in enumerate(order)}
    is_store = [task.engine == DMA and task.sink is not None for task in problem.tasks]
    return by_priority(problem, lambda task: (not is_store[task], rank[task]))
