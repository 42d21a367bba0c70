"""Results of few channels that only the host reads leave with tiles of pixels side by side."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.program import Program
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage
from tilewright.targets.atlas.model import image_bands
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile


def checked(model, profile="atlas-v1"):
    program = Program(compile_model(model, load_profile(profile)), original=model)
    found = program.verify()
    assert found.ok
    near = [one.accuracy.cosine for one in found.outputs if one.accuracy is not None]
    assert min(near) > 0.99
    return program


def outputs(program):
    """How results of the device are stored."""
    found = [region.layout.arrangement for region in program.model.artifact.regions.values()]
    return [one for one in found if isinstance(one, NarrowImage)]


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize(
    ("channels", "size", "side", "batch", "wanted"),
    [
        (1, (33, 47), 3, 1, True),
        (3, (33, 47), 3, 2, True),
        (8, (30, 50), 1, 1, True),
        (16, (31, 33), 1, 1, True),
        (17, (30, 50), 1, 1, False),
        (33, (30, 50), 3, 1, False),
        (3, (9, 11), 3, 1, False),  # few pixels
    ],
)
def test_last_convolutions(profile, channels, size, side, batch, wanted):
    net = ModelBuilder("head", seed=5)
    y = net.relu(net.conv2d(net.input("x", (batch, 3, *size)), 20, 3, "first", padding=1))
    net.output("y", net.conv2d(y, channels, side, "last", padding=side // 2))
    program = checked(net.build(), profile)
    assert bool(outputs(program)) == wanted


def test_strides_leave_phases_that_share_tiles():
    net = ModelBuilder("strides", seed=5)
    x = net.input("x", (1, 3, 40, 72))
    first = net.relu(net.conv2d(x, 12, 3, "first", padding=1))
    net.output("far", net.relu(net.conv2d(first, 40, 3, "far", padding=1, stride=4)))
    net.output("near", net.conv2d(first, 5, 3, "near", padding=1))
    (image,) = outputs(checked(net.build()))
    assert image.phase_count == (4, 4) and image.beside[0] > 1


def test_what_the_device_reads_too_is_stored_as_ever():
    net = ModelBuilder("twice", seed=5)
    first = net.relu(net.conv2d(net.input("x", (1, 3, 32, 48)), 5, 3, "first", padding=1))
    net.output("seen", first)
    net.output("y", net.conv2d(first, 40, 3, "last", padding=1))
    assert not outputs(checked(net.build()))


def test_sums_are_stored_as_ever():
    net = ModelBuilder("others", seed=5)
    first = net.relu(net.conv2d(net.input("x", (1, 3, 32, 48)), 8, 3, "first", padding=1))
    net.output("added", net.conv2d(first, 8, 3, "again", padding=1) + first)
    assert not outputs(checked(net.build()))


@pytest.mark.parametrize(
    ("tail", "size", "wanted"),
    [
        (0, (48, 64), True),
        (6, (48, 64), True),
        (0, (40, 133), True),
        (1, (24, 200), True),
        (1, (21, 200), False),  # a step of whole rows would leave places empty
    ],
)
def test_ends_of_chains(monkeypatch, tail, size, wanted):
    """Also where rows take five or seven tiles."""
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    net = ModelBuilder("row", seed=3)
    y = net.relu(net.conv2d(net.input("x", (1, 3, *size)), 36, 3, "first", padding=1))
    y = net.conv2d(y, 20 if tail else 6, 3, "second", padding=1)
    net.output("y", net.conv2d(net.relu(y), tail, 1, "last") if tail else y)
    program = checked(net.build())
    steps = [step["kernel"] for step in program.report().to_json()["steps"]]
    assert steps == ["chain"] and bool(outputs(program)) == wanted


def test_a_bundle_gives_the_same(tmp_path):
    """And a result is [B, C, H, W] whatever lies in DRAM."""
    net = ModelBuilder("kept", seed=5)
    y = net.relu(net.conv2d(net.input("x", (1, 3, 40, 40)), 20, 3, "first", padding=1))
    net.output("y", net.conv2d(y, 7, 3, "last", padding=1))
    program = checked(net.build())
    assert outputs(program)
    x = np.random.default_rng(0).normal(size=(1, 3, 40, 40)).astype(np.float32)
    program.save(tmp_path / "kept.twb")
    again = tw.load(tmp_path / "kept.twb")
    one, other = np.asarray(program(x)), np.asarray(again(x))
    assert one.shape == (1, 7, 40, 40) and np.array_equal(one, other)
