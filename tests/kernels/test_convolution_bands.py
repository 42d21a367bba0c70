"""Convolutions in a row, some rows at a time: the bits of one after the other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from image_checks import codes

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.check import canonical
from tilewright.targets.atlas.kernels.convolution import conv2d
from tilewright.targets.atlas.kernels.convolution_bands import rows_of_steps
from tilewright.targets.atlas.kernels.convolution_chain import convolution_chain
from tilewright.targets.atlas.kernels.images import Image, Window, prepared
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def parts_of(size, pitch, phases, channels, windows, tail=0, batch=None):
    """Two convolutions, and perhaps one of single pixels."""
    first, second = (Window(side, side, 1, side // 2) for side in windows)
    border = (sum(side // 2 for side in windows), 0) if phases == 1 else (0, 0)  # a row ahead
    image = Image(size[0], size[1], channels[0], phases=phases, batch=batch, border=border)
    image = prepared(image, second)
    image = replace(image, pitch=pitch, spare=2)
    out = replace(conv2d(image, channels[1], first).out, spare=2)
    one = conv2d(image, channels[1], first, scale=True, activation="sigmoid", out=out)
    parts = [one, conv2d(out, channels[2], second, scale=True, activation="silu")]
    if tail:
        end = replace(parts[-1].out, channels=tail, dtype="bf16", border=(0, 0), spare=0)
        parts.append(conv2d(parts[-1].out, tail, Window(1, 1), out=end))
    return parts


CASES = {
    "rows of a tile": ((20, 40), 32, 2, (40, 20, 33), (3, 3)),
    "several rows to a tile": ((24, 36), 16, 4, (9, 40, 20), (3, 3)),
    "rows of two tiles, a tail": ((12, 110), 64, 2, (33, 20, 40), (3, 3), 8),
    "further windows, a batch": ((16, 58), 32, 2, (20, 33, 20), (1, 5), 0, 2),
    "rows of five tiles": ((16, 131), 160, 1, (20, 40, 33), (3, 3)),
    "columns that some phases lack": ((16, 79), 32, 4, (20, 20, 20), (3, 3), 5),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_convolutions_one_after_the_other(name):
    """What lies outside of the image counts as zero between them, although sigmoid(0) is not zero."""
    parts = parts_of(*CASES[name])
    rows = rows_of_steps([part.plan for part in parts if part.plan is not None], V1)
    assert rows
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


def test_what_cannot_go_row_by_row_is_refused():
    parts = parts_of((20, 40), 32, 2, (40, 20, 33), (3, 3))
    with pytest.raises(TilewrightError) as caught:
        convolution_chain(parts, 3)  # of 10
    assert caught.value.code == "TW1675"
    with pytest.raises(TilewrightError):
        convolution_chain([parts[0], *parts], 1)
    plans = [part.plan for part in parts if part.plan is not None]
    assert rows_of_steps(plans, replace(V1, vmem_bytes=128 * 1024)) == 0
