"""Loops: executed while short, summarised when long, and exact either way."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import Report, analysis, lint
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")

DOUBLE_BUFFER = """
    li   x1, 1024
    li   x5, 0              # VMEM being computed on
    li   x6, 4096           # VMEM being loaded
    li   x7, 0
    li   x8, 0x100000
    li   x9, 0x4000
    li   x20, {count}
    dma.load.ch0 x5, x7, x1
    dma.wait.ch0
loop:
    add  x7, x7, x1
    dma.load.ch0 x6, x7, x1
    vload m0, 0(x5)
    delay 32
    vmatmul.mxu1 acc0, m0, w0
    delay 33
    vmatpop.bf16.acc.mxu1 m4, acc0
    dma.wait.ch1
    delay 28
    vstore m4, 0(x9)
    delay 32
    vstore m5, 32(x9)
    dma.wait.ch0
    addi x2, x8, 0
    dma.store.ch1 x2, x9, x1
    add  x8, x8, x1
    addi x20, x20, -1
    addi x3, x5, 0
    addi x5, x6, 0
    bne  x20, x0, loop
    addi x6, x3, 0
    nop
    dma.wait.ch1
"""

TOGGLED = """
    li   x1, 1024
    li   x5, 0
    li   x6, 1024
    li   x20, {count}
    dma.load.ch0 x5, x0, x1
loop:
    dma.wait.ch0
    dma.load.ch0 x6, x0, x1
    vload m0, 0(x5)
    delay 32
    addi x20, x20, -1
    xori x5, x5, 1024
    dma.wait.ch0
    bne  x20, x0, loop
    xori x6, x6, 1024
    nop
"""

RING = """
    li   x1, 1024
    li   x20, {count}
    li   x5, 0
    li   x6, 2048
    li   x7, 0xf0000        # end of the ring's stretch of VMEM
loop:
    dma.load.ch0 x6, x0, x1
    vload m0, 0(x5)
    addi x20, x20, -1
    dma.wait.ch0
    add  x5, x5, x1
    bne  x20, x0, loop
    add  x6, x6, x1
    nop
"""

NEST = """
    li   x1, 1024
    li   x22, {count}
top:
    li   x10, 0
    li   x20, 30
outer:
    li   x21, 16
    addi x11, x10, 0
inner:
    vload m0, 0(x11)
    addi x21, x21, -1
    delay 31
    add  x11, x11, x1
    vmatmul.mxu1 acc0, m0, w0
    bne  x21, x0, inner
    delay 33
    nop
    vmatpop.bf16.acc.mxu1 m4, acc0
    add  x10, x10, x1
    delay 28
    vstore m4, 16(x10)
    addi x20, x20, -1
    bne  x20, x0, outer
    delay 32
    nop
    addi x22, x22, -1
    bne  x22, x0, top
    nop
    nop
