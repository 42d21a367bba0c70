"""A schedule in numbers: residences, spills, bounds, metrics; what `vpu schedule` prints."""

from __future__ import annotations

from typing import Any

from tilewright.targets.vpu.idle import Gap, idle_gaps
from tilewright.targets.vpu.scheduling.plan import RELOAD, TASK, WRITE
from tilewright.targets.vpu.scheduling.schedule import Schedule
from tilewright.targets.vpu.simulator import Options, jittered, simulate


def residences(schedule: Schedule) -> dict[int, list[tuple[int, int, int]]]:
    """Per buffer (address, first cycle, end cycle) of every stay in CMX, in order."""
    found: dict[int, list[tuple[int, int, int]]] = {}
    made, run = schedule.draft, schedule.run
    for entry in made.decided:
        step = made.steps[entry]
        start, end = run.start[entry], run.end[entry]
        for root, address in step.addresses.items():
            stays = found.setdefault(root, [])
            fresh = not stays or step.kind == RELOAD
            if fresh:
                stays.append((address, start, end))
            else:
                stays[-1] = (address, min(stays[-1][1], start), max(stays[-1][2], end))
    return {root: sorted(stays, key=lambda stay: stay[1]) for root, stays in sorted(found.items())}


def peak_bytes(schedule: Schedule) -> int:
    """The highest byte of a CMX that is ever used."""
    sizes = schedule.problem.sizes
    return max(
        (stay[0] + sizes[root] for root, stays in residences(schedule).items() for stay in stays),
        default=0,
    )


def summary(schedule: Schedule) -> dict[str, Any]:
    """The schedule as the documented JSON object."""
    made, run, problem = schedule.draft, schedule.run, schedule.problem
    names = [buffer.id for buffer in problem.graph.buffers]
    kinds = [step.kind for step in made.steps]
    spilled = sum(problem.sizes[s.index] for s in made.steps if s.kind != TASK)
    by_entry: list[list[str]] = [[] for _ in made.items]
    for queue, entries in made.queues.items():
        for entry in entries:
            by_entry[entry].append(queue)
    order = sorted(range(len(made.items)), key=lambda n: (run.start[n], n))
    return {
        "makespan": schedule.makespan,
        "lower_bound": schedule.bounds.lower,
        "strong_bound": schedule.bounds.strong,
        "optimal": schedule.proven,
        "peak_bytes": peak_bytes(schedule),
        "spill_writes": kinds.count(WRITE),
        "spill_reads": kinds.count(RELOAD),
        "spill_bytes": spilled,
        "addresses": {
            names[root]: [list(stay) for stay in stays]
            for root, stays in residences(schedule).items()
        },
        "tasks": [
            {"id": made.labels[n], "queue": queue, "start": run.start[n], "end": run.end[n]}
            for n in order
            for queue in by_entry[n]
        ],
        "edges": [
            [made.labels[before], made.labels[entry]]
            for entry, found in enumerate(schedule.assignment.edges)
            for before in sorted(found)
        ],
        "barriers": {
            "virtual": len(schedule.tasks.barriers),
            "physical": len(set(schedule.assignment.physical)),
            "pool": problem.graph.machine.barriers,
        },
        "idle": {
            queue: [gap.to_json() for gap in gaps] for queue, gaps in idle_gaps(schedule).items()
        },
    }


def metrics(schedule: Schedule) -> dict[str, Any]:
    """Efficiency, traffic, occupancy, stalls and robustness of a schedule."""
    made, run, problem = schedule.draft, schedule.run, schedule.problem
    makespan = max(1, schedule.makespan)
    compute = _union(
        (run.start[n], run.end[n]) for n, item in enumerate(made.items) if item.engine != "dma"
    )
    traffic = sum(
        entry.bytes * entry.count
        for item in made.items
        for entry in (*item.reads, *item.writes)
        if entry.space == "ddr"
    )
    compulsory = sum(
        span.bytes * span.count
        for n, task in enumerate(problem.tasks)
        if task.source or task.sink
        for span in (*problem.reads[n], *problem.writes[n])
    )
    area = sum(
        problem.sizes[root] * (end - first)
        for root, stays in residences(schedule).items()
        for _, first, end in stays
    )
    return {
        "efficiency": schedule.bounds.lower / makespan,
        "strong_efficiency": schedule.bounds.strong / makespan,
        "exposed_dma": schedule.makespan - compute,
        "ddr_bytes": traffic,
        "compulsory_ddr_bytes": compulsory,
        "spill_write_bytes": _moved(schedule, WRITE),
        "spill_read_bytes": _moved(schedule, RELOAD),
        "mean_cmx_bytes": area / makespan / problem.graph.machine.tiles,
        "worst_fragmentation": max(made.fragmentation, default=0.0),
        "stalls": {
            queue: _stalls(gaps) for queue, gaps in idle_gaps(schedule, compute_only=False).items()
        },
        "robustness": _robustness(schedule),
    }


def _moved(schedule: Schedule, kind: str) -> int:
    steps = schedule.draft.steps
    return sum(schedule.problem.sizes[step.index] for step in steps if step.kind == kind)


def _stalls(gaps: list[Gap]) -> dict[str, int]:
    """Idle cycles of a queue by reason."""
    result: dict[str, int] = {}
    for gap in gaps:
        result[gap.why] = result.get(gap.why, 0) + gap.end - gap.first
    return result


def _robustness(schedule: Schedule, timings: int = 3) -> float:
    """The worst makespan when tasks take up to a fifth more or less, over the modelled one."""
    runs = [
        simulate(schedule.tasks, Options(durations=jittered(schedule.tasks, n, 0.8, 1.25)))
        for n in range(1, timings + 1)
    ]
    return max(run.makespan for run in runs) / max(1, schedule.makespan)


def _union(intervals: Any) -> int:
    """Cycles covered by at least one interval."""
    total = reach = 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, reach))
        reach = max(reach, end)
    return total
