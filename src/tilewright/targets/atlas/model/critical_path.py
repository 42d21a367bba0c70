"""The least time of one part of a model in which steps wait for each other.

before: what each resource has to do, as if nothing waited for anything (`bounds.py`)
after:  the longest way from a load to a store, and what each resource has to do between the first
        moment at which it can begin and the last at which it may end

Values are followed from step to step, forwards to when they can be there (`Moment`), backwards to how
long after them the part goes on at least. Both hold for every element of a value, so they can be
added up along any way through the model.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tilewright.planning.one_machine import Job, one_machine
from tilewright.targets.atlas.artifact.atlas_artifact import Entry, Region, Step, copy_of, is_result
from tilewright.targets.atlas.bound import FIRST_TRANSFER, LAST_WAIT, command_ticks, exact_ticks
from tilewright.targets.atlas.model.clock import Clock, Moment, Ready
from tilewright.targets.atlas.model.kernel_records import latency_of
from tilewright.targets.atlas.model.latencies_images import leaves_out
from tilewright.targets.atlas.profile import Profile, Timing
from tilewright.targets.atlas.work import ROW

STEP_BY_STEP = ("recurrent",)  # kernels whose last results are there long after the first
Key = tuple[str, int]  # a tensor, and the iteration of a loop that has its own


@dataclass(frozen=True)
class Call:
    """A step that is carried out, and ticks that it needs of the vector unit and of both matrix units."""

    step: Step
    iteration: int
    vector: int
    matrix: int


@dataclass
class CriticalPath:
    """One entry of a program.

    before: tensors that were on chip when the part before ended. loads, stores: bytes of the tensors that
    have to come in and to leave.
    """

    profile: Profile
    regions: Mapping[str, Region]
    entry: Entry
    before: Collection[str]
    loads: Mapping[str, int]
    stores: Mapping[str, int]
    ready: dict[Key, Ready] = field(default_factory=dict)
    tails: dict[Key, int] = field(default_factory=dict)
    behind: dict[tuple[int, str, tuple[Timing, ...]], Ready] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.clock = Clock(self.profile)

    def ticks(self, calls: Sequence[Call], matrix: int) -> int:
        """How long these calls take at least; matrix: what both matrix units have to do for all of
        them together."""
        if not calls:
            return 0
        found = [self._found(call) for call in calls]
        ends = self._ends()
        self.tails = {key: ends[key] - moment.done for key, moment in self._leaving()}
        paths, vector, heads, tails = list(ends.values()), [], [], []
        for call, (moments, result) in zip(reversed(calls), reversed(found), strict=True):
            tail = self._backwards(call, moments, result)
            head = self._head(call, moments)
            if call.vector:
                vector.append(Job(head, call.vector, tail or 0))
            if call.matrix:
                heads.append(head)
                tails.append(tail or 0)
            if tail is not None and call.step.kernel in STEP_BY_STEP:
                last = self._result(call.step, moments, Clock(self.profile, last=True))
                paths.append((last.done if last else 0) + tail)
        moved = one_machine(self._transfers(ends))
        product = min(heads) + matrix + min(tails) if heads else 0
        return max(*paths, math.floor(one_machine(vector)), math.floor(moved), product, 0)

    # --- forwards -----------------------------------------------------------------------------

    def _found(self, call: Call) -> tuple[dict[str, Ready], Ready]:
        """When the operands of a call are there, and its result."""
        operands = call.step.operands
        moments = {
            p: self._moment(self._key(name, call.iteration))
            for p, name in operands.items()
            if not is_result(p)
        }
        result = self._result(call.step, moments, self.clock)
        for parameter, name in operands.items():
            if is_result(parameter):
                self.ready[self._key(name, call.iteration)] = result
        return moments, result

    def _key(self, name: str, iteration: int) -> Key:
        return name, iteration if self.regions[name].count > 1 else 0

    def _moment(self, key: Key) -> Ready:
        if key in self.ready:
            return self.ready[key]
        name, _ = key
        region = self.regions[name]
        if region.kind == "constant":  # it can be made on chip
            return None
        here = region.space == "vmem" or (name in self.before and name not in self.entry.inputs)
        return self.clock.kept() if here else self.clock.arrived()

    def _result(self, step: Step, moments: Mapping[str, Ready], clock: Clock) -> Ready:
        shapes = {p: self.regions[name].layout.given for p, name in step.operands.items()}
        return latency_of(clock, step.kernel, step.options, shapes, moments)

    def _leaving(self) -> list[tuple[Key, Moment]]:
        """What has to leave, and when it is there."""
        keys = [(n, k) for n in self.entry.outputs for k in range(self.regions[n].count)]
        found = ((key, self._moment(key)) for key in keys)
        return [(key, moment) for key, moment in found if moment is not None]

    def _ends(self) -> dict[Key, int]:
        """When the part is over for each of its results."""
        return {key: self.clock.left(moment) for key, moment in self._leaving()}

    # --- backwards ----------------------------------------------------------------------------

    def _backwards(self, call: Call, moments: Mapping[str, Ready], result: Ready) -> int | None:
        """How long the part goes on after a call's results, whichever is the last one; its operands
        learn theirs."""
        operands = call.step.operands
        tails = {
            p: self._after(call, p)
            for p in operands
            if is_result(p) and not p.endswith(copy_of(""))
        }
        for parameter, moment in moments.items():
            known = [
                tail for result, tail in tails.items()
                if tail is not None
                and not leaves_out(call.step.kernel, call.step.options, parameter, result)
            ]  # fmt: skip
            if moment is None or not known:
                continue
            tail = max(known)
            place = id(call.step), parameter, moment.by  # the same in every iteration
            if place not in self.behind:
                alone = {p: None for p in moments} | {parameter: Moment(0, moment.by)}
                self.behind[place] = self._result(call.step, alone, self.clock)
            after = self.behind[place]
            if after is not None:
                key = self._key(operands[parameter], call.iteration)
                self.tails[key] = max(self.tails.get(key, 0), after.done + tail)
        every = [tail for tail in tails.values() if tail is not None]
        return min(every) if len(every) == len(tails) and every else None

    def _after(self, call: Call, result: str) -> int | None:
        """How long the part goes on after one result of a call; it is not asked for again."""
        operands = call.step.operands
        tails = [
            self.tails.pop(self._key(operands[p], call.iteration), None)
            for p in (result, copy_of(result))
            if p in operands
        ]
        return max((tail for tail in tails if tail is not None), default=None)

    # --- resources ----------------------------------------------------------------------------

    def _head(self, call: Call, moments: Mapping[str, Ready]) -> int:
        """When a call can begin: some of what it needs that is no weight has to be there."""
        values = [
            moment
            for parameter, moment in moments.items()
            if self.regions[call.step.operands[parameter]].kind not in ("weight", "constant")
        ]
        if None in values or not values:
            return 0
        return min(self.clock.loaded(moment).done for moment in values if moment is not None) - 1

    def _transfers(self, ends: Mapping[Key, int]) -> list[Job]:
        """What the engine moves: the part goes on after what comes in, and begins before what leaves."""
        start = FIRST_TRANSFER + command_ticks(self.profile)
        jobs = []
        for name, count in self.loads.items():
            copies = self.regions[name].count
            for iteration in range(copies):
                tail = self.tails.get((name, iteration), 0)
                jobs.append(Job(start, exact_ticks(self.profile, count) / copies, tail))
        row = math.ceil(exact_ticks(self.profile, ROW))
        for name, count in self.stores.items():
            copies = self.regions[name].count
            for iteration in range(copies):
                head = max(start, ends.get((name, iteration), 0) - LAST_WAIT - row)
                jobs.append(Job(head, exact_ticks(self.profile, count) / copies, LAST_WAIT))
        return jobs
