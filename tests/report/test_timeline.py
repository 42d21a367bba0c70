"""The picture of a run: well formed, complete, bounded in size."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tilewright.trace.model import Counter, Mark, Slice, TraceModel, Track
from tilewright.trace.timeline import COLORS, LEFT, RIGHT, WIDTH, timeline_svg, write_timeline

SVG = "{http://www.w3.org/2000/svg}"


def model(slices: list[Slice], end: int = 1000, start: int = 0) -> TraceModel:
    tracks = [Track("DECODE", "issue"), Track("LSU", "units"), Track("DMA", "memory")]
    counters = [Counter("DMA in flight", "bytes", [(10, 64), (500, 0)])]
    return TraceModel("a<b>.S", "x & y", start, end, tracks, slices, [], counters)


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def test_lanes_labels_and_tooltips() -> None:
    load = Slice(1, 100, 300, "vload", "tensor load", "vload m0, 0(x1)", "a.S:3", {"vmem": "0x40"})
    root = ElementTree.fromstring(timeline_svg(model([load])))
    shown = texts(root)
    assert "a<b>.S" in shown and "LSU" in shown and "20.0 %" in shown
    assert "x & y · unused: DECODE, DMA" in shown
    assert "vload m0, 0(x1)" in shown and "vload" in shown
    (note,) = [t.text for t in root.iter(f"{SVG}title")]
    assert note == "vload m0, 0(x1)\ncycles 100 to 299 (200)\na.S:3\nvmem: 0x40"
    (bar,) = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "slice"]
    scale = (WIDTH - LEFT - RIGHT) / 1000
    assert abs(float(bar.attrib["x"]) - (LEFT + 100 * scale)) < 0.01
    assert bar.attrib["fill"] == COLORS["tensor load"][0]


def test_window_clips() -> None:
    slices = [Slice(1, 0, 50, "early", "scalar"), Slice(1, 90, 150, "half", "scalar")]
    root = ElementTree.fromstring(timeline_svg(model(slices, end=200, start=100)))
    (bar,) = [r for r in root.iter(f"{SVG}rect") if r.get("class") == "slice"]
    assert float(bar.attrib["x"]) == LEFT and "50.0 %" in texts(root)


def test_lines_from_transfers_to_waits() -> None:
    transfer = Slice(2, 10, 400, "dma.load.ch0", "dma load", flow_out=7)
    wait = Slice(0, 20, 402, "dma.wait.ch0", "wait", flow_in=7)
    svg = timeline_svg(model([transfer, wait]))
    assert svg.count("<circle") == 2
    assert timeline_svg(model([transfer])).count("<circle") == 0


def test_faults_are_marked() -> None:
    broken = model([Slice(1, 0, 10, "vload", "tensor load")])
    broken.marks.append(Mark(0, 5, "fault: structural", "LSU is <busy>"))
    assert "fault: structural in cycle 5\nLSU is &lt;busy&gt;" in timeline_svg(broken)


def test_a_million_ticks_stay_a_small_file() -> None:
    slices = [Slice(1, t, t + 3, "addi", "scalar") for t in range(0, 1_000_000, 10)]
    svg = timeline_svg(model(slices, end=1_000_000))
    assert len(svg) < 100_000
    ElementTree.fromstring(svg)
    assert "30.0 %" in svg


def test_dense_and_sparse_columns_differ() -> None:
    dense = [Slice(1, t, t + 9, "addi", "scalar") for t in range(0, 500_000, 10)]
    sparse = [Slice(1, t, t + 1, "addi", "scalar") for t in range(500_000, 1_000_000, 100)]
    levels = re.findall(r'opacity="([0-9.]+)"><title>', timeline_svg(model(dense + sparse, 10**6)))
    assert len(set(levels)) >= 2


def test_empty_run_and_file(tmp_path: Path) -> None:
    write_timeline(model([], end=0), tmp_path / "t.svg")
    ElementTree.parse(tmp_path / "t.svg")


def test_counter_ends_at_its_last_value() -> None:
    points = [(t, t % 7) for t in range(900)] + [(901, 0)]
    drawn = model([Slice(1, 0, 1000, "x", "scalar")])
    drawn.counters[:] = [Counter("c", "u", points)]
    path = re.findall(r'<path d="(M[^"]*Z)"', timeline_svg(drawn))[-1]
    assert "6" in texts(ElementTree.fromstring(timeline_svg(drawn)))
    base = re.match(rf"M{LEFT} (\d+)", path)
    assert base is not None
    # The last stroke before the right edge goes down to zero.
    assert f"V{int(base[1]):.1f}H" in path
