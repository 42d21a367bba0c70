"""Convolutions that pool what they make: the bits of the convolution, and of the largest of its values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from image_checks import codes
from test_convolution_bands import parts_of

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.convolution import conv2d
from tilewright.targets.atlas.kernels.convolution_bands import rows_of_steps
from tilewright.targets.atlas.kernels.convolution_chain import convolution_chain
from tilewright.targets.atlas.kernels.convolution_pooling import IMAGE, Pool
from tilewright.targets.atlas.kernels.images import Image, Window, prepared, result_image
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")
TWO, WITH_EDGES = Window(2, 2, 2), Window(2, 2, 2, (0, 0, 1, 1))
AROUND = Window(3, 3, padding=1)

# size, channels, phases, window of the pooling, and what differs from a 3x3 convolution with relu
CASES = {
    "even": ((16, 32), (32, 32), 2, TWO, {}),
    "pixels left over": ((15, 29), (40, 70), 2, TWO, {"activation": "none", "batch": 2}),
    "whole tiles of them": ((9, 32), (20, 33), 2, TWO, {"pitch": 32, "activation": "silu"}),
    "windows over the edge": ((15, 29), (33, 20), 4, WITH_EDGES, {"factor": 4.0}),
    "other windows": ((17, 21), (20, 40), (4, 6), Window(2, 3, (2, 3)), {"factor": 0.3}),
    "a loop, borders": ((57, 57), (20, 40), 2, TWO, {"border": (1, 1)}),
    "only what is pooled": ((16, 30), (40, 70), 4, TWO, {"kept": False, "activation": "none"}),
    "the lowest number around": ((14, 13), (20, 40), 2, TWO, {"fill": "lowest"}),
}


def largest(pool: Pool, values: np.ndarray, nothing: int) -> np.ndarray:
    """fp8 of the largest value of every window, one by one."""
    window, (rows, columns) = pool.window, (pool.out.height, pool.out.width)
    found = np.zeros((*values.shape[:-3], rows, columns, values.shape[-1]), np.uint16)
    for r, q in np.ndindex(rows, columns):
        best = None
        for i, j in window.taps:
            down, across = r * window.height + i, q * window.width + j
            here = down < values.shape[-3] and across < values.shape[-2]
            pixel = np.full_like(values[..., 0, 0, :], nothing)
            pixel = values[..., down, across, :] if here else pixel
            best = pixel if best is None else arith.extreme(best, pixel, larger=True)
        assert best is not None
        found[..., r, q, :] = best
    return arith.pack(found, 1)


def made(size, channels, phases, window, options):
    """A convolution without a pooling, and with one."""
    around = AROUND
    given = {"activation": "relu", "kept": True, **options}
    kept, fill = given.pop("kept"), given.pop("fill", "zero")
    own = {name: given.pop(name) for name in ("batch", "pitch", "border") if name in given}
    image = Image(size[0], size[1], channels[0], phases=phases, **own)
    image = replace(prepared(image, around), **({"pitch": own["pitch"]} if "pitch" in own else {}))
    out = result_image(image, around, channels[1], fill=fill)
    plain = conv2d(image, channels[1], around, scale=True, out=out, **given)
    pool = Pool(window, result_image(out, window, channels[1], fill=fill), kept)
    return plain, conv2d(image, channels[1], around, scale=True, out=out, pool=pool, **given), pool


def drawn(kernel):
    random = np.random.default_rng(1)
    return {
        name: codes(random, spec.arrangement.shape, spec.dtype)
        for name, spec in kernel.specs.items()
        if not name.startswith("out") and spec.arrangement is not None
    }


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_convolution_and_of_the_largest(name, profile):
    size, channels, phases, window, options = CASES[name]
    plain, layer, pool = made(size, channels, phases, window, options)
    given = drawn(layer.kernel)
    try:
        compiled = layer.kernel.compile(profile)
    except TilewrightError as error:  # the small memory of the first machine
        assert profile == "atlas-v0" and error.code in ("TW1454", "TW1638", "TW1674")
        return
    *image, pooled = _several(compiled.run(*given.values()))
    wide = replace(plain, out=replace(plain.out, dtype="bf16"))
    values = references.conv2d(wide).exact(load_profile(profile), *given.values())
    assert np.array_equal(_bits(pooled), canonical(largest(pool, values, 0)))
    assert len(image) == pool.kept
    if pool.kept:
        assert np.array_equal(_bits(image[0]), canonical(arith.pack(values, 1)))
    assert not compiled.lint().findings


def _several(results):
    return results if isinstance(results, (list, tuple)) else (results,)


def _bits(result):
    return canonical(result.view(np.uint8))


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("size", [(20, 40), (12, 58)])
def test_the_last_convolution_of_bands_pools(size, kept):
    parts = parts_of(size, 32, 2, (40, 20, 33), (3, 3), batch=2)
    last = parts[-1]
    pool = Pool(TWO, result_image(last.out, TWO, 33), kept)
    assert last.plan is not None
    plans = [part.plan for part in parts if part.plan is not None]
    pooling = conv2d(last.image, 33, last.window, scale=True, activation="silu", pool=pool)
    assert pooling.plan is not None
    rows = rows_of_steps([*plans[:-1], pooling.plan], V1)
    assert rows
    kernel = convolution_chain([*parts[:-1], pooling], rows).kernel
    given = drawn(kernel)
    compiled = kernel.compile(V1)
    *image, pooled = _several(compiled.run(*given.values()))
    x = references.conv2d(parts[0]).exact(
        V1, *(given[n] for n in ("x", "w0", "scale0", "bias0") if n in given)
    )
    wide = replace(last, out=replace(last.out, dtype="bf16"))
    own = [given[n] for n in ("w1", "scale1", "bias1") if n in given]
    values = references.conv2d(wide).exact(V1, x, *own)
    assert np.array_equal(_bits(pooled), canonical(largest(pool, values, 0)))
    assert [*kernel.outputs] == ([IMAGE] if kept else []) + ["out"]
    if kept:
        assert np.array_equal(_bits(image[0]), canonical(arith.pack(values, 1)))
    assert not compiled.lint().findings


@pytest.mark.parametrize(
    ("window", "options"),
    [
        (Window(3, 3, 2, 1), {}),  # they overlap
        (Window(2, 2, 2, (1, 1, 0, 0)), {}),  # they do not begin with the image
        (Window(3, 3, 3), {}),  # no multiple of the phases
        (WITH_EDGES, {"activation": "none"}),  # zeros beyond the edge are no numbers of the image
    ],
)
def test_what_cannot_be_pooled_at_once_is_refused(window, options):
    image = prepared(Image(15, 17, 20, phases=2), Window(3, 3, padding=1))
    out = replace(image, channels=20, height=8, width=9, phases=1)
    with pytest.raises(TilewrightError) as caught:
        conv2d(image, 20, Window(3, 3, padding=1), pool=Pool(window, out), **options)
    assert caught.value.code == "TW1675"


def test_convolutions_in_parts_and_around_depthwise_ones_do_not_pool():
    image = prepared(Image(16, 16, 40, phases=2), Window(3, 3, padding=1))
    pool = Pool(TWO, result_image(image, TWO, 40))
    with pytest.raises(TilewrightError):
        conv2d(image, 40, Window(3, 3, padding=1), pool=pool, deep=1)
    around = Window(3, 3, padding=1)
    depthwise = conv2d(image, 40, around, groups=40, diagonal=True, pool=pool)
    with pytest.raises(TilewrightError):
        convolution_chain([conv2d(image, 40, Window(1, 1), out=image), depthwise])
