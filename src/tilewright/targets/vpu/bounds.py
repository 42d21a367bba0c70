"""What no schedule of a graph can beat, whatever its addresses, spills and barriers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tilewright.planning.one_machine import Job, one_machine
from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.tile_graph import DMA, DPU


@dataclass(frozen=True, slots=True)
class Bounds:
    """`lower` is the plain bound, `strong` adds heads and tails, `best` is the highest known."""

    lower: int
    strong: int
    best: int


def heads(problem: Problem) -> list[int]:
    """The longest way to each task, without its own cycles."""
    result = [0] * len(problem.tasks)
    for task in problem.topological:
        for before in problem.predecessors[task]:
            result[task] = max(result[task], result[before] + problem.tasks[before].cycles)
    return result


def tails(problem: Problem) -> list[int]:
    """The longest way from the start of each task to the end, its own cycles included."""
    result = [0] * len(problem.tasks)
    for task in reversed(problem.topological):
        after = max((result[other] for other in problem.successors[task]), default=0)
        result[task] = after + problem.tasks[task].cycles
    return result


def bounds(problem: Problem) -> Bounds:
    """Work over engines, the critical path, and both together per group of engines.

    Spills are not counted: they are the schedule's own doing.
    """
    machine = problem.graph.machine
    first, last = heads(problem), tails(problem)
    critical = max(last, default=0)
    totals: dict[str, int] = defaultdict(int)
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, task in enumerate(problem.tasks):
        totals[task.engine] += task.cycles * task.ports
        groups[task.engine, 0 if task.engine == DMA else task.tile].append(number)
    engines = {
        DMA: machine.dma_ports,
        DPU: machine.dpus * machine.tiles,
        "shave": machine.shaves * machine.tiles,
    }
    lower = max([critical, *(-(-work // engines[engine]) for engine, work in totals.items())])
    strong = best = lower
    for (engine, _), members in groups.items():
        count = engines[engine] if engine == DMA else engines[engine] // machine.tiles
        work = sum(problem.tasks[n].cycles * problem.tasks[n].ports for n in members)
        head = min(first[n] for n in members)
        tail = min(last[n] - problem.tasks[n].cycles for n in members)
        strong = max(strong, head - (-work // count) + tail)
        best = max(best, strong)
        if count == 1:
            jobs = [
                Job(first[n], problem.tasks[n].cycles, last[n] - problem.tasks[n].cycles)
                for n in members
            ]
            best = max(best, int(one_machine(jobs)))
    return Bounds(lower, strong, max(best, _memory(problem)))


def _memory(problem: Problem) -> int:
    """Bytes times cycles that buffers have to stay for, over the capacity.

    A buffer stays at least while one task writes it and another reads it. An output that may take
    its input's place shares the cycles of that task, which are then counted once.
    """
    tasks, machine = problem.tasks, problem.graph.machine
    areas = [0] * machine.tiles
    for root, buffer in enumerate(problem.graph.buffers):
        writers, readers = problem.writers[root], problem.readers[root]
        writing = max((tasks[w].cycles for w in writers), default=0)
        reading = max((tasks[r].cycles for r in readers), default=0)
        if len(writers) == 1 and any(root == target for _, target in problem.in_place[writers[0]]):
            writing = 0
        stay = writing + reading if len(writers) == 1 else max(writing, reading)
        areas[buffer.tile] += buffer.bytes * stay
    return max(-(-area // machine.cmx_bytes) for area in areas)
