"""Modulo scheduling on issue slots: the smallest initiation interval of a loop body.

Operations are placed on slots of a VLIW bundle, one bundle per cycle, round a table of II rows
(the modulo reservation table). II starts at max(ResMII, RecMII) and grows until everything fits,
registers included. The pipeline is exposed: a register is taken when its result is written and
free after its last reader.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError

MAX_INTERVAL = 256
_TRIES = 12  # placements per operation before an II is given up


@dataclass(frozen=True)
class Operation:
    """One operation: the slots it may issue on and how long it holds one."""

    name: str
    slots: tuple[str, ...]
    occupancy: int = 1
    registers: float = 0  # vector registers of its result


@dataclass(frozen=True)
class Dependence:
    """The target may issue `latency` cycles after the source of `distance` iterations before."""

    source: str
    target: str
    latency: int
    distance: int = 0
    value: bool = True  # whether the target reads the source's result


@dataclass
class ModuloSchedule:
    interval: int
    times: dict[str, int]
    slots: dict[str, str]
    resource_bound: int
    recurrence_bound: int
    live: float = 0  # most vector registers at one time
    operations: tuple[Operation, ...] = field(default_factory=tuple)

    @property
    def stages(self) -> int:
        return max(self.times.values()) // self.interval + 1

    @property
    def usage(self) -> dict[str, int]:
        """Cycles of each slot used in one interval."""
        used: Counter[str] = Counter()
        for operation in self.operations:
            used[self.slots[operation.name]] += operation.occupancy
        return dict(used)


def resource_bound(operations: tuple[Operation, ...]) -> int:
    """ResMII: the busiest set of slots, over all sets that some operations are confined to."""
    sets = {frozenset(o.slots) for o in operations}
    unions = set(sets)
    for one in sets:
        for other in sets:
            unions.add(one | other)
    return max(
        -(-sum(o.occupancy for o in operations if set(o.slots) <= union) // len(union))
        for union in unions
    )


def recurrence_bound(operations: tuple[Operation, ...], edges: tuple[Dependence, ...]) -> int:
    """RecMII: the smallest II at which no cycle of dependences runs ahead of itself."""
    for interval in range(1, MAX_INTERVAL + 1):
        if _longest_ways(operations, edges, interval) is not None:
            return interval
    raise TilewrightError("TW8060", "the loop body depends on itself within one iteration")


def _longest_ways(
    operations: tuple[Operation, ...], edges: tuple[Dependence, ...], interval: int
) -> dict[str, int] | None:
    """Longest way from each operation to the end of the body; None if a cycle is positive."""
    height = {o.name: 0 for o in operations}
    for _ in range(len(operations) + 1):
        changed = False
        for edge in edges:
            way = height[edge.target] + edge.latency - interval * edge.distance
            if way > height[edge.source]:
                height[edge.source] = way
                changed = True
        if not changed:
            return height
    return None


def modulo_schedule(
    operations: tuple[Operation, ...],
    edges: tuple[Dependence, ...],
    registers: float,
) -> ModuloSchedule:
    """The first II at which the body fits its slots and the vector registers."""
    least_resource = resource_bound(operations)
    least_recurrence = recurrence_bound(operations, edges)
    for interval in range(max(least_resource, least_recurrence), MAX_INTERVAL + 1):
        placed = _attempt(operations, edges, interval)
        if placed is None:
            continue
        times, slots = placed
        _sink(operations, edges, interval, times, slots)
        live = most_live(operations, edges, interval, times)
        if live > registers:
            continue
        return ModuloSchedule(
            interval, times, slots, least_resource, least_recurrence, live, operations
        )
    raise TilewrightError("TW8060", f"no initiation interval up to {MAX_INTERVAL} fits")


def _attempt(
    operations: tuple[Operation, ...], edges: tuple[Dependence, ...], interval: int
) -> tuple[dict[str, int], dict[str, str]] | None:
    """Iterative modulo scheduling: highest first, evicting what is in the way."""
    height = _longest_ways(operations, edges, interval)
    if height is None:
        return None
    order = {o.name: i for i, o in enumerate(operations)}
    by_name = {o.name: o for o in operations}
    times: dict[str, int] = {}
    slots: dict[str, str] = {}
    never_before: dict[str, int] = {}
    budget = _TRIES * len(operations)
    waiting = set(order)
    while waiting:
        if budget == 0:
            return None
        budget -= 1
        name = min(waiting, key=lambda n: (-height[n], order[n]))
        waiting.discard(name)
        operation = by_name[name]
        early = max(
            (
                times[e.source] + e.latency - interval * e.distance
                for e in edges
                if e.target == name and e.source in times
            ),
            default=0,
        )
        early = max(0, early)
        place = _first_place(operation, early, interval, times, slots, by_name)
        if place is None:
            at = max(early, never_before.get(name, -1) + 1)
            place = (at, operation.slots[0])
        times[name], slots[name] = place
        never_before[name] = place[0]
        for other in list(times):
            if other != name and (
                _collide(operation, by_name[other], times, slots, interval)
                or _violates(edges, name, other, times, interval)
            ):
                del times[other], slots[other]
                waiting.add(other)
    return times, slots


def _rows(operation: Operation, time: int, interval: int) -> set[int]:
    return {(time + i) % interval for i in range(operation.occupancy)}


def _collide(
    one: Operation, other: Operation, times: dict[str, int], slots: dict[str, str], interval: int
) -> bool:
    return slots[one.name] == slots[other.name] and bool(
        _rows(one, times[one.name], interval) & _rows(other, times[other.name], interval)
    )


def _violates(
    edges: tuple[Dependence, ...], name: str, other: str, times: dict[str, int], interval: int
) -> bool:
    return any(
        {e.source, e.target} == {name, other}
        and times[e.target] < times[e.source] + e.latency - interval * e.distance
        for e in edges
    )


def _first_place(
    operation: Operation,
    early: int,
    interval: int,
    times: dict[str, int],
    slots: dict[str, str],
    by_name: dict[str, Operation],
) -> tuple[int, str] | None:
    if operation.occupancy > interval:
        return None
    taken: dict[str, set[int]] = defaultdict(set)
    for other, time in times.items():
        taken[slots[other]] |= _rows(by_name[other], time, interval)
    for time in range(early, early + interval):
        rows = _rows(operation, time, interval)
        for slot in operation.slots:
            if not rows & taken[slot]:
                return time, slot
    return None


def _sink(
    operations: tuple[Operation, ...],
    edges: tuple[Dependence, ...],
    interval: int,
    times: dict[str, int],
    slots: dict[str, str],
) -> None:
    """Move operations that produce values later, towards their readers: shorter lifetimes."""
    by_name = {o.name: o for o in operations}
    for name in sorted(times, key=lambda n: -times[n]):
        operation = by_name[name]
        if not operation.registers:
            continue
        limits = [
            times[e.target] + interval * e.distance - e.latency
            for e in edges
            if e.source == name and e.target != name
        ]
        if not limits:
            continue
        for time in range(min(limits), times[name], -1):
            others = {n: t for n, t in times.items() if n != name}
            free = [
                slot
                for slot in operation.slots
                if not any(
                    slots[n] == slot
                    and _rows(operation, time, interval) & _rows(by_name[n], t, interval)
                    for n, t in others.items()
                )
            ]
            if free:
                times[name], slots[name] = time, free[0]
                break


def most_live(
    operations: tuple[Operation, ...],
    edges: tuple[Dependence, ...],
    interval: int,
    times: dict[str, int],
) -> float:
    """The most vector registers that hold a value in one cycle of the steady state."""
    live = [0.0] * interval
    for operation in operations:
        readers = [e for e in edges if e.source == operation.name and e.value]
        if not operation.registers or not readers:
            continue
        written = times[operation.name] + min(e.latency for e in readers)
        last = max(times[e.target] + interval * e.distance for e in readers)
        for cycle in range(written, last + 1):
            live[cycle % interval] += operation.registers
    return max(live)
