"""Results of few channels lie side by side in tiles: the bits of single tiles, fewer bytes."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from image_checks import check, codes
from test_convolution_bands import parts_of

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.arrangements import read, written
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.convolution import conv2d
from tilewright.targets.atlas.kernels.convolution_bands import rows_of_steps
from tilewright.targets.atlas.kernels.convolution_chain import convolution_chain
from tilewright.targets.atlas.kernels.images import Image, Window, prepared, result_image
from tilewright.targets.atlas.kernels.narrow_images import (
    NarrowImage,
    PlacedChannels,
    PlacedFilters,
    narrow,
)
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import to_codes

V1 = load_profile("atlas-v1")


def side_by_side(image, beside):
    """An image so many phases and tiles of pixels side by side."""
    names = ("height", "width", "channels", "phases", "pitch", "batch", "first")
    return NarrowImage(**{n: getattr(image, n) for n in names}, dtype="bf16", beside=beside)


def layer_of(
    size, channels, filters, window, phases=1, batch=None, activation="none", beside=(1, 4)
):
    """A convolution whose result lies side by side."""
    height, width = size
    image = prepared(Image(height, width, channels, phases=phases, batch=batch), window)
    out = side_by_side(result_image(image, window, filters), beside)
    return conv2d(image, filters, window, scale=True, activation=activation, out=out)


# size, channels, filters, window, phases, batch, activation; what lies beside each other: phases, tiles
CASES = {
    "one channel": ((33, 57), 40, 1, Window(3, 3, padding=1), 1, None, "none", (1, 4)),
    "a batch, phases and tiles": ((33, 57), 40, 1, Window(3, 3, 1, 1), 2, 2, "none", (2, 2)),
    "three channels": ((41, 35), 64, 3, Window(3, 3, padding=1), 1, None, "sigmoid", (1, 4)),
    "eight, of phases": ((64, 50), 32, 8, Window(1, 1), (4, 8), None, "none", (4, 1)),
    "phases that some columns lack": ((21, 37), 20, 5, Window(3, 3, 1, 1), (2, 4), None, "tanh", (4, 1)),
    "sixteen": ((40, 40), 33, 16, Window(3, 3, 1, 2, 2), 1, None, "gelu", (1, 2)),
    "a stride": ((35, 63), 3, 2, Window(3, 3, 2, 1), 2, None, "none", (1, 8)),
    "a wide window": ((40, 31), 64, 1, Window(5, 5, padding=2), 1, None, "none", (1, 2)),
    "no phases to share": ((40, 60), 17, 3, Window(3, 3, 1, 1), (2, 3), None, "none", (1, 8)),
}  # fmt: skip


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name, profile):
    layer = layer_of(*CASES[name])
    check(layer, references.conv2d(layer), profile, np.random.default_rng(0))


def test_any_numbers():
    """Sums that are rounded at every step, and some that leave the range of fp16."""
    layer = layer_of((40, 34), 33, 5, Window(3, 3, padding=1))
    random, given = np.random.default_rng(1), []
    for name in layer.kernel.inputs:
        spec = layer.kernel.specs[name]
        assert spec.arrangement is not None
        if spec.dtype == "fp8":
            some = random.integers(0, 256, spec.arrangement.shape).astype(np.uint8)
            given.append(np.where(some & 0x7F == 0x7F, np.uint8(0x80), some))  # no NaN
        else:
            given.append(to_codes(np.ones(spec.arrangement.shape), spec.dtype))
    got = layer.kernel.compile(V1).run(*given).view(np.uint16)
    want = references.conv2d(layer).exact(V1, *given)
    assert np.array_equal(canonical(got), canonical(want))


def test_zeros_that_others_add_round_a_sum_to_fp16_again():
    """448 * (128 + 18) is the bf16 number 65536, which fp16 does not have: it stays only where no products
    of other pixels follow."""
    layer = layer_of((32, 64), 2, 1, Window(1, 1))
    assert isinstance(layer.out, NarrowImage)
    x, scale = (
        to_codes(np.full(s, n), t) for s, n, t in (((32, 64, 2), 448.0, "fp8"), (1, 1.0, "bf16"))
    )
    w = to_codes(np.array([128.0, 18.0]).reshape(1, 1, 2, 1), "fp8")
    bias = to_codes(np.zeros(1), "bf16")
    got = layer.kernel.compile(V1).run(x, w, scale, bias)
    want = references.conv2d(layer).exact(V1, x, w, scale, bias)
    assert np.array_equal(got.view(np.uint16), want)
    _, behind = layer.out.neighbours()
    numbers = np.where(behind[..., None], np.inf, 65536.0)
    assert np.array_equal(got.astype(np.float32), numbers) and behind.any() and not behind.all()


def replace_narrow(out):
    names = [field.name for field in dataclasses.fields(Image)]
    return Image(**{name: getattr(out, name) for name in names})


BANDS = {
    "a tail, tiles": (((12, 110), 64, 2, (33, 20, 40), (3, 3), 8), (2, 2)),
    "a tail, phases": (((16, 79), 32, 4, (20, 20, 20), (3, 3), 5), (4, 1)),
    "a tail of sixteen": (((24, 36), 16, 4, (9, 40, 20), (3, 3), 16), (2, 1)),
    "phases and tiles": (((20, 40), 32, 2, (40, 20, 5), (3, 3)), (2, 2)),
    "tiles": (((20, 40), 64, 1, (40, 20, 3), (3, 3)), (1, 8)),
    "further windows, a batch": (((24, 58), 64, 1, (40, 20, 8), (1, 5), 0, 2), (1, 4)),
    "rows of five tiles": (((16, 131), 160, 1, (20, 33, 3), (3, 3)), (1, 4)),
    "a tail of several rows": (((24, 36), 32, 2, (9, 40, 20), (3, 3), 4), (2, 4)),
}


@pytest.mark.parametrize("name", BANDS)
def test_convolutions_in_a_row(name):
    case, beside = BANDS[name]
    parts = parts_of(*case)
    last = parts[-1]
    out = side_by_side(last.out, beside)
    scale = "scale" in last.kernel.specs
    parts[-1] = conv2d(
        last.image, out.channels, last.window, scale=scale, activation=last.activation, out=out
    )
    rows = rows_of_steps([part.plan for part in parts if part.plan is not None], V1)
    kernel, random = convolution_chain(parts, rows).kernel, np.random.default_rng(0)
    given = {
        name: codes(random, spec.arrangement.shape, spec.dtype)
        for name, spec in kernel.specs.items() if name != "out" and spec.arrangement is not None
    }  # fmt: skip
    compiled = kernel.compile(V1)
    got, x = compiled.run(*given.values()), given["x"]
    for k, part in enumerate(parts):
        own = [given[f"{n}{k}"] for n in ("w", "scale", "bias") if f"{n}{k}" in given]
        x = references.conv2d(part).exact(V1, x, *own)
    assert np.array_equal(canonical(got.view(x.dtype)), canonical(x))
    assert not compiled.lint().findings


def test_a_quarter_of_the_bytes_leaves():
    """And it takes less time: 8 channels, of 32 pixels where there were 8."""
    image = Image(64, 64, 32, phases=(4, 8))
    out = result_image(image, Window(1, 1), 8, dtype="bf16")
    few, many = (
        conv2d(image, 8, Window(1, 1), out=one).kernel.compile(V1) for one in (narrow(out, 1, 8), out)
    )  # fmt: skip
    assert few.cycles < 0.6 * many.cycles
    assert few.statistics.dma_stored * 4 == many.statistics.dma_stored


def test_as_many_places_as_move_the_fewest_bytes():
    """Filters are there for every place; small images and many channels stay as they are."""

    def beside(height, width, channels, products, filters=128, **more):
        image = Image(height, width, channels, dtype="bf16", **more)
        return getattr(narrow(image, products, filters), "beside", (1, 1))

    assert beside(128, 128, 3, 1) == (1, 8)
    assert beside(128, 128, 8, 1) == (1, 4)
    assert beside(128, 128, 3, 18) == (1, 4)  # as much again in filters
    assert beside(128, 128, 3, 18, filters=40) == (1, 2)
    assert beside(64, 64, 1, 50, filters=60) == (1, 1)
    assert beside(128, 128, 16, 1) == (1, 2)
    assert beside(128, 128, 17, 1) == (1, 1)
    assert beside(8, 8, 1, 1) == (1, 1)
    assert beside(128, 128, 8, 1, phases=(4, 8)) == (4, 1)
    assert beside(128, 128, 4, 1, phases=2) == (2, 4)


@pytest.mark.parametrize("first", [False, True])
def test_places(first):
    """What is stored is found again, and each pixel has a place of its own."""
    random = np.random.default_rng(3)
    for phases, beside, batch in (
        ((1, 1), (1, 4), None),
        ((2, 4), (4, 1), 2),
        ((3, 2), (2, 4), 1),
    ):
        image = NarrowImage(
            13, 37, 3, phases=phases, beside=beside, batch=batch, first=first, dtype="bf16"
        )
        assert read(written(image)) == image
        given = random.integers(1, 60000, image.shape).astype(np.uint16)
        lying = image.arranged(given)
        assert np.count_nonzero(lying) == given.size
        assert np.array_equal(image.restored(lying), given)
        before, behind = image.neighbours()
        for r, q in random.integers(0, (13, 37), (50, 2)):
            down, across = image.phase_count
            tile = (r // down * image.pitch + q // across) // 32
            head = (int(r % down), int(q % across) // beside[0])
            members = image.members(head, tile // beside[1])
            own = [phase == (r % down, q % across) and t == tile for _, phase, t in members]
            assert before[r, q] == (own.index(True) > 0)
            assert behind[r, q] == (own.index(True) < len(own) - 1)


def test_filters_and_numbers_stand_at_every_place():
    plan = conv2d(Image(8, 8, 40), 5, Window(1, 1)).plan
    assert plan is not None
    filters = PlacedFilters(plan.filters, 4)
    given = np.arange(1, 201, dtype=np.uint8).reshape(filters.shape)
    lying = filters.arranged(given)
    for place in range(4):
        columns = lying[0, 0, :40, place * 32 : place * 32 + 32]
        assert np.array_equal(columns[:, place * 8 : place * 8 + 5], given[0, 0])
        assert np.count_nonzero(columns) == given.size
    assert np.array_equal(filters.restored(lying), given)
    numbers = PlacedChannels(5, 4)
    row = numbers.arranged(np.arange(1, 6, dtype=np.uint16)).reshape(4, 8)
    assert np.array_equal(row, np.tile([1, 2, 3, 4, 5, 0, 0, 0], (4, 1)))
    assert np.array_equal(numbers.restored(row.reshape(-1)), np.arange(1, 6))
    for one in (filters, numbers):
        assert read(written(one)) == one


def test_what_cannot_lie_side_by_side_is_refused():
    image = Image(8, 40, 32, phases=(1, 2))
    for wrong in (
        {"beside": (4, 1)},
        {"channels": 9, "beside": (1, 4)},
        {"beside": (1, 3)},
        {"border": (1, 1), "beside": (1, 2)},
    ):
        with pytest.raises(TilewrightError) as caught:
            NarrowImage(**{"height": 8, "width": 40, "channels": 5, "phases": (1, 2), "dtype": "bf16", **wrong})  # fmt: skip
        assert caught.value.code == "TW1670"
    out = NarrowImage(8, 40, 8, phases=(1, 2), dtype="bf16", beside=(1, 4), pitch=image.pitch)
    with pytest.raises(TilewrightError) as caught:
        conv2d(image, 8, Window(1, 1), added=replace(replace_narrow(out), dtype="fp8"), out=out)
    assert caught.value.code == "TW1675"
    with pytest.raises(TilewrightError) as caught:
        PlacedFilters(conv2d(image, 9, Window(1, 1)).filters, 4)
    assert caught.value.code == "TW1673"
    for changed in ({"beside": 4}, {"beside": [1, 3]}):
        with pytest.raises(ValueError):
            read({**written(out), **changed})
