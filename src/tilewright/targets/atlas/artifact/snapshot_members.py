"""Snapshots of an Atlas device as files, and back.

| member | content |
|---|---|
| `run.safetensors` | `open`: the segment that is being run; `calls`: steps that are done, in order; `runs`: segments that are; `executions.N`: how often, and for how many ticks, each of their instructions |
| `core` | registers, clocks, what is in flight |
| `vmem`, `dram` | blocks of 4 KiB that differ from a device with its weights in place |
| `vmem.places`, `dram.places` | their addresses |

What is read goes on only if it is a state that this program can be in, as far as one can say without
having run it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import Location
from tilewright.io.archive import Member
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.targets.artifact import StepCall, call_name
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.artifact.open_run import (
    DeviceSnapshot,
    Mark,
    OpenSegment,
    SegmentRun,
)
from tilewright.targets.atlas.outcome import CAUSES, Statistics, UnitUse

if TYPE_CHECKING:
    from tilewright.targets.atlas.native import NativeMachine

_RUN = "run.safetensors"
_OPEN = 8  # numbers of `open` before the busy ticks of units
_CALL = 5  # of a row of `calls`
_SEGMENT = 7  # of a row of `runs` before operations and busy ticks of units and lost ticks
_LAST_CYCLE = 1 << 61


# --- writing ----------------------------------------------------------------------------


def packed(snapshot: DeviceSnapshot, machine: NativeMachine, base: object) -> list[Member]:
    """The members of a snapshot; ValueError where the machine's state is in no file."""
    opened, units = snapshot.open, snapshot.artifact.profile.units
    tensors = {
        "open": _numbers(
            [
                opened.segment,
                opened.offset,
                int(opened.running),
                snapshot.finished,
                int(snapshot.poisoned),
                *opened.mark.counts,
                *(opened.mark.busy[unit] for unit in units),
                opened.mark.tick,
            ]
        ),
        "calls": _rows([_call_row(call, units) for call in snapshot.calls], _CALL + len(units)),
        "runs": _rows(
            [_run_row(run, units) for run in snapshot.runs],
            _SEGMENT + 2 * len(units) + len(CAUSES),
        ),
    }
    for number, run in enumerate(snapshot.runs):
        counted = run.statistics
        tensors[f"executions.{number}"] = np.stack([counted.executions, counted.issue_ticks])
    members = [Member(_RUN, tensor_pieces(tensors, _RUN))]
    raw = machine.pack(snapshot.machine, base)
    return members + [Member(name, [content]) for name, content in raw.items()]


def _call_row(call: StepCall, units: Sequence[str]) -> list[int]:
    counts = [call.start, call.end, call.loaded, call.stored, call.instructions]
    return counts + [call.busy[unit] for unit in units]


def _run_row(run: SegmentRun, units: Sequence[str]) -> list[int]:
    counted = run.statistics
    return [
        run.segment,
        run.start,
        run.end,
        counted.cycles,
        counted.instructions,
        counted.dma_loaded,
        counted.dma_stored,
        *(counted.units[unit].operations for unit in units),
        *(counted.units[unit].busy for unit in units),
        *(counted.lost[cause] for cause in CAUSES),
    ]


def _numbers(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)


def _rows(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width)


# --- reading ----------------------------------------------------------------------------


def unpacked(
    artifact: AtlasArtifact,
    entry: str,
    members: Mapping[str, np.ndarray],
    machine: NativeMachine,
    base: object,
    poisoned: bool,
    place: Location,
) -> DeviceSnapshot:
    """The snapshot of members; ValueError for what is none of this entry."""
    from tilewright.targets.atlas.native import PACKED

    _require(set(members) == {_RUN, *PACKED}, "the state of the device lacks parts or has others")
    units = artifact.profile.units
    tensors = read_tensors(members[_RUN], _RUN, place)
    opened, finished, was_poisoned = _open_of(tensors, units)
    _require(was_poisoned == poisoned, "memory that nothing has written had another content")
    segments = artifact.entries[entry].segments
    _require(
        finished < len(segments) and segments[finished] == opened.segment,
        "the segment that is being run is none of the entry's",
    )
    runs = _runs_of(artifact, tensors, units)
    calls = _calls_of(artifact, tensors, units)
    _require(opened.offset == (runs[-1].end if runs else 0), "segments are not one after the other")
    sequence = list(artifact.calls())
    if opened.running:
        here = len(calls) < len(sequence) and sequence[len(calls)][2].segment == opened.segment
        _require(here, "the step that is being run is none of the segment's")
    machine.load(artifact.segments[opened.segment], keep_memory=True)
    state = machine.unpack({name: members[name] for name in PACKED}, base)
    return DeviceSnapshot(artifact, state, calls, runs, opened, finished, poisoned)


