"""Programs in pieces: the next one starts afresh but for memory."""

from __future__ import annotations

import pytest

from tilewright.targets.atlas.assembler import assemble
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")
STORE = assemble("li x5, 7\nli x6, 64\nsw x5, 0(x6)\ndelay 4\n", V1)
COPY = assemble("li x6, 64\nlw x7, 0(x6)\ndelay 4\nsw x7, 4(x6)\nsw x5, 8(x6)\ndelay 4\n", V1)


@pytest.mark.parametrize("kind", ["native", "python"])
@pytest.mark.parametrize("initial", ["zero", "poison"])
def test_memory_is_kept_and_nothing_else(kind: str, initial: str) -> None:
    machine = make_machine(V1, Policy(initial=initial), kind)
    machine.write("dram", 1 << 20, b"weights")
    machine.load(STORE, keep_memory=True)
    assert machine.run().reason == "end"
    first = machine.cycles
    machine.load(COPY, keep_memory=True)
    assert (machine.cycles, machine.statistics.instructions) == (0, 0)
    x5 = machine.read_register("x5")
    assert machine.run().reason == "end"
    word = machine.read("vmem", 64, 12)
    assert word[:8] == bytes([7, 0, 0, 0]) * 2
    assert int.from_bytes(word[8:], "little") == x5 == (0 if initial == "zero" else 0xFFFFFFE0)
    assert machine.read("dram", 1 << 20, 7) == b"weights"
    assert 0 < first < 20
    machine.load(COPY)
    fresh = 0 if initial == "zero" else 0xFF
    assert machine.read("vmem", 64, 4) == bytes([fresh]) * 4
    assert machine.read("dram", 1 << 20, 7) == bytes([fresh]) * 7
