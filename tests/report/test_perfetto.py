"""Traces read back with the protos: tracks, times, flows, counters, source lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.simulate import Result, Stop, simulate
from tilewright.trace.perfetto import write_trace

TWO_LOADS = """
    li   x1, 1024
    li   x2, 2048
    dma.load.ch0 x0, x0, x1
    dma.load.ch1 x1, x2, x1
    dma.wait.ch0
    vload m0, 0(x0)
    dma.wait.ch1
    delay 32
    vload m2, 0(x1)
    delay 32
    vadd.bf16 m4, m0, m2
"""


def run(text: str = TWO_LOADS, **options: Any) -> Result:
    program = assemble(text, load_profile(options.get("profile", "atlas-v1")), "kernels/two.S")
    return simulate(program, machine="python", trace=options.pop("trace", True), **options)


class Reader:
    """A Perfetto file as plain values, checking what a viewer relies on."""

    def __init__(self, path: Path) -> None:
        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        names: dict[tuple[str, int], str] = {}
        self.tracks: dict[int, str] = {}
        self.parents: dict[int, int] = {}
        self.slices: list[dict[str, Any]] = []
        self.marks: list[tuple[int, str]] = []
        self.counters: dict[str, list[tuple[int, int]]] = {}
        open_slices: dict[int, list[dict[str, Any]]] = {}
        last = 0
        for number, packet in enumerate(trace.packet):
            assert packet.trusted_packet_sequence_id == 1
            assert bool(packet.sequence_flags & 1) == (number == 0)
            data = packet.interned_data
            for table in ("event_names", "event_categories", "debug_annotation_names"):
                for entry in getattr(data, table):
                    assert (table, entry.iid) not in names
                    names[table, entry.iid] = entry.name
            for entry in data.debug_annotation_string_values:
                names["text", entry.iid] = entry.str.decode()
            if packet.HasField("track_descriptor"):
                described = packet.track_descriptor
                assert described.uuid not in self.tracks
                self.tracks[described.uuid] = described.name
                self.parents[described.uuid] = described.parent_uuid
                continue
            event = packet.track_event
            assert packet.timestamp >= last, "events must come in order of time"
            last = packet.timestamp
            track = self.tracks[event.track_uuid]
            if event.type == TrackEvent.TYPE_COUNTER:
                self.counters.setdefault(track, []).append((last, event.counter_value))
                continue
            arguments = {
                names["debug_annotation_names", note.name_iid]: (
                    note.int_value
                    if note.HasField("int_value")
                    else names["text", note.string_value_iid]
                )
                for note in event.debug_annotations
            }
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                made = {
                    "track": track,
                    "name": names["event_names", event.name_iid],
                    "category": names["event_categories", event.category_iids[0]],
                    "start": last,
                    "flows": list(event.flow_ids),
                    "ends": list(event.terminating_flow_ids),
                    "depth": len(open_slices.setdefault(event.track_uuid, [])),
                    **arguments,
                }
                open_slices[event.track_uuid].append(made)
                self.slices.append(made)
            elif event.type == TrackEvent.TYPE_SLICE_END:
                open_slices[event.track_uuid].pop()["end"] = last
            else:
                assert event.type == TrackEvent.TYPE_INSTANT
                self.marks.append((last, f"{names['event_names', event.name_iid]} {arguments}"))
        assert not any(open_slices.values()), "every slice must end"

    def on(self, track: str) -> list[dict[str, Any]]:
        return [s for s in self.slices if s["track"] == track]


@pytest.fixture
def read(tmp_path: Path):
    def write_and_read(result: Result) -> Reader:
        write_trace(result.trace, tmp_path / "t.pftrace")
        return Reader(tmp_path / "t.pftrace")

    return write_and_read


def test_tracks_and_times(read) -> None:
    result = run()
    trace = read(result)
    names = list(trace.tracks.values())
    assert names[0] == f"two.S (atlas-v1 · {result.cycles:,} cycles)"
    assert names[1:8] == ["DECODE", "SCALAR", "MXU0", "MXU1", "VPU", "LSU", "DMA"]
    assert names[8:] == ["DMA ch0", "DMA ch1", "DMA in flight (bytes)", "MRF held (registers)",
                         "VMEM held (blocks)"]  # fmt: skip
    assert all(parent == 1 for uuid, parent in trace.parents.items() if uuid != 1)
    # The first load is accepted in tick 5: 516 ticks to 520, then the second.
    engine = [(s["name"], s["start"], s["end"]) for s in trace.on("DMA")]
    assert engine == [("dma.load.ch0", 6, 522), ("dma.load.ch1", 522, 1038)]
    lsu = [(s["name"], s["start"], s["end"] - s["start"]) for s in trace.on("LSU")]
    assert [(name, length) for name, _, length in lsu] == [("vload", 34), ("vload", 34)]
    assert [s["end"] - 1 for s in trace.on("VPU")] == [result.cycles]


def test_rows_of_the_machine_are_all_there(read) -> None:
    result = run()
    trace = read(result)
    for row in result.machine.trace:
        index, claim = int(row["index"]), int(row["claim"])
        found = [s for s in trace.slices if s.get("index") == index and s.get("claim") == claim]
        assert found, f"instruction {index} is missing"
        if row["unit"] >= 0 and found[0]["category"] != "delay":
            ends = {(s["start"], s["end"] - 1) for s in found}
            assert (int(row["start"]), int(row["end"])) in ends


def test_source_bytes_addresses_and_queue(read) -> None:
    trace = read(run())
    second = trace.on("DMA")[1]
    assert second["instruction"] == "dma.load.ch1 x1, x2, x1"
    assert second["source"] == "kernels/two.S:5"
    assert (second["bytes"], second["vmem"], second["dram"]) == (1024, "0x400", "0x800")
    assert second["queued"] == 522 - 7
    whole, queued = trace.on("DMA ch1")
    assert (whole["start"], whole["end"], whole["depth"]) == (7, 1038, 0)
    assert (queued["name"], queued["start"], queued["end"]) == ("queued", 7, 522)
    assert queued["depth"] == 1
    assert [s["vmem"] for s in trace.on("LSU")] == ["0x0", "0x400"]


def test_flows_lead_from_a_transfer_to_its_wait(read) -> None:
    trace = read(run())
    for channel in (0, 1):
        transfer = trace.on(f"DMA ch{channel}")[0]
        (flow,) = transfer["flows"]
        (wait,) = [s for s in trace.on("DECODE") if s["ends"] == [flow]]
        assert wait["name"] == f"dma.wait.ch{channel}"
        assert transfer["start"] < wait["start"] <= transfer["end"] < wait["end"]


def test_a_wait_without_transfer_has_no_flow(read) -> None:
    trace = read(run("dma.wait.ch3\n"))
    (wait,) = trace.on("DECODE")
    assert wait["ends"] == [] and wait["end"] - wait["start"] == 1


def test_counters_return_to_zero(read) -> None:
    trace = read(run())
    flight = trace.counters["DMA in flight (bytes)"]
    assert flight == [(6, 1024), (7, 2048), (522, 1024), (1038, 0)]
    registers = trace.counters["MRF held (registers)"]
    assert max(v for _, v in registers) == 6 and registers[-1][1] == 0
    assert trace.counters["VMEM held (blocks)"][-1][1] == 0


def test_stalls_name_their_cause(read) -> None:
    text = "vload m0, 0(x0)\nvload m1, 0(x0)\nvadd.bf16 m4, m0, m2\n"
    trace = read(run(text, policy="stall"))
    names = [s["name"] for s in trace.on("DECODE")]
    assert names == ["stall: unit busy", "stall: dependency"] or names == ["stall: unit busy"]
    assert trace.on("DECODE")[0]["instruction"] == "vload m1, 0(x0)"


def test_faults_and_unfinished_operations(read) -> None:
    result = run("vload m0, 0(x0)\nvload m1, 0(x0)\n")
    trace = read(result)
    ((tick, text),) = trace.marks
    assert result.fault is not None
    assert tick == result.fault.cycle and "fault: structural" in text and "LSU is busy" in text
    (load,) = trace.on("LSU")
    assert load["unfinished"] == "the run stopped first" and load["end"] == result.cycles + 1


def test_pipelined_units_get_more_lanes(read, tmp_path: Path) -> None:
    profile = tmp_path / "pipelined.toml"
    profile.write_text('base = "atlas-v1"\n[timing]\nvector = ["VPU", 66, 20]\n')
    text = "vmov m0, m1\ndelay 19\nvmov m2, m3\ndelay 19\nvmov m4, m5\ndelay 64\nvmov m6, m7\n"
    trace = read(run(text, profile=str(profile)))
    lanes = {t: len(trace.on(t)) for t in ("VPU", "VPU (2)", "VPU (3)")}
    assert lanes == {"VPU": 2, "VPU (2)": 1, "VPU (3)": 1}


LOOP = "li x1, 50\nloop:\nvload m0, 0(x0)\ndelay 40\naddi x1, x1, -1\nbne x1, x0, loop\nnop\nnop\n"


@pytest.mark.parametrize("window", [(0, 0), (0, 41), (1000, 1199), (1000, 1201), (1003, 1005)])
def test_window(read, window: tuple[int, int]) -> None:
    first, last = window
    whole, part = run(LOOP), run(LOOP, trace=window)
    assert part.cycles == whole.cycles and part.statistics.same(whole.statistics)

    def kept(trace: Reader) -> set[tuple[str, int, int]]:
        return {(s["name"], s["start"], s["end"]) for s in trace.slices}

    inside = read(part)
    everything = [s for s in read(whole).slices if s["end"] > first + 1 and s["claim"] <= last]
    assert {(s["name"], s["start"], s["end"]) for s in everything} <= kept(inside)
    assert all(s["end"] > first and s["claim"] <= last for s in inside.slices)
    loads = [s for s in inside.slices if s["name"] == "vload" and s["claim"] > first]
    assert all("vmem" in s for s in loads)


def test_a_wait_across_the_end_of_the_window_is_whole(read) -> None:
    waits = [s for s in read(run(trace=(100, 300))).on("DECODE") if s["category"] == "wait"]
    assert [(s["name"], s["end"]) for s in waits] == [("dma.wait.ch0", 523)]


def test_a_stop_where_the_window_closes() -> None:
    program = assemble(LOOP, load_profile("atlas-v1"), "loop.S")
    for tick in range(90, 140):
        found = []
        for trace in (False, (0, tick)):
            result = simulate(program, machine="python", trace=trace, stops=[Stop(1, 3)])
            found.append((result.halted, result.cycles, result.stopped_at))
            paused = simulate(program, machine="python", trace=trace, stop_cycle=110)
            assert (paused.halted, paused.cycles) == ("until", 110)
        assert found[0] == found[1]


def test_same_run_same_bytes(tmp_path: Path) -> None:
    for name in ("a.pftrace", "b.pftrace"):
        write_trace(run().trace, tmp_path / name)
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()


def test_chrome_json(tmp_path: Path) -> None:
    result = run()
    write_trace(result.trace, tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    engine = [e for e in events if e["ph"] == "X" and threads[e["tid"]] == "DMA"]
    assert [(e["ts"], e["dur"]) for e in engine] == [(0.006, 0.516), (0.522, 0.516)]
    starts = {e["id"] for e in events if e["ph"] == "s"}
    assert starts == {e["id"] for e in events if e["ph"] == "f"} and len(starts) == 2
    assert {e["args"]["source"] for e in events if e["ph"] == "X"} >= {"kernels/two.S:5"}
    values = [e["args"]["bytes"] for e in events if e["ph"] == "C" and "bytes" in e["args"]]
    assert values == [1024, 2048, 1024, 0]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(TilewrightError) as caught:
        write_trace(run().trace, tmp_path / "no" / "t.pftrace")
    assert caught.value.code == "TW4002"


def test_traces_are_small() -> None:
    rows = np.asarray(run(LOOP).machine.trace)
    assert len(rows) > 250
