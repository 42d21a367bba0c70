"""Norms, linear layers and numbers per channel of images stay on the device as images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tilewright.frontend.builder import ModelBuilder, Value
from tilewright.frontend.imported import Imported
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.compiled_model import CompiledModel

GENERATED = settings(max_examples=2, deadline=None, phases=(Phase.explicit, Phase.generate))
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def compiled(model: Imported, profile: str = "atlas-v1") -> CompiledModel[AtlasArtifact]:
    """The program, after it was verified layer by layer."""
    program = compile_model(model, load_profile(profile))
    result = verify(program, per_layer=True, original=model)
    assert result.ok and {layer.status for layer in result.layers} == {"equal"}
    assert all(one.accuracy is not None and one.accuracy.cosine > 0.98 for one in result.outputs)
    return program


def kernels_of(program: CompiledModel[AtlasArtifact]) -> list[str]:
    return [step.kernel for step in program.artifact.steps]


def block(net: ModelBuilder, x: Value, norm: str, wide: int) -> Value:
    """x + gains * (gelu(norm(x) w1 + b1) w2 + b2), with channels last inside."""
    channels = x.shape[1]
    y = net.transpose(x, LAST)
    y = net.layer_norm(y, "norm") if norm == "layer" else net.rms_norm(y, "norm")
    y = net.linear(net.gelu(net.linear(y, wide, "fc1")), channels, "fc2")
    gains = net.drawn("gains", (channels,), 0.4)
    return x + net._along(net.transpose(y, FIRST), gains, 1, "mul")


@given(
    st.integers(0, 1 << 30),
    st.sampled_from(("atlas-v0", "atlas-v1")),
    st.sampled_from(("layer", "rms")),
)
@GENERATED
def test_a_block_with_channels_at_both_ends(seed, profile, norm):
    random = np.random.default_rng(seed)
    batch, height, width = int(random.integers(1, 3)), *random.integers(2, 12, 2).tolist()
    net = ModelBuilder("block", seed=seed % 1000)
    x = net.conv2d(net.input("x", (batch, 3, height, width)), 32, 3, "stem", 1, 1)
    x = block(net, x, norm, int(random.integers(20, 70)))
    net.output("y", net.conv2d(x, 9, 3, "last", padding=1))
    program = compiled(net.build(), profile)
    # x is read in both orders: one of them is a copy; the sum is part of the convolution before it
    wanted = ["conv2d", "combine", "image_norm", "conv2d", "conv2d", "conv2d"]
    assert kernels_of(program) == wanted
    assert len(program.parts) == 2


def test_results_leave_in_the_order_they_have():
    """Transposes at the end, and the same image in both orders."""
    net = ModelBuilder("orders", seed=5)
    x = net.relu(net.conv2d(net.input("x", (2, 3, 7, 9)), 40, 3, "stem", padding=1))
    net.output("first", x)
    net.output("last", net.transpose(x, LAST))
    y = net.conv2d(x, 64, 1, "second")
    net.output("norm", net.layer_norm(net.transpose(y, LAST), "norm"))
    assert "image_norm" in kernels_of(compiled(net.build()))


def test_channels_that_do_not_fill_tiles_are_rows_of_another_kernel():
    net = ModelBuilder("rows", seed=6)
    x = net.conv2d(net.input("x", (1, 3, 6, 6)), 24, 3, "stem", padding=1)
    net.output("y", net.layer_norm(net.transpose(x, LAST), "norm"))
    assert "image_norm" not in kernels_of(compiled(net.build()))


@pytest.mark.parametrize("gain", [0.0, -1.5])
def test_norms_in_front_of_convolutions(gain):
    """Numbers per channel of what is joined, which no convolution before can take; also 0."""
    net = ModelBuilder("dense", seed=7)
    x = net.relu(net.conv2d(net.input("x", (2, 3, 9, 10)), 20, 3, "stem", padding=1))
    y = net.conv2d(x, 24, 3, "a", padding=1)
    both = net.concat([x, y], 1)
    gains = np.linspace(gain, 2.0, 44, dtype=np.float32)
    z = net._along(both, net.weight("gains", gains), 1, "mul")
    z = net.relu(net._along(z, net.drawn("offsets", (44,), 0.3), 1, "add"))
    net.output("y", net.conv2d(z, 12, 3, "last", padding=1))
    program = compiled(net.build())
    assert kernels_of(program) == ["conv2d", "conv2d", "join", "conv2d", "conv2d"]
    assert program.artifact.steps[3].options["activation"] == "relu"
    assert len(program.parts) == 2


def test_strides_between_images_in_both_orders():
    """Images are stored anew before a later stride, whatever order their channels have there."""
    net = ModelBuilder("strides", seed=9)
    x = net.conv2d(net.input("x", (1, 3, 24, 40)), 32, 2, "stem", 2)
    for k, channels in enumerate((32, 64)):
        x = net.transpose(net.layer_norm(net.transpose(x, LAST), f"norm{k}"), FIRST)
        x = net.conv2d(x, channels, 2, f"down{k}", 2)
    net.output("y", x)
    kernels = kernels_of(compiled(net.build()))
    assert "resample" in kernels and kernels.count("image_norm") == 2


def test_a_factor_in_front_of_an_activation_stays_there():
    net = ModelBuilder("order", seed=10)
    x = net.conv2d(net.input("x", (1, 3, 6, 7)), 24, 3, "stem", padding=1)
    net.output("y", net.conv2d(net.silu(x * 3.0) + x, 8, 1, "last"))
    program = compiled(net.build())
    found = [step.options["activation"] for step in program.artifact.steps]
    assert found == ["none", "none", "silu", "none", "none"]


def test_an_image_of_many_channels_is_read_in_a_loop():
    """All of it at once, twice for the next filters, would not fit: its pitch makes a loop."""
    net = ModelBuilder("deep", seed=11)
    x = net.input("x", (1, 3072, 10, 10))
    net.output("y", net.conv2d(x, 256, 1, "deep"))
    program = compiled(net.build())
    assert kernels_of(program) == ["conv2d"]
    assert program.artifact.steps[0].options["out"]["pitch"] == 16


def test_a_convolution_without_room_for_its_filters_is_made_in_parts():
    """It is found while layers are planned, not when their code is generated."""
    net = ModelBuilder("large", seed=8)
    x = net.relu(net.conv2d(net.input("x", (1, 1024, 3, 3)), 32, 3, "wide", padding=1))
    y = net.conv2d(net.input("other", (1, 1024, 4, 4)), 8, 7, "filters", padding=3)
    net.output("narrow", x)
    net.output("y", y)
    program = compiled(net.build())
    deep = [step.options["deep"] for step in program.artifact.steps]
    assert kernels_of(program) == ["conv2d", "conv2d"] and sorted(map(bool, deep)) == [False, True]
