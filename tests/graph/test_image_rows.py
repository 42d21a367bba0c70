"""Linear layers over the channels of pixels, beside images: rows of all pixels share tiles."""

from __future__ import annotations

import pytest

from tilewright.frontend.builder import ModelBuilder
from tilewright.program import Program
from tilewright.targets.atlas.model import image_matching
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def mixed(batch: int, height: int, width: int, channels: int):
    """A convolution, then a norm and linear layers with channels last, then another one."""
    net = ModelBuilder("mixed", seed=4)
    x = net.conv2d(net.input("x", (batch, 3, height, width)), channels, 3, "stem", padding=1)
    y = net.layer_norm(net.transpose(x, (0, 2, 3, 1)), "norm")
    y = net.linear(net.gelu(net.linear(y, 2 * channels, "fc1")), channels, "fc2")
    y = x + net.transpose(y, (0, 3, 1, 2))
    net.output("y", net.conv2d(y, 5, 1, "last"))
    return net.build()


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("sizes", [(1, 5, 7, 40), (2, 3, 9, 32)])
def test_pixels_of_all_rows_share_tiles(monkeypatch, profile, sizes):
    monkeypatch.setattr(image_matching, "LARGEST", 0)  # all linear layers are products of rows
    model = mixed(*sizes)
    program = Program(compile_model(model, load_profile(profile)), original=model)
    found = program.verify()
    assert found.ok
    near = [one.accuracy.cosine for one in found.outputs if one.accuracy is not None]
    assert near and min(near) > 0.99
    artifact = program.model.artifact
    products = [step for step in artifact.steps if step.kernel == "linear"]
    assert products
    for step in products:
        given = artifact.regions[step.operands["a"]].layout.shape
        assert given[:2] == (1, sizes[0] * sizes[1] * sizes[2])


@pytest.mark.parametrize("small", [1e-20, 1e-38])
def test_values_that_have_all_but_vanished(small: float) -> None:
    """Networks whose weights nobody trained may let them: 1 over their scale is no bf16 number."""
    net = ModelBuilder("small")
    x = net.conv2d(net.input("x", (1, 8, 12, 12)), 16, 3, "first", padding=1)
    x = net.unary("silu", net.binary("elementwise_mul", x, small))
    x = net.unary(
        "silu", net.binary("elementwise_mul", net.conv2d(x, 16, 3, "second", padding=1), small)
    )
    net.output("y", net.conv2d(x, 8, 1, "third"))
    model = net.build()
    program = Program(compile_model(model, load_profile("atlas-v1")), original=model)
    assert program.verify().ok
