"""Traces of random programs: whole, nested, the same from both machines, and no disturbance."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from machine_cases import random_case
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from tilewright.targets.atlas.outcome import CAUSES
from tilewright.targets.atlas.simulate import simulate
from tilewright.trace.model import Slice, TraceModel
from tilewright.trace.perfetto import write_trace
from tilewright.trace.timeline import timeline_svg

CYCLES = 2500


def check(model: TraceModel, ended: bool) -> None:
    """What every trace must be, whatever the program did."""
    by_track: dict[int, list[Slice]] = defaultdict(list)
    for item in model.slices:
        assert 0 <= item.start < item.end and item.name and item.text
        by_track[item.track].append(item)
    for items in by_track.values():
        open_ends: list[int] = []
        for item in sorted(items, key=lambda s: (s.start, -s.end)):
            while open_ends and open_ends[-1] <= item.start:
                open_ends.pop()
            assert not open_ends or item.end <= open_ends[-1], "slices overlap"
            open_ends.append(item.end)
    starts = {s.flow_out: s for s in model.slices if s.flow_out}
    for item in model.slices:
        if item.flow_in:
            assert starts[item.flow_in].start <= item.start
    for counter in model.counters:
        assert all(value >= 0 for _, value in counter.points)
        assert [t for t, _ in counter.points] == sorted({t for t, _ in counter.points})
        if ended and counter.points:
            assert counter.points[-1][1] == 0


def lost_ticks(model: TraceModel) -> dict[str, int]:
    """Ticks lost by cause, as the slices of decode tell them."""
    lost: dict[str, int] = dict.fromkeys(CAUSES, 0)
    for item in model.slices:
        length = int(item.arguments.get("dispatch", 0)) - int(item.arguments.get("claim", 0))
        if item.category == "stall":
            lost[str(item.arguments["cause"]).replace(" ", "_")] += item.end - item.start
        elif item.category in ("wait", "delay"):
            lost["dma_wait" if item.category == "wait" else "delay"] += length
    return lost


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_random_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 20):
        case = random_case(seed)
        window = True if seed % 3 else (200, 700)
        options: dict[str, Any] = {
            "profile": case.profile,
            "policy": case.policy,
            "max_cycles": CYCLES,
        }
        plain = simulate(case.program, machine="native", **options)
        traced = [
            simulate(case.program, machine=kind, trace=window, **options)
            for kind in ("python", "native")
        ]
        for result in traced:
            assert result.outcome == plain.outcome, seed
            assert result.statistics.same(plain.statistics), seed
        assert traced[0].trace == traced[1].trace, seed
        model = traced[1].trace
        whole = plain.halted == "end" and window is True
        check(model, whole)
        if whole:
            assert lost_ticks(model) == plain.statistics.lost, seed
        write_trace(model, tmp_path / "t.pftrace")
        content = Trace()
        content.ParseFromString((tmp_path / "t.pftrace").read_bytes())
        counted = sum(len(c.points) for c in model.counters) + len(model.marks)
        described = 1 + len(model.tracks) + len(model.counters)
        assert len(content.packet) == described + 2 * len(model.slices) + counted
        ElementTree.fromstring(timeline_svg(model))
