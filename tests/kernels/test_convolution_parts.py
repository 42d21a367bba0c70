"""Convolutions in parts of what is added up: the bits of their references, and the room they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from image_checks import check

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.chip import VmemExceeded
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.convolution import conv2d
from tilewright.targets.atlas.kernels.convolution_parts import cut_of, deep_of
from tilewright.targets.atlas.kernels.image_operands import DenseFilters
from tilewright.targets.atlas.kernels.image_sources import Source, joined
from tilewright.targets.atlas.kernels.images import Image, Window, prepared
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")
QUARTER = replace(V1, vmem_bytes=V1.vmem_bytes // 4)


def layer(channels, filters, window, size=(9, 7), phases=1, **options):
    batch = options.pop("batch", None)
    image = prepared(Image(size[0], size[1], channels, phases=phases, batch=batch), window)
    return conv2d(image, filters, window, **options)


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("seed", range(6))
def test_parts_have_the_bits_of_the_reference(seed, profile):
    """Strides, dilation, phases, batches, groups that fill tiles and groups that do not."""
    random = np.random.default_rng(seed)
    side, step = (int(random.choice(of)) for of in ([1, 2, 3, 5], [1, 1, 2]))
    spread, groups = (int(random.choice(of)) for of in ([1, 1, 3], [1, 1, 2, 3]))
    window = Window(side, side, step, (side - 1) * spread // 2, spread)
    channels, filters = (groups * int(n) for n in random.integers(1, [90, 70]))
    if seed == 2:
        groups, channels, filters = 2, 128, 192
    made = layer(
        channels, filters, window, tuple(random.integers(4, 20, 2).tolist()), 2 * step, batch=[None, 2][seed % 2],
        groups=groups, scale=bool(seed % 2), activation=["none", "relu", "silu", "relu6"][seed % 4],
        deep=int(random.integers(1, 4)),
    )  # fmt: skip
    assert isinstance(made.filters, DenseFilters) == (groups > 1 and seed != 2)
    check(made, references.conv2d(made), profile, random)


def test_several_images_are_added_up_one_after_the_other():
    window = Window(3, 3, 1, 1)
    images = [prepared(Image(8, 10, n), window) for n in (70, 40)]
    sources = [Source(image) for image in images]
    made = conv2d(joined(sources), 50, window, sources=sources, scale=True, deep=2)
    check(made, references.conv2d(made), "atlas-v1", np.random.default_rng(0))


def test_the_order_of_sums_is_part_of_what_is_computed():
    """With sums that round, channels of all taps first give other bits than taps of all channels."""
    window, random = Window(3, 3, 1, 1), np.random.default_rng(1)
    whole, parts = (layer(128, 32, window, deep=deep) for deep in (0, 1))
    shapes = whole.image.shape, (3, 3, 128, 32)
    x, w = (random.integers(0x10, 0x38, shape, np.uint8) for shape in shapes)
    x, w = (codes | random.choice([0, 0x80], codes.shape).astype(np.uint8) for codes in (x, w))
    bias = np.zeros(32, np.uint16)
    one, other = (references.conv2d(made).exact(V1, x, w, bias) for made in (whole, parts))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("profile", [V1, QUARTER])
@pytest.mark.parametrize(
    ("channels", "filters", "window", "size"),
    [
        (2048, 512, Window(3, 3, 1, 1), (7, 7)),
        (2048, 256, Window(3, 3, 1, 36, 36), (33, 33)),
        (4096, 4096, Window(1, 1), (2, 2)),
        (1024, 64, Window(7, 7, 1, 3), (64, 64)),
        (480, 128, Window(5, 5, 2, 2), (64, 33)),
    ],
)
def test_wide_convolutions_have_room(profile, channels, filters, window, size):
    steps = window.steps[0]
    plan = needed(layer(channels, filters, window, size, steps, deep=1).plan, "a plan")
    deep = deep_of(plan, profile)
    assert deep > 0
    cut = cut_of(replace(plan, deep=deep), profile)
    assert 0 < cut.needed <= profile.vmem_bytes * 7 // 8
    little = Found(frozenset(), cut.needed // 16)
    with pytest.raises(VmemExceeded) as caught:
        cut_of(replace(plan, deep=deep), profile, little)
    enough = Found(frozenset(), caught.value.wanted)
    assert cut_of(replace(plan, deep=deep), profile, enough).needed == caught.value.wanted


def test_filters_made_on_the_chip_are_in_no_parts():
    with pytest.raises(TilewrightError) as caught:
        layer(64, 64, Window(3, 3, 1, 1), groups=64, diagonal=True, deep=1)
    assert caught.value.code == "TW1675"
