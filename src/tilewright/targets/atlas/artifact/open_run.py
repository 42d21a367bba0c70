"""Where a run of an artifact stands: segments that are done, the one that is open, what it counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.targets.artifact import StepCall
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.outcome import Statistics


@dataclass
class SegmentRun:
    """What one segment did: its place in time and its counters."""

    segment: int
    start: int
    end: int
    statistics: Statistics


@dataclass(frozen=True)
class Mark:
    """A moment of a run: the tick and what the machine had counted by then."""

    tick: int
    busy: Mapping[str, int]  # by unit
    counts: tuple[int, int, int]  # bytes loaded and stored, instructions

    @classmethod
    def of(cls, tick: int, statistics: Statistics) -> Mark:
        counts = (statistics.dma_loaded, statistics.dma_stored, statistics.instructions)
        return cls(tick, {unit: use.busy for unit, use in statistics.units.items()}, counts)

    def call(self, now: Mark, step: int, turn: int, name: str) -> StepCall:
        """The step that ran between two moments."""
        busy = {unit: ticks - self.busy[unit] for unit, ticks in now.busy.items()}
        counts = [new - old for new, old in zip(now.counts, self.counts, strict=True)]
        return StepCall(step, turn, name, self.tick, now.tick, busy, *counts)


@dataclass
class OpenSegment:
    """A segment that is being run.

    offset: the cycle of the whole run at which it began. running: whether a step of it is; mark: when
    the step began.
    """

    segment: int
    offset: int
    running: bool
    mark: Mark


@dataclass(frozen=True)
class DeviceSnapshot:
    """An entry in the middle of its run."""

    artifact: AtlasArtifact = field(repr=False)
    machine: object = field(repr=False)  # the simulator's own snapshot
    calls: tuple[StepCall, ...] = field(repr=False)
    runs: tuple[SegmentRun, ...] = field(repr=False)
    open: OpenSegment
    finished: int  # segments of the entry
    poisoned: bool  # memory that nothing has written
