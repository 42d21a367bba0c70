"""Running programs through `simulate`: data in and out, stops, policies, traces."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import TilewrightError
from tilewright.io.tensor_files import Tensor
from tilewright.reference.tolerance import Tolerance
from tilewright.targets.atlas import simulate as module
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.placement import Expectation, Place, Placement, parse_place
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Program
from tilewright.targets.atlas.simulate import Stop, simulate

V1 = load_profile("atlas-v1")
COPY = """
    li   x1, 64
    li   x2, 4096
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
    dma.store.ch1 x2, x0, x1
    dma.wait.ch1
"""
LOOP = """
    li   x1, 5
loop:
    addi x1, x1, -1
    bne  x1, x0, loop
    nop
    nop
    addi x2, x0, 7
"""


@pytest.fixture(params=["python", "native"], autouse=True)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs on both machines: `simulate` below passes the one of the parameter."""
    if request.param == "native":
        pytest.importorskip("tilewright._native")
    monkeypatch.setitem(globals(), "simulate", partial(module.simulate, machine=request.param))
    return request.param


def program(text: str) -> Program:
    return assemble(text, V1, "test.S")


def copy(**options):
    data = np.arange(64, dtype=np.uint8)
    return simulate(program(COPY), memory={0: data}, **options)


def test_data_in_and_out() -> None:
    result = copy()
    assert result.halted == "end" and result.fault is None and result.ok
    # li li load(accept 5, 36 ticks: 5..40) wait(41) store(42, accept 43, 43..78) wait(79)
    assert result.cycles == 79
    assert result.read(4096, "u8", 64).tolist() == list(range(64))
    assert result.read("vmem:0", "u16", (4, 8)).shape == (4, 8)
    assert result.read("vmem:0x3e", "u8", 2).tolist() == [62, 63]
    assert result.statistics.dma_loaded == 64 and result.statistics.dma_stored == 64


def test_program_data_is_placed_and_memory_lies_over_it() -> None:
    text = ".dram 0\n.word 1, 2, 3\n.text\n nop\n"
    plain = simulate(program(text))
    assert plain.read(0, "u32", 3).tolist() == [1, 2, 3]
    over = simulate(program(text), memory={4: np.array([9], np.uint32)})
    assert over.read(0, "u32", 3).tolist() == [1, 9, 3]


def test_vmem_is_a_space_of_its_own() -> None:
    result = simulate(program("nop"), memory={"vmem:0x20": b"abc", 0x20: b"xyz"})
    assert result.read("vmem:0x20", "u8", 3).tobytes() == b"abc"
    assert result.read("dram:0x20", "u8", 3).tobytes() == b"xyz"


def test_bad_reads() -> None:
    result = simulate(program("nop"))
    for place, element, count in ((0, "f99", 1), (V1.dram_bytes, "u8", 1), ("vmem:-1", "u8", 1)):
        with pytest.raises(TilewrightError):
            result.read(place, element, count)
    scalar = Expectation(Tensor("one", np.array(3.0, np.float32), True), Place("dram", 0))
    (checked,) = simulate(program("nop"), expect=[scalar]).expected
    assert not checked.comparison.holds and checked.to_json()["worst"]["index"] == []


def test_expectations() -> None:
    want = np.arange(64, dtype=np.uint8)
    wrong = want.copy()
    wrong[10] += 3
    place = Place("dram", 4096)
    checks = [
        Expectation(Tensor("want", want, True), place),
        Expectation(Tensor("wrong", wrong, True), place),
        Expectation(Tensor("near", wrong, True), place, Tolerance(0, 3)),
    ]
    result = copy(expect=checks)
    assert [e.comparison.holds for e in result.expected] == [True, False, True]
    assert not result.ok
    shown = result.to_json()["expectations"][1]
    assert shown["different"] == 1
    assert shown["worst"] == {
        "index": [10],
        "address": "0x100a",
        "expected": 13,
        "actual": 10,
        "error": 3.0,
    }


def test_slices_do_not_change_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = copy(trace=True)
    seen: list[int] = []
    monkeypatch.setattr(module, "_FIRST_SLICE", 1)
    monkeypatch.setattr(module, "_SLICE_SECONDS", 0.0)
    sliced = copy(trace=True, progress=seen.append)
    assert len(seen) > 4 and seen == sorted(seen)
    assert sliced.statistics.same(whole.statistics)
    assert np.array_equal(sliced.machine.trace, whole.machine.trace)
    assert sliced.trace == whole.trace


def test_limits_and_stops() -> None:
    loop = program(LOOP)
    limited = simulate(loop, max_cycles=10)
    assert (limited.halted, limited.cycles) == ("limit", 10)
    paused = simulate(loop, stop_cycle=12)
    assert (paused.halted, paused.cycles) == ("until", 12)
    label = loop.labels["loop"]
    for count in (1, 3):
        stopped = simulate(loop, stops=[Stop(label, count)])
        assert stopped.halted == "breakpoint" and stopped.stopped_at == Stop(label, count)
        assert stopped.registers()["x1"] == 6 - count
    last = simulate(loop, stops=[Stop(label, 9), Stop(len(loop) - 1, 1, "until")])
    assert last.halted == "until" and last.registers()["x1"] == 0
    never = simulate(loop, stops=[Stop(label, 6)])
    assert never.halted == "end" and never.registers()["x2"] == 7


