"""Traces for ui.perfetto.dev: its own binary format, or Chrome JSON for files ending in .json.

One tick is written as one nanosecond.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tilewright.errors import Location, TilewrightError
from tilewright.trace.model import Slice, TraceModel

_ROOT = 1
_SEQUENCE = 1
_FIRST_TRACK = 0x100
_FIRST_COUNTER = 0x10000
_BATCH = 2048  # packets written at a time


def write_trace(model: TraceModel, path: str | Path) -> None:
    """Write a trace; the suffix decides between Perfetto (any) and Chrome JSON (.json)."""
    file = Path(path)
    try:
        if file.suffix == ".json":
            with file.open("w", encoding="utf-8") as text:
                for piece in json.JSONEncoder(separators=(",", ":")).iterencode(_chrome(model)):
                    text.write(piece)
        else:
            with file.open("wb") as binary:
                _write_packets(model, binary)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TilewrightError("TW4002", f"cannot write: {reason}", Location(str(file))) from None


# --- Perfetto ----------------------------------------------------------------------------


def _write_packets(model: TraceModel, file: BinaryIO) -> None:
    # The generated protos are large: imported only when a trace is written.
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    batch = Trace()
    for packet in _packets(model):
        batch.packet.append(packet)
        if len(batch.packet) >= _BATCH:
            file.write(batch.SerializeToString())
            batch = Trace()
    file.write(batch.SerializeToString())


def _packets(model: TraceModel) -> Iterator[Any]:
    """Track descriptors, then events in the order of their time."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
        TracePacket,
        TrackDescriptor,
        TrackEvent,
    )

    def packet() -> Any:
        result = TracePacket()
        result.trusted_packet_sequence_id = _SEQUENCE
        result.sequence_flags = TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        return result

    first = packet()
    first.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    first.first_packet_on_sequence = True
    # A plain track, not a process: viewers order the children of a process as they like.
    first.track_descriptor.uuid = _ROOT
    first.track_descriptor.name = f"{model.title} ({model.subtitle})"
    first.track_descriptor.child_ordering = TrackDescriptor.EXPLICIT
    yield first
    for rank, track in enumerate(model.tracks):
        made = packet()
        made.track_descriptor.uuid = _FIRST_TRACK + rank
        made.track_descriptor.parent_uuid = _ROOT
        made.track_descriptor.name = track.name
        if track.detail:
            made.track_descriptor.description = track.detail
        made.track_descriptor.sibling_order_rank = rank
        yield made
    for rank, counter in enumerate(model.counters):
        made = packet()
        made.track_descriptor.uuid = _FIRST_COUNTER + rank
        made.track_descriptor.parent_uuid = _ROOT
        made.track_descriptor.name = f"{counter.name} ({counter.unit})"
        made.track_descriptor.sibling_order_rank = len(model.tracks) + rank
        made.track_descriptor.counter.unit_name = counter.unit
        yield made

    interned = _Interned()
    for tick, _, what, item in _events(model):
        made = packet()
        made.timestamp = tick
        event = made.track_event
        if what == "end":
            event.type = TrackEvent.TYPE_SLICE_END
            event.track_uuid = _FIRST_TRACK + item.track
        elif what == "begin":
            event.type = TrackEvent.TYPE_SLICE_BEGIN
            event.track_uuid = _FIRST_TRACK + item.track
            event.name_iid = interned.name(made, item.name)
            event.category_iids.append(interned.category(made, item.category))
            if item.flow_out:
                event.flow_ids.append(item.flow_out)
            if item.flow_in:
                event.terminating_flow_ids.append(item.flow_in)
            for key, value in _arguments(item):
                note = event.debug_annotations.add()
                note.name_iid = interned.argument(made, key)
                if isinstance(value, int):
                    note.int_value = value
                else:
                    note.string_value_iid = interned.text(made, value)
        elif what == "mark":
            event.type = TrackEvent.TYPE_INSTANT
            event.track_uuid = _FIRST_TRACK + item.track
            event.name_iid = interned.name(made, item.name)
            note = event.debug_annotations.add()
            note.name_iid = interned.argument(made, "message")
            note.string_value_iid = interned.text(made, item.text)
        else:
            number, value = item
            event.type = TrackEvent.TYPE_COUNTER
            event.track_uuid = _FIRST_COUNTER + number
            event.counter_value = value
        yield made


