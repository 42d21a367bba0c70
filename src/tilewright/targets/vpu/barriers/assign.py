"""Physical barriers for the compiler's lists: strict reuse, merges and added edges.

An id is used again only when all who waited for its old barrier have started, by order alone,
before anyone who posts the new one starts. Where the pool is too small for that, barriers are
merged or order is added, whichever delays the modelled schedule least. All changes respect the
order in which the schedule starts its tasks, so no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tilewright.targets.vpu.barriers.signals import Limits, Signal, signals
from tilewright.targets.vpu.queue_order import QueueClocks
from tilewright.targets.vpu.tile_graph import ENGINES

try:
    from tilewright.targets.vpu import _vpu as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None

_ROUNDS = 12
_LARGEST = (1 << 31) - 1  # of slots that native code can count
_MERGING_ROUND = 3  # from here on barriers are merged wherever possible, which adds no edges


@dataclass(slots=True)
class Entries:
    """What barrier assignment needs to know of tasks, in the order of their planned starts."""

    queues: list[tuple[int, ...]]  # per entry
    engines_behind: list[int]  # per queue
    slots: list[int]
    engines: list[str]
    starts: list[int]
    ends: list[int]


@dataclass(slots=True)
class Assignment:
    """Barriers in programming order with their physical ids, and the edges they stand for."""

    signals: list[Signal]
    physical: list[int]
    edges: list[list[int]]  # per entry, reduced
    changed: bool = False  # whether order was added to stay within the pool


def assign(
    entries: Entries, edges: Sequence[Sequence[int]], pool: int, limits: Limits
) -> Iterator[Assignment]:
    """Ways to keep the edges of a schedule within a pool of barriers; none if it is too small.

    The first way keeps every edge by itself. If it has to change something, groups of tasks with
    one barrier between them may be faster and are the second way.
    """
    found = by_edges(entries, edges, pool, limits)
    grouped = None
    if found is not None:
        yield found
    if pool >= 2 and (found is None or found.changed):
        grouped = _in_groups(entries, edges, limits)
        if grouped is not None:
            yield grouped
    if found is None and grouped is None:
        row = _one_row(entries, pool)
        if row is not None:
            yield row


def by_edges(
    entries: Entries, edges: Sequence[Sequence[int]], pool: int, limits: Limits
) -> Assignment | None:
    """Every edge by itself, with merges and added order where the pool is too small."""
    if native is None or max([pool, limits.side, *entries.slots]) > _LARGEST:
        return plain_by_edges(entries, edges, pool, limits)
    numbers = {engine: number for number, engine in enumerate(ENGINES)}
    consecutive = []
    if limits.storage is not None:
        consecutive = [limits.storage.consecutive(engine) for engine in ENGINES]
    found = native.assign_by_edges(
        entries.queues,
        entries.engines_behind,
        entries.slots,
        [numbers[engine] for engine in entries.engines],
        entries.starts,
        entries.ends,
        edges,
        pool,
        limits.side,
        consecutive,
        _ROUNDS,
        _MERGING_ROUND,
    )
    if found is None:
        return None
    made, physical, reduced, changed = found
    return Assignment([Signal(p, c) for p, c in made], physical, reduced, changed)


def plain_by_edges(
    entries: Entries, edges: Sequence[Sequence[int]], pool: int, limits: Limits
) -> Assignment | None:
    """The same in Python, for source trees without native parts and to compare with."""
    wanted = [set(found) for found in edges]
    changed = False
    for number in range(_ROUNDS):
        clocks, reduced = reduce_edges(entries, wanted)
        found = signals(reduced, entries.slots, entries.engines, limits)
        scan = _Scan(entries, clocks, pool, limits, number >= _MERGING_ROUND)
        if not scan.run(found):
            return None
        changed = changed or scan.merged or bool(scan.added)
        if not scan.added:
            return Assignment(scan.kept, scan.physical, reduced, changed)
        for first, second in scan.added:
            wanted[second].add(first)
    return None


def reduce_edges(
    entries: Entries, edges: Sequence[set[int]]
) -> tuple[QueueClocks, list[list[int]]]:
    """The transitive reduction, order of queues included, and the clocks of all entries."""
    clocks = QueueClocks(entries.engines_behind)
    reduced = [
        clocks.add(queues, sorted(found, reverse=True))
        for queues, found in zip(entries.queues, edges, strict=True)
    ]
    return clocks, reduced


class _Scan:
    """One pass over barriers in programming order."""

    def __init__(
        self, entries: Entries, clocks: QueueClocks, pool: int, limits: Limits, merging: bool
    ) -> None:
        self.entries, self.clocks, self.pool, self.limits = entries, clocks, pool, limits
        self.merging = merging
        self.kept: list[Signal] = []
        self.physical: list[int] = []
        self.current: list[int] = []  # per id: the barrier it stands for
        self.before: list[int] = []  # per barrier: the one before it on its id, or -1
        self.added: list[tuple[int, int]] = []
        self.merged = False

    def run(self, found: list[Signal]) -> bool:
        for signal in found:
            if self._free_id(signal):
                continue
            merge = self._cheapest_merge(signal)
            reuse = None
            if merge is None or (merge[0] and not self.merging):
                reuse = self._cheapest_reuse(signal)
            if merge is None and reuse is None:
                return False
            if reuse is None or (merge is not None and merge[0] <= reuse[0]):
                assert merge is not None
                self._merge(merge[1], signal)
            else:
                self.added += reuse[2]
                self._put(signal, reuse[1])
        return True

    def _put(self, signal: Signal, physical: int) -> None:
        if physical == len(self.current):
            self.before.append(-1)
            self.current.append(len(self.kept))
        else:
            self.before.append(self.current[physical])
            self.current[physical] = len(self.kept)
        self.kept.append(Signal(list(signal.producers), list(signal.consumers)))
        self.physical.append(physical)

    def _free_id(self, signal: Signal) -> bool:
        for physical, barrier in enumerate(self.current):
            if self._passed(barrier, signal.producers):
                self._put(signal, physical)
                return True
        if len(self.current) < self.pool:
            self._put(signal, len(self.current))
            return True
        return False

    def _passed(self, barrier: int, producers: list[int]) -> bool:
        """Whether everyone who waits for a barrier has started before any of the producers."""
        if self.kept[barrier].consumers[-1] >= producers[0]:
            return False  # planned later
        started = self.clocks.started
        return all(started(c, p) for c in self.kept[barrier].consumers for p in producers)

    def _cheapest_merge(self, signal: Signal) -> tuple[int, int] | None:
        """(delay, barrier) of the best barrier to join with one that finds no id."""
        best: tuple[int, int] | None = None
        for barrier in self.current:
            other = self.kept[barrier]
            producers = {*other.producers, *signal.producers}
            consumers = {*other.consumers, *signal.consumers}
            if max(producers) >= min(consumers) or not self._within(producers, consumers):
                continue
            before = self.before[barrier]
            if before >= 0 and not self._passed(before, signal.producers):
                continue
            delay = self._delay(producers, consumers)
            if best is None or (delay, barrier) < best:
                best = (delay, barrier)
        return best

    def _within(self, producers: set[int], consumers: set[int]) -> bool:
        slots, side = self.entries.slots, self.limits.side
        if sum(slots[p] for p in producers) > side or sum(slots[c] for c in consumers) > side:
            return False
        if self.limits.storage is not None:
            counts: dict[str, int] = {}
            for producer in producers:
                engine = self.entries.engines[producer]
                counts[engine] = counts.get(engine, 0) + 1
            return all(n <= self.limits.storage.consecutive(e) for e, n in counts.items())
        return True

    def _delay(self, producers: set[int], consumers: set[int]) -> int:
        ready = max(self.entries.ends[p] for p in producers)
        return max(0, *(ready - self.entries.starts[c] for c in consumers))

    def _cheapest_reuse(self, signal: Signal) -> tuple[int, int, list[tuple[int, int]]] | None:
        """(delay, id, edges) of the best id whose consumers come earlier, if order is added."""
        best: tuple[int, int, list[tuple[int, int]]] | None = None
        for physical, barrier in enumerate(self.current):
            consumers = self.kept[barrier].consumers
            if max(consumers) >= min(signal.producers):
                continue
            edges = [
                (c, p) for c in consumers for p in signal.producers if not self.clocks.started(c, p)
            ]
            delay = max(0, *(self.entries.ends[c] - self.entries.starts[p] for c, p in edges))
            if best is None or (delay, len(edges), physical) < (best[0], len(best[2]), best[1]):
                best = (delay, physical, edges)
        return best

    def _merge(self, barrier: int, signal: Signal) -> None:
        self.merged = True
        kept = self.kept[barrier]
        kept.producers = sorted({*kept.producers, *signal.producers})
        kept.consumers = sorted({*kept.consumers, *signal.consumers})


def _in_groups(
    entries: Entries, edges: Sequence[Sequence[int]], limits: Limits
) -> Assignment | None:
    """Groups of tasks that depend on each other only inside queues, one barrier between groups.

    Two ids in turn are always enough. A group ends where the next task depends on one of its
    members in another queue.
    """
    groups: list[list[int]] = []
    group_of: list[int] = []
    for entry, before in enumerate(edges):
        inside = [
            other
            for other in before
            if groups and group_of[other] == len(groups) - 1 and not _chained(entries, other, entry)
        ]
        if not groups or inside:
            groups.append([])
        groups[-1].append(entry)
        group_of.append(len(groups) - 1)
    result = Assignment([], [], [[] for _ in edges], changed=True)
    for first, second in pairwise(groups):
        signal = Signal(_last(entries, first), _first(entries, second))
        slots = entries.slots
        for side in (signal.producers, signal.consumers):
            if sum(slots[entry] for entry in side) > limits.side:
                return None
        result.physical.append(len(result.signals) % 2)
        result.signals.append(signal)
        for consumer in signal.consumers:
            result.edges[consumer] = list(signal.producers)
    return result


def _chained(entries: Entries, first: int, second: int) -> bool:
    """Whether a queue with one engine holds both."""
    shared = set(entries.queues[first]) & set(entries.queues[second])
    return any(entries.engines_behind[queue] == 1 for queue in shared)


def _last(entries: Entries, group: list[int]) -> list[int]:
    """The members whose end means that the whole group is over."""
    seen: set[int] = set()
    result = []
    for entry in reversed(group):
        fresh = [
            queue
            for queue in entries.queues[entry]
            if queue not in seen or entries.engines_behind[queue] > 1
        ]
        if fresh:
            result.append(entry)
        seen.update(entries.queues[entry])
    return sorted(result)


def _first(entries: Entries, group: list[int]) -> list[int]:
    """The members that start before all others of the group."""
    seen: set[int] = set()
    result = []
    for entry in group:
        if any(queue not in seen for queue in entries.queues[entry]):
            result.append(entry)
        seen.update(entries.queues[entry])
    return result


def _one_row(entries: Entries, pool: int) -> Assignment | None:
    """Every task after the one before it: the last resort, where barriers are few or small."""
    clocks = QueueClocks(entries.engines_behind)
    result = Assignment([], [], [], changed=True)
    for entry, queues in enumerate(entries.queues):
        kept = clocks.add(queues, [entry - 1] if entry else [])
        result.edges.append(kept)
        for before in kept:
            result.physical.append(len(result.signals) % 2)
            result.signals.append(Signal([before], [entry]))
    if pool >= 2:
        return result
    waits = {entry for signal in result.signals for entry in signal.consumers}
    posts = {entry for signal in result.signals for entry in signal.producers}
    if waits & posts or pool < 1:
        return None
    result.physical = [0] * len(result.signals)
    return result
