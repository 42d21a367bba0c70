"""Rows that fill the last tile up: whatever is in them, the rows of the model stay what they are."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported

LARGE = [3, 17, 40]  # channels


def blocks(tokens: int) -> Imported:
    """Attention and a gated MLP with biases, three times; large channels matter little to them."""
    net = ModelBuilder("blocks", seed=2)
    x = net.input("x", (1, tokens, 64))
    for number in range(3):
        with net.layer(f"layers.{number}"):
            h = net.rms_norm(x, "norm1")
            q, k, v = (net.heads(net.linear(h, 64, name, bias=False), 2) for name in "qkv")
            x = x + net.linear(net.attention(q, k, v), 64, "out")
            h = net.rms_norm(x, "norm2")
            h = net.silu_gate(net.linear(h, 96, "gate"), net.linear(h, 96, "up"))
            x = x + net.linear(h, 64, "down")
    net.output("y", net.linear(net.rms_norm(x, "last"), 40, "head"))
    model = net.build()
    for name, array in model.weights.items():
        if name.endswith(
            ("q.weight", "k.weight", "v.weight", "gate.weight", "up.weight", "head.weight")
        ):
            array[:, LARGE] *= np.float32(2.0**-9)
    return model


@pytest.mark.parametrize("tokens", [20, 33])
def test_rows_unlike_those_of_calibration_do_not_reach_the_others(tokens: int) -> None:
    """Rows of biases alone have no large channels: a norm would make them hundreds of times as
    large as real ones are, sums would be infinite, and attention would mix that into all rows."""
    x = np.random.default_rng(1).standard_normal((1, tokens, 64)).astype(np.float32)
    x[..., LARGE] *= np.float32(700)
    program = tw.compile(blocks(tokens), calibrate={"x": x})
    verified = program.verify({"x": x})
    assert np.isfinite(np.asarray(program(x))).all()
    assert verified.ok, verified.text()