def test_stops_and_recorded_addresses_do_not_mix() -> None:
    result = copy(trace=True, stops=[Stop(4)])
    assert result.halted == "breakpoint" and result.machine.next_index == 4
    loads = [s for s in result.trace.slices if s.category == "dma load"]
    assert loads and all(s.arguments["dram"] == "0x0" for s in loads)


def test_fault_and_record() -> None:
    text = "vload m0, 0(x0)\nvload m1, 0(x0)\nvload m2, 0(x0)\n"
    stopped = simulate(program(text))
    assert stopped.fault is not None and stopped.fault.kind == "structural"
    assert stopped.faults == [stopped.fault] and not stopped.ok
    recorded = simulate(program(text), policy="record")
    assert recorded.fault is None and recorded.halted == "end"
    assert [(f.kind, f.index) for f in recorded.faults] == [("structural", 1), ("structural", 2)]
    assert not recorded.ok
    stalled = simulate(program(text), policy="stall")
    assert stalled.ok and stalled.statistics.lost["unit_busy"] > 0


def test_bad_places() -> None:
    for memory, code in (
        ({V1.dram_bytes: b"x"}, "TW3033"),
        ({V1.dram_bytes - 1: b"xy"}, "TW3033"),
        ({"vmem:0x100000": b"x"}, "TW3033"),
        ({1 << 200: b"x"}, "TW3033"),
        ({0: b"abcd", 3: b"x"}, "TW3034"),
        ({"vmem:x": b"x"}, "TW3030"),
        ({"-4": b"x"}, "TW3030"),
    ):
        with pytest.raises(TilewrightError) as caught:
            simulate(program("nop"), memory=memory)
        assert caught.value.code == code
    # Neighbours, other spaces and empty arrays do not overlap.
    simulate(
        program("nop"),
        memory={0: b"abcd", 4: b"x", "vmem:0": b"y", 2: b""},
    )
    one = Placement(Tensor("a", np.zeros(4, np.uint8), True), parse_place("0x10"))
    with pytest.raises(TilewrightError, match="overlaps"):
        simulate(program("nop"), memory=[one, one])


def test_places() -> None:
    assert parse_place("vmem:0x40") == Place("vmem", 64)
    assert parse_place("dram:010") == Place("dram", 10)
    assert parse_place(" 1_000 ") == Place("dram", 1000)
    for text in ("", "x", "vmem:", "0x", "1e3", "٣", "0x_", "9" * 5000):
        with pytest.raises(TilewrightError):
            parse_place(text)


def test_machine_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    with pytest.raises(TilewrightError, match="no machine 'vhdl'"):
        simulate(program("nop"), machine="vhdl")
    monkeypatch.setitem(sys.modules, "tilewright.targets.atlas.native", None)
    with pytest.raises(TilewrightError, match="not built") as caught:
        simulate(program("nop"), machine="native")
    assert caught.value.hint is not None and "--machine python" in caught.value.hint
    assert simulate(program("nop"), machine=None).machine_name == "python"


def test_both_machines_give_the_same_trace_and_json(machine: str) -> None:
    if machine == "python":
        return
    shown = []
    for kind in ("python", "native"):
        result = copy(trace=True, machine=kind)
        values = result.to_json()
        values["run_seconds"] = values["machine"] = None
        shown.append((result.trace, values, result.registers()))
    assert shown[0] == shown[1]


def test_many_memory_operations_are_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.targets.atlas import tracing

    text = COPY + LOOP.replace("addi x2, x0, 7", "vload m0, 0(x1)\nnop")
    plain = simulate(program(text), trace=True)
    monkeypatch.setattr(tracing, "MOST_BREAKPOINTS", 0)
    assert simulate(program(text), trace=True).trace == plain.trace
    for tick in range(1, plain.cycles + 3):
        options: dict[str, Any] = (
            {"stop_cycle": tick} if tick % 2 else {"stops": [Stop(tick % 10, tick // 40 + 1)]}
        )
        runs = [simulate(program(text), trace=t, **options) for t in (False, True, (20, 60))]
        ends = [(r.halted, r.cycles, r.stopped_at, r.registers()) for r in runs]
        assert ends[0] == ends[1] == ends[2]
        assert all(r.statistics.same(runs[0].statistics) for r in runs)


def test_a_run_without_trace_has_none() -> None:
    with pytest.raises(TilewrightError, match="not traced"):
        _ = copy().trace


def test_program_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "copy.S"
    path.write_text(COPY)
    data = np.linspace(-2, 2, 32).astype(ml_dtypes.bfloat16)
    result = simulate(path, memory={"dram:0": data}, policy="poison,dma=late")
    assert np.array_equal(result.read(4096, "bf16", 32), data)
    assert result.to_json()["policy"]["dma"] == "late"
