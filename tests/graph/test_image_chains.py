"""Convolutions in a row become one kernel where images between them are large."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64

from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.program import Program
from tilewright.targets.atlas.kernels import convolution_chain
from tilewright.targets.atlas.model import image_chains
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def relu6(net: ModelBuilder, x: Value) -> Value:
    limits = {"min": FloatAttr(0.0, f32), "max": FloatAttr(6.0, f32)}
    return net._call("clamp", [x], x.shape, limits)


def depthwise(net: ModelBuilder, x: Value, size: int, stride: int) -> Value:
    batch, channels, *sizes = x.shape
    weight = net.drawn("depthwise.weight", (channels, 1, size, size), 1 / size)
    bias = net.drawn("depthwise.bias", (channels,), 0.1)
    out = [(n + 2 * (size // 2) - size) // stride + 1 for n in sizes]
    attributes = {
        "strides": integers([stride, stride]), "padding": integers([size // 2] * 4),
        "groups": IntegerAttr(channels, i64),
    }  # fmt: skip
    return net._call("conv2d", [x, weight, bias], (batch, channels, *out), attributes)


def block(height: int, width: int, wide: int, size: int, stride: int, twice: bool = False):
    """A first convolution, widen, look at every channel, narrow; twice: what is widened is also
    read by somebody else."""
    net = ModelBuilder("block", seed=5)
    x = net.conv2d(net.input("x", (1, 3, height, width)), 20, 3, "stem", padding=1)
    wider = relu6(net, net.conv2d(x, wide, 1, "widen"))
    y = net.silu(depthwise(net, wider, size, stride))
    y = net.conv2d(y, 24, 1, "narrow")
    net.output("y", net.conv2d(wider, 24, 1, "other") + y if twice else y)
    return net.build()


def kernels(monkeypatch: pytest.MonkeyPatch, model, held: int = 1 << 20) -> list[str]:
    """The kernels of a model whose images are all large; it has to compute what it should."""
    monkeypatch.setattr(image_chains, "SHARE", 1 << 20)
    monkeypatch.setattr(image_chains, "_are_larger", lambda *_: True)
    monkeypatch.setattr(convolution_chain, "HELD", held)
    program = Program(compile_model(model, load_profile("atlas-v1")), original=model)
    found = program.verify()
    assert found.ok
    near = [one.accuracy.cosine for one in found.outputs if one.accuracy is not None]
    assert min(near) > 0.99
    return [step["kernel"] for step in program.report().to_json()["steps"]]


def test_three_convolutions_are_one_kernel(monkeypatch):
    found = kernels(monkeypatch, block(9, 7, 40, 3, 2))
    assert found.count("chain") == 1 and found.count("conv2d") == 1


@pytest.mark.parametrize(("batch", "step"), [(1, 2), (2, 1)])
def test_a_chain_begins_with_windows_that_the_host_unfolds(batch, step, monkeypatch):
    net = ModelBuilder("first", seed=7)
    x = net.conv2d(net.input("x", (batch, 3, 13, 18)), 20, 3, "stem", padding=1, stride=2)
    y = relu6(net, depthwise(net, net.silu(x), 3, step))
    net.output("y", net.conv2d(net.conv2d(y, 24, 1, "narrow"), 8, 3, "after"))
    found = kernels(monkeypatch, net.build())
    assert found == ["chain", "conv2d"]


def test_few_pixels_do_not_wait_for_filters():
    """Filters of 64 to 100 channels take longer to load than 9 pixels need them."""
    net = ModelBuilder("few", seed=7)
    x = net.conv2d(net.input("x", (1, 3, 3, 3)), 64, 1, "stem")
    y = relu6(net, depthwise(net, relu6(net, net.conv2d(x, 100, 1, "widen")), 3, 1))
    net.output("y", net.conv2d(y, 16, 1, "narrow"))
    model = net.build()
    program = Program(compile_model(model, load_profile("atlas-v1")), original=model)
    assert program.verify().ok
    steps = program.report().to_json()["steps"]
    assert [step["kernel"] for step in steps] == ["conv2d", "chain", "conv2d"]


def test_what_others_read_is_stored(monkeypatch):
    found = kernels(monkeypatch, block(9, 11, 40, 3, 1, twice=True))
    assert found.count("chain") == 1 and found.count("conv2d") == 3  # the last two are a chain


def test_without_room_they_stay_apart(monkeypatch):
    found = kernels(monkeypatch, block(9, 9, 40, 3, 1), held=64)
    assert "chain" not in found and found.count("conv2d") == 4


def test_small_images_stay_apart():
    model = block(9, 9, 40, 3, 1)
    steps = Program(compile_model(model, load_profile("atlas-v1"))).report().to_json()["steps"]
    assert "chain" not in {step["kernel"] for step in steps}
    assert np.prod([9, 9, 64]) * image_chains.SHARE < load_profile("atlas-v1").vmem_bytes


def test_a_chain_without_code_is_lowered_as_single_layers(monkeypatch):
    """What a chain of layers lacks is known when its code is made: registers for its pointers."""
    from tilewright.targets.atlas.codegen import list_schedule
    from tilewright.targets.atlas.codegen.compile_kernel import LoweredKernel

    finish = LoweredKernel.finish

    def refuse(lowered: LoweredKernel):
        if lowered.kernel.name == "chain":
            raise list_schedule.OutOfRegisters
        return finish(lowered)

    monkeypatch.setattr(LoweredKernel, "finish", refuse)
    found = kernels(monkeypatch, block(9, 9, 40, 3, 1))
    assert "chain" not in found and found.count("conv2d") == 4
