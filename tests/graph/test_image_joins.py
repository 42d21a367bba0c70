"""Channels of images side by side or in part, and pixels repeated, on the device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64

from tilewright.dialects.intents import map_attribute
from tilewright.frontend.builder import ModelBuilder, Value, integers
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

GENERATED = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))


def doubled(net: ModelBuilder, x: Value) -> Value:
    """Every pixel four times, as frameworks write it: rows first, then columns."""
    batch, channels, height, width = x.shape

    def repeated(y: Value, before: tuple[int, ...], after: tuple[int, ...]) -> Value:
        reads = [d if size == after[d] else None for d, size in enumerate(before)]
        maps = ArrayAttr([map_attribute(len(after), reads)])
        return net._call("cast", [net.reshape(y, before)], after, {"operand_maps": maps})

    rows = (batch, channels, height, 1, width), (batch, channels, height, 2, width)
    tall = repeated(x, *rows)
    columns = (batch, channels, 2 * height, width, 1), (batch, channels, 2 * height, width, 2)
    return net.reshape(repeated(tall, *columns), (batch, channels, 2 * height, 2 * width))


def joined(net: ModelBuilder, *parts: Value) -> Value:
    shape = list(parts[0].shape)
    shape[1] = sum(part.shape[1] for part in parts)
    return net._call("concat", list(parts), tuple(shape), {"axis": IntegerAttr(1, i64)})


def channels_of(net: ModelBuilder, x: Value, start: int, count: int) -> Value:
    batch, _, height, width = x.shape
    attributes = {
        "offsets": integers([0, start, 0, 0]), "sizes": integers([batch, count, height, width]),
        "strides": integers([1, 1, 1, 1]),
    }  # fmt: skip
    return net._call("slice", [x], (batch, count, height, width), attributes)


@given(st.integers(0, 1 << 30), st.sampled_from(("atlas-v0", "atlas-v1")))
@GENERATED
def test_down_and_up_again(seed, profile):
    random = np.random.default_rng(seed)
    batch, size = int(random.integers(1, 3)), 2 * int(random.integers(3, 11))
    most = 70 if profile == "atlas-v1" else 48  # three tiles of channels in a window, in 256 KiB
    widths = [int(n) for n in random.integers(2, most, 3)]
    net = ModelBuilder("up", seed=seed % 1000)
    x = net.relu(net.conv2d(net.input("x", (batch, 3, size, size + 4)), widths[0], 3, "a", 1, 1))
    y = net.relu(net.conv2d(x, widths[1], 3, "b", 2, 1))
    z = net.conv2d(joined(net, doubled(net, y), x), widths[2], 3, "c", padding=1)
    start = int(random.integers(1, widths[2]))
    net.output("y", net.conv2d(channels_of(net, z, start, widths[2] - start), 5, 1, "last"))
    model = net.build()
    program = compile_model(model, load_profile(profile))
    kernels = [step.kernel for step in program.artifact.steps]
    assert sorted(kernels) == ["conv2d"] * 4 + ["join"]  # of the channels that are cut out
    assert len(program.parts) == 2
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert {layer.status for layer in result.layers} == {"equal"}
    assert result.outputs[0].accuracy is not None and result.outputs[0].accuracy.cosine > 0.98


def test_parts_of_very_different_size():
    """What is joined to much larger numbers is rounded as these are, not lost or wrong."""
    net = ModelBuilder("sizes", seed=40)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 9, 7)), 20, 3, "a"))
    y = net.silu(net.conv2d(x, 30, 1, "b")) * 4096.0
    net.output("y", joined(net, x, y, net.relu(net.conv2d(x, 7, 1, "c"))))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert verify(program, per_layer=True, original=model).ok


def test_the_same_image_twice():
    net = ModelBuilder("twice", seed=41)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 9, 7)), 20, 3, "a"))
    net.output("y", net.conv2d(joined(net, x, x), 5, 1, "last"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert verify(program, per_layer=True, original=model).ok


def test_images_of_very_different_size_read_as_one():
    """Filters make up for scales, so that other readers of the smaller image lose nothing."""
    net = ModelBuilder("sizes", seed=42)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 9, 7)), 20, 3, "a"))
    y = net.silu(net.conv2d(x, 30, 1, "b")) * 4096.0
    net.output("z", net.conv2d(net.relu(net.conv2d(joined(net, y, x), 9, 3, "c")), 5, 1, "d"))
    net.output("b", net.conv2d(net.relu(net.conv2d(x, 8, 1, "e")), 7, 1, "f"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert "join" not in [step.kernel for step in program.artifact.steps]
    result = verify(program, per_layer=True, original=model)
    assert result.ok
    assert all(one.accuracy is not None and one.accuracy.cosine > 0.99 for one in result.outputs)


def test_what_others_read_too_is_joined():
    net = ModelBuilder("others", seed=43)
    x = net.relu(net.conv2d(net.input("x", (1, 3, 10, 8)), 20, 3, "a", 1, 1))
    y = net.relu(net.conv2d(x, 40, 3, "b", 2, 1))
    z = joined(net, doubled(net, y), x)
    net.output("y", net.conv2d(z, 12, 3, "c"))
    net.output("z", net.relu(z))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    assert "join" in [step.kernel for step in program.artifact.steps]
    assert verify(program, per_layer=True, original=model).ok


@pytest.mark.parametrize(("height", "width"), [(22, 10), (12, 20)])
def test_up_twice_by_other_factors(height, width):
    """Enlarged once down and twice across, beside one that is stored as it is, two images."""
    net = ModelBuilder("twice", seed=44)
    x = net.relu(net.conv2d(net.input("x", (2, 19, height, width)), 3, 3, "a", 1, 1))
    y = net.relu(net.conv2d(x, 33, 3, "b", 2, 1))
    z = net.relu(net.conv2d(y, 21, 3, "c", 1, 1))
    u = net.relu(net.conv2d(doubled(net, z), 7, 3, "d", padding=1))
    net.output("y", net.conv2d(joined(net, x, u, doubled(net, y)), 12, 1, "e"))
    model = net.build()
    program = compile_model(model, load_profile("atlas-v1"))
    kernels = [step.kernel for step in program.artifact.steps]
    assert "resample" not in kernels and "join" not in kernels
    assert verify(program, per_layer=True, original=model).ok
