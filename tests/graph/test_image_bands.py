"""Convolutions in a row of whole models become one kernel where images between them are large, and
convolutions with more filters than VMEM holds are made in parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.frontend.builder import ModelBuilder
from tilewright.program import Program
from tilewright.targets.atlas.codegen.routine import PointersExceeded
from tilewright.targets.atlas.model import image_bands, lower_launch
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def measured(model, profile=V1):
    """The steps of a model, which has to compute what it should."""
    program = Program(compile_model(model, profile), original=model)
    found = program.verify()
    assert found.ok
    near = [one.accuracy.cosine for one in found.outputs if one.accuracy is not None]
    assert min(near) > 0.99
    return program, program.report().to_json()["steps"]


@pytest.mark.parametrize("count", [2, 4])
def test_convolutions_in_a_row_are_one_kernel(monkeypatch, count):
    """Two and two of them, the first one of what the host has unfolded; a last one of single pixels
    whose result leaves the device."""
    net = ModelBuilder("row", seed=3)
    y = net.input("x", (1, 3, 24, 40))
    for number in range(count):
        y = net.relu(net.conv2d(y, 36, 3, f"conv{number}", padding=1))
    net.output("y", net.conv2d(y, 5, 1, "last"))
    model = net.build()
    apart = [step["kernel"] for step in measured(model)[1]]
    assert "chain" not in apart
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    together = [step["kernel"] for step in measured(model)[1]]
    assert together == ["chain"] * (count // 2)


def test_an_image_that_others_read_is_stored(monkeypatch):
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    net = ModelBuilder("twice", seed=3)
    first = net.relu(net.conv2d(net.input("x", (1, 40, 16, 32)), 36, 3, "first", padding=1))
    y = net.relu(net.conv2d(first, 36, 3, "second", padding=1))
    net.output("y", net.conv2d(y + first, 5, 3, "last", padding=1))
    kernels = [step["kernel"] for step in measured(net.build())[1]]
    assert "chain" not in kernels


@pytest.mark.parametrize("share", [1, 4])
def test_wide_convolutions_run_on_the_device(share):
    """More filters than VMEM holds twice, also with a quarter of it."""
    net = ModelBuilder("wide", seed=4)
    y = net.relu(net.conv2d(net.input("x", (1, 1100, 6, 5)), 40, 3, "first", padding=1))
    net.output("y", net.conv2d(y, 33, 3, "second", padding=1))
    model = net.build()
    program, steps = measured(model, replace(V1, vmem_bytes=V1.vmem_bytes // share))
    assert [step["kernel"] for step in steps].count("conv2d") == 2
    assert program.model.provenance["host_share"] < 0.01


@pytest.mark.parametrize("size, channels", [(33, 36), (35, 8), (47, 30)])
@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_a_first_one_of_two_steps_reads_images_of_odd_width(monkeypatch, profile, size, channels):
    """What it reads has half as many columns in each phase as the image between has in its one: the
    pitch of the former was taken for the latter, which refused the model."""
    monkeypatch.setattr(image_bands, "SHARE", 1 << 20)
    net = ModelBuilder("halved", seed=size)
    x = net.input("x", (1, 40, size, size))
    y = net.relu(net.conv2d(x, channels, 1, "first", stride=2))
    net.output("y", net.conv2d(y, 20, 3, "second", padding=1))
    assert [step["kernel"] for step in measured(net.build(), load_profile(profile))[1]] == ["chain"]


def test_a_loop_with_too_many_addresses_goes_over_fewer_phases(monkeypatch):
    """As if registers were short for more than one phase at a time."""
    lowered_once, tried = lower_launch._lowered, []

    def short_of_registers(source, traces, found, cut):
        if found is not None and lower_launch._phases(source) > 1:
            tried.append(found.phases)
            if found.phases != 1:
                raise PointersExceeded(40, 2)
        return lowered_once(source, traces, found, cut)

    monkeypatch.setattr(lower_launch, "_lowered", short_of_registers)
    net = ModelBuilder("phases", seed=3)
    y = net.relu(net.conv2d(net.input("x", (1, 40, 24, 24)), 64, 3, "a", padding=1))
    y = net.relu(net.conv2d(y, 33, 3, "b", stride=2, padding=1))
    net.output("y", net.conv2d(y, 5, 1, "last"))
    measured(net.build())
    assert {0, 1} <= set(tried)
