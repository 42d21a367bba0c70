"""The least number of cycles any program for a piece of work can take on a profile.

See docs/bounds.md for the reasoning. Nothing here knows how kernels are scheduled: the input is
the work (distinct values and what they need, `work.py`) and the rules of the machine. A time is
a tick; a step's time is the tick at which it completes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tilewright.planning.one_machine import Job, one_machine, two_machines
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.work import CHUNK, ROW, Step, Work

# Decode claims the first instruction in tick 2, so that is the first dispatch.
FIRST_DISPATCH = 2
# A transfer needs its byte count in a register: one scalar instruction, then the dispatch.
FIRST_TRANSFER = FIRST_DISPATCH + 1
# A channel is idle for decode one tick after its transfer is done; the wait takes that tick and
# the user of the bytes is dispatched in the one after. The last wait ends the program.
WAIT = 2
LAST_WAIT = 1
# Steps times results for which the longest ways are followed one result at a time.
DETAIL = 4_000_000


@dataclass(frozen=True)
class Bound:
    """cycles: no program is faster. Each term is a bound of its own; the largest counts."""

    cycles: int
    terms: dict[str, int]

    @property
    def binding(self) -> str:
        """The resource that sets the bound."""
        return max(self.terms, key=lambda name: self.terms[name])


def lower_bound(work: Work) -> Bound:
    """The bound of a piece of work."""
    return _Bounds(work).run()


def transfer_bound(profile: Profile, loaded: int, stored: int) -> Bound:
    """A bound for runs too long to follow value by value: all bytes pass the engine once."""
    engine = (
        FIRST_TRANSFER + command_ticks(profile) + _data_ticks(profile, loaded + stored) + LAST_WAIT
    )
    return Bound(engine, {"DMA": engine})


class _Bounds:
    def __init__(self, work: Work) -> None:
        self.work, self.profile = work, work.profile
        self.index = {step: k for k, step in enumerate(work.steps)}
        self.command, self.row = command_ticks(self.profile), _data_ticks(self.profile, ROW)
        self.before = [[(self.index[b], self.gap(b, s, k in s.slots))
                        for k, b in enumerate(s.before)] for s in work.steps]  # fmt: skip
        self.done: list[int] = []

    def run(self) -> Bound:
        self.done = self._earliest()
        self._refine()
        tails = self._tails()
        ends = [done + tails[k] for k, done in enumerate(self.done)]
        terms = {"path": max(ends, default=0)}
        for unit, jobs in self._jobs(range(len(self.work.steps)), tails).items():
            terms[unit] = _whole(one_machine(jobs))
        for unit, ticks in self._moving_unit(tails).items():
            terms[unit] = max(terms[unit], ticks)
        matrix = self._matrix_units(tails)
        if matrix:
            terms["MXU0+MXU1"] = matrix
        return Bound(max(terms.values()), terms)

    # --- times of single steps ------------------------------------------------------------

    def gap(self, a: Step, b: Step, slot: bool) -> int:
        """Least distance of the completions of a and of b, which needs a's result."""
        if b.name == "store":
            if a.name == "load":
                return WAIT + self.command + self.row
            return min(store_gap(self.profile, choice) for choice in a.choices)
        places = [None] if a.name == "load" else list(a.choices)
        return min(
            unit_gap(self.profile, place, choice)
            for place in places
            for choice in b.choices
            if not slot or place is None or not self._apart(place, choice)
        )

    def _apart(self, a: Timing, b: Timing) -> bool:
        """Two different matrix units: nothing passes between them inside."""
        return a.unit != b.unit and a.unit.startswith("MXU") and b.unit.startswith("MXU")

    def _earliest(self) -> list[int]:
        """Completion of each step, of the first row of it, if nothing but its inputs held it up.

        All loads a step depends on pass through one engine. The best order brings first what
        has the longest way to the step, so the engine alone bounds the step's time. A row of a
        step needs a row of each load, or all rows where an operation on the way mixes them.
        """
        done: list[int] = []
        # Per step: the way from each load it depends on and the bytes of it that one row needs,
        # as (ways, added to all of them).
        ways: list[tuple[dict[int, tuple[int, int]], int]] = []
        room = DETAIL
        for k, step in enumerate(self.work.steps):
            before = self.before[k]
            ready = max((done[b] + gap for b, gap in before), default=0)
            if step.name == "load":
                ways.append(({k: (0, min(ROW, step.bytes))}, 0))
            elif len(before) == 1 and not step.mixed:
                found, added = ways[before[0][0]]
                ways.append((found, added + before[0][1]))
            else:
                joined: dict[int, tuple[int, int]] = {}
                for place, (b, gap) in enumerate(before if room > 0 else ()):
                    found, added = ways[b]
                    room -= len(found)
                    for load, (way, count) in found.items():
                        other, most = joined.get(load, (0, 0))
                        if place in step.mixed:
                            count = self.work.steps[load].bytes
                        joined[load] = max(other, way + added + gap), max(most, count)
                ways.append((joined, 0))
                ready = max(ready, self._through_engine(joined))
            done.append(max(ready, self._alone(step)))
        return done

    def _through_engine(self, ways: dict[int, tuple[int, int]]) -> int:
        start, moved, ready = FIRST_TRANSFER + self.command, 0, 0
        for way, count in sorted(ways.values(), reverse=True):
            moved += count
            ready = max(ready, start + _data_ticks(self.profile, moved) + way)
        return ready

    def _alone(self, step: Step) -> int:
        if step.name in ("load", "store"):
            return FIRST_TRANSFER + self.command + self.row
        return FIRST_DISPATCH + min(choice.latency for choice in step.choices)

    # --- resources ------------------------------------------------------------------------

    def _jobs(
        self, steps: range | list[int], tails: dict[int, int], rows: frozenset[int] = frozenset()
    ) -> dict[str, list[Job]]:
        """Uses of each unit by these steps, of some only what one row needs; work that two units
        can do is not here."""
        jobs: dict[str, list[Job]] = {}
        for k in steps:
            step, done = self.work.steps[k], self.done[k]
            if step.name in ("load", "store"):
                count = min(ROW, step.bytes) if k in rows else step.bytes
                time = exact_ticks(self.profile, count)
                jobs.setdefault("DMA", []).append(Job(done - self.row, time, tails[k]))
            elif len(step.choices) == 1:
                choice = step.choices[0]
                tail = tails[k] + choice.latency - choice.interval
                share = min(step.share, ROW / CHUNK) if k in rows else step.share
                job = Job(done - choice.latency, choice.interval * share, tail)
                jobs.setdefault(choice.unit, []).append(job)
        return jobs

    def _moving_unit(self, tails: dict[int, int]) -> dict[str, int]:
        """The unit that loads, computes and stores, where one does all of this on full registers.

        Either no register is loaded or stored once more than needed: then all of them are full,
        the first one waits for 1024 bytes, and 1024 bytes follow the last one. Or the unit has one
        of these instructions more to do.
        """
        moves = [s for s in self.work.steps if s.name in ("vload", "vstore")]
        units = {choice.unit for s in moves for choice in s.choices}
        if len(units) != 1 or any(s.share < 1 for s in moves):
            return {}
        (unit,) = units
        mine = [k for k, s in enumerate(self.work.steps) if [c.unit for c in s.choices] == [unit]]
        first = [self.work.steps[k].choices[0] for k in mine]
        head = min(self.done[k] - c.latency for k, c in zip(mine, first, strict=True))
        tail = min(tails[k] + c.latency - c.interval for k, c in zip(mine, first, strict=True))
        time = sum(self.work.steps[k].share * c.interval for k, c in zip(mine, first, strict=True))
        whole = _data_ticks(self.profile, CHUNK) - self.row
        names = {s.name for s in moves}
        waits = whole * (("vload" in names and bool(self.work.loads)) + ("vstore" in names))
        more = min(choice.interval for s in moves for choice in s.choices)
        return {unit: head + _whole(time) + tail + min(waits, more)}

    def _matrix_units(self, tails: dict[int, int]) -> int:
        """Both matrix units together: the first head, all the work shared, the last tail."""
        steps = [k for k, s in enumerate(self.work.steps) if len(s.choices) == 2]
        if not steps:
            return 0
        products = [k for k in steps if self.work.steps[k].name.startswith("vmatmul")]
        counted = sum(self.work.steps[k].share for k in products)
        # Operands with few rows leave most of a product unused.
        fuller = max(1.0, self.work.products / counted) if counted else 1.0
        times = []
        for k in steps:
            step = self.work.steps[k]
            share = step.share * (fuller if step.name.startswith("vmatmul") else 1.0)
            times.append((step.choices[0].interval * share, step.choices[1].interval * share))
        shared = two_machines(times)
        latency = [min(c.latency for c in self.work.steps[k].choices) for k in steps]
        head = min(self.done[k] - time for k, time in zip(steps, latency, strict=True))
        return head + _whole(shared) + min(tails[k] for k in steps)

    def _refine(self) -> None:
        """Results wait for everything they need to pass through each unit.

        For each value that leaves the chip the units are looked at with only its own
        ancestors, and the way from each of those to it as the tail.
        """
        results = [k for k, s in enumerate(self.work.steps) if s.name == "vstore"]
        room = max(1, DETAIL // max(1, len(self.work.steps)))
        stride = -(-len(results) // room) if results else 1
        for k in results[::stride]:
            way, rows = self._ways_to(k)
            for jobs in self._jobs(sorted(way), way, rows).values():
                self.done[k] = max(self.done[k], _whole(one_machine(jobs)))
        for k, step in enumerate(self.work.steps):
            if step.name == "store":
                self.done[k] = max([self.done[k], *(self.done[b] + g for b, g in self.before[k])])

    def _ways_to(self, target: int) -> tuple[dict[int, int], frozenset[int]]:
        """Longest way from the completion of each ancestor to that of the target's first row, and
        the ancestors of which only a row is needed for it."""
        way = {target: 0}
        rows = {target}
        for k in range(target, -1, -1):
            if k in way:
                mixed = self.work.steps[k].mixed
                for place, (b, gap) in enumerate(self.before[k]):
                    if b not in way:
                        rows.add(b)
                    if k not in rows or place in mixed:
                        rows.discard(b)
                    way[b] = max(way.get(b, 0), way[k] + gap)
        return way, frozenset(rows)

    def _tails(self) -> dict[int, int]:
        """Longest way from each step's completion to the end."""
        steps = self.work.steps
        tails = {k: LAST_WAIT if step.name == "store" else 0 for k, step in enumerate(steps)}
        for k in range(len(steps) - 1, -1, -1):
            for b, gap in self.before[k]:
                tails[b] = max(tails[b], tails[k] + gap)
        return tails


def unit_gap(profile: Profile, a: Timing | None, b: Timing) -> int:
    """Least distance of the completions of two steps, the second of which needs the first one's
    result; None: bytes that a transfer brings."""
    if a is None:
        return WAIT + b.latency
    if a.unit == b.unit:
        return max(1, a.interval + b.latency - a.latency)
    later = profile.position[b.unit] > profile.position[a.unit]
    if profile.conflict != "ignore":
        return b.latency - (1 if later else 0)
    # Only the order counts: of the completions, and of the dispatches.
    return max(0 if later else 1, b.latency - a.latency + 1)


def store_gap(profile: Profile, a: Timing) -> int:
    """From the completion of a step to that of the transfer of a row of its result."""
    later = profile.position[a.unit] > profile.position["DMA"]
    return first_row(profile) - (0 if later else 1)


def first_row(profile: Profile) -> int:
    """Ticks of the shortest transfer."""
    return command_ticks(profile) + _data_ticks(profile, ROW)


def command_ticks(profile: Profile) -> int:
    """What a transfer costs before its first byte moves."""
    return profile.dma.ticks(CHUNK) - _data_ticks(profile, CHUNK)


def exact_ticks(profile: Profile, count: int) -> float:
    """Engine time of bytes inside a transfer that may be longer: the command not counted."""
    dma = profile.dma
    ticks = count / dma.vmem_bytes
    if dma.link_bytes:
        ticks = max(ticks, count * dma.link_ticks / dma.link_bytes)
    return ticks


def _data_ticks(profile: Profile, count: int) -> int:
    """The same in whole ticks, at least."""
    return int(exact_ticks(profile, count))


def _whole(ticks: float) -> int:
    """Ticks are whole; what is off by rounding is not one more."""
    return math.ceil(ticks - 1e-6)
