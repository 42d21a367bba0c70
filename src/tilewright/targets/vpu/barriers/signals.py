"""Virtual barriers: one for every set of producers that some tasks wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.targets.vpu.machine import Storage


@dataclass(slots=True)
class Signal:
    """A virtual barrier before it has a number: entries that post it, entries that wait for it."""

    producers: list[int]
    consumers: list[int]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one barrier may count, and how many descriptors may post it in a row."""

    side: int  # slots of producers, and of consumers
    storage: Storage | None = None


def signals(
    predecessors: Sequence[Sequence[int]],
    slots: Sequence[int],
    engines: Sequence[str],
    limits: Limits,
) -> list[Signal]:
    """Barriers for reduced edges, split to the slots, in the order of their first producers."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for consumer, producers in enumerate(predecessors):
        if producers:
            groups.setdefault(tuple(sorted(producers)), []).append(consumer)
    result = []
    for producers, consumers in groups.items():
        for consumer_part in _parts(consumers, slots, limits.side):
            for part in _parts(producers, slots, limits.side):
                for piece in _stored(part, engines, limits.storage):
                    result.append(Signal(piece, consumer_part))
    result.sort(key=lambda signal: (signal.producers[0], signal.consumers[0]))
    return result


def _parts(tasks: Sequence[int], slots: Sequence[int], limit: int) -> list[list[int]]:
    """Consecutive pieces whose slots stay within the limit."""
    parts: list[list[int]] = []
    used = 0
    for task in tasks:
        if not parts or used + slots[task] > limit:
            parts.append([])
            used = 0
        parts[-1].append(task)
        used += slots[task]
    return parts


def _stored(
    producers: list[int], engines: Sequence[str], storage: Storage | None
) -> list[list[int]]:
    """Pieces in which no engine posts more often than its descriptor storage allows."""
    if storage is None:
        return [producers]
    pieces: list[list[int]] = [[]]
    counts: dict[str, int] = {}
    for task in producers:
        counts[engines[task]] = counts.get(engines[task], 0) + 1
        if counts[engines[task]] > storage.consecutive(engines[task]):
            pieces.append([])
            counts = {engines[task]: 1}
        pieces[-1].append(task)
    return pieces