def _open_of(
    tensors: Mapping[str, np.ndarray], units: Sequence[str]
) -> tuple[OpenSegment, int, bool]:
    values = _table(tensors, "open", (_OPEN + len(units) + 1,)).tolist()
    segment, offset, running, finished, poisoned, *rest = values
    _require(running in (0, 1) and poisoned in (0, 1), "a mark is neither set nor clear")
    loaded, stored, instructions, *busy, tick = rest
    mark = Mark(tick, dict(zip(units, busy, strict=True)), (loaded, stored, instructions))
    return OpenSegment(segment, offset, bool(running), mark), finished, bool(poisoned)


def _calls_of(
    artifact: AtlasArtifact, tensors: Mapping[str, np.ndarray], units: Sequence[str]
) -> tuple[StepCall, ...]:
    rows = _table(tensors, "calls", (None, _CALL + len(units))).tolist()
    sequence = list(artifact.calls())
    _require(len(rows) <= len(sequence), "more steps are done than there are")
    calls = []
    for (index, turn, _), (start, end, loaded, stored, instructions, *busy) in zip(
        sequence, rows, strict=False
    ):
        used = dict(zip(units, busy, strict=True))
        name = call_name(artifact, index, turn)
        calls.append(StepCall(index, turn, name, start, end, used, loaded, stored, instructions))
    return tuple(calls)


def _runs_of(
    artifact: AtlasArtifact, tensors: Mapping[str, np.ndarray], units: Sequence[str]
) -> tuple[SegmentRun, ...]:
    width = _SEGMENT + 2 * len(units) + len(CAUSES)
    rows = _table(tensors, "runs", (None, width)).tolist()
    names = {"open", "calls", "runs", *(f"executions.{number}" for number in range(len(rows)))}
    _require(set(tensors) == names, "the counts of segments are not those of the segments")
    runs, before = [], 0
    for number, row in enumerate(rows):
        segment, start, end, cycles, instructions, loaded, stored, *rest = row
        _require(segment < len(artifact.segments), "a segment that is done is not in the program")
        _require(start == before <= end, "segments are not one after the other")
        before = end
        shape = (2, len(artifact.segments[segment]))
        executions, issue_ticks = _table(tensors, f"executions.{number}", shape)
        operations, busy, lost = np.split(np.array(rest), [len(units), 2 * len(units)])
        uses = [UnitUse(*pair) for pair in zip(operations.tolist(), busy.tolist(), strict=True)]
        counted = Statistics(
            cycles,
            instructions,
            dict(zip(units, uses, strict=True)),
            loaded,
            stored,
            dict(zip(CAUSES, lost.tolist(), strict=True)),
            executions.copy(),
            issue_ticks.copy(),
        )
        runs.append(SegmentRun(segment, start, end, counted))
    return tuple(runs)


def _table(
    tensors: Mapping[str, np.ndarray], name: str, shape: tuple[int | None, ...]
) -> np.ndarray:
    """Counts of a run, of the shape they must have."""
    found = tensors.get(name)
    _require(found is not None, f"the table {name} is missing")
    assert found is not None
    fits = found.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(found.shape, shape, strict=True)
    )
    _require(fits and found.dtype == np.int64, f"the table {name} has another shape or type")
    inside = not found.size or 0 <= found.min() <= found.max() <= _LAST_CYCLE
    _require(bool(inside), f"the table {name} has numbers that nothing counts")
    return found


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(what)
