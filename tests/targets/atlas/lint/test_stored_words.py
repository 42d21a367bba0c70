"""Words kept in VMEM: lint knows what comes back, and forgets what something else may overwrite."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.lint import STEP_LIMIT, lint
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")

ROUNDS = """
    sw   x0, 16(x0)
    delay 4
loop:
    lw   x1, 16(x0)
    delay 4
    li   x5, 1024
    li   x6, 2048
    {between}
    dma.load.ch0 x6, x1, x5
    dma.wait.ch0
    lw   x1, 16(x0)
    li   x2, {stride}
    delay 4
    add  x1, x1, x2
    sw   x1, 16(x0)
    delay 4
    li   x3, {end}
    beq  x1, x3, done
    nop
    nop
    jal  x0, loop
    nop
    nop
done:
    nop
"""


def codes(limit: int = STEP_LIMIT, stride: int = 4096, count: int = 20, between: str = "nop"):
    text = ROUNDS.format(stride=stride, end=stride * count, between=between)
    report = lint(assemble(text, V1), V1, limit)
    assert report.exact or limit < STEP_LIMIT or between != "nop"
    return {finding.code for finding in (*report.errors, *report.warnings)}


@pytest.mark.parametrize("limit", [STEP_LIMIT, 60])
def test_an_offset_that_grows_in_memory_is_followed(limit):
    assert codes(limit) == set()


@pytest.mark.parametrize("limit", [STEP_LIMIT, 60])
def test_an_offset_that_grows_too_far_is_found(limit):
    assert codes(limit, stride=1 << 28, count=5) == {"TW2023"}


@pytest.mark.parametrize("limit", [STEP_LIMIT, 60])
def test_a_misaligned_offset_is_found(limit):
    assert codes(limit, stride=4100) == {"TW2025"}


@pytest.mark.parametrize(
    "between",
    [
        "vstore m0, 0(x0)\ndelay 34\nlw x1, 16(x0)\ndelay 4",
        "sb x0, 17(x0)\ndelay 2\nlw x1, 16(x0)\ndelay 4",
        "dma.load.ch1 x0, x0, x5\ndma.wait.ch1\nlw x1, 16(x0)\ndelay 4",
    ],
)
def test_other_stores_make_it_unknown(between):
    assert {"TW2023", "TW2025"} <= codes(between=between)


def test_stores_elsewhere_do_not():
    assert codes(between="vstore m0, 1(x0)\ndelay 34\nsw x5, 20(x0)\ndelay 2") <= {"TW2030"}


@pytest.mark.parametrize("limit", [STEP_LIMIT, 60])
def test_tables_made_above_it_do_not_push_an_offset_out(limit):
    rows = "".join(f"    sw   x5, {4 * k}(x7)\n    delay 4\n" for k in range(12))
    assert codes(limit, between="lui x7, 1\n" + rows) == set()
