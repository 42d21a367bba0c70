"""A program runs the same from whatever file form it came."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.files import FORMS, format_program, parse_program
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program

CASES = tomllib.loads((Path(__file__).parent / "conformance.toml").read_text())["case"]
# Programs on purpose outside of what words can say.
WORDLESS = {"v1-73", "v1-76", "v0-41"}


def outcome(program: Program, profile: Profile) -> tuple[Any, ...]:
    machine = PythonMachine(profile, Policy())
    machine.load(program)
    result = machine.run()
    fault = (result.fault.kind, result.fault.cycle) if result.fault else None
    return result.cycles, fault, [machine.read_register(f"x{i}") for i in range(32)]


@pytest.mark.parametrize("profile_name", ["atlas-v0", "atlas-v1"])
def test_every_form_runs_the_same(profile_name: str):
    profile = load_profile(profile_name)
    name = "k.txt" if profile_name == "atlas-v0" else "k.S"
    for case in CASES:
        if case["profile"] != profile_name:
            continue
        program = parse_program(case["program"].encode(), name, profile)
        for form in FORMS:
            if form in ("hex", "binary") and case["id"] in WORDLESS:
                with pytest.raises(TilewrightError):
                    format_program(program, form, profile)
                continue
            back = parse_program(format_program(program, form, profile), "k", profile, form)
            if not back.same_code(program):  # some numbers read back otherwise
                assert form in ("hex", "binary")
                assert outcome(back, profile) == outcome(program, profile), case["id"]
