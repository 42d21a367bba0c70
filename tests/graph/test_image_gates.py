"""Means, gates and hard activations of images stay on the device as images."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, FloatAttr, UnitAttr, f32

from tilewright.dialects.intents import map_attribute
from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

GENERATED = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))


def over(net: ModelBuilder, x: Value, number: float) -> Value:
    return net._call("elementwise_div", [x], x.shape, {"scalar_rhs": FloatAttr(number, f32)})


def hard_sigmoid(net: ModelBuilder, x: Value) -> Value:
    limits = {"min": FloatAttr(0.0, f32), "max": FloatAttr(6.0, f32)}
    return over(net, net._call("clamp", [x + 3.0], x.shape, limits), 6.0)


def hard_swish(net: ModelBuilder, x: Value, late: bool) -> Value:
    """In both orders that frameworks have."""
    limits = {"min": FloatAttr(0.0, f32), "max": FloatAttr(6.0, f32)}
    bent = net._call("clamp", [x + 3.0], x.shape, limits)
    return over(net, x * bent, 6.0) if late else x * (bent * (1 / 6))


def squeezed(net: ModelBuilder, x: Value, width: int, hard: bool) -> Value:
    """x times a number per channel that is made of its means."""
    batch, channels, _, _ = x.shape
    axes = {"axes": integers([2, 3]), "keepdims": UnitAttr()}
    mean = net._call("reduction_mean", [x], (batch, channels, 1, 1), axes)
    y = net.relu(net.conv2d(mean, width, 1, "reduce"))
    y = net.conv2d(y, channels, 1, "expand")
    y = hard_sigmoid(net, y) if hard else net.unary("elementwise_sigmoid", y)
    maps = ArrayAttr([map_attribute(4, [0, 1, 2, 3]), map_attribute(4, [0, 1, None, None])])
    return net._call("elementwise_mul", [x, y], x.shape, {"operand_maps": maps})


@given(st.integers(0, 1 << 30), st.sampled_from(("atlas-v0", "atlas-v1")))
@GENERATED
def test_squeeze_and_excite(seed, profile):
    random = np.random.default_rng(seed)
    batch, size = int(random.integers(1, 3)), int(random.integers(5, 24))
    channels, late = int(random.integers(2, 70)), bool(random.integers(2))
    net = ModelBuilder("squeeze", seed=seed % 1000)
    x = net.conv2d(net.input("x", (batch, 3, size, size + 3)), channels, 3, "stem", 2, 1)
    x = squeezed(net, hard_swish(net, x, late), int(random.integers(1, 40)), late)
    net.output("y", net.conv2d(x, 9, 3, "last", padding=1))
    model = net.build()
    program = compile_model(model, load_profile(profile))
    kernels = [step.kernel for step in program.artifact.steps]
    assert kernels == ["conv2d", "mean", "conv2d", "conv2d", "gate", "conv2d"]
    assert [step.options.get("activation") for step in program.artifact.steps][:1] == ["hardswish"]
    assert len(program.parts) == 2
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert {layer.status for layer in result.layers} == {"equal"}
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.98


@given(st.integers(0, 1 << 30), st.sampled_from(("atlas-v0", "atlas-v1")))
@GENERATED
def test_gates_multiply_filters(seed, profile):
    """Of a convolution of single pixels, perhaps with a sum; every image of a batch has its own."""
    random = np.random.default_rng(seed)
    batch, size = int(random.integers(1, 4)), int(random.integers(7, 24))
    channels, late = int(random.integers(2, 100)), bool(random.integers(2))
    net = ModelBuilder("squeeze", seed=seed % 1000)
    x = net.conv2d(net.input("x", (batch, 3, size, size + 3)), channels, 3, "stem", padding=1)
    y = squeezed(net, net.silu(x), int(random.integers(1, 40)), not late)
    y = net.conv2d(y, channels, 1, "narrow")
    net.output("y", net.conv2d(x + y if late else y, 9, 3, "last", padding=1))
    model = net.build()
    program = compile_model(model, load_profile(profile))
    kernels = [step.kernel for step in program.artifact.steps]
    assert "gate" not in kernels and [s for s in program.artifact.steps if s.options.get("gate")]
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert {layer.status for layer in result.layers} == {"equal"}
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.98


def test_gates_that_stay_apart():
    """Of many filters of few pixels; of an image that others read too; of a wider window."""
    net = ModelBuilder("apart", seed=34)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 8, 8)), 40, 3, "stem", 2, 1))
    y = squeezed(net, x, 8, True)
    z = net.conv2d(net.relu(net.conv2d(y, 300, 1, "many")), 40, 1, "narrow")
    z = squeezed(net, x + z, 8, False)
    z = net.conv2d(z, 40, 1, "one") + net.conv2d(z, 40, 1, "other")
    net.output("y", net.conv2d(squeezed(net, z, 8, True), 5, 3, "last", padding=1))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert [step.kernel for step in program.artifact.steps].count("gate") == 3
    assert verify(program, per_layer=True, original=model).ok


def test_a_gate_of_single_pixels():
    """Where an image is one pixel, what gates it has its shape."""
    net = ModelBuilder("pixel", seed=33)
    x = net.relu(net.conv2d(net.input("x", (2, 40, 3, 3)), 36, 3, "stem"))
    y = net.unary("elementwise_sigmoid", net.conv2d(x, 36, 1, "gate"))
    net.output("y", net.conv2d(x * y, 9, 1, "last"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert any(step.options.get("gate") for step in program.artifact.steps)
    assert len(program.parts) == 2
    assert verify(program, per_layer=True, original=model).ok


def test_means_of_large_images_are_close():
    """Sums of many tiles are not swallowed by what was added before."""
    net = ModelBuilder("large", seed=30)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 80, 90)), 20, 1, "stem"))
    axes = {"axes": integers([2, 3]), "keepdims": UnitAttr()}
    mean = net._call("reduction_mean", [x], (1, 20, 1, 1), axes)
    net.output("y", net.conv2d(mean, 20, 1, "head"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.998


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_factors_are_part_of_layers(factor):
    """One number after an activation changes the scale of what is stored, nothing else."""
    net = ModelBuilder("factor", seed=31)
    x = net.relu(net.conv2d(net.input("x", (2, 3, 9, 8)), 12, 3, "stem")) * factor
    y = over(net, net.silu(net.conv2d(x, 12, 3, "next", padding=1)), factor)
    net.output("y", net.conv2d(x + y, 5, 1, "last"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert [s.kernel for s in program.artifact.steps] == ["conv2d", "conv2d", "combine", "conv2d"]
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.99


def test_what_is_read_twice_is_no_hard_swish():
    """The value in front of a hard swish is also a result: all of it stays right."""
    net = ModelBuilder("twice", seed=32)
    x = net.conv2d(net.input("x", (1, 3, 9, 8)), 12, 3, "stem")
    net.output("z", x)
    net.output("y", hard_swish(net, x, True))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert verify(program, per_layer=True, original=model).ok
