"""How convolutions are cut where it is known what lies on the chip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.frontend.builder import ModelBuilder
from tilewright.program import Program
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.kernels.convolution import conv2d
from tilewright.targets.atlas.kernels.image_blocks import Blocking
from tilewright.targets.atlas.kernels.images import Image, Window, prepared
from tilewright.targets.atlas.model import fitting
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

KIB = 1024
V1 = load_profile("atlas-v1")


def layer(channels, filters, phases=(2, 2), size=28):
    window = Window(3, 3, 1, 1)
    return conv2d(prepared(Image(size, size, channels, phases=phases), window), filters, window)


@pytest.mark.parametrize("room", [192, 256, 384, 512, 768])
@pytest.mark.parametrize("here", [set(), {"x"}, {"out"}, {"x", "out"}])
def test_a_cut_has_the_room_it_needs_and_stays_with_less(room, here):
    """What it counts on is in its room, and all the room it is left with changes nothing."""
    found = Found(frozenset(here), room * KIB)
    try:
        cut = layer(256, 256).blocking(V1, found)
    except VmemExceeded as error:
        assert error.wanted > room * KIB
        return
    assert 0 < cut.needed <= room * KIB
    assert layer(256, 256).blocking(V1, replace(found, room=cut.needed)) == cut


def test_images_on_chip_leave_room_for_filters():
    """Nothing of them is counted in the room, and nobody waits for them."""
    room = 256 * KIB
    both = layer(256, 256).blocking(V1, Found(frozenset({"x", "out"}), room))
    neither = layer(256, 256).blocking(V1, Found(frozenset(), room))
    assert isinstance(both, Blocking) and isinstance(neither, Blocking)
    assert both.ticks < neither.ticks
    assert both.needed <= room


def test_too_little_room_says_how_much_it_takes():
    with pytest.raises(VmemExceeded) as caught:
        layer(256, 256).blocking(V1, Found(frozenset(), 64 * KIB))
    wanted = caught.value.wanted
    assert layer(256, 256).blocking(V1, Found(frozenset(), wanted)).needed == wanted


def tail(channels, wide, size):
    """Blocks on few pixels, whose filters take longer to arrive than to be used."""
    net = ModelBuilder("tail", seed=7)
    y = net.relu(net.conv2d(net.input("x", (1, 3, size, size + 1)), channels, 3, "a", 1, 1))
    for k in range(2):
        y = net.silu(net.conv2d(y, wide, 1, f"widen{k}"))
        y = net.relu(net.conv2d(y, channels, 1, f"narrow{k}"))
    net.output("y", net.conv2d(y, 9, 1, "last"))
    return net.build()


def test_filters_come_under_earlier_work(monkeypatch):
    model = tail(99, 390, 14)
    nothing_begun = lambda program, places, uses, profile: replace(places, begun=[])  # noqa: E731
    monkeypatch.setattr(fitting, "hand_over", nothing_begun)
    program = compile_model(model, V1)
    assert any(step.brings for step in program.artifact.steps)
    assert verify(program, per_layer=True, original=model).ok
    cycles = Program(program).report().cycles
    monkeypatch.setattr(fitting, "choose", lambda *_: [])
    without = compile_model(model, V1)
    assert not any(step.brings for step in without.artifact.steps)
    assert cycles < Program(without).report().cycles


@pytest.mark.parametrize("seed", range(4))
def test_networks_of_any_sizes_are_exact(seed):
    """Odd sizes, several images, channels that are no multiples of 32."""
    random = np.random.default_rng(seed)
    size, batch = int(random.integers(5, 19)), int(random.integers(1, 4))
    widths = [int(n) for n in random.integers(20, 300, 3)]
    net = ModelBuilder("any", seed=seed)
    y = net.relu(net.conv2d(net.input("x", (batch, 3, size, size + 2)), widths[0], 3, "a"))
    y = net.relu(net.conv2d(y, widths[1], int(random.choice([1, 3])), "b", padding=1))
    y = net.relu(net.conv2d(y, widths[2], 3, "c", padding=1))
    net.output("y", net.conv2d(y, 40, 1, "d"))
    model = net.build()
    program = compile_model(model, V1)
    assert verify(program, per_layer=True, original=model).ok
