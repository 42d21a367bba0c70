"""Sampling does not change a run, and its pieces are what the trace of the run says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_programs import random_program
from support import MACHINES, machine_with

from tilewright.targets.atlas.activity import Sampler, spread
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

LOADS = """
  li x1, 0
  li x2, 4096
  li x3, 0x4000
  dma.config.ch0 x1
  delay 4
  dma.load.ch0 x1, x3, x2
  dma.load.ch1 x2, x3, x2
  delay 99
  dma.wait.ch0
  vload m0, 0(x1)
  delay 33
  dma.wait.ch1
"""


@pytest.mark.parametrize("kind", MACHINES)
def test_transfers_are_spread_over_the_time_the_engine_needs(kind) -> None:
    machine = machine_with(kind, LOADS)
    sampler = Sampler(machine, shortest=16)
    outcome = sampler.run()
    activity = sampler.activity()
    transfers = activity.busy["DMA"]
    assert sum(transfers) == machine.statistics.units["DMA"].busy
    assert transfers.count(16) >= len(transfers) - 3  # the link never rests between both
    assert sum(activity.busy["LSU"]) == 34
    assert len(transfers) == -(-outcome.cycles // 16)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 300))
def test_a_sampled_run_is_the_same_run(seed: int, ticks: int) -> None:
    profile = load_profile("atlas-v1")
    program = random_program(seed, profile)
    policy = Policy(hazards="stall")
    plain, inner = (kind(profile, policy) for kind in (MACHINES[1], MACHINES[1]))
    sampled = Sampler(inner, most=16, shortest=ticks)
    for machine in (plain, sampled):
        machine.load(program)
        machine.breakpoints = {3, 7}
    for _ in range(50):
        one, other = plain.run(max_cycles=3000), sampled.run(max_cycles=3000)
        assert one == other
        if one.reason != "breakpoint":
            break
    assert plain.statistics.same(inner.statistics)
    assert plain.read("vmem", 0, 4096) == inner.read("vmem", 0, 4096)
    activity = sampled.activity()
    for unit, pieces in activity.busy.items():
        assert len(pieces) <= 17
        assert all(0 <= busy <= activity.ticks for busy in pieces)
        assert sum(pieces) <= plain.statistics.units[unit].busy


def test_pieces_agree_with_the_trace() -> None:
    machine = machine_with(MACHINES[1], LOADS)
    machine.trace_window = (0, 1 << 40)
    sampler = Sampler(machine, shortest=32)
    sampler.run()
    rows = machine.trace
    profile = load_profile("atlas-v1")
    for unit in ("LSU", "DMA"):
        own = rows[rows["unit"] == profile.units.index(unit)]
        exact = np.zeros(machine.statistics.cycles + 64, int)
        for row in own:
            exact[row["start"] : row["end"]] = 1
        pieces = sampler.activity().busy[unit]
        traced = [int(exact[n * 32 : (n + 1) * 32].sum()) for n in range(len(pieces))]
        # Sampling knows the piece an operation was issued in, not where in the piece.
        assert np.abs(np.cumsum(traced) - np.cumsum(pieces)).max() <= 32
        assert abs(sum(traced) - sum(pieces)) <= 4


def test_programs_after_each_other_share_a_time_line() -> None:
    machine = machine_with(MACHINES[1], LOADS)
    program = machine.program
    sampler = Sampler(machine, shortest=64)
    first = sampler.run().cycles
    sampler.load(program, keep_memory=True)
    second = sampler.run().cycles
    activity = sampler.activity()
    assert len(activity.busy["DMA"]) == -(-(first + second) // 64)
    assert sum(activity.busy["LSU"]) == 68
    sampler.load(program)
    sampler.run()
    assert sum(sampler.activity().busy["LSU"]) == 34


def test_long_runs_keep_few_pieces() -> None:
    loop = "  li x1, 9000\nagain:\n  addi x1, x1, -1\n  bne x1, x0, again\n  nop\n  nop\n"
    sampler = Sampler(machine_with(MACHINES[1], loop), most=8, shortest=64)
    cycles = sampler.run().cycles
    activity = sampler.activity()
    assert cycles > 30_000
    assert 4 <= len(activity.busy["SCALAR"]) <= 8
    assert activity.ticks * len(activity.busy["SCALAR"]) >= cycles


def test_what_does_not_fit_into_a_piece_fills_the_next() -> None:
    assert spread([25, 25, 25, 30], 10, 35) == [10, 10, 5, 5]
    assert spread([], 10, 0) == []
    assert spread([99], 10, 7) == [7]
