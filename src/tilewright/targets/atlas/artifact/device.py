"""A simulated machine that holds a program's weights and runs its entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member
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
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact, Region, is_result
from tilewright.targets.atlas.artifact.open_run import (
    DeviceSnapshot,
    Mark,
    OpenSegment,
    SegmentRun,
)
from tilewright.targets.atlas.artifact.region_rows import lines_of_rows, row_dimension
from tilewright.targets.atlas.artifact.region_values import (
    port_array,
    region_codes,
    stored_codes,
    turns_of,
    typed,
    unpack_codes,
)
from tilewright.targets.atlas.machines import Machine, make_machine, native_missing
from tilewright.targets.atlas.outcome import Fault
from tilewright.targets.atlas.policy import Policy
from tilewright.trace.model import Activity, TraceModel

if TYPE_CHECKING:
    from tilewright.targets.atlas.native import NativeMachine

_CHUNK = 16 << 20


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
        # What files of snapshots need not hold; memories of the native machine share their pages.
        shared = self.simulator == "native" and not options.sampled
        self._base = self.machine.snapshot() if shared else None
        self._sequence = list(artifact.calls())
        self._arrivals: Arrivals | None = None
        self._open: OpenSegment | None = None  # that is being run
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
        for turn, codes in zip(
            turns_of(port, region), region_codes(port, region, value), strict=True
        ):
            self.machine.write(region.space, region.at(turn), region.layout.pack(codes))

    def read(self, port: Port) -> np.ndarray:
        region = self.artifact.regions[port.tensor or ""]
        codes = [self.codes(region, turn) for turn in turns_of(port, region)]
        return port_array(port, region, codes)

    def keeps(self, port: Port) -> bool:
        return self.artifact.regions[port.tensor or ""].kind == "state"

    def row_dimension(self, port: Port) -> int | None:
        return row_dimension(port, self.artifact.regions[port.tensor or ""])

    def write_rows(self, port: Port, value: np.ndarray, first: int, end: int) -> None:
        """Write the lines of tiles that have these rows, where they lie."""
        region = self.artifact.regions[port.tensor or ""]
        for at, raw in lines_of_rows(port, region, value, first, end):
            self.machine.write(region.space, region.at(port.iteration or 0) + at, raw)

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
                if region.kind not in ("weight", "constant") and not is_result(parameter):
                    reads[parameter] = _typed_stored(region, self._bytes(region, turn))
            for name in step.finds:
                reads[name] = np.frombuffer(
                    self._bytes(self.artifact.regions[name], turn), np.uint8
                )
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

    def run_until(
        self, part: DevicePart, cycle: int, stop: Callable[[], bool] | None = None
    ) -> bool:
        """Run an entry, or go on with it, to a cycle of the whole run; whether it came to its end."""
        segments = self.artifact.entries[part.entry].segments
        while self._finished < len(segments):
            if not self._run(segments[self._finished], None, cycle, stop):
                return False
            self._finished += 1
        self._finished = 0
        self._require_all(segments)
        return True

    @property
    def reached(self) -> int:
        return self.cycles if self._open is None else self._open.offset + self.machine.cycles

    def snapshot(self) -> DeviceSnapshot:
        """An entry in the middle of its run, to hand to `restore`."""
        assert self._open is not None, "nothing is being run"
        return DeviceSnapshot(
            self.artifact,
            self.machine.snapshot(),
            tuple(self.calls),
            tuple(self.runs),
            replace(self._open),
            self._finished,
            self.options.poisoned,
        )

    def restore(self, snapshot: object) -> None:
        if not isinstance(snapshot, DeviceSnapshot) or snapshot.artifact is not self.artifact:
            raise ValueError("this is no snapshot of the program")
        self.begin()
        self.machine.load(self.artifact.segments[snapshot.open.segment], keep_memory=True)
        self.machine.restore(snapshot.machine)
        self.calls, self.runs = list(snapshot.calls), list(snapshot.runs)
        self._open, self._finished = replace(snapshot.open), snapshot.finished

    @property
    def packs(self) -> bool:
        return self._base is not None

    def pack(self, snapshot: object) -> list[Member]:
        """A snapshot as files; weights are not in them."""
        from tilewright.targets.atlas.artifact.snapshot_members import packed

        if not isinstance(snapshot, DeviceSnapshot) or snapshot.artifact is not self.artifact:
            raise ValueError("this is no snapshot of the program")
        return packed(snapshot, self._native(), self._base)

    def unpack(
        self, part: DevicePart, members: Mapping[str, np.ndarray], place: Location
    ) -> DeviceSnapshot:
        from tilewright.targets.atlas.artifact.snapshot_members import unpacked

        native, base = self._native(), self._base
        poisoned = self.options.poisoned
        return unpacked(self.artifact, part.entry, members, native, base, poisoned, place)

    def _native(self) -> NativeMachine:
        if self._base is None:
            raise ValueError(f"the machine {self.simulator!r} keeps snapshots in memory only")
        return cast("NativeMachine", self.machine)

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

    def _run(
        self,
        segment: int,
        watch: Watch | None,
        until: int | None = None,
        asked: Callable[[], bool] | None = None,
    ) -> bool:
        """Run a segment, or go on with the one that is open; False: it stopped at `until`, or since
        it was asked to."""
        program, machine, progress = (
            self.artifact.segments[segment],
            self.machine,
            self.options.progress,
        )
        max_cycles = self.options.max_cycles
        opened = self._open
        if opened is None:
            machine.load(program, keep_memory=True)
            start = Mark.of(self.cycles, machine.statistics)
            opened = self._open = OpenSegment(segment, self.cycles, False, start)
        machine.breakpoints = {s.first_word for s in self.artifact.steps if s.segment == segment}
        offset = opened.offset
        stop = None if until is None else max(0, until - offset)
        limit = None if max_cycles is None else max(0, max_cycles - offset)

        def finish(tick: int) -> None:
            index, turn, _ = self._sequence[len(self.calls)]
            now = Mark.of(offset + tick, machine.statistics)
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

            def report(tick: int) -> bool:
                if progress is not None:
                    progress(len(self.calls), len(self._sequence), offset + tick)
                return asked is not None and asked()

            machine.on_progress = report  # pyright: ignore[reportAttributeAccessIssue]
        while True:
            if asked is not None and asked():
                stop = machine.cycles if stop is None else min(stop, machine.cycles)
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
