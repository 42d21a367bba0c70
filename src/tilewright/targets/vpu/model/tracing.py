"""Runs of task lists as tracks: a row per engine, a slice per task, named after its call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.vpu.model.entry import CompiledEntry
from tilewright.targets.vpu.pictures import CATEGORIES
from tilewright.targets.vpu.simulator import Run
from tilewright.trace.model import Slice, TraceModel, Track


@dataclass(frozen=True, slots=True)
class Span:
    """A list that ran, from some cycle of the model on."""

    entry: CompiledEntry
    run: Run
    first: int


def trace_of(spans: Sequence[Span], window: tuple[int, int]) -> TraceModel:
    """What the engines did in some cycles of a run of the model."""
    rows: dict[str, int] = {}
    slices: list[Slice] = []
    end = max((span.first + span.run.makespan for span in spans), default=0)
    low, high = window[0], min(window[1], end)
    for span in spans:
        tasks = span.entry.program.tasks
        numbers = {name: number for number, name in enumerate(tasks.tasks)}
        for queue, names in tasks.queues.items():
            lanes = tasks.engines_behind(queue)
            labels = [queue] if lanes == 1 else [f"{queue} engine {n}" for n in range(lanes)]
            own = [rows.setdefault(label, len(rows)) for label in labels]
            busy = [0] * lanes
            for name in names:
                number = numbers[name]
                start, stop = (span.first + t[number] for t in (span.run.start, span.run.end))
                # The engine that has been idle is the one that takes a task.
                lane = min(range(lanes), key=lambda n: (busy[n] > start, busy[n], n))
                busy[lane] = stop
                if stop > low and start < high:
                    slices.append(_slice(span.entry, name, own[lane], start, stop))
    return TraceModel("", f"{end} cycles", low, high, [Track(name, "units") for name in rows],
                      slices, [], [])  # fmt: skip


def _slice(entry: CompiledEntry, name: str, track: int, start: int, stop: int) -> Slice:
    item = entry.program.tasks.tasks[name]
    label = item.task or f"{item.kind} {item.buffer}"
    owner = entry.owners.get(item.task or "")
    notes: dict[str, int | str] = {"task": name, "waits": str(list(item.waits)),
                                   "posts": str(list(item.posts))}  # fmt: skip
    if owner is not None:
        notes["call"] = entry.network.calls[owner].name
    return Slice(track, start, stop, label, CATEGORIES[item.kind], arguments=notes)
