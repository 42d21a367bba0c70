"""Windows over rows: tiles that start between tiles."""

import numpy as np
import pytest

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.kernels.check import check_one
from tilewright.kernels.convolution import conv2d
from tilewright.kernels.registry import entry

PROFILES = ("atlas-v0", "atlas-v1")


def sizes(height, width, channels, filters, window):
    return {
        "H": height, "W": width, "C": channels, "N": filters, "KH": window[0], "KW": window[1],
        "R": height - window[0] + 1, "Q": width - window[1] + 1,
    }  # fmt: skip


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "shape",
    [
        sizes(3, 34, 32, 32, (1, 3)),
        sizes(4, 34, 3, 16, (3, 3)),
        sizes(6, 68, 40, 50, (5, 5)),
        sizes(2, 33, 64, 32, (2, 2)),
        sizes(9, 40, 32, 64, (1, 1)),
    ],
    ids=str,
)
def test_against_the_reference(shape, profile):
    assert check_one(entry("conv2d"), profile, "fixed", shape, 1).problem is None


def test_an_image_row_is_read_once():
    """All taps of a window share what is in VMEM."""
    compiled = conv2d.compile("atlas-v1", x=(3, 34, 32), w=(3, 3, 32, 32), out=(1, 32, 32))
    x, w = np.zeros((3, 34, 32), np.uint8), np.zeros((3, 3, 32, 32), np.uint8)
    compiled.run(x, w)
    assert compiled.statistics.dma_loaded == 3 * 34 * 32 + 9 * 1024


def test_a_window_must_stay_inside():
    with pytest.raises(TilewrightError) as caught:
        conv2d.compile("atlas-v1", x=(3, 64, 32), w=(1, 3, 32, 32), out=(3, 64, 32))
    assert caught.value.code == "TW1604"


def test_only_rows_of_panels_can_be_shifted():
    @tw.kernel
    def bad(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(out.M):
            out[m, :] = x[m + 1, :]

    with pytest.raises(TilewrightError, match="cannot be read between tiles") as caught:
        bad.compile("atlas-v1", x=(64, 32))
    assert caught.value.code == "TW1639"
