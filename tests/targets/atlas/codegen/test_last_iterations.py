"""A last iteration loads nothing for a next one, in long loop bodies too, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder


@pytest.mark.parametrize(("rows", "deep", "hidden"), [(241, 950, 200)])
def test_gates_load_their_weights_once(rows: int, deep: int, hidden: int) -> None:
    net = ModelBuilder("gates")
    x = net.input("x", (1, rows, deep))
    h = net.rms_norm(x, "norm")
    gate, up = (net.linear(h, hidden, f"{name}_proj", bias=False) for name in ("gate", "up"))
    net.output("y", net.linear(net.silu_gate(gate, up), 32, "down"))
    program = tw.compile(net.build())
    assert program.verify().ok  # on memory that is NaN where nothing has been written
    program(np.random.default_rng(0).normal(size=(1, rows, deep)).astype(np.float32))
    artifact = program.model.artifact
    call = next(c for c in program.session.step_cycles if artifact.steps[c.step].kernel == "gated")
    names = artifact.steps[call.step].operands.values()
    regions = [artifact.regions[name] for name in names]
    weights = sum(region.layout.bytes for region in regions if region.kind == "weight")
    assert call.loaded <= weights, "more than the weights"
