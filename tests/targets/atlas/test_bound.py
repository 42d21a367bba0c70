"""No program is faster than its bound, and redundant work does not raise it."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tilewright.tile as tw
from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.bound import lower_bound
from tilewright.targets.atlas.kernels.measure import measure
from tilewright.targets.atlas.kernels.registry import ENTRIES
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.work import whole, work_of

PROFILES = ("atlas-v0", "atlas-v1")


def run(program, profile, outputs):
    """Cycles and bound of one run."""
    machine = make_machine(profile, Policy())
    machine.trace_window = (0, 1 << 60)
    machine.load(program)
    outcome = machine.run()
    assert outcome.fault is None
    work = work_of(program, profile, machine.trace["index"], [whole(*o) for o in outputs])
    return outcome.cycles, lower_bound(work), work


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", ENTRIES)
def test_no_kernel_is_faster(name, profile):
    row = measure(ENTRIES[name], profile)
    assert row.bound <= row.cycles <= 4 * row.bound


@given(
    st.lists(st.sampled_from(["exp", "add", "mul", "max", "sum", "swap"]), max_size=6),
    st.integers(1, 3),
    st.sampled_from(PROFILES),
)
@settings(max_examples=20, deadline=None, phases=(Phase.explicit, Phase.generate))
def test_no_random_kernel_is_faster(steps, tiles, profile):
    @tw.kernel
    def chain(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(out.M):
            for n in tw.grid(out.N):
                x, y = a[m, n], b[m, n]
                for step in steps:
                    if step == "exp":
                        x = tw.exp(x)
                    elif step == "add":
                        x = x + y
                    elif step == "mul":
                        x = y * x
                    elif step == "max":
                        x = tw.maximum(x, 0.0)
                    elif step == "sum":
                        x = x - tw.row_sum(x)
                    else:
                        x, y = y, x
                out[m, n] = x + y

    compiled = chain.compile(profile, a=(32, 32 * tiles), b=(32, 32 * tiles))
    assert not lint(compiled.program, compiled.profile).findings
    place = (compiled.bases["out"], compiled.layouts["out"].bytes)
    cycles, bound, _ = run(compiled.program, compiled.profile, [place])
    assert bound.cycles <= cycles


LEAN = """
    li   x1, 1024
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
    vload m0, 0(x0)
    delay 32
    vmov m4, m0
    delay 64
    vtrpose.xlu m2, m4
    delay 63
    vstore m2, 32(x0)
    delay 32
    dma.store.ch0 x1, x1, x1
    dma.wait.ch0
"""


def test_copies_and_unused_work_do_not_count():
    profile = load_profile("atlas-v1")
    cycles, bound, work = run(assemble(LEAN, profile), profile, [(1024, 1024)])
    assert [step.name for step in work.steps] == ["load", "vload", "vtrpose.xlu", "vstore", "store"]
    idle = "    vadd.bf16 m8, m10, m12\n    delay 64\n" * 20
    wasteful, same, _ = run(assemble(LEAN + idle, profile), profile, [(1024, 1024)])
    assert same.cycles == bound.cycles <= cycles < wasteful


def test_bound_of_a_copy_by_hand():
    """DRAM to VMEM to DRAM: command, bytes in, bytes out, the wait. Rows could leave while others
    come in, so the bound does not wait for all of them."""
    text = """
    li   x1, 1024
    dma.load.ch0 x0, x0, x1
    dma.wait.ch0
    dma.store.ch0 x1, x0, x1
    dma.wait.ch0
"""
    profile = load_profile("atlas-v1")
    cycles, bound, _ = run(assemble(text, profile), profile, [(1024, 1024)])
    assert bound.cycles == 3 + 4 + 512 + 512 + 1
    assert cycles == 3 + 516 + 2 + 516 + 1


def test_padding_is_no_work():
    """One row of 1024 numbers: 2048 bytes come in and leave, in two registers' worth of work."""
    row = measure(ENTRIES["relu"], "atlas-v1", {"M": 1, "N": 1024})
    assert row.bound == 3 + 4 + 2 * 1024 + 1
    assert row.cycles < 5_796  # of a program written by hand


def test_tables_are_no_work():
    """A causal mask can be made on chip, and is."""
    row = measure(ENTRIES["attention_causal"], "atlas-v1")
    assert row.bound <= row.cycles <= 7_225


def test_long_runs_count_elements(monkeypatch):
    """A row beside a matrix is a row, not 32 of them."""
    monkeypatch.setattr("tilewright.targets.atlas.kernels.measure.TRACED", 100)
    row = measure(ENTRIES["add_row"], "atlas-v1", {"M": 32, "N": 512})
    assert row.bound == 3 + 4 + (2 * 32 * 512 * 2 + 512 * 2) // 2 + 1
    assert row.bound <= row.cycles


def test_redundant_masks_do_not_count():
    """Hiding what lies beyond an edge is one way to sum a ragged row; others need not do it."""
    whole_rows, ragged = (
        measure(ENTRIES["softmax"], "atlas-v0", {"M": 32, "N": n}).bound for n in (64, 63)
    )
    assert 0.9 * whole_rows < ragged <= whole_rows


def test_nothing_stored_is_no_work():
    profile = load_profile("atlas-v1")
    machine = make_machine(profile, Policy())
    machine.trace_window = (0, 1 << 60)
    program = assemble("    vadd.bf16 m0, m2, m4\n", profile)
    machine.load(program)
    machine.run()
    work = work_of(program, profile, machine.trace["index"], [])
    assert work.steps == [] and lower_bound(work).cycles == 0


def test_published_matmul_example_is_bounded():
    """Work that starts in VMEM needs no loads: only its own chain and the store."""
    text = """
    li   x1, 1024
    li   x2, 2048
    vload m0, 0(x0)
    delay 32
    vload m2, 0(x1)
    delay 32
    vmatpush.weight.mxu1 w0, m2
    delay 30
    vmatmul.mxu1 acc0, m0, w0
    delay 33
    vmatpop.bf16.acc.mxu1 m4, acc0
    delay 29
    vstore m4, 0(x2)
    delay 32
    vstore m5, 32(x2)
    delay 32
    dma.store.ch0 x0, x2, x2
    dma.wait.ch0
"""
    profile = load_profile("atlas-v1")
    cycles, bound, work = run(assemble(text, profile), profile, [(0, 2048)])
    names = [step.name for step in work.steps]
    assert names.count("vmatmul") == 1 and names.count("store") == 2
    assert np.all(np.array([bound.cycles]) <= cycles)
