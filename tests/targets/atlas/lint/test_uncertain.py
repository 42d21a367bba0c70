"""Unknown lengths and paths: what is sure stays sure, the rest is called "may"."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import Report, lint
from tilewright.targets.atlas.lint.joining import blur
from tilewright.targets.atlas.lint.stepper import Stepper
from tilewright.targets.atlas.lint.values import Form
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa

V0, V1 = load_profile("atlas-v0"), load_profile("atlas-v1")
LENGTH = "lbu x1, 0(x0)\nnop\nslli x1, x1, 5\n"  # 0 to 8160 bytes, known only at run time


def run(text: str) -> Report:
    return lint(assemble(text, V1), V1)


def errors(text: str) -> list[tuple[str, bool]]:
    return [(e.code, e.may) for e in run(text).errors]


def test_the_address_of_a_dma_is_taken_at_accept() -> None:
    assert errors("lw x1, 0(x0)\ndma.load.ch0 x0, x0, x1\ndma.wait.ch0")[0] == ("TW2005", False)


def test_config_and_transfer_on_other_channels_keep_their_order() -> None:
    assert run("dma.config.ch0 x0\nli x1, 32\ndma.load.ch1 x0, x0, x1\ndma.wait.ch1").clean


def test_waiting_for_one_channel_says_nothing_of_a_younger_one() -> None:
    text = "li x1, 1024\ndma.load.ch0 x0, x0, x1\ndma.load.ch1 x1, x0, x1\n{}dma.wait.ch0\n"
    for before, after in (("", "delay 600\n"), ("delay 1200\n", "")):
        report = run(text.format(before) + after + "vload m0, 0(x1)\n")
        assert "TW2010" in {f.code for f in report.findings}


def test_a_stall_is_not_a_wait() -> None:
    patient = replace(V1, conflict="stall")
    text = "li x1, 1024\ndma.load.ch0 x0, x0, x1\nvstore m0, 0(x0)\ndma.wait.ch0"
    report = lint(assemble(text, patient), patient)
    assert [f.code for f in report.findings if f.severity != "note"] == ["TW2010"]


def test_completion_in_the_tick_of_a_halt_counts() -> None:
    text = "lui x1, 0x100\nvload m0, 0(x1)\ndelay {n}\necall\nnop"
    assert [e[0] for e in errors(text.format(n=31))] == ["TW2022"]
    assert [e[0] for e in errors(text.format(n=30))] == ["TW2015"]


def test_wait_for_an_unknown_length_leaves_older_work_undecided() -> None:
    text = (
        LENGTH
        + "dma.load.ch0 x0, x0, x1\nvadd.bf16 m2, m0, m4\ndma.wait.ch0\n{more}vmul.bf16 m8, m6, m6"
    )
    assert errors(text.format(more="")) == [("TW2001", True)]
    assert errors(text.format(more="delay 64\n")) == []


def test_a_queue_of_unknown_lengths() -> None:
    text = LENGTH + (
        "li x2, 0x4000\ndma.load.ch0 x0, x0, x1\ndma.load.ch1 x2, x0, x1\n"
        "dma.wait.ch{wait}\nvload m0, 0(x2)\ndma.wait.ch1"
    )
    assert errors(text.format(wait=1)) == []
    assert errors(text.format(wait=0)) == [("TW2003", True)]
    # After the first is done the second needs its own time and no more.
    more = text.format(wait=0).replace("vload", "delay 4095\nvload")
    assert errors(more) == []
    assert errors(more.replace("delay 4095", "delay 4000")) == [("TW2003", True)]


def test_stalls_behind_an_unknown_wait() -> None:
    text = """
        lbu rd=1
        slli rd=1, rs1=1, imm=5
        vmatmul.mxu0 vd=0, vs1=0, vs2=0
        vload vd=7
        dma.load.ch<N> rd=0, rs1=0, rs2=1, channel=0
        dma.wait.ch<N> channel=0
        vmatpop.fp8.acc.mxu0 vd=2, vs1=0
    """
    report = lint(parse_text_isa(text, V0), V0)
    assert {(e.code, e.may) for e in report.errors} == {("TW2005", True), ("TW2008", True)}


@pytest.mark.parametrize(
    "middle",
    [
        "bne x1, x0, 16\nli x1, 0\nnop\nseli e0, 1",
        "bne x1, x0, 24\nli x1, 0\nnop\njal x0, 16\nnop\nnop\nseli e0, 1",
    ],
)
def test_a_register_set_on_one_path_only(middle: str) -> None:
    report = run(f"lbu x1, 0(x0)\ndelay 2\n{middle}\nvpack.bf16.fp8 m2, m0, e0")
    assert [(f.code, f.may) for f in report.warnings] == [("TW2028", True)]


def test_a_load_that_may_be_done_makes_its_register_unknown() -> None:
    program = assemble("li x1, 32\nlw x1, 0(x0)\nnop\nnop", V1)
    stepper = Stepper(program, V1)
    early, late = stepper.start(), stepper.start()
    for _ in range(2):
        early = stepper.step(early)[0]
    for _ in range(1):
        late = stepper.step(late)[0]
    assert (early.x[1], late.x[1]) == (32, 32)
    merged = blur(late, early, 1)
    assert isinstance(merged.x[1], Form)
    assert [(o.index, o.low < 0) for o in merged.flight] == [(1, True)]


def test_jalr_to_an_unknown_place_is_an_error() -> None:
    (error,) = run("lw x1, 0(x0)\nnop\njalr x0, x1, 0\nnop\nnop").errors
    assert (error.code, error.may) == ("TW2020", True)


def test_jalr_through_a_small_table_is_followed() -> None:
    text = (
        "lbu x1, 0(x0)\nnop\nandi x1, x1, 4\njalr x0, x1, 28\nnop\nnop\nnop\nnop\nvload m0, 0(x1)"
    )
    report = run(text)
    assert [(e.code, e.may) for e in report.errors] == [("TW2025", True)]


def test_a_transfer_in_a_slot_near_the_end_of_a_machine_with_many_slots() -> None:
    """The first jump leads away in time; the machine refuses the second one all the same."""
    profile = replace(V0, delay_slots=4)
    text = "nop\nj -4\nnop\nbeq x0, x0, -8\nnop\nnop\nnop\n"
    program = assemble(text, profile)
    machine = PythonMachine(profile)
    machine.load(program)
    fault = machine.run(max_cycles=100).fault
    assert fault is not None and (fault.kind, fault.index) == ("illegal", 3)
    assert [(e.code, e.index) for e in lint(program, profile).errors] == [("TW2017", 3)]
