"""Statistics as JSON and tables."""

from __future__ import annotations

import io

from rich.console import Console

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.simulate import simulate
from tilewright.targets.atlas.statistics import hottest, print_statistics, statistics_json

LOOP = "li x1, 3\nloop:\ndelay 9\naddi x1, x1, -1\nbne x1, x0, loop\nnop\nnop\n"


def run():
    program = assemble(LOOP, load_profile("atlas-v1"), "loop.S")
    return simulate(program, machine="python")


def test_hottest_counts_issue_ticks() -> None:
    result = run()
    rows = hottest(result.statistics, result.program, 2)
    assert rows[0] == {
        "index": 1, "line": 3, "text": "delay 9", "executions": 3, "cycles": 30,
        "share": round(30 / result.cycles, 6),
    }  # fmt: skip
    assert [r["text"] for r in rows] == ["delay 9", "addi x1, x1, -1"]
    branch = hottest(result.statistics, result.program)[2]
    assert branch["text"] == "bne x1, x0, loop"


def test_json_and_tables() -> None:
    result = run()
    shown = statistics_json(result.statistics, result.program)
    assert shown["lost"]["delay"] == 27 and shown["static_instructions"] == 6
    assert shown["units"]["SCALAR"] == {
        "busy": 13, "instructions": 16, "share": round(13 / result.cycles, 6),
    }  # fmt: skip
    out = io.StringIO()
    print_statistics(Console(file=out, width=100), result.statistics, result.program)
    for words in ("SCALAR", "delay instructions", "27", "delay 9"):
        assert words in out.getvalue()
    assert "DMA moved" not in out.getvalue()


def test_a_run_of_nothing() -> None:
    program = assemble("", load_profile("atlas-v1"), "empty.S")
    result = simulate(program, machine="python")
    out = io.StringIO()
    print_statistics(Console(file=out), result.statistics, result.program)
    assert result.cycles == 0 and "SCALAR" in out.getvalue()
    assert statistics_json(result.statistics, program)["hottest"] == []
