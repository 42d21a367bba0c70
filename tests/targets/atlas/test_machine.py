"""Driving a machine: stopping, stepping, looking, going back; policies and statistics."""

from __future__ import annotations

import numpy as np
import pytest
from support import MACHINES, Machine, machine_with

from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

LOOP = """
    addi x1, x0, 5
loop:
    addi x1, x1, -1
    bne x1, x0, loop
    addi x2, x2, 1
    addi x3, x3, 2
    addi x4, x0, 1
"""
COPY = """
    li x1, 1024
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
    vload m0, 0(x0)
    delay 32
    vstore m0, 32(x0)
    delay 32
    dma.store.ch1 x1, x1, x1
    dma.wait.ch1
"""


def everything(machine: Machine) -> list:
    """All architectural state."""
    names = [f"x{i}" for i in range(32)] + [f"e{i}" for i in range(32)] + ["dma.base", "pc"]
    names += [f"m{i}" for i in range(64)]
    names += [f"mxu{n}.{k}{i}" for n in (0, 1) for k in ("w", "acc") for i in (0, 1)]
    memories = [machine.read("vmem", 0, 16384), machine.read("dram", 0, 16384)]
    return [machine.read_register(n) for n in names] + memories


@pytest.mark.parametrize("kind", MACHINES)
def test_step_shows_scalar_results_at_once(kind: type[Machine]) -> None:
    machine = machine_with(kind, LOOP)
    seen = []
    for _ in range(4):
        assert machine.step().reason == "until"
        seen.append(machine.read_register("x1"))
    assert seen == [5, 4, 4, 4]
    assert machine.run().reason == "end"
    assert machine.statistics.instructions == 22


@pytest.mark.parametrize("kind", MACHINES)
def test_breakpoint_stops_each_time_before_the_instruction(kind: type[Machine]) -> None:
    machine = machine_with(kind, LOOP)
    machine.breakpoints.add(3)
    counts = []
    while (outcome := machine.run()).reason == "breakpoint":
        counts.append((machine.read_register("x1"), machine.read_register("x2")))
    assert counts == [(4, 0), (3, 1), (2, 2), (1, 3), (0, 4)]
    assert outcome.reason == "end" and outcome.cycles == 24


@pytest.mark.parametrize("kind", MACHINES)
def test_watch_stops_when_a_value_changes(kind: type[Machine]) -> None:
    machine = machine_with(kind, COPY)
    machine.write("dram", 0, bytes(range(256)) * 4)
    machine.watch("vmem", 1024, 32)
    outcome = machine.run()
    assert outcome.reason == "watch"
    assert machine.read("vmem", 1024, 4) == bytes([0, 1, 2, 3])
    machine.unwatch("vmem", 1024, 32)
    assert machine.run().reason == "end"

    machine = machine_with(kind, LOOP)
    machine.watch("x2")
    assert machine.run().reason == "watch"
    assert machine.read_register("x2") == 1


@pytest.mark.parametrize("kind", MACHINES)
def test_until_cycle_shows_exactly_the_ticks_so_far(kind: type[Machine]) -> None:
    machine = machine_with(kind, COPY)
    machine.write("dram", 0, b"\x07" * 1024)
    assert machine.run(until_cycle=518).cycles == 518
    assert machine.read("vmem", 0, 1) == b"\x00"
    machine.run(until_cycle=519)
    assert machine.read("vmem", 0, 1) == b"\x07"


@pytest.mark.parametrize("kind", MACHINES)
def test_cycle_limit(kind: type[Machine]) -> None:
    machine = machine_with(kind, "loop:\njal x0, loop\nnop\nnop")
    outcome = machine.run(max_cycles=1000)
    assert (outcome.reason, outcome.cycles) == ("limit", 1000)


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize("stop", [1, 5, 300, 519, 521, 540, 600])
def test_snapshot_and_restore_repeat_the_run(kind: type[Machine], stop: int) -> None:
    machine = machine_with(kind, COPY, initial="random", seed=3)
    machine.run(until_cycle=stop)
    saved = machine.snapshot()
    first = machine.run()
    after = everything(machine)
    machine.write("vmem", 0, b"\xaa" * 4096)
    machine.restore(saved)
    assert machine.cycles == stop
    assert machine.run() == first
    assert everything(machine) == after


@pytest.mark.parametrize("kind", MACHINES)
def test_until_pc_and_instruction_count(kind: type[Machine]) -> None:
    machine = machine_with(kind, LOOP)
    assert machine.run(until_pc=20).reason == "until"
    assert machine.read_register("x2") == 5
    machine.reset()
    machine.run(max_instructions=6)
    assert machine.statistics.instructions == 6


@pytest.mark.parametrize("kind", MACHINES)
def test_statistics(kind: type[Machine]) -> None:
    machine = machine_with(kind, COPY)
    machine.run()
    use = machine.statistics
    assert (use.units["DMA"].operations, use.units["DMA"].busy) == (2, 1032)
    assert (use.units["LSU"].operations, use.units["LSU"].busy) == (2, 68)
    assert (use.dma_loaded, use.dma_stored) == (1024, 1024)
    assert use.lost["delay"] == 64
    assert use.lost["dma_wait"] == 516 + 516 - 1 + 1
    assert use.executions.tolist() == [1] * 9
    assert use.issue_ticks.sum() == use.cycles - 1


