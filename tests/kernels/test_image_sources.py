"""Convolutions that read several images as one, side by side and enlarged."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from image_checks import check

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels import arrangements
from tilewright.targets.atlas.kernels import references_images as references
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS, conv2d
from tilewright.targets.atlas.kernels.image_operands import JoinedFilters
from tilewright.targets.atlas.kernels.image_sources import Source, joined
from tilewright.targets.atlas.kernels.images import Image, Window, prepared

PROFILES = ("atlas-v0", "atlas-v1")
GENERATED = settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))


def some_sources(random, window, count):
    """Images of any channels and enlargement that are seen in one size."""
    phases = tuple(int(n) for n in 2 ** random.integers(0, 3, 2))
    phases = tuple(n * s for n, s in zip(phases, window.steps, strict=True))
    least = tuple(int(n) for n in random.integers(1, 5, 2))
    batch = None if random.random() < 0.7 else 2
    seen = Image(4 * least[0] + 4, 4 * least[1] + 4, 1, phases=phases, batch=batch)
    seen = replace(prepared(seen, window), spare=3)
    found = []
    for _ in range(count):
        down, across = (int(random.choice([k for k in (1, 2, 4) if n % k == 0])) for n in phases)
        image = replace(
            seen, height=seen.height // down, width=seen.width // across,
            phases=(phases[0] // down, phases[1] // across), channels=int(random.integers(1, 70)),
        )  # fmt: skip
        found.append(Source(image, (down, across)))
    return found


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_images_side_by_side(seed, profile):
    """Every bit as of the images enlarged and joined before."""
    random = np.random.default_rng(seed)
    size = int(random.integers(1, 4))
    top, left, bottom, right = (int(n) for n in random.integers(0, 2, 4))
    window = Window(size, size, int(random.choice([1, 1, 2])), (top, left, bottom, right))
    sources = some_sources(random, window, int(random.integers(1, 4)))
    layer = conv2d(
        joined(sources), int(random.integers(1, 80)), window, bias=bool(random.random() < 0.5),
        scale=bool(random.random() < 0.5), activation=str(random.choice(list(ACTIVATIONS))),
        sources=sources,
    )  # fmt: skip
    check(layer, references.conv2d(layer), profile, random)


@pytest.mark.parametrize("batch", [None, 3])
def test_an_enlarged_image_beside_another(batch):
    """As in networks that halve an image and double it again."""
    window = Window(3, 3, padding=1)
    small = prepared(Image(7, 9, 40, phases=(1, 2), batch=batch), window)
    large = replace(small, height=14, width=18, channels=19, phases=(2, 4))
    sources = [Source(large), Source(small, (2, 2))]
    layer = conv2d(joined(sources), 33, window, activation="relu", scale=True, sources=sources)
    check(layer, references.conv2d(layer), "atlas-v1", np.random.default_rng(5))


def test_what_does_not_go_together():
    window = Window(3, 3, padding=1)
    small = prepared(Image(7, 9, 40), window)
    with pytest.raises(TilewrightError, match="TW1672"):
        joined([Source(small), Source(replace(small, height=8))])
    with pytest.raises(TilewrightError, match="TW1675"):
        conv2d(small, 8, window, sources=[Source(small), Source(small)])
    with pytest.raises(TilewrightError, match="TW1675"):
        sources = [Source(small), Source(small)]
        conv2d(joined(sources), 80, window, groups=2, sources=sources)
    with pytest.raises(TilewrightError, match="TW1673"):
        JoinedFilters(3, 3, 40, 8, parts=(32, 9))


def test_filters_come_back():
    filters = JoinedFilters(2, 3, 60, 9, parts=(19, 40, 1))
    assert filters.stored == (2, 3, 128, 32)
    given_ = np.arange(2 * 3 * 60 * 9, dtype=np.uint16).reshape(2, 3, 60, 9)
    assert np.array_equal(filters.restored(filters.arranged(given_)), given_)
    assert arrangements.read(arrangements.written(filters)) == filters
    with pytest.raises(ValueError, match="cannot be"):
        arrangements.read({**arrangements.written(filters), "parts": [19, 40]})
