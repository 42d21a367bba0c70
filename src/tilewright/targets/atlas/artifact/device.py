"""A simulated machine that holds a program's weights and runs its entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import (
    Counters,
    DeviceOptions,
    DevicePart,
    Finding,
    Port,
    StepCall,
    StepValues,
    Watch,
    call_name,
)
from tilewright.targets.atlas.activity import Sampler
from tilewright.targets.atlas.artifact.arrivals import Arrivals
from tilewright.targets.atlas.artifact.atlas_artifact import COPY, AtlasArtifact, Region
from tilewright.targets.atlas.artifact.region_values import (
    port_array,
    region_codes,
    stored_codes,
    turns_of,
    typed,
    unpack_codes,
)
from tilewright.targets.atlas.machines import Machine, make_machine, native_missing
from tilewright.targets.atlas.outcome import Fault, Statistics
from tilewright.targets.atlas.policy import Policy
from tilewright.trace.model import Activity, TraceModel

_CHUNK = 16 << 20


@dataclass
class SegmentRun:
    """What one segment did: its place in time and its counters."""

    segment: int
    start: int
    end: int
    statistics: Statistics


class AtlasDevice:
    """A machine with the weights in place.

    Work is counted when it is issued; what a step starts for the next one, such as loads ahead, is
    its own.
    """

    def __init__(self, artifact: AtlasArtifact, options: DeviceOptions) -> None:
        self.artifact, self.options = artifact, options
        # Memory that nothing has written is NaN: a program that reads it does not go unnoticed.
        self.policy = Policy(initial="poison") if options.poisoned else Policy()
        self.machine: Machine = make_machine(artifact.profile, self.policy, options.simulator)
        if options.sampled:
            self.machine = cast(Machine, Sampler(self.machine))
        self.simulator = options.simulator or ("native" if native_missing() is None else "python")
        self.calls: list[StepCall] = []
        self.runs: list[SegmentRun] = []
        self._pieces: list[tuple[int, TraceModel]] = []
        self._place_weights("dram")
        self._sequence = list(artifact.calls())
        self._arrivals: Arrivals | None = None
        self._open: _OpenSegment | None = None  # that is being run
        self._finished = 0  # segments of the entry that is being run

    def begin(self) -> None:
        """A new run of the model begins."""
        self.calls, self.runs, self._pieces, self._arrivals = [], [], [], None
        self._open, self._finished = None, 0
        self._place_weights("vmem")  # a run may have used VMEM for other things since

    @property
    def cycles(self) -> int:
        return self.runs[-1].end if self.runs else 0

    def _place_weights(self, space: str) -> None:
        for region, turn, one in self._weights(space):
            for at in range(0, len(one), _CHUNK):
                self.machine.write(space, region.at(turn) + at, one[at : at + _CHUNK].tobytes())

    def _weights(self, space: str) -> Iterator[tuple[Region, int, np.ndarray]]:
        for name, raw in self.artifact.weights.items():
            region = self.artifact.regions[name]
            if region.space == space:
                for turn, one in enumerate(raw.reshape(region.count, -1)):
                    yield region, turn, one

    # --- values -------------------------------------------------------------------------

    def write(self, port: Port, value: np.ndarray) -> None:
        region = self.artifact.regions[port.tensor or ""]
        for turn, codes in zip(turns_of(port, region), region_codes(region, value), strict=True):
            self.machine.write(region.space, region.at(turn), region.layout.pack(codes))

    def read(self, port: Port) -> np.ndarray:
        region = self.artifact.regions[port.tensor or ""]
        codes = [self.codes(region, turn) for turn in turns_of(port, region)]
        return port_array(port, region, codes)

    def codes(self, region: Region, turn: int = 0) -> np.ndarray:
        """The bit patterns in a region."""
        return unpack_codes(region, self._bytes(region, turn))

    def _bytes(self, region: Region, turn: int) -> bytes:
        return self.machine.read(region.space, region.at(turn), region.layout.bytes)

    def _operands(self, number: int) -> StepValues:
        """What a step finds in memory when it begins, apart from weights."""
        index, turn, step = self._sequence[number]
        reads = {}
        # Without a graph of values nobody says what is where between two steps.
        if self.artifact.graph is not None:
            for parameter, name in step.operands.items():
                region = self.artifact.regions[name]
                if region.kind not in ("weight", "constant") and parameter not in ("out", COPY):
                    reads[parameter] = _typed_stored(region, self._bytes(region, turn))
        return StepValues(index, turn, reads, {})

    # --- running ------------------------------------------------------------------------

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        """Run the segments of an entry; what is in memory stays."""
        segments = self.artifact.entries[part.entry].segments
        if self.options.window is not None:
            from tilewright.targets.atlas.artifact.device_trace import trace_segment

            for segment in segments:
                self._pieces += trace_segment(self, segment, self.options.window)
            return
        if watch is not None and self._arrivals is None:
            self._arrivals = Arrivals(self, watch)
        for segment in segments:
            self._run(segment, watch)
        self._require_all(segments)

    def run_until(self, part: DevicePart, cycle: int) -> bool:
        """Run an entry, or go on with it, to a cycle of the whole run; whether it came to its end."""
        segments = self.artifact.entries[part.entry].segments
        while self._finished < len(segments):
            if not self._run(segments[self._finished], None, cycle):
                return False
            self._finished += 1
        self._finished = 0
        self._require_all(segments)
        return True

    def snapshot(self) -> object:
        """An entry in the middle of its run, to hand to `restore`."""
        assert self._open is not None, "nothing is being run"
        state = (list(self.calls), list(self.runs), replace(self._open), self._finished)
        return (self.artifact, self.machine.snapshot(), *state)

    def restore(self, snapshot: object) -> None:
        match snapshot:
            case (artifact, machine, calls, runs, _OpenSegment() as opened, int() as finished) if (
                artifact is self.artifact
            ):
                self.begin()
                self.machine.load(self.artifact.segments[opened.segment], keep_memory=True)
                self.machine.restore(machine)
                self.calls, self.runs, self._finished = list(calls), list(runs), finished
                self._open = replace(opened)
            case _:
                raise ValueError("this is no snapshot of the program")

    def _require_all(self, segments: Sequence[int]) -> None:
        """All steps of these segments were reached."""
        mine = set(segments)
        places = [n for n, (_, _, step) in enumerate(self._sequence) if step.segment in mine]
        if places and len(self.calls) <= places[-1]:
            index, turn, step = self._sequence[len(self.calls)]
            name = call_name(self.artifact, index, turn)
            raise TilewrightError(
                "TW3132", f"the code of segment {step.segment} ended before it reached {name}"
            )

    def _run(self, segment: int, watch: Watch | None, until: int | None = None) -> bool:
        """Run a segment, or go on with the one that is open; False: it stopped at `until`."""
        program, machine, progress = (
            self.artifact.segments[segment],
            self.machine,
            self.options.progress,
        )
        max_cycles = self.options.max_cycles
        opened = self._open
        if opened is None:
            machine.load(program, keep_memory=True)
            start = _Mark(self.cycles, machine.statistics)
            opened = self._open = _OpenSegment(segment, self.cycles, False, start)
        machine.breakpoints = {s.first_word for s in self.artifact.steps if s.segment == segment}
        offset = opened.offset
        stop = None if until is None else max(0, until - offset)
        limit = None if max_cycles is None else max(0, max_cycles - offset)

        def finish(tick: int) -> None:
            index, turn, _ = self._sequence[len(self.calls)]
            now = _Mark(offset + tick, machine.statistics)
            name = call_name(self.artifact, index, turn)
            self.calls.append(opened.mark.call(now, index, turn, name))
            opened.mark = now
            if self._arrivals is not None:
                self._arrivals.after(len(self.calls) - 1)
            if progress is not None:
                progress(len(self.calls), len(self._sequence), now.tick)

        def begins() -> bool:
            """Whether the next step starts here; a step may come back to its own first word."""
            place = len(self.calls) + opened.running
            if place == len(self._sequence):
                return False
            step = self._sequence[place][2]
            return step.segment == segment and step.first_word == machine.next_index

        if hasattr(machine, "on_progress"):  # the native machine looks up now and then

            def report(tick: int) -> None:
                if progress is not None:
                    progress(len(self.calls), len(self._sequence), offset + tick)

            machine.on_progress = report  # pyright: ignore[reportAttributeAccessIssue]
        while True:
            outcome = machine.run(max_cycles=limit, until_cycle=stop)
            if outcome.reason != "breakpoint":
                break
            if begins():
                if opened.running:
                    finish(outcome.cycles)
                opened.running = True
                if watch is not None:
                    watch(self._operands(len(self.calls)))
        if outcome.reason == "until":
            return False
        if outcome.fault is not None:
            raise self._faulted(segment, opened.running, outcome.fault)
        if outcome.reason == "limit":
            raise TilewrightError(
                "TW3131",
                f"the model still ran after {max_cycles:,} cycles",
                hint="allow more cycles, or look for an endless loop",
            )
        if opened.running:
            finish(outcome.cycles)
        self.runs.append(SegmentRun(segment, offset, offset + outcome.cycles, machine.statistics))
        self._open = None
        return True

    def _faulted(self, segment: int, running: bool, fault: Fault) -> TilewrightError:
        where = f"segment {segment}"
        if running:
            index, turn, step = self._sequence[len(self.calls)]
            where = f"step {index} ({call_name(self.artifact, index, turn)}, kernel {step.kernel})"
        return TilewrightError(
            "TW3130",
            f"the program faulted in {where}: {fault.message}",
            hint=f"{fault.kind} at instruction {fault.index} of segment {segment}, "
            f"tick {fault.cycle} of it",
        )

    # --- what happened ------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """All segments of the last run together."""
        result = Counters()
        for run in self.runs:
            one = run.statistics
            result.cycles += one.cycles
            result.instructions += one.instructions
            result.loaded += one.dma_loaded
            result.stored += one.dma_stored
            for unit, use in one.units.items():
                result.busy[unit] = result.busy.get(unit, 0) + use.busy
            for cause, ticks in one.lost.items():
                result.lost[cause] = result.lost.get(cause, 0) + ticks
        return result

    def trace(self) -> TraceModel | None:
        from tilewright.targets.atlas.artifact.device_trace import joined

        if self.options.window is None:
            return None
        return joined("", f"{self.artifact.profile.name} · {self.cycles:,} cycles", self._pieces)

    def activity(self) -> Activity | None:
        sampler: Any = self.machine
        return sampler.activity() if self.options.sampled and self.cycles else None

    def audit(self) -> Iterator[Finding]:
        """Weights whose bytes are not what they were."""
        changed = {
            region.name
            for region, turn, one in self._weights("dram")
            if not np.array_equal(np.frombuffer(self._bytes(region, turn), np.uint8), one)
        }
        for name in self.artifact.weights:
            if name in changed:
                yield Finding("TW3144", f"the weights {name} were overwritten")

    def hazards(self) -> Iterator[Finding]:
        """What lint says of the code that ran."""
        from tilewright.targets.atlas.model.lint_model import hazards_of

        hazards, doubts = hazards_of(self.artifact, self.counters.instructions)
        yield from (Finding("TW2000", hazard) for hazard in hazards)
        if self.artifact.graph is None and len(self.artifact.steps) > 1:
            note = "the model has no graph of values: regions were taken at their word"
            yield Finding("TW3145", note, False)
        yield from (Finding("TW2000", f"lint cannot decide: {doubt}", False) for doubt in doubts)


def _typed_stored(region: Region, raw: bytes) -> np.ndarray:
    return typed(region, stored_codes(region, raw))


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


@dataclass
class _OpenSegment:
    """A segment that is being run.

    offset: the cycle of the whole run at which it began. running: whether a step of it is; mark: when
    the step began.
    """

    segment: int
    offset: int
    running: bool
    mark: _Mark
