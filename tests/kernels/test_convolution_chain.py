"""Convolutions in a row as one kernel, against one after the other by their references."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tile_machine import Found
from tilewright.targets.atlas.kernels import convolution_chain as chains
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS, conv2d
from tilewright.targets.atlas.kernels.images import (
    SIDE,
    Image,
    Window,
    beyond,
    prepared,
    result_image,
)
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import to_codes

PROFILE = "atlas-v1"
GENERATED = settings(max_examples=4, deadline=None, phases=(Phase.explicit, Phase.generate))


def some_parts(random, image, wide, after, window):
    """A chain over an image: perhaps without its first convolution, or without its last."""

    def options(factor=1.0):
        return {
            "bias": bool(random.random() < 0.7), "scale": bool(random.random() < 0.5),
            "activation": str(random.choice(list(ACTIVATIONS))), "factor": factor,
        }  # fmt: skip

    def added(out):
        """An image beside the last sums, with another border."""
        more = replace(out, border=(2, out.border[1]), fill=str(random.choice(["zero", "lowest"])))
        return {"added": more, "share": float(random.choice([0.5, 2.0, 0.3]))}

    parts, kind = [], int(random.integers(3))
    if kind != 1:
        middle = replace(image, channels=wide)
        parts.append(conv2d(image, wide, Window(1, 1), out=middle, **options(0.5)))
        image = middle
    seen = result_image(image, window, image.channels)
    depthwise = {"groups": image.channels, "diagonal": True, "out": seen}
    sums = added(seen) if kind == 2 and random.random() < 0.5 else {}
    parts.append(conv2d(image, image.channels, window, **depthwise, **sums, **options()))
    if kind != 2:
        out = replace(seen, channels=after, border=(1, image.border[1]), spare=1)
        sums = added(out) if random.random() < 0.5 else {}
        parts.append(conv2d(seen, after, Window(1, 1), out=out, **sums, **options(0.75)))
    return parts


def check(parts, random):
    """Bits and borders as of convolutions one after the other, and no lint findings; bytes that
    move."""
    chain = chains.convolution_chain(parts)
    arrays = {}
    for name in chain.kernel.inputs:
        spec = chain.kernel.specs[name]
        assert spec.arrangement is not None
        numbers = random.integers(-4, 5, spec.arrangement.shape).astype(np.float64)
        arrays[name] = to_codes(numbers, spec.dtype)
    compiled = chain.kernel.compile(PROFILE)
    got = compiled.run(*arrays.values()).view(np.uint8)
    want = arrays["x"]
    for k, part in enumerate(parts):
        rows = [arrays[f"{n}{k}"] for n in ("w", "scale", "bias") if f"{n}{k}" in arrays]
        rows += [arrays["added"]] if k + 1 == len(parts) and "added" in arrays else []
        want = references.conv2d(part, part.unfolded).exact(load_profile(PROFILE), want, *rows)
    assert np.array_equal(canonical(got), canonical(want))
    assert not compiled.lint().findings
    return compiled.statistics.dma_loaded + compiled.statistics.dma_stored


@given(st.integers(0, 1 << 30))
@GENERATED
def test_random_chains(seed):
    random = np.random.default_rng(seed)
    size, step = int(random.choice([3, 5])), int(random.integers(1, 3))
    window = Window(size, size, step, int(random.integers(0, size)))
    height, width = (int(n) for n in random.integers(9, 20, 2))
    image = Image(
        height, width, int(random.integers(1, 50)), phases=step * int(random.integers(1, 3)),
        batch=None if random.random() < 0.7 else 2,
    )  # fmt: skip
    image = prepared(image, window)
    if random.random() < 0.5:  # bands of rows
        image = replace(image, pitch=32)
        image = replace(image, spare=image.spare + max(0, -(-beyond(image, window) // SIDE)))
    parts = some_parts(
        random, image, int(random.integers(1, 70)), int(random.choice([24, 40])), window
    )
    before = chains.HELD
    try:
        for held in (1 << 13, 1 << 14, 1 << 15, 1 << 20):  # as many bands as there may be
            chains.HELD = held
            if _fits(parts):
                check(parts, random)
                break
        else:
            raise AssertionError("no room for a chain of small images")
    finally:
        chains.HELD = before


@pytest.mark.parametrize(
    ("height", "width", "batch", "held"), [(21, 18, None, 1 << 15), (9, 13, 2, 1 << 20)]
)
def test_windows_that_the_host_unfolds_come_first(height, width, batch, held, monkeypatch):
    monkeypatch.setattr(chains, "HELD", held)
    random = np.random.default_rng(height)
    given, first = Image(height, width, 3, batch=batch), Window(3, 3, 2, 1)
    window = Window(3, 3, 1, 1)
    middle = prepared(Image(*first.result(height, width), 40, pitch=32, batch=batch), window)
    middle = replace(middle, pitch=32)
    middle = replace(middle, spare=middle.spare + max(0, -(-beyond(middle, window) // SIDE)))
    seen = result_image(middle, window, 40)
    unfolded = conv2d(given, 40, first, unfolded=True, out=middle, scale=True, activation="silu")
    deep = conv2d(middle, 40, window, groups=40, diagonal=True, out=seen, activation="relu6")
    last = conv2d(seen, 24, Window(1, 1), out=replace(seen, channels=24, border=(1, 1), spare=1))
    assert batch or len(chains._Chain(*chains._roles([unfolded, deep, last])).bands()) > 1
    check([unfolded, deep, last], random)
    check([unfolded, deep], random)


def _parts(rows, wide, step, batch, after):
    """Three convolutions over an image of 20 channels, the last one with a sum."""
    window = Window(3, 3, step, 1)
    image = prepared(Image(rows * step, 28 * step, 20, phases=step, batch=batch), window)
    image = replace(image, pitch=32)
    image = replace(image, spare=image.spare + max(0, -(-beyond(image, window) // SIDE)))
    middle = replace(image, channels=wide)
    seen = result_image(middle, window, wide)
    out = replace(seen, channels=after, border=(1, 1), spare=1)
    return [
        conv2d(image, wide, Window(1, 1), out=middle, scale=True, activation="hardswish"),
        conv2d(middle, wide, window, groups=wide, diagonal=True, out=seen, activation="relu6"),
        conv2d(seen, after, Window(1, 1), out=out, added=replace(seen, channels=after)),
    ]


@pytest.mark.parametrize(
    ("wide", "step", "batch", "after"), [(70, 1, None, 24), (40, 2, 2, 40), (96, 2, None, 24)]
)
def test_what_is_read_again_comes_once_for_every_band(wide, step, batch, after, monkeypatch):
    """Where an image is not on the chip: fewer bytes move, and every bit stays the same."""
    random = np.random.default_rng(wide)
    parts = _parts(32 if batch else 64, wide, step, batch, after)
    plan = chains._Chain(*chains._roles(parts))
    assert plan.before is not None
    whole = plan._bytes(plan._cut(1)) + math.prod(plan._copied(plan.before, plan._cut(1)))
    room = chains.BESIDE + 4 * chains.PHASE + (whole if batch else whole * 3 // 4)
    here, there = Found(frozenset({"x"}), 1 << 20), Found(frozenset(), room)
    assert (
        plan.copied(None)
        == plan.copied(here)
        == plan.copied(replace(there, room=chains.BESIDE))
        == []
    )
    bands = plan.copied(there)
    assert bands and (batch or bands[-1].end == plan.middle.out.rows)
    before = check(parts, random)
    monkeypatch.setattr(chains, "active_found", lambda: there)
    assert check(parts, random) < before


@pytest.mark.parametrize(("step", "batch"), [(1, None), (2, 2)])
@pytest.mark.parametrize("after", [16, 70])
def test_the_last_of_few_channels_follows_at_once(step, batch, after):
    """Nothing is held between the last two; its filters may fill several tiles."""
    random = np.random.default_rng(after)
    parts = _parts(11, 30, step, batch, after)
    plan = chains._Chain(*chains._roles(parts))
    assert plan._single and plan._shapes(plan.bands())[1] is None
    check(parts, random)
    alone = chains._Chain(*chains._roles(parts[1:]))
    assert alone._single and alone.scratch == 0
    check(parts[1:], random)


def _fits(parts):
    try:
        chains.convolution_chain(parts)
        return True
    except TilewrightError as error:
        assert error.code == "TW1674"
        return False


def test_bands_cover_all_rows_and_fit():
    window = Window(3, 3, 2, 1)
    image = prepared(Image(112, 112, 16, phases=2), window)
    image = replace(image, pitch=64)
    middle = replace(image, channels=96)
    seen = result_image(middle, window, 96)
    parts = [
        conv2d(image, 96, Window(1, 1), out=middle),
        conv2d(middle, 96, window, groups=96, diagonal=True, out=seen),
        conv2d(seen, 24, Window(1, 1)),
    ]
    chain = chains.convolution_chain(parts)
    assert chain.scratch <= chains.HELD < middle.pixels * 4 * SIDE
    bands = chains._Chain(*chains._roles(parts)).bands()
    assert [band.first for band in bands[1:]] == [band.end for band in bands[:-1]]
    assert bands[0].first == 0 and bands[-1].end == 56 and len(bands) > 1


def test_what_is_no_chain_is_refused():
    image = Image(8, 8, 8)
    one = conv2d(image, 8, Window(1, 1))
    for parts in ([one], [one, one], [one, one, one]):
        with pytest.raises(TilewrightError) as error:
            chains.convolution_chain(parts)
        assert error.value.code == "TW1675"