"""


def run(text: str, limit: int) -> Report:
    return lint(assemble(text, V1), V1, limit)


@pytest.mark.parametrize("limit", [12, 45, 200, 100_000])
@pytest.mark.parametrize("text", [DOUBLE_BUFFER, TOGGLED, RING])
def test_pipelined_loops_are_clean(text: str, limit: int) -> None:
    report = run(text.format(count=300), limit)
    assert report.clean, report.findings
    assert report.exact == (limit == 100_000)


@pytest.mark.parametrize("count", [2, 3, 100_000])
def test_nested_loops_are_clean_when_summarised(count: int) -> None:
    report = run(NEST.format(count=count), 300)
    assert report.clean, report.findings
    assert report.steps < 60_000


def test_a_million_iterations_take_few_steps() -> None:
    report = run(TOGGLED.format(count=1_000_000), 1000)
    assert report.clean
    assert report.steps < 3000


@pytest.mark.parametrize("limit", [40, 100_000])
def test_the_last_iteration_is_looked_at(limit: int) -> None:
    text = RING.replace("li   x6, 2048", "li   x6, 0x40000")
    fits, beyond = (text.format(count=n) for n in (768, 769))  # 0x40000 + 768 KiB = 1 MiB
    assert run(fits, limit).clean
    (error,) = run(beyond, limit).errors
    assert (error.code, error.may) == ("TW2022", limit == 40)


@pytest.mark.parametrize("limit", [40, 100_000])
def test_a_hazard_between_iterations(limit: int) -> None:
    text = """
        li x20, 50
    loop:
        vload m0, 0(x0)
        delay {n}
        addi x20, x20, -1
        bne x20, x0, loop
        nop
        nop
    """
    assert run(text.format(n=28), limit).errors == []
    (error,) = run(text.format(n=27), limit).errors
    assert (error.code, error.need, error.may) == ("TW2001", 1, False)


def test_overlapping_buffers_are_found_when_summarised() -> None:
    text = TOGGLED.replace("xori x6, x6, 1024", "nop").format(count=300)
    assert "TW2003" in {e.code for e in run(text, 12).errors}


def test_unknown_trip_count_may_only_be_out_of_range() -> None:
    text = """
        lbu x20, 0(x0)
        li  x5, 1024
        nop
    loop:
        vload m0, 0(x5)
        addi x20, x20, -1
        delay 32
        {step}
        bne x20, x0, loop
        nop
        nop
    """
    assert run(text.format(step="nop"), 1000).clean
    (error,) = run(text.format(step="addi x5, x5, 1024"), 1000).errors
    assert (error.code, error.may) == ("TW2022", True)


def test_a_loop_bounded_by_its_pointer() -> None:
    text = """
        lw   x9, 0(x0)
        li   x5, 1024
        li   x6, 0x8000
    loop:
        vload m0, 0(x5)
        beq  x9, x0, skip
        delay 32
        nop
        addi x9, x9, -1
    skip:
        addi x5, x5, 1024
        blt  x5, x6, loop
        nop
        nop
    """
    assert run(text, 1000).clean


def test_unknown_values_that_are_masked() -> None:
    text = "lw x1, 0(x0)\nnop\n{mask}\nvload m0, 0(x1)"
    assert run(text.format(mask="andi x1, x1, 0x7e0"), 1000).clean
    assert {e.code for e in run(text.format(mask="andi x1, x1, 0x7f0"), 1000).errors} == {"TW2025"}
    unknown = run(text.format(mask="nop"), 1000)
    assert {(e.code, e.may) for e in unknown.errors} == {("TW2025", True), ("TW2022", True)}


def test_a_path_decides() -> None:
    text = """
        lbu x1, 0(x0)
        delay 3
        bne x1, x0, far
        nop
        nop
        vload m0, 0(x0)
        {wait}
    far:
        vload m1, 0(x0)
    """
    assert run(text.format(wait="delay 32"), 1000).clean
    (error,) = run(text.format(wait="delay 31"), 1000).errors
    assert (error.code, error.may, error.need) == ("TW2001", True, 1)


def test_what_every_path_runs_into_is_certain() -> None:
    text = """
        lbu x1, 0(x0)
        delay 3
        bne x1, x0, far
        nop
        nop
        {skipped}
    far:
        vli.all m0, 1
        vli.all m1, 1
    """
    (error,) = run(text.format(skipped="nop"), 1000).errors
    assert (error.code, error.may) == ("TW2001", False)
    # Where a path avoids it, it only may happen.
    errors = run(text.format(skipped="ecall"), 1000).errors
    assert [(e.code, e.may) for e in errors] == [("TW2001", True)]
    errors = run(text.format(skipped="vli.all m4, 1\nvli.all m5, 1\ndelay 70"), 1000).errors
    assert [(e.line, e.may) for e in errors] == [(8, True), (12, False)]


def test_too_involved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "JOIN_LIMIT", 10)
    monkeypatch.setattr(analysis, "JOIN_LIMIT_PER_INSTRUCTION", 0)
    assert {e.code for e in run(TOGGLED.format(count=300), 20).errors} == {"TW2034"}


def test_many_different_timings_are_merged_soundly(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
        lbu x2, 0(x0)
        lbu x3, 0(x0)
        li  x20, 9
    loop:
        vload m0, 0(x0)
        beq x2, x3, short
        addi x2, x2, 1
        nop
        delay {n}
    short:
        delay 28
        addi x20, x20, -1
        bne x20, x0, loop
        nop
        nop
    """
    text = text.replace("lbu x3", "nop\nlbu x3").replace("li  x20", "nop\nli  x20")
    monkeypatch.setattr(analysis, "SHAPES_KEPT_APART", 1)
    assert run(text.format(n=3), 1000).errors == []
    assert {e.code for e in run(text.format(n=3).replace("28", "20"), 1000).errors} == {"TW2001"}


SWAPPED = """
    li   x20, 40
burn:
    addi x20, x20, -1
    bne  x20, x0, burn
    nop
    nop
    li   x1, 1024
    li   x5, 0
    li   x6, 4096
    li   x7, 0
    li   x20, {count}
loop:
    dma.load.ch0 x5, x7, x1
    dma.wait.ch0
    li   x19, 4
inner:
    vload m0, 0(x5)
    delay 33
    addi x19, x19, -1
    bne  x19, x0, inner
    nop
    nop
    li   x2, 0x100000
    add  x7, x7, x2
    addi x3, x5, 0
    addi x5, x6, 0
    addi x6, x3, 0
    addi x20, x20, -1
    beq  x20, x0, done
    nop
    nop
    jal  x0, loop
    nop
    nop
done:
    nop
"""


@pytest.mark.parametrize("count", [11, 12, 13, 1023, 1024])
def test_loops_whose_registers_swap_end_where_they_end(count):
    """Odd and even iterations are summed up apart; neither runs past the last."""
    report = lint(assemble(SWAPPED.format(count=count), V1), V1, 50)
    assert not report.errors and not report.warnings
    assert not report.exact


def test_one_iteration_too_many_is_found():
    report = lint(assemble(SWAPPED.format(count=1025), V1), V1, 50)
    assert {finding.code for finding in report.errors} == {"TW2023"}