@pytest.mark.parametrize("kind", MACHINES)
def test_stall_policy_runs_what_faults_otherwise(kind: type[Machine]) -> None:
    text = "vload m0, 0(x0)\nvadd.bf16 m2, m0, m4\nvadd.bf16 m6, m2, m4"
    fault = machine_with(kind, text).run().fault
    assert fault is not None and fault.kind == "bank_conflict"
    machine = machine_with(kind, text, hazards="stall")
    assert machine.run().cycles == 36 + 66 + 66
    lost = machine.statistics.lost
    assert (lost["dependency"], lost["unit_busy"]) == (33, 65)


@pytest.mark.parametrize("kind", MACHINES)
def test_record_policy_reports_every_hazard_and_goes_on(kind: type[Machine]) -> None:
    text = """
        vload m0, 0(x0)
        vadd.bf16 m2, m0, m4
        vadd.bf16 m6, m2, m4
        vadd.bf16 m63, m2, m4
        dma.load.ch0 x0, x0, x0
        dma.load.ch0 x0, x0, x0
    """
    machine = machine_with(kind, text, hazards="record")
    assert machine.run().reason == "end"
    kinds = [(f.kind, f.index) for f in machine.faults]
    assert kinds == [
        ("bank_conflict", 1),
        ("structural", 2),
        ("structural", 3),
        ("pair_range", 3),
        ("channel_busy", 5),
    ] or kinds == [
        ("bank_conflict", 1),
        ("structural", 2),
        ("structural", 3),
        ("channel_busy", 5),
        ("pair_range", 3),
    ]


@pytest.mark.parametrize("kind", MACHINES)
def test_poison_is_not_a_number_everywhere(kind: type[Machine]) -> None:
    machine = machine_with(kind, "nop", initial="poison")
    assert machine.read("dram", 123456789, 4) == b"\xff" * 4
    assert machine.read_register("m5") == b"\xff" * 1024
    assert machine.read_register("x0") == 0 and machine.read_register("x7") == 0xFFFFFFE0


@pytest.mark.parametrize("kind", MACHINES)
def test_random_state_is_reproducible(kind: type[Machine]) -> None:
    first, second = (machine_with(kind, "nop", initial="random", seed=5) for _ in range(2))
    other = machine_with(kind, "nop", initial="random", seed=6)
    assert everything(first) == everything(second) != everything(other)
    reference = machine_with(MACHINES[0], "nop", initial="random", seed=5)
    assert everything(first) == everything(reference)


@pytest.mark.parametrize("kind", MACHINES)
def test_dma_time_of_landing(kind: type[Machine]) -> None:
    """Without a wait a program can see old or new bytes; the policies show both."""
    text = "li x1, 32\ndma.load.ch0 x0, x0, x1\nlw x2, 0(x0)\ndelay 40\nlw x3, 0(x0)\nnop"
    seen = {}
    for dma in ("exact", "early", "late"):
        machine = machine_with(kind, text, dma=dma)
        machine.write("dram", 0, b"\x01" + bytes(31))
        machine.run()
        seen[dma] = (machine.read_register("x2"), machine.read_register("x3"))
        assert machine.read("vmem", 0, 1) == b"\x01"
    assert seen == {"exact": (0, 1), "early": (1, 1), "late": (0, 0)}


@pytest.mark.parametrize("kind", MACHINES)
def test_derived_profile_changes_cycles(kind: type[Machine], tmp_path) -> None:
    file = tmp_path / "fast.toml"
    file.write_text(
        'base = "atlas-v1"\n[timing]\nmatmul_mxu0 = ["MXU", 96, 32]\n[dma]\nlink_bytes = 8\n'
    )
    profile = load_profile(str(file))
    assert profile.dma.ticks(1024) == 258
    text = "vmatmul.mxu0 acc0, m0, w0\ndelay 30\nvmatmul.mxu0 acc1, m2, w0"
    plain = machine_with(kind, text).run().fault
    assert plain is not None and plain.kind == "structural"
    machine = kind(profile, Policy())
    machine.load(machine_with(kind, text).program)
    assert machine.run().cycles == 2 + 32 + 96


@pytest.mark.parametrize("kind", MACHINES)
def test_trace_rows(kind: type[Machine]) -> None:
    machine = machine_with(kind, COPY)
    machine.trace_window = (0, 10**9)
    machine.run()
    rows = machine.trace
    assert rows["index"].tolist() == list(range(9))
    load = rows[1]
    assert (load["start"], load["end"], load["bytes"], load["channel"]) == (4, 519, 1024, 0)
    assert rows[2]["dispatch"] == 520 and rows[2]["unit"] == -1
    machine.reset()
    machine.trace_window = (530, 560)
    machine.run()
    assert np.all(machine.trace["end"] >= 530) and np.all(machine.trace["dispatch"] <= 560)


@pytest.mark.parametrize("kind", MACHINES)
def test_bad_names_and_ranges_are_value_errors(kind: type[Machine]) -> None:
    machine = machine_with(kind, "nop")
    for call in (
        lambda: machine.read_register("x32"),
        lambda: machine.read_register("y0"),
        lambda: machine.write_register("m0", b"short"),
        lambda: machine.read("dram", -1, 4),
        lambda: machine.read("vmem", 1 << 20, 1),
        lambda: machine.write("rom", 0, b"x"),
    ):
        with pytest.raises(ValueError):
            call()
