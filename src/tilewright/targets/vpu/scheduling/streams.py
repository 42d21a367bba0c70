"""Streams side by side: while one keeps the SHAVEs busy, another multiplies.

Streams are groups of rows that take the same way through a network. In program order each stage
is carried out for one after the other, and the DPUs wait wherever a stage is one of the SHAVEs.
Here all streams advance together, by equal shares of their DPU work, each some way behind the one
before it, so that stages of different kinds meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.tile_graph import DPU, NO_STREAM, SHAVE

_WIDTH = 2048  # cycles of a DPU: streams are looked at in windows of so much work
_SMOOTH = 17  # windows over which work may shift


def interleaved(problem: Problem) -> list[int]:
    """Program order with the streams of every stretch merged; dependences hold."""
    streams = problem.graph.streams
    order: list[int] = []
    for alone, found in groupby(problem.topological, lambda task: streams[task] == NO_STREAM):
        tasks = list(found)
        order += tasks if alone else _merged(problem, tasks)
    return order


def _merged(problem: Problem, tasks: Sequence[int]) -> list[int]:
    queues: dict[int, list[int]] = {}
    for task in tasks:
        queues.setdefault(problem.graph.streams[task], []).append(task)
    names = sorted(queues)
    behind = _distance(problem, [queues[name] for name in names])
    work = {name: max(1, sum(_cycles(problem, t, DPU) for t in queues[name])) for name in names}
    most = max(work.values())
    clocks = {name: float(number * behind) for number, name in enumerate(names)}
    heads = dict.fromkeys(names, 0)
    left = {task: 0 for task in tasks}  # dependences inside of this stretch
    for task in tasks:
        left[task] = sum(before in left for before in problem.predecessors[task])
    order: list[int] = []
    while len(order) < len(tasks):
        ready = [n for n in names if heads[n] < len(queues[n]) and not left[queues[n][heads[n]]]]
        name = min(ready, key=lambda n: (clocks[n], n))
        task = queues[name][heads[name]]
        heads[name] += 1
        order.append(task)
        # Streams with less work go slower: what they have in common stays at the same distance.
        clocks[name] += _cycles(problem, task, DPU) * most / work[name]
        for after in problem.successors[task]:
            if after in left:
                left[after] -= 1
    return order


def _distance(problem: Problem, queues: Sequence[Sequence[int]]) -> int:
    """How much DPU work a stream should be behind the one before it.

    SHAVE work should be spread evenly: of the distances at which the SHAVE work of the streams
    meets itself little, the shortest, and the best nearby.
    """
    work = max(sum(_cycles(problem, t, DPU) for t in queue) for queue in queues)
    if len(queues) < 2 or not work:
        return 0
    width = _WIDTH * problem.graph.machine.tiles
    count = work // width + 1
    shaves = np.zeros((len(queues), 2 * count))
    for number, queue in enumerate(queues):
        own = max(1, sum(_cycles(problem, task, DPU) for task in queue))
        clock = 0
        for task in queue:
            place = clock * work // own // width
            shaves[number, place] += _cycles(problem, task, SHAVE)
            clock += _cycles(problem, task, DPU)
    spectra = np.fft.rfft(shaves, axis=1)
    distances = np.arange(max(1, count // 2))
    met = np.zeros(len(distances))  # per distance, summed over pairs of streams
    for first in range(len(queues)):
        for second in range(first + 1, len(queues)):
            pair = np.fft.irfft(spectra[first] * spectra[second].conj(), 2 * count)
            wide = np.pad(pair[:count], _SMOOTH // 2, mode="edge")
            smooth = np.convolve(wide, np.ones(_SMOOTH) / _SMOOTH, "valid")
            steps = np.minimum(distances * (second - first), count - 1)
            met += smooth[steps] / (count - steps)  # per window in which both are at work
    close = met.min() + (met.max() - met.min()) / 8
    place = int(np.argmax(met <= close))
    return width * (place + int(np.argmin(met[place : place + place // 2 + 1])))


def _cycles(problem: Problem, task: int, engine: str) -> int:
    item = problem.tasks[task]
    return item.cycles if item.engine == engine else 0