class _Interned:
    """Strings written once and named by number afterwards."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], int] = {}

    def _number(self, kind: str, text: str) -> tuple[int, bool]:
        key = (kind, text)
        if key in self._seen:
            return self._seen[key], False
        self._seen[key] = len(self._seen) + 1
        return self._seen[key], True

    def name(self, packet: Any, text: str) -> int:
        return self._add(packet.interned_data.event_names, "name", text) if text else 0

    def category(self, packet: Any, text: str) -> int:
        return self._add(packet.interned_data.event_categories, "category", text)

    def argument(self, packet: Any, text: str) -> int:
        return self._add(packet.interned_data.debug_annotation_names, "argument", text)

    def text(self, packet: Any, text: str) -> int:
        number, fresh = self._number("text", text)
        if fresh:
            packet.interned_data.debug_annotation_string_values.add(
                iid=number, str=text.encode("utf-8")
            )
        return number

    def _add(self, table: Any, kind: str, text: str) -> int:
        number, fresh = self._number(kind, text)
        if fresh:
            table.add(iid=number, name=text)
        return number


def _arguments(item: Slice) -> Iterator[tuple[str, int | str]]:
    if item.text:
        yield "instruction", item.text
    if item.source:
        yield "source", item.source
    yield from item.arguments.items()


def _events(model: TraceModel) -> list[tuple[int, int, str, Any]]:
    """Begins, ends, marks and counter values by time.

    At one tick slices end before others begin; of slices that begin together the longer
    comes first, so that the shorter nests in it.
    """
    events: list[tuple[int, int, str, Any]] = []
    for item in model.slices:
        length = item.end - item.start
        events.append((item.start, (1 << 62) - length, "begin", item))
        events.append((item.end, -1, "end", item))
    for mark in model.marks:
        events.append((mark.tick, 1 << 62, "mark", mark))
    for number, counter in enumerate(model.counters):
        for tick, value in counter.points:
            events.append((tick, 0, "count", (number, value)))
    events.sort(key=lambda event: event[:2])
    return events


# --- Chrome JSON -------------------------------------------------------------------------


def _chrome(model: TraceModel) -> dict[str, Any]:
    """The older JSON form; times are microseconds there, so a tick is 0.001."""
    events: list[dict[str, Any]] = [
        {
            "ph": "M",
            "pid": 1,
            "name": "process_name",
            "args": {"name": f"{model.title} ({model.subtitle})"},
        }
    ]
    for number, track in enumerate(model.tracks):
        names = {"pid": 1, "tid": number + 1}
        events.append({"ph": "M", **names, "name": "thread_name", "args": {"name": track.name}})
        order = {"sort_index": number}
        events.append({"ph": "M", **names, "name": "thread_sort_index", "args": order})
    for item in model.slices:
        place = {"pid": 1, "tid": item.track + 1, "ts": item.start / 1000}
        slice_event = {
            "ph": "X",
            **place,
            "dur": (item.end - item.start) / 1000,
            "name": item.name,
            "cat": item.category,
            "args": dict(_arguments(item)),
        }
        events.append(slice_event)
        flow = {"name": "dma", "cat": "dma", **place}
        if item.flow_out:
            events.append({"ph": "s", "id": item.flow_out, **flow})
        if item.flow_in:
            events.append({"ph": "f", "bp": "e", "id": item.flow_in, **flow})
    for mark in model.marks:
        events.append(
            {
                "ph": "i",
                "s": "t",
                "pid": 1,
                "tid": mark.track + 1,
                "ts": mark.tick / 1000,
                "name": mark.name,
                "args": {"message": mark.text},
            }
        )
    for counter in model.counters:
        name = f"{counter.name} ({counter.unit})"
        for tick, value in counter.points:
            values = {counter.unit: value}
            events.append({"ph": "C", "pid": 1, "ts": tick / 1000, "name": name, "args": values})
    return {"traceEvents": events, "displayTimeUnit": "ns"}
