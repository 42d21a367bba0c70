"""From a plan to the entries of a task list: names, queues, ranges in CMX and DDR."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.address_edges import address_edges
from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.machine import DDR_BYTES, Machine, dpu_queue
from tilewright.targets.vpu.scheduling.plan import RELOAD, TASK, WRITE, Plan, Step
from tilewright.targets.vpu.task_list import DDR, ListTask, Range
from tilewright.targets.vpu.tile_graph import DMA, DPU, Outside, Span

_DDR_ALIGN = 64
PORT_ORDER = "port"  # an edge that only keeps the planned order of a port


@dataclass(slots=True)
class Draft:
    """Entries in the order of their planned starts, without barriers."""

    machine: Machine
    problem: Problem
    steps: list[Step]
    decided: list[int]  # entries in the order in which the plan decided them
    labels: list[str]  # what a schedule calls an entry: the task's id, "reload B", "write B"
    items: list[ListTask]
    queues: dict[str, list[int]]
    edges: list[list[tuple[int, str]]]  # per entry: earlier entries and why
    ddr: dict[str, tuple[int, int]]
    fragmentation: list[float]  # at each allocation that found no room


def draft(problem: Problem, plan: Plan) -> Draft:
    """Entries with addresses and all edges between them."""
    machine = problem.graph.machine
    by_start = sorted(range(len(plan.steps)), key=lambda n: (plan.steps[n].start, n))
    steps = [plan.steps[n] for n in by_start]
    decided = [0] * len(steps)
    for entry, place in enumerate(by_start):
        decided[place] = entry
    copies, stores, ddr = _ddr_places(problem, steps)
    tensors = {tensor.id: ddr[tensor.id][0] for tensor in problem.graph.tensors}
    queues: dict[str, list[int]] = {name: [] for name in machine.queues()}
    items, labels = [], []
    reloads: dict[int, int] = {}
    for number, step in enumerate(steps):
        items.append(_entry(problem, step, copies, stores, tensors))
        labels.append(_label(problem, step, reloads))
        for queue in _queues(machine, problem, step):
            queues[queue].append(number)
    edges = address_edges([(item.reads, item.writes) for item in items])
    entry_of = {step.index: n for n, step in enumerate(steps) if step.kind == TASK}
    tasks = {task.id: number for number, task in enumerate(problem.tasks)}
    for first, second in problem.graph.after:
        before, entry = entry_of[tasks[first]], entry_of[tasks[second]]
        if all(other != before for other, _ in edges[entry]):
            edges[entry].append((before, "after"))
    return Draft(
        machine, problem, steps, decided, labels, items, queues, edges, ddr, plan.fragmentation
    )


def _label(problem: Problem, step: Step, reloads: dict[int, int]) -> str:
    if step.kind == TASK:
        return problem.tasks[step.index].id
    name = problem.graph.buffers[step.index].id
    if step.kind == WRITE:
        return f"write {name}"
    reloads[step.index] = count = reloads.get(step.index, 0) + 1
    return f"reload {name}" if count == 1 else f"reload {name}#{count}"


def _queues(machine: Machine, problem: Problem, step: Step) -> list[str]:
    if step.kind == TASK:
        task = problem.tasks[step.index]
        if task.engine == DPU:
            return [dpu_queue(task.tile, step.units[0])]
        if task.engine != DMA:
            return [f"shave{task.tile}"]
        from_cmx = not task.source
    else:
        from_cmx = step.kind == WRITE
    agent = ".cmx" if from_cmx and machine.dma_agents > 1 else ""
    return [f"dma{port}{agent}" for port in step.units]


def _ddr_places(
    problem: Problem, steps: list[Step]
) -> tuple[dict[int, int], dict[tuple[int, int], int], dict[str, tuple[int, int]]]:
    """Where buffers have their copies in DDR, and where stores go.

    A store goes to the buffer's copy if it is the first to write it there; a buffer that was
    loaded or written back keeps that copy, and its store gets a place of its own.
    """
    at = 0
    copies: dict[int, int] = {}
    stores: dict[tuple[int, int], int] = {}
    buffers = problem.graph.buffers

    def place(size: int) -> int:
        nonlocal at
        address, at = at, -(-(at + size) // _DDR_ALIGN) * _DDR_ALIGN
        if at > DDR_BYTES:
            raise TilewrightError(
                "TW7022",
                f"tensors and copies of buffers need more than the {DDR_BYTES} bytes of DDR",
                hint="more CMX would need fewer copies",
            )
        return address

    tensors = {tensor.id: (place(tensor.bytes), tensor.bytes) for tensor in problem.graph.tensors}
    spilled = {step.index for step in steps if step.kind == WRITE}
    claimed: dict[int, list[Span]] = {}
    for step in steps:
        if step.kind != TASK:
            outside = any(problem.tasks[w].outside for w in problem.writers[step.index])
            if step.index not in copies and not (outside and problem.loaded[step.index]):
                copies[step.index] = place(buffers[step.index].bytes)
            continue
        task = problem.tasks[step.index]
        if task.outside:
            continue
        if task.source:
            for root in problem.write_roots[step.index]:
                if root not in copies:
                    copies[root] = place(buffers[root].bytes)
        if not task.sink:
            continue
        for number, span in enumerate(problem.reads[step.index]):
            root = span.root
            own = bool(problem.loaded[root]) or root in spilled
            own = own or any(_meet(span, other) for other in claimed.get(root, []))
            own = own or any(problem.tasks[w].source for w in problem.writers[root])
            if own:
                stores[step.index, number] = place(span.end - span.offset)
                continue
            if root not in copies:
                copies[root] = place(buffers[root].bytes)
            claimed.setdefault(root, []).append(span)
            stores[step.index, number] = copies[root] + span.offset
    table = {buffers[root].id: (copies[root], buffers[root].bytes) for root in sorted(copies)}
    return copies, stores, tensors | table


def _meet(first: Span, second: Span) -> bool:
    """Whether two spans may share bytes; equal strides at different offsets do not."""
    if first.end <= second.offset or second.end <= first.offset:
        return False
    if first.stride and first.stride == second.stride:
        low, high = sorted((first, second), key=lambda span: span.offset % span.stride)
        between = high.offset % high.stride - low.offset % low.stride
        return between < low.bytes or between + high.bytes > low.stride
    return True


def _entry(
    problem: Problem,
    step: Step,
    copies: dict[int, int],
    stores: dict[tuple[int, int], int],
    tensors: dict[str, int],
) -> ListTask:
    machine, buffers = problem.graph.machine, problem.graph.buffers

    def on_chip(span: Span) -> Range:
        address = step.addresses[span.root] + span.offset
        space = machine.space(buffers[span.root].tile)
        return Range(space, address, span.bytes, span.count, span.stride)

    def in_tensor(part: Outside) -> Range:
        return Range(DDR, tensors[part.tensor] + part.offset, part.bytes, part.count, part.stride)

    if step.kind == RELOAD and step.index not in copies:  # from the tensors it was loaded from
        loads = problem.writers[step.index]
        return ListTask(
            step.kind,
            DMA,
            tuple(
                in_tensor(part)
                for w in loads
                for part, span in zip(problem.tasks[w].outside, problem.writes[w], strict=True)
                if span.root == step.index
            ),
            tuple(on_chip(s) for w in loads for s in problem.writes[w] if s.root == step.index),
            cycles=step.end - step.start,
            buffer=buffers[step.index].id,
        )
    if step.kind != TASK:
        root = step.index
        inside = Range(machine.space(buffers[root].tile), step.addresses[root], buffers[root].bytes)
        outside = Range(DDR, copies[root], buffers[root].bytes)
        reads, writes = (outside, inside) if step.kind == RELOAD else (inside, outside)
        return ListTask(
            step.kind, DMA, (reads,), (writes,), cycles=step.end - step.start,
            buffer=buffers[root].id,
        )  # fmt: skip
    task = problem.tasks[step.index]
    reads = [on_chip(span) for span in problem.reads[step.index]]
    writes = [on_chip(span) for span in problem.writes[step.index]]
    if task.source and task.outside:
        reads = [in_tensor(part) for part in task.outside]
    elif task.source:
        reads = [
            Range(DDR, copies[span.root] + span.offset, span.bytes, span.count, span.stride)
            for span in problem.writes[step.index]
        ]
    if task.sink and task.outside:
        writes = [in_tensor(part) for part in task.outside]
    elif task.sink:
        writes = [
            Range(DDR, stores[step.index, number], span.bytes, span.count, span.stride)
            for number, span in enumerate(problem.reads[step.index])
        ]
    return ListTask(
        kind=task.kind,
        engine=task.engine,
        reads=tuple(reads),
        writes=tuple(writes),
        cycles=task.cycles,
        slots=task.slots,
        tile=task.tile,
        task=task.id,
    )
