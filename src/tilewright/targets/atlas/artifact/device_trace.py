"""A run of a model as a trace: its segments one after the other on one time line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.simulate import Result, drive
from tilewright.targets.atlas.tracing import Recorder
from tilewright.trace.model import Counter, TraceModel

if TYPE_CHECKING:
    from tilewright.targets.atlas.artifact.device import AtlasDevice


def trace_segment(
    device: AtlasDevice, segment: int, window: tuple[int, int]
) -> list[tuple[int, TraceModel]]:
    """Run a segment; its trace inside a window of the run, if any, and when it begins."""
    from tilewright.targets.atlas.artifact.open_run import SegmentRun

    offset = device.cycles
    first, last = window[0] - offset, window[1] - offset
    program, machine = device.artifact.segments[segment], device.machine
    machine.load(program, keep_memory=True)
    machine.breakpoints = set()
    recorder = Recorder(machine, program, (max(0, first), last)) if last >= 0 else None
    try:
        outcome, seconds, _ = drive(machine, None, None, [], recorder, None)
        if outcome.fault is not None:
            raise TilewrightError("TW3130", f"segment {segment} faulted: {outcome.fault.message}")
        device.runs.append(SegmentRun(segment, offset, offset + outcome.cycles, machine.statistics))
        if recorder is None or first > outcome.cycles:
            return []
        result = Result(
            program, device.artifact.profile, device.policy, machine, "", outcome, seconds
        )
        result.recorder = recorder
        return [(offset, result.trace)]
    finally:
        machine.trace_window = None


def joined(title: str, subtitle: str, pieces: list[tuple[int, TraceModel]]) -> TraceModel:
    """Traces that begin at different ticks -> one; tracks of the same name are the same."""
    joined = TraceModel(title, subtitle, 0, 0, [], [], [], [])
    if pieces:
        joined.start = pieces[0][0] + pieces[0][1].start
    tracks: dict[str, int] = {}
    points: dict[str, Counter] = {}
    flows = 0
    for offset, piece in pieces:
        for track in piece.tracks:
            if track.name not in tracks:
                tracks[track.name] = len(joined.tracks)
                joined.tracks.append(track)
        number = {index: tracks[track.name] for index, track in enumerate(piece.tracks)}
        highest = flows
        for part in piece.slices:
            moved = replace(part, track=number[part.track], start=part.start + offset)
            moved.end = part.end + offset
            moved.flow_in = part.flow_in + flows if part.flow_in else 0
            moved.flow_out = part.flow_out + flows if part.flow_out else 0
            highest = max(highest, moved.flow_in, moved.flow_out)
            joined.slices.append(moved)
        flows = highest
        joined.marks += [
            replace(mark, track=number[mark.track], tick=mark.tick + offset) for mark in piece.marks
        ]
        for counter in piece.counters:
            kept = points.setdefault(counter.name, Counter(counter.name, counter.unit, []))
            kept.points.extend((tick + offset, value) for tick, value in counter.points)
        joined.end = offset + piece.end
    joined.counters = list(points.values())
    return joined
