"""The device side of a session: a machine with the weights in place, and runs of code segments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.compiled_model import CompiledModel, Region
from tilewright.runtime.values import unpack_codes
from tilewright.targets.atlas.machines import Machine, make_machine
from tilewright.targets.atlas.outcome import Fault, Statistics, UnitUse
from tilewright.targets.atlas.policy import Policy

_CHUNK = 16 << 20


@dataclass(frozen=True)
class StepCall:
    """One execution of a step: when, and what the machine did meanwhile.

    Ticks count from the start of the run of the model, over all its segments. Work is counted
    when it is issued; what a step starts for the next one, such as loads ahead, is its own.
    """

    step: int
    turn: int  # round of the loop it is in
    name: str
    start: int
    end: int
    busy: dict[str, int]  # unit -> ticks
    loaded: int  # bytes from DRAM
    stored: int  # bytes to DRAM
    instructions: int

    @property
    def cycles(self) -> int:
        return self.end - self.start

    def to_json(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "round": self.turn,
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "cycles": self.cycles,
            "busy": self.busy,
            "dma_loaded": self.loaded,
            "dma_stored": self.stored,
            "instructions": self.instructions,
        }


def call_name(model: CompiledModel, step: int, turn: int) -> str:
    """The name of a step in one round: layers.3.mlp.gate, or `layers.3/gate` for the step gate."""
    return round_name(model, step, turn, model.steps[step].name)


def round_name(model: CompiledModel, step: int, turn: int, name: str) -> str:
    """A name that a step has in its first round, as it is in another one."""
    for rounds in model.rounds:
        if rounds.first <= step < rounds.end and rounds.count > 1:
            if len(set(rounds.names)) < rounds.count:
                return f"round {turn}/{name}"
            first, own = rounds.names[0], rounds.names[turn]
            if name == first or name.startswith(f"{first}."):
                return own + name[len(first) :]
            return f"{own}/{name}"
    return name


@dataclass
class SegmentRun:
    """What one segment did: its place in time and its counters."""

    segment: int
    start: int
    end: int
    statistics: Statistics


class Observer(Protocol):
    """Looks at the device in front of every step and when it has been issued."""

    def before(self, number: int, device: Device) -> None: ...

    def after(self, number: int, device: Device) -> None: ...


Progress = Callable[[int, int, int], None]  # calls done, calls in all, ticks (0: no machine runs)


@dataclass
class Device:
    """A machine that holds a model's weights."""

    model: CompiledModel
    policy: Policy
    kind: str | None = None
    machine: Machine = field(init=False)
    calls: list[StepCall] = field(default_factory=list)
    runs: list[SegmentRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.machine = make_machine(self.model.profile, self.policy, self.kind)
        self._place_weights("dram")
        self._sequence = list(self.model.calls())

    def begin(self) -> None:
        """A new run of the model begins."""
        self.calls, self.runs = [], []
        self._place_weights("vmem")  # a run may have used VMEM for other things since

    @property
    def cycles(self) -> int:
        return self.runs[-1].end if self.runs else 0

    def _place_weights(self, space: str) -> None:
        for name, raw in self.model.weights.items():
            region = self.model.regions[name]
            if region.space != space:
                continue
            for turn, one in enumerate(raw.reshape(region.count, -1)):
                for at in range(0, len(one), _CHUNK):
                    piece = one[at : at + _CHUNK].tobytes()
                    self.machine.write(space, region.at(turn) + at, piece)

    # --- regions ------------------------------------------------------------------------

    def write(self, region: Region, codes: list[np.ndarray]) -> None:
        """Put a tensor, or one per round, into its region."""
        for turn, one in enumerate(codes):
            self.machine.write(region.space, region.at(turn), region.layout.pack(one))

    def read(self, region: Region, turn: int = 0) -> np.ndarray:
        """The bit patterns in a region."""
        raw = self.machine.read(region.space, region.at(turn), region.layout.bytes)
        return unpack_codes(region, raw)

    # --- running ------------------------------------------------------------------------

    def run(
        self,
        segment: int,
        observer: Observer | None = None,
        progress: Progress | None = None,
        max_cycles: int | None = None,
    ) -> None:
        """Run the code of one segment; what is in memory stays."""
        program, machine = self.model.segments[segment], self.machine
        machine.load(program, keep_memory=True)
        machine.breakpoints = {s.first_word for s in self.model.steps if s.segment == segment}
        offset, running = self.cycles, False
        mark = _Mark(offset, machine.statistics)
        limit = None if max_cycles is None else max(0, max_cycles - offset)

        def finish(tick: int) -> None:
            nonlocal mark
            index, turn, _ = self._sequence[len(self.calls)]
            now = _Mark(offset + tick, machine.statistics)
            self.calls.append(mark.call(now, index, turn, call_name(self.model, index, turn)))
            mark = now
            if observer is not None:
                observer.after(len(self.calls) - 1, self)
            if progress is not None:
                progress(len(self.calls), len(self._sequence), now.tick)

        def begins() -> bool:
            """Whether the next step starts here; a step may come back to its own first word."""
            place = len(self.calls) + running
            if place == len(self._sequence):
                return False
            step = self._sequence[place][2]
            return step.segment == segment and step.first_word == machine.next_index

        if hasattr(machine, "on_progress"):  # the native machine looks up now and then

            def report(tick: int) -> None:
                if progress is not None:
                    progress(len(self.calls), len(self._sequence), offset + tick)

            machine.on_progress = report  # pyright: ignore[reportAttributeAccessIssue]
        while (outcome := machine.run(max_cycles=limit)).reason == "breakpoint":
            if begins():
                if running:
                    finish(outcome.cycles)
                running = True
                if observer is not None:
                    observer.before(len(self.calls), self)
        if outcome.fault is not None:
            raise self._faulted(segment, running, outcome.fault)
        if outcome.reason == "limit":
            raise TilewrightError(
                "TW3131",
                f"the model still ran after {max_cycles:,} cycles",
                hint="allow more cycles, or look for an endless loop",
            )
        if running:
            finish(outcome.cycles)
        self.runs.append(SegmentRun(segment, offset, offset + outcome.cycles, machine.statistics))

    def expect_calls(self, count: int) -> None:
        """Fail unless so many steps have been carried out."""
        if len(self.calls) < count:
            index, turn, step = self._sequence[len(self.calls)]
            name = call_name(self.model, index, turn)
            raise TilewrightError(
                "TW3132", f"the code of segment {step.segment} ended before it reached {name}"
            )

    def _faulted(self, segment: int, running: bool, fault: Fault) -> TilewrightError:
        where = f"segment {segment}"
        if running:
            index, turn, step = self._sequence[len(self.calls)]
            where = f"step {index} ({call_name(self.model, index, turn)}, kernel {step.kernel})"
        return TilewrightError(
            "TW3130",
            f"the program faulted in {where}: {fault.message}",
            hint=f"{fault.kind} at instruction {fault.index} of segment {segment}, "
            f"tick {fault.cycle} of it",
        )


class _Mark:
    """A moment of a run: the tick and what the machine had counted by then."""

    def __init__(self, tick: int, statistics: Statistics) -> None:
        self.tick = tick
        self.busy = {unit: use.busy for unit, use in statistics.units.items()}
        self.counts = (statistics.dma_loaded, statistics.dma_stored, statistics.instructions)

    def call(self, now: _Mark, step: int, turn: int, name: str) -> StepCall:
        busy = {unit: ticks - self.busy[unit] for unit, ticks in now.busy.items()}
        counts = [new - old for new, old in zip(now.counts, self.counts, strict=True)]
        return StepCall(step, turn, name, self.tick, now.tick, busy, *counts)


def total(runs: list[SegmentRun]) -> Statistics:
    """The counters of several segments together; those per instruction are left out."""
    result = Statistics()
    for run in runs:
        one = run.statistics
        result.cycles += one.cycles
        result.instructions += one.instructions
        result.dma_loaded += one.dma_loaded
        result.dma_stored += one.dma_stored
        for unit, use in one.units.items():
            sum_ = result.units.setdefault(unit, UnitUse())
            sum_.operations += use.operations
            sum_.busy += use.busy
        for cause, ticks in one.lost.items():
            result.lost[cause] += ticks
    return result
