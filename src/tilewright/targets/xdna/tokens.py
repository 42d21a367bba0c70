"""What the controller knows: which tasks are finished once it has seen a token.

A token of a drain says that so many objects left the array. Then the cores behind them released
them, so they released the A and B they read before, so those arrived, so the fills that brought
them are over. Whoever rewrites a descriptor, pushes a task or ends the program on less than such
a chain of reasons races with the hardware.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.targets.xdna.design import Await, Design, Fifo, Replay, Tile, Transfer
from tilewright.targets.xdna.device import SHIM_ROW
from tilewright.targets.xdna.programs import CoreTrace


@dataclass
class TokenReport:
    problems: list[str] = field(default_factory=list)
    most_outstanding: dict[str, int] = field(default_factory=dict)  # FIFO -> tasks at once


@dataclass
class _Task:
    fifo: str
    until: int  # elements of the FIFO's stream when it is over
    token: bool
    descriptor: int | None
    number: int


class _Knowledge:
    """Elements of each stream known to have passed."""

    def __init__(self, design: Design, traces: Mapping[Tile, CoreTrace]) -> None:
        self.design = design
        self.traces = traces
        self.passed: dict[str, int] = defaultdict(int)

    def drained(self, fifo: Fifo, elements: int) -> None:
        """So many elements of a FIFO went all the way to its consumer."""
        if elements <= self.passed[fifo.name]:
            return
        self.passed[fifo.name] = elements
        link = self.design.link_out_of.get(fifo.name)
        if link is not None:
            self._through_link(fifo, elements)
            return
        trace = self.traces.get(fifo.producer)
        if trace is None:
            return
        objects = -(-elements // fifo.object.count)
        snapshots = trace.snapshots.get(fifo.name, [])
        if 0 < objects <= len(snapshots):
            for name, released in snapshots[objects - 1].items():
                source = self.design.fifo(name)
                if source.producer != fifo.producer:
                    self.drained(source, released * source.object.count)

    def _through_link(self, fifo: Fifo, elements: int) -> None:
        design = self.design
        link = design.link_out_of[fifo.name]
        memory = design.memory_fifo(link)
        segments = design.segments(link)
        if link.join:
            objects = elements // memory.object.count
            for name, count in zip(link.inputs, segments, strict=True):
                self.drained(design.fifo(name), objects * count)
            return
        source = design.fifo(link.inputs[0])
        if link.residency is not None:
            panel = link.residency.objects * memory.object.count
            pushes = [s for s in design.runtime if isinstance(s, Replay) and s.fifo == fifo.name]
            arrived, left = 0, elements
            for push in pushes:
                if left <= 0:
                    break
                arrived += min(panel, left)
                left -= panel * push.sweeps
            self.drained(source, arrived)
            return
        count = segments[link.outputs.index(fifo.name)]
        self.drained(source, -(-elements // count) * memory.object.count)


def check_tokens(design: Design, traces: Mapping[Tile, CoreTrace]) -> TokenReport:
    """Queues, descriptors and the end of the program, against what the tokens prove."""
    report = TokenReport()
    known = _Knowledge(design, traces)
    pushed: dict[str, list[_Task]] = defaultdict(list)
    streamed: dict[str, int] = defaultdict(int)
    awaiting: dict[str, list[_Task]] = defaultdict(list)
    holders: dict[tuple[Tile, int], _Task] = {}
    seen: dict[str, bool] = {}

    def over(task: _Task) -> bool:
        return known.passed[task.fifo] >= task.until

    def complain(sentence: str) -> None:
        if sentence not in seen:
            seen[sentence] = True
            report.problems.append(sentence)

    for number, step in enumerate(design.runtime):
        if isinstance(step, Transfer):
            fifo = design.fifo(step.fifo)
            tile = fifo.producer if fifo.producer.row == SHIM_ROW else fifo.consumers[0]
            holder = holders.get((tile, step.descriptor))
            if holder is not None and not over(holder):
                complain(
                    f"descriptor {step.descriptor} of shim {tile} is rewritten for @{step.fifo}"
                    f" before its task of @{holder.fifo} is known to be over"
                )
            streamed[step.fifo] += step.pattern.count
            task = _Task(step.fifo, streamed[step.fifo], step.token, step.descriptor, number)
            holders[tile, step.descriptor] = task
            if step.token:
                awaiting[step.fifo].append(task)
            tasks = [task]
        elif isinstance(step, Replay):
            tasks = _replay_tasks(design, step, streamed, number)
        elif isinstance(step, Await):
            if not awaiting[step.fifo]:
                complain(f"a token of @{step.fifo} is awaited that no task gives")
                continue
            known.drained(design.fifo(step.fifo), awaiting[step.fifo].pop(0).until)
            continue
        else:
            continue
        for task in tasks:
            pushed[step.fifo] = [t for t in pushed[step.fifo] if not over(t)]
            pushed[step.fifo].append(task)
        held = len(pushed[step.fifo])
        report.most_outstanding[step.fifo] = max(report.most_outstanding.get(step.fifo, 0), held)
        if held > design.device.outstanding:
            complain(
                f"the queue of @{step.fifo} may hold {held} tasks, it has room for"
                f" {design.device.outstanding}"
            )
    for name, tasks in awaiting.items():
        if tasks:
            complain(f"the program ends with {len(tasks)} token(s) of @{name} not awaited")
    for name, tasks in pushed.items():
        if any(not over(task) for task in tasks):
            complain(f"the program ends before the tasks of @{name} are known to be over")
    return report


def _replay_tasks(
    design: Design, step: Replay, streamed: dict[str, int], number: int
) -> list[_Task]:
    """The tasks of one resident panel: first sweep, the middle ones, last sweep."""
    link = design.link_out_of.get(step.fifo)
    if link is None or link.residency is None:
        return []
    panel = link.residency.objects * design.memory_fifo(link).object.count
    parts = [1, step.sweeps - 2, 1] if step.sweeps > 2 else [1] * step.sweeps
    tasks = []
    for sweeps in parts:
        streamed[step.fifo] += sweeps * panel
        tasks.append(_Task(step.fifo, streamed[step.fifo], False, None, number))
    return tasks
