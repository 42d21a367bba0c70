"""One small program for every finding, and its repaired twin without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import CODES, lint
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa

V1 = load_profile("atlas-v1")
V0 = load_profile("atlas-v0")
SMALL = replace(V1, imem_bytes=8)
SHORT = replace(V1, dma=replace(V1.dma, max_bytes=64))
LOAD = "li x1, 1024\ndma.load.ch0 x0, x0, x1\n"

# code -> profile, program with the finding, program without
CASES: dict[str, tuple[Profile, str, str]] = {
    "TW2001": (V1, "vload m0, 0(x0)\nvload m1, 0(x0)", "vload m0, 0(x0)\ndelay 32\nvload m1, 0(x0)"),
    "TW2002": (V1, "vload m0, 0(x0)\nvmov m2, m0", "vload m0, 0(x0)\nvmov m2, m1"),
    "TW2003": (V1, LOAD + "vload m0, 0(x0)", LOAD + "vload m0, 32(x0)"),
    "TW2004": (V1, LOAD + "dma.load.ch0 x1, x0, x1", LOAD + "dma.load.ch1 x1, x0, x1"),
    "TW2005": (V1, "lw x1, 0(x0)\naddi x2, x1, 1", "lw x1, 0(x0)\nnop\naddi x2, x1, 1"),
    "TW2006": (V1, "vload m0, 0(x5)\naddi x5, x5, 32", "vload m0, 0(x5)\naddi x6, x5, 32"),
    "TW2007": (V1, "lw x1, 0(x0)\nli x1, 3", "lw x1, 0(x0)\nnop\nli x1, 3"),
    "TW2008": (V1, LOAD + "lw x2, 0(x0)", LOAD + "lw x2, 1024(x0)"),
    "TW2009": (V1, LOAD + "addi x1, x1, 32", LOAD + "dma.wait.ch0\naddi x1, x1, 32"),
    "TW2010": (V1, LOAD + "delay 520\nlw x2, 0(x0)", LOAD + "dma.wait.ch0\nlw x2, 0(x0)"),
    "TW2011": (V1, LOAD + "delay 520\nli x1, 32", LOAD + "dma.wait.ch0\nli x1, 32"),
    "TW2012": (
        V0,
        "addi rd=1, imm=1024\nvstore vd=0\ndma.store.ch<N> rd=1, rs1=0, rs2=1, channel=0",
        "addi rd=1, imm=1024\nvstore vd=0\ndelay imm=15\ndma.store.ch<N> rd=1, rs1=0, rs2=1, channel=0",
    ),
    "TW2013": (V1, LOAD, LOAD + "dma.wait.ch0"),
    "TW2014": (V1, LOAD + "dma.wait.ch1", LOAD + "dma.wait.ch0"),
    "TW2015": (V1, "vli.all m0, 1\necall\nnop", "vli.all m0, 1\ndelay 62\necall\nnop"),
    "TW2016": (V1, "beq x0, x0, 12\njal x0, 8\nnop\nnop", "beq x0, x0, 12\nnop\nnop\nnop"),
    "TW2017": (V1, "beq x0, x0, 8\nnop", "beq x0, x0, 12\nnop\nnop"),
    "TW2018": (V1, "jal x0, -8\nnop\nnop", "jal x0, 12\nnop\nnop"),
    "TW2019": (V1, "bne x0, x0, 64\nnop\nnop", "bne x0, x0, 12\nnop\nnop"),
    "TW2020": (
        V1,
        "lw x1, 0(x0)\nnop\njalr x0, x1, 0\nnop\nnop",
        "li x1, 16\nnop\njalr x0, x1, 0\nnop\nnop",
    ),
    "TW2021": (V1, "vadd.bf16 m63, m0, m2", "vmov m63, m0"),
    "TW2022": (V1, "lui x1, 0x100\nvload m0, 0(x1)", "lui x1, 0xff\nvload m0, 0(x1)"),
    "TW2023": (
        V1,
        "lui x2, 0x40000\nli x1, 32\ndma.load.ch0 x0, x2, x1",
        "lui x2, 0x3ffff\nli x1, 32\ndma.load.ch0 x0, x2, x1",
    ),
    "TW2024": (
        SHORT,
        "li x1, 96\ndma.load.ch0 x0, x0, x1",
        "li x1, 64\ndma.load.ch0 x0, x0, x1",
    ),
    "TW2025": (V1, "li x1, 16\nvload m0, 0(x1)", "li x1, 32\nvload m0, 0(x1)"),
    "TW2026": (V1, "delay -1", "delay 0"),
    "TW2027": (V0, "csrrw rd=1, imm=5", "addi rd=1, imm=5"),
    "TW2028": (V1, "vpack.bf16.fp8 m2, m0, e0", "seli e0, 1\nvpack.bf16.fp8 m2, m0, e0"),
    "TW2029": (SMALL, "nop\nnop\nnop", "nop\nnop"),
    "TW2030": (V1, "add x1, x2, x2", "li x2, 1\nadd x1, x2, x2"),
    "TW2031": (V1, "jal x0, 16\nnop\nnop\nli x1, 1\nnop", "jal x0, 12\nnop\nnop\nli x1, 1\nnop"),
    "TW2032": (V1, "loop: jal x0, loop\nnop\nnop", "loop: bne x0, x0, loop\nnop\nnop"),
    "TW2033": (V1, "nop\n" * 51, "nop\n" * 50),
    "TW2035": (V0, "addi rd=1, imm=2048", "addi rd=1, imm=2047\naddi rd=2, imm=-2048\nseli rd=1, imm=4095"),
}  # fmt: skip


def codes(profile: Profile, text: str) -> set[str]:
    read = parse_text_isa if profile is V0 else assemble
    limit = 50 if text.startswith("nop\nnop\nnop\nnop") else 100_000
    return {finding.code for finding in lint(read(text, profile), profile, limit).findings}


@pytest.mark.parametrize("code", list(CASES))
def test_found_and_not_found(code: str) -> None:
    profile, wrong, right = CASES[code]
    assert code in codes(profile, wrong)
    assert code not in codes(profile, right)


def test_every_code_has_a_case() -> None:
    # TW2034 needs a program that keeps the analysis busy; see test_loops.
    assert set(CODES) - set(CASES) == {"TW2034"}


def test_a_wait_that_only_the_first_iteration_does_not_need_is_fine() -> None:
    text = """
        li x1, 32
        li x5, 3
    loop:
        dma.wait.ch0
        dma.load.ch0 x0, x0, x1
        addi x5, x5, -1
        bne x5, x0, loop
        nop
        nop
        dma.wait.ch0
    """
    assert lint(assemble(text, V1), V1).clean


def test_halt_padding_is_not_called_unreached() -> None:
    assert lint(assemble("ecall\nnop\nnop", V1), V1).findings == []


def test_wait_on_a_younger_transfer_covers_the_older_one() -> None:
    text = LOAD + "li x2, 32\ndma.load.ch1 x1, x0, x2\ndma.wait.ch1\nvload m0, 0(x0)"
    assert lint(assemble(text, V1), V1).clean


def test_the_hint_knows_delay_slots() -> None:
    text = "vload m0, 0(x0)\nbne x0, x0, 12\nvload m1, 0(x0)\nnop\nvload m2, 0(x0)"
    first, second = lint(assemble(text, V1), V1).errors
    assert first.hint is not None and "wait before the branch" in first.hint
    assert second.hint == "insert delay 31 before it"
