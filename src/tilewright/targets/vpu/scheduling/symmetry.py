"""Parts of a graph that are the same: any schedule works with two of them exchanged."""

from __future__ import annotations

from tilewright.targets.vpu.dependences import Problem


def equal_parts(problem: Problem) -> list[list[int]]:
    """First tasks of connected parts, one list for every set of parts that look alike."""
    parts: dict[int, list[int]] = {}
    leader = _leaders(problem)
    for task in range(len(problem.tasks)):
        parts.setdefault(leader[task], []).append(task)
    alike: dict[tuple, list[int]] = {}
    for tasks in parts.values():
        alike.setdefault(_signature(problem, tasks), []).append(tasks[0])
    return [found for found in alike.values() if len(found) > 1]


def _leaders(problem: Problem) -> list[int]:
    """The smallest task of everyone's connected part."""
    above = list(range(len(problem.tasks)))

    def find(task: int) -> int:
        while above[task] != task:
            above[task] = above[above[task]]
            task = above[task]
        return task

    def join(first: int, second: int) -> None:
        low, high = sorted((find(first), find(second)))
        above[high] = low

    for readers, writers in zip(problem.readers, problem.writers, strict=True):
        users = [*readers, *writers]
        for other in users[1:]:
            join(users[0], other)
    for task, before in enumerate(problem.predecessors):
        for other in before:
            join(task, other)
    return [find(task) for task in range(len(above))]


def _signature(problem: Problem, tasks: list[int]) -> tuple:
    """Everything about a part except its names."""
    number = {task: n for n, task in enumerate(tasks)}
    roots: dict[int, int] = {}
    result = []
    for task in tasks:
        item = problem.tasks[task]
        spans = []
        for found in (problem.reads[task], problem.writes[task]):
            for span in found:
                local = roots.setdefault(span.root, len(roots))
                spans.append((local, span.offset, span.bytes, span.count, span.stride))
            spans.append(None)
        before = tuple(sorted(number[p] for p in problem.predecessors[task]))
        pairs = tuple((roots[a], roots[b]) for a, b in problem.in_place[task])
        kind = (item.engine, item.cycles, item.ports, item.tile, item.source, item.sink)
        result.append((kind, tuple(spans), before, pairs))
    buffers = problem.graph.buffers
    shapes = tuple(
        (buffers[r].bytes, buffers[r].spill_cycles, problem.aligns[r], buffers[r].tile)
        for r in roots
    )
    return tuple(result), shapes
