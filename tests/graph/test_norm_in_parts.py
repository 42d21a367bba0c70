"""Rows that are brought to the chip in parts are normed on the way, where only one gate reads them."""

from __future__ import annotations

from dataclasses import replace

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.targets.atlas.profile import load_profile

SMALL = replace(load_profile("atlas-v1"), vmem_bytes=192 * 1024)


def kernels(rows: int, width: int, third: bool = False) -> list[str]:
    """The kernels of a block with a gate, verified on memory that starts as NaN."""
    net = ModelBuilder("block", seed=1)
    x = net.input("x", (1, rows, width))
    h = net.rms_norm(x, "norm")
    gate, up = (net.linear(h, 40, f"{name}_proj", bias=False) for name in ("gate", "up"))
    net.output("y", net.linear(net.silu_gate(gate, up), 32, "down_proj"))
    if third:
        net.output("z", net.linear(h, 32, "third"))
    program = tw.compile(net.build(), target=SMALL)
    assert program.verify().ok
    steps = program.model.artifact.steps
    assert any(s.kernel == "gated" and bool(s.options.get("norm")) != third for s in steps)
    return [step.kernel for step in steps]


def test_a_norm_before_a_gate() -> None:
    """In five parts: the constants of all their loops would not fit the registers at once."""
    assert "norm" not in kernels(640, 256)


def test_a_norm_that_others_read_too() -> None:
    assert kernels(610, 256, third=True).count("norm") == 1
