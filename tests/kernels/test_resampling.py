"""Images made of the pixels of others: stored another way, enlarged, cropped, turned."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.images import Image
from tilewright.targets.atlas.kernels.resampling import resample

PROFILES = ("atlas-v0", "atlas-v1")
GENERATED = settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))


def check(layer, profile, seed=0):
    """Every code of the result is the one of its place, without negative zeros; the border holds
    what it should; nothing for lint to find."""
    random = np.random.default_rng(seed)
    image, out = layer.image, layer.out
    codes = random.integers(0, 256, image.shape).astype(np.uint8)
    codes[(codes & 0x7F) == 0x7F] = 0x80  # no NaN, some negative zeros
    compiled = layer.kernel.compile(profile)
    got = compiled.run(codes).view(np.uint8)
    x = image.channels_last(codes)
    rows, columns = np.array(layer.rows), np.array(layer.columns)
    want = np.zeros((*x.shape[:-3], len(rows), len(columns), x.shape[-1]), np.uint8)
    for r, row in enumerate(rows):
        for q, column in enumerate(columns):
            if row >= 0 and column >= 0:
                want[..., r, q, :] = x[..., row, column, :]
    want[want == 0x80] = 0
    assert np.array_equal(got, np.moveaxis(want, -1, -3) if out.first else want)
    assert not compiled.lint().findings


@given(st.integers(0, 1 << 30), st.sampled_from(PROFILES))
@GENERATED
def test_any_pixels(seed, profile):
    random = np.random.default_rng(seed)
    sizes = [int(n) for n in random.integers(1, 12, 4)]
    more = {
        "channels": int(random.integers(1, 70)), "batch": [None, 2][int(random.integers(2))],
        "first": bool(random.integers(2)),
    }  # fmt: skip

    def image(height, width):
        down, across = (int(n) for n in random.integers(1, 4, 2))
        above, beside = (int(n) for n in random.integers(0, 3, 2))
        return Image(height, width, phases=(down, across), border=(above, beside), spare=1, **more)

    given, out = image(*sizes[:2]), image(*sizes[2:])
    rows = random.integers(-1, sizes[0], sizes[2]).tolist()
    columns = random.integers(-1, sizes[1], sizes[3]).tolist()
    check(resample(given, out, rows, columns), profile, seed)


@pytest.mark.parametrize(("size", "before", "after"), [(56, 1, 2), (50, 1, 4), (28, 2, 1)])
def test_stored_another_way(size, before, after):
    """Rows that are alike are a loop, where there are many of them."""
    given = Image(size, size, 40, phases=before, border=(1, 1), spare=1)
    out = Image(size, size, 40, phases=after, border=(1, 2), spare=1, fill="lowest")
    layer = resample(given, out)
    assert (layer.loop[1] > 1) == (size != 28)
    check(layer, "atlas-v1", size)


def test_enlarged():
    given = Image(25, 56, 33, border=(1, 1), spare=1, batch=2, first=True)
    out = Image(50, 112, 33, phases=2, border=(1, 1), spare=1, batch=2, first=True)
    layer = resample(given, out, [k // 2 for k in range(50)], [k // 2 for k in range(112)])
    assert layer.loop[1] > 1
    check(layer, "atlas-v1")


@pytest.mark.parametrize(
    ("rows", "columns", "out"),
    [
        (range(8), range(9), Image(8, 8, 4)),
        ([8] * 8, range(8), Image(8, 8, 4)),
        ([-2] * 8, range(8), Image(8, 8, 4)),
        (range(8), range(8), Image(8, 8, 5)),
    ],
)
def test_what_cannot_be(rows, columns, out):
    with pytest.raises(TilewrightError) as error:
        resample(Image(8, 8, 4), out, rows, columns)
    assert error.value.code == "TW1677"
