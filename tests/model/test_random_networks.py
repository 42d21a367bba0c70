"""Random networks through all phases: equal bits where bits are defined, small noise else."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from model_machines import MACHINES, SHAVED, TERNARY
from random_networks_text import random_network

from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.verification import verify_module
from tilewright.frontend.imported import Imported
from tilewright.model.calibrate import example_inputs
from tilewright.model.fold_layers import unfold_layers
from tilewright.model.fuse import unfuse, usual
from tilewright.model.prepare import Machine, prepare
from tilewright.reference.executor import run


def bits(arrays: list[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in arrays]


def check(model: Imported, machine: Machine, seed: int) -> float:
    """All forms of a program give the same bits; the largest error against the float model."""
    chance = random.Random(seed)
    share = chance.choice([0.0, 0.0, 0.2, 0.5])
    host = {number for number in range(200) if chance.random() < share}
    seen: dict[object, int] = {}

    def supports(node) -> str | None:
        number = seen.setdefault(node.op, len(seen)) % 200
        return "by chance" if number in host else machine.supports(node)

    given = [example_inputs(model, s) for s in (1, 2)]
    # Fewer operations per function, but the same numbers: what is fused or folded does not show.
    loops = seed % 2 == 0
    plain = replace(machine, supports=supports, layers=loops)
    x = list(given[0].values())
    seen.clear()
    first = prepare(model, replace(plain, fuses=usual), samples=given)
    seen.clear()
    second = prepare(model, plain, samples=given)
    verify_module(first.parts.module)
    found = run(first.parts.module, x, weights=first.parts.weights)
    text = print_module(first.parts.module)
    again = parse_text(text, "again.mlir")
    verify_module(again)
    assert print_module(again) == text
    assert bits(found) == bits(run(again, x, weights=first.parts.weights))
    assert bits(found) == bits(run(second.parts.module, x, weights=second.parts.weights))
    for function in first.parts.functions("device"):
        unfold_layers(function)
        unfuse(function)
    verify_module(first.parts.module)
    assert bits(found) == bits(run(first.parts.module, x, weights=first.parts.weights))
    exact = run(first.model.module, x, weights=first.model.weights)
    return max(
        float(np.linalg.norm(a.astype(np.float64) - b) / (np.linalg.norm(a) + 1e-6))
        for a, b in zip(exact, found, strict=True)
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
def test_random_networks(machine: Machine, seed: int) -> None:
    noise = check(random_network(seed), machine, seed)
    assert np.isfinite(noise)
    if machine is not TERNARY:
        assert noise < (0.05 if machine is SHAVED else 0.25)
