"""Loads for a later piece wait for one engine; what the piece itself computes does not wait for them."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.codegen.list_schedule import Schedule, schedule
from tilewright.targets.atlas.codegen.tuning import TUNING, tuned
from tilewright.targets.atlas.codegen.virtual import Code
from tilewright.targets.atlas.profile import load_profile

LOADS = 150  # more than are looked at for one issue


def piece(profile: str) -> Code:
    """Many loads that nothing here waits for, and then sums of tiles that are there already."""
    code = Code(load_profile(profile))
    for k in range(LOADS):
        code.dma_load(1024 * k, 4096 * k, 1024)
    for k in range(12):
        whole = code.tile()
        for part in range(whole.size):
            code.vload(whole.part(part), 1024 * (200 + 2 * k + part))
        total = code.tile()
        code.emit("vadd.bf16", total, whole, whole)
        for part in range(total.size):
            code.vstore(total.part(part), 1024 * (230 + 2 * k + part))
    return code


def begun(found: Schedule, mnemonic: str) -> list[int]:
    return sorted(
        tick for node, tick, _ in found.dispatched if node.op.opcode.mnemonic.startswith(mnemonic)
    )


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_work_begins_under_the_loads(profile: str) -> None:
    found = schedule(piece(profile))
    assert begun(found, "vload")[0] < 50
    with tuned(window_ahead=TUNING.window_instructions):
        before = schedule(piece(profile))
    # All that is looked at were loads.
    assert begun(before, "vload")[0] > begun(before, "dma.load")[LOADS - TUNING.window_instructions]
    assert begun(found, "dma.load")[-1] <= begun(before, "dma.load")[-1] + 50
