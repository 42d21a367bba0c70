"""The micro-programs the machines are tested with, and the example kernels."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.files import read_program
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.text_isa import parse_text_isa

ATLAS = Path(__file__).parents[1]
EXAMPLES = Path(__file__).parents[4] / "examples" / "atlas"
CASES = [
    case
    for case in tomllib.loads((ATLAS / "conformance.toml").read_text())["case"]
    if not case.get("compat")
]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_micro_programs(case: dict[str, Any]) -> None:
    profile = load_profile(case["profile"])
    read = parse_text_isa if case["profile"] == "atlas-v0" else assemble
    report = lint(read(case["program"], profile), profile)
    faults = sorted((f.tick, f.fault) for f in report.errors if f.fault)
    if "fault" in case:
        assert faults[0] == (case["fault"]["tick"], case["fault"]["kind"])
    else:
        assert faults == []
    assert not any(f.may for f in report.errors)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.[St]*")), ids=lambda path: path.name)
def test_example_kernels_are_clean(path: Path) -> None:
    profile = load_profile("atlas-v0" if "v0" in path.name else "atlas-v1")
    assert lint(read_program(path, profile), profile).findings == []
