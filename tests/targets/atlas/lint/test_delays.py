"""The smallest legal delay between two operations: lint is silent at N and speaks at N - 1."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import Report, lint
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")

# A ; delay N ; B: the smallest N without an error, the fault and its tick at N - 1.
DELAYS = [
    ("vload m0, 0(x0)", "vload m1, 32(x0)", 32, "structural", 35),
    ("vload m0, 0(x0)", "vadd.bf16 m2, m0, m4", 32, "bank_conflict", 36),
    ("vload m0, 0(x0)", "vmatpush.weight.mxu0 w0, m0", 32, "bank_conflict", 36),
    ("vload m0, 0(x0)", "vmatmul.mxu1 acc0, m0, w0", 32, "bank_conflict", 36),
    ("vadd.bf16 m2, m0, m4", "vadd.bf16 m6, m2, m4", 64, "structural", 67),
    ("vadd.bf16 m2, m0, m4", "vstore m2, 0(x0)", 63, "bank_conflict", 67),
    ("vadd.bf16 m2, m0, m4", "vstore m3, 0(x0)", 63, "bank_conflict", 67),
    ("vadd.bf16 m2, m0, m4", "vmatpush.acc.bf16.mxu0 acc0, m2", 64, "bank_conflict", 68),
    ("vli.all m2, 1", "vadd.bf16 m4, m2, m6", 63, "structural", 66),
    ("vredsum.row.bf16 m2, m0", "vmul.bf16 m4, m2, m6", 37, "structural", 40),
    ("vredmax.row.bf16 m2, m0", "vsub.bf16 m4, m0, m2", 32, "structural", 35),
    ("vredsum.bf16 m2, m0", "vsub.bf16 m4, m0, m2", 128, "structural", 131),
    ("vpack.bf16.fp8 m2, m0, e0", "vmatmul.mxu1 acc0, m2, w0", 64, "bank_conflict", 68),
    ("vtrpose.xlu m2, m0", "vstore m2, 0(x0)", 63, "bank_conflict", 67),
    ("vmatpush.weight.mxu0 w0, m0", "vmatmul.mxu0 acc0, m2, w0", 30, "structural", 33),
    ("vmatmul.mxu0 acc0, m2, w0", "vmatpop.bf16.acc.mxu0 m4, acc0", 94, "structural", 97),
    ("vmatmul.mxu1 acc0, m2, w0", "vmatpop.bf16.acc.mxu1 m4, acc0", 33, "structural", 36),
    ("vmatmul.mxu0 acc0, m2, w0", "vmatmul.mxu1 acc0, m2, w0", 93, "bank_conflict", 97),
    ("vmatmul.mxu1 acc0, m2, w0", "vmatmul.mxu0 acc0, m2, w0", 33, "bank_conflict", 37),
    ("vmatmul.mxu0 acc0, m2, w0", "vload m2, 0(x0)", 93, "bank_conflict", 97),
    ("vmatpop.bf16.acc.mxu0 m2, acc0", "vadd.bf16 m6, m2, m4", 29, "bank_conflict", 33),
    ("vmatpop.bf16.acc.mxu0 m2, acc0", "vmatpush.weight.mxu1 w0, m2", 29, "bank_conflict", 33),
    ("vmatpop.bf16.acc.mxu1 m2, acc0", "vmatpush.weight.mxu0 w0, m2", 30, "bank_conflict", 34),
    ("vstore m2, 0(x0)", "vadd.bf16 m2, m4, m6", 32, "bank_conflict", 36),
    ("addi x1, x0, 1024\nvstore m0, 0(x0)", "dma.store.ch0 x0, x0, x1", 32, "bank_conflict", 37),
    ("addi x1, x0, 32\ndma.load.ch0 x0, x0, x1", "vload m0, 0(x0)", 17, "bank_conflict", 22),
    ("addi x1, x0, 32\ndma.load.ch0 x0, x0, x1", "dma.load.ch1 x0, x0, x1", 18, "bank_conflict", 23),
    ("addi x1, x0, 32\ndma.load.ch0 x0, x0, x1", "dma.load.ch0 x1, x0, x1", 19, "channel_busy", 23),
    ("addi x1, x0, 1024\ndma.load.ch0 x0, x0, x1", "vload m0, 0(x0)", 513, "bank_conflict", 518),
]  # fmt: skip

# The same for order the machine does not check: the code found at N - 1.
SILENT = [
    ("addi x1, x0, 64\ndma.load.ch0 x0, x0, x1", "lw x2, 0(x0)", 32, "TW2008"),
    ("addi x1, x0, 64\ndma.load.ch0 x0, x0, x1", "sw x2, 0(x0)", 33, "TW2008"),
    ("addi x1, x0, 64\ndma.load.ch0 x0, x0, x1", "addi x1, x0, 32", 34, "TW2009"),
    ("vload m0, 0(x5)", "addi x5, x0, 32", 32, "TW2006"),
    ("vpack.bf16.fp8 m2, m0, e0", "seli e0, 2", 64, "TW2006"),
    ("lw x1, 0(x0)", "addi x2, x1, 0", 0, "TW2005"),
    ("lw x1, 0(x0)", "addi x1, x0, 7", 0, "TW2007"),
    ("seld e1, 0(x0)", "seli e1, 1", 0, "TW2007"),
]


def found(a: str, n: int, b: str) -> Report:
    between = f"delay {n}\n" if n >= 0 else ""
    return lint(assemble(f"seli e0, 1\n{a}\n{between}{b}\n", V1), V1)


@pytest.mark.parametrize(("a", "b", "n", "kind", "tick"), DELAYS)
def test_smallest_delay(a: str, b: str, n: int, kind: str, tick: int) -> None:
    assert found(a, n, b).errors == []
    (error,) = found(a, n - 1, b).errors
    assert (error.fault, error.tick, error.need, error.may) == (kind, tick + 1, 1, False)
    assert error.other_line == 1 + len(a.splitlines())  # names the instruction it collides with


@pytest.mark.parametrize(("a", "b", "n", "code"), SILENT)
def test_smallest_delay_of_silent_hazards(a: str, b: str, n: int, code: str) -> None:
    assert found(a, n, b).errors == []
    (error,) = found(a, n - 1, b).errors
    assert (error.code, error.need, error.may, error.fault) == (code, 1, False, None)


def test_message_names_ticks_lines_and_the_smallest_delay() -> None:
    (error,) = found("vload m0, 0(x0)", 30, "vadd.bf16 m2, m0, m4").errors
    assert error.message == "vadd.bf16 takes m0 2 ticks before vload at line 2 is done"
    assert error.hint == "insert delay 1 before it"
    assert (error.line, error.other_line) == (4, 2)
