"""Whole models take the cycles they are known to take, on both profiles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilewright as tw

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import networks

SMALL = {
    "mlp": lambda: networks.mlp(50, 96, 160, 3),
    "cnn": lambda: networks.cnn(16, 32),
    "decoder": lambda: networks.decoder(40, 128, 4, 2, 192, layers=3),
}


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("name", SMALL)
def test_models(name, profile, golden_cycles) -> None:
    program = tw.compile(SMALL[name](), target=profile)
    assert program.verify().ok
    golden_cycles.check({f"{profile} model {name}": program.cycles})
