"""All properties of a task list, with or without its graph."""

from __future__ import annotations

from tilewright.targets.vpu.checker.barriers import (
    StrictReuse,
    check_counts,
    check_cycles,
    check_queues,
)
from tilewright.targets.vpu.checker.findings import Finding, Findings
from tilewright.targets.vpu.checker.memory import MemoryWalk, check_ranges
from tilewright.targets.vpu.checker.order import Order
from tilewright.targets.vpu.simulator import Options, jittered, simulate
from tilewright.targets.vpu.task_list import TaskList
from tilewright.targets.vpu.tile_graph import TileGraph

LEAST_TIMINGS = 3


def verify(
    tasks: TaskList, graph: TileGraph | None = None, jitter: int = 0, strict: bool = False
) -> list[Finding]:
    """What is wrong with a list; nothing, if it is right under every timing."""
    findings = Findings()
    sound = check_ranges(tasks, graph, findings)
    check_counts(tasks, findings)
    check_queues(tasks, findings)
    if check_cycles(tasks, findings):
        _walk(tasks, graph if sound else None, strict, sound, findings)
    for timing in range(max(LEAST_TIMINGS, jitter + 1)):
        options = Options()
        if timing:
            options = Options(durations=jittered(tasks, timing), shuffle_ties=timing)
        run = simulate(tasks, options)
        if run.stuck:
            reasons = "; ".join(f"{s.queue} at {s.task}: {s.reason}" for s in run.stuck[:4])
            findings.add("V6", f"the queues do not drain: {reasons}", *(s.task for s in run.stuck))
            break
    return findings.sorted()


def _walk(
    tasks: TaskList, graph: TileGraph | None, strict: bool, sound: bool, findings: Findings
) -> None:
    order = Order(tasks, mapping=False)
    memory = MemoryWalk(tasks, order, graph, findings) if sound else None
    reuse = StrictReuse(order, findings) if strict else None
    pairs = list(tasks.after)
    number = {name: index for index, name in enumerate(order.names)}
    if graph is not None:
        entry = {item.task: name for name, item in tasks.tasks.items() if item.task is not None}
        pairs += [(entry[a], entry[b]) for a, b in graph.after if a in entry and b in entry]
    before: dict[int, list[int]] = {}
    for first, second in pairs:
        before.setdefault(number[second], []).append(number[first])
    for task, now in order.starts():
        for other in before.get(task, []):
            if not order.ended(other, now):
                names = order.names[other], order.names[task]
                findings.add("V3", f"{names[1]} has to come after {names[0]}, unordered", *names)
        if memory is not None:
            memory.visit(task, now)
        if reuse is not None:
            reuse.visit(task, now)
    if memory is not None and graph is not None:
        memory.finish()
