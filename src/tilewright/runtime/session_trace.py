"""A run of a model as a trace: its segments one after the other on one time line."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.compiled_model import HostPart
from tilewright.runtime.values import port_array, region_codes
from tilewright.targets.atlas.simulate import Result, drive
from tilewright.targets.atlas.tracing import FOREVER, Recorder
from tilewright.trace.model import Counter, TraceModel

if TYPE_CHECKING:
    from tilewright.runtime.device import Device
    from tilewright.runtime.session import Session


def trace_run(
    session: Session, values: dict[str, np.ndarray], window: tuple[int, int] | None
) -> TraceModel:
    """Run the model once more on these inputs and record what happens inside the window."""
    model, device = session.model, session.device()
    first, last = window or (0, FOREVER)
    if not 0 <= first <= last:
        raise TilewrightError("TW4003", f"the window {first} to {last} holds no tick")
    device.begin()
    offset, pieces = 0, []
    for part in model.parts:
        if isinstance(part, HostPart):
            session.run_host(part, values)
            continue
        for name in part.inputs:
            region = model.regions[model.ports[name].region or ""]
            device.write(region, region_codes(region, values[name]))
        for segment in part.segments:
            piece, ticks = _trace_segment(device, segment, first - offset, last - offset)
            if piece is not None:
                pieces.append((offset, piece))
            offset += ticks
        for name in part.outputs:
            region = model.regions[model.ports[name].region or ""]
            codes = [device.read(region, turn) for turn in range(region.count)]
            values[name] = port_array(model.ports[name], region, codes)
    return _join(model.name, f"{model.profile.name} · {offset:,} cycles", pieces)


def _trace_segment(
    device: Device, segment: int, first: int, last: int
) -> tuple[TraceModel | None, int]:
    """The trace of a segment inside a window that counts from its start, and its ticks."""
    program, machine = device.model.segments[segment], device.machine
    machine.load(program, keep_memory=True)
    machine.breakpoints = set()
    recorder = Recorder(machine, program, (max(0, first), last)) if last >= 0 else None
    try:
        outcome, seconds, _ = drive(machine, None, None, [], recorder, None)
        if outcome.fault is not None:
            raise TilewrightError("TW3130", f"segment {segment} faulted: {outcome.fault.message}")
        if recorder is None or first > outcome.cycles:
            return None, outcome.cycles
        result = Result(program, device.model.profile, device.policy, machine, "", outcome, seconds)
        result.recorder = recorder
        return result.trace, outcome.cycles
    finally:
        machine.trace_window = None


def _join(title: str, subtitle: str, pieces: list[tuple[int, TraceModel]]) -> TraceModel:
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
