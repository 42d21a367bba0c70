"""A last iteration loads nothing for a next one, in long loop bodies too, and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.codegen.list_schedule import Issue
from tilewright.targets.atlas.codegen.straight_loop import _without_next
from tilewright.targets.atlas.codegen.virtual import NEXT
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.atlas.program import Instruction


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


def test_addresses_stay_until_the_last_store_has_looked_at_them() -> None:
    """Without the loads of a next iteration there is nothing to wait for, but the last store still
    reads its address when it is done."""
    profile = load_profile("atlas-v1")
    longest = max(timing.latency for timing in profile.timing.values())
    rows = [
        (10, Instruction.of("vstore", 2, 0, 16), ""),
        (15, Instruction.of("add", 20, 30, 14), ""),  # beside the store, as it was
        (600, Instruction.of("dma.wait", 0), NEXT),
        (601, Instruction.of("dma.load", 20, 21, 2, 0), NEXT),
        (602, Instruction.of("lui", 16, 905), ""),
        (603, Instruction.of("addi", 16, 16, -2048), ""),
    ]
    kept = _without_next([Issue(*row) for row in rows], profile)
    assert [issue.instruction.opcode.mnemonic for issue in kept] == ["vstore", "add", "lui", "addi"]
    assert [issue.tick for issue in kept] == [10, 15, 10 + longest, 11 + longest]
