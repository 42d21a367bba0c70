"""Sums of images are part of a convolution that makes one of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, i64

from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.frontend.imported import Imported
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model import image_chains
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

GENERATED = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))


def kernels_of(model: Imported, profile: str, least: float) -> list[str]:
    """The kernels of a model, which is exact and not far from float32."""
    program = compile_model(model, load_profile(profile))
    result = verify(program, per_layer=True, original=model)
    assert result.ok and {layer.status for layer in result.layers} == {"equal"}
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > least
    return [step.kernel for step in program.artifact.steps]


def depthwise(net: ModelBuilder, x: Value, size: int, name: str) -> Value:
    """A convolution of every channel that keeps sizes."""
    channels = x.shape[1]
    weight = net.drawn(f"{name}.weight", (channels, 1, size, size), 1 / size)
    attributes = {"padding": integers([size // 2] * 4), "groups": IntegerAttr(channels, i64)}
    return net._call("conv2d", [x, weight], x.shape, attributes)


@given(st.integers(0, 1 << 30), st.sampled_from(("atlas-v0", "atlas-v1")))
@GENERATED
def test_residual_blocks(seed, profile):
    """Windows, activations, factors, batches and odd sizes; two convolutions that are added."""
    random = np.random.default_rng(seed)
    batch, size = int(random.integers(1, 3)), int(random.integers(5, 20))
    channels, window = int(random.integers(2, 70)), int(random.choice([1, 3, 5]))
    net = ModelBuilder("sums", seed=seed % 1000)
    x = net.relu(net.conv2d(net.input("x", (batch, 3, size, size + 2)), channels, 3, "stem", 2, 1))
    y = net.conv2d(x, channels, window, "same", padding=window // 2)
    x = [net.relu, net.silu, lambda sum_: sum_ * 0.5, lambda sum_: sum_][seed % 4](x + y)
    one, other = (net.conv2d(x, 33, 3, name, stride=2, padding=1) for name in ("one", "other"))
    net.output("y", net.conv2d(one + other, 9, 3, "last", padding=1))
    found = kernels_of(net.build(), profile, 0.97)
    sums = found.count("combine")  # on atlas-v0 what is added may lack room beside the filters
    assert [kernel for kernel in found if kernel != "combine"] == ["conv2d"] * 5
    assert sums <= (profile == "atlas-v0" and channels > 32)


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_sums_at_the_end_of_chains(profile, monkeypatch):
    """What a chain reads is what its last convolution adds."""
    monkeypatch.setattr(image_chains, "_is_large", lambda *_: True)
    monkeypatch.setattr(image_chains, "_are_larger", lambda *_: True)
    net = ModelBuilder("chained", seed=41)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 15, 14)), 40, 1, "stem"))
    x = x + net.conv2d(net.relu(depthwise(net, x, 3, "deep")), 40, 1, "same")
    y = net.relu(depthwise(net, net.relu(net.conv2d(x, 70, 1, "widen")), 5, "wide"))
    x = net.relu(x + net.conv2d(y, 40, 1, "narrow"))
    net.output("y", net.conv2d(x, 5, 1, "last"))
    kernels = kernels_of(net.build(), profile, 0.98)
    assert kernels == ["conv2d", "chain", "chain", "conv2d"]


def test_sums_that_stay_apart():
    """A convolution that others read too, one of an activation, an image added to itself."""
    net = ModelBuilder("apart", seed=42)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 9, 11)), 12, 3, "stem", padding=1))
    y = net.conv2d(x, 12, 3, "read twice", padding=1)
    z = net.relu(x + y) + y
    z = z + net.silu(net.conv2d(z, 12, 3, "bent", padding=1))
    net.output("y", net.conv2d(z + z, 5, 1, "last"))
    kernels = kernels_of(net.build(), "atlas-v1", 0.98)
    assert kernels.count("conv2d") == 4 and kernels.count("combine") == 4
