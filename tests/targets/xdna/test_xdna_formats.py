"""BitNet quantisation and the packings of ternary weights."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.errors import TilewrightError
from tilewright.targets.xdna import weight_formats as formats
from tilewright.targets.xdna.bitnet import (
    BLOCKS_2B,
    LAYERS_2B,
    quantise_activations,
    quantise_weights,
)
from tilewright.targets.xdna.packing import (
    nibbles_of,
    pack_int4,
    pack_ternary,
    unpack_int4,
    unpack_ternary,
)


def ternary(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, shape).astype(np.int8)


@pytest.mark.parametrize("name", formats.FORMATS)
@given(seed=st.integers(0, 1 << 16), rows=st.integers(1, 3), columns=st.integers(1, 3))
def test_packings_round_trip(name: str, seed: int, rows: int, columns: int) -> None:
    weights = ternary(seed, 4 * rows, 256 * columns)
    pack, unpack = formats.FORMATS[name]
    assert (unpack(pack(weights), weights) == weights).all()


def test_bits_per_weight() -> None:
    weights = ternary(1, 16, 256)
    assert formats.pack_tq1_0(weights).nbytes * 8 / weights.size == 1.6875
    assert formats.pack_tq2_0(weights).nbytes * 8 / weights.size == 2.0625
    assert formats.pack_hf(weights).nbytes * 8 / weights.size == 2
    table = formats.pack_tl2(ternary(2, 16, 255))
    bits = (table.magnitudes.nbytes + table.signs.nbytes) * 8
    assert bits / (16 * 255) == pytest.approx(5 / 3, rel=0.001)


def test_layouts_by_example() -> None:
    row = np.array([[-1], [0], [1], [1]], np.int8)
    assert formats.pack_hf(row)[0, 0] == 0 | 1 << 2 | 2 << 4 | 2 << 6
    block = np.zeros(128, np.int8)
    block[0], block[32], block[64], block[96] = 1, -1, 0, 1
    packed = formats.pack_i2s(block, scale=0.5)
    assert packed[0] == 2 << 6 | 0 << 4 | 1 << 2 | 2 and packed.size == 32 + 32
    assert formats.unpack_i2s(packed)[1] == 0.5
    assert formats.pack_tl1(np.array([1, -1, 0, 1], np.int8))[0] == (3 - 1 + 4) << 4 | (0 + 1 + 4)
    assert formats.pack_lsb_first(np.array([-1, 0, 1, -1], np.int8))[0] == 0 | 1 << 2 | 2 << 4
    assert (formats.unpack_lsb_first(np.array([0xFF], np.uint8)) == -1).all()
    # A trit byte: q = 2*81 + 0*27 + 1*9 + 2*3 + 1
    assert formats.pack_trits(np.array([1, -1, 0, 1, 0], np.int8))[0] == (178 * 256 + 242) // 243


@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 99))
def test_triples_fall_back_to_pairs(columns: int, rows: int, seed: int) -> None:
    weights = ternary(seed, rows, columns)
    assert (formats.unpack_tl2(formats.pack_tl2(weights)) == weights).all()


def test_codes_that_mean_nothing_are_refused() -> None:
    three = np.full((1, 4), 0xFF, np.uint8)
    for unpack in (formats.unpack_hf, formats.unpack_i2s_rows, formats.unpack_tl1):
        with pytest.raises(TilewrightError):
            unpack(three if unpack is not formats.unpack_tl1 else three.reshape(-1))
    with pytest.raises(TilewrightError, match="TQ2_0"):
        formats.unpack_tq2_0(np.full((1, 66), 0xFF, np.uint8))
    image = {int(b) for b in formats.pack_trits(ternary(0, 5 * 4000))}
    assert len(image) == 243
    missing = next(b for b in range(256) if b not in image)
    with pytest.raises(TilewrightError, match="no trits"):
        formats.unpack_trits(np.array([missing], np.uint8), 5)
    with pytest.raises(TilewrightError, match="-1, 0 and 1"):
        formats.pack_hf(np.full((4, 4), 2, np.int8))
    with pytest.raises(TilewrightError, match="pad to 256"):
        formats.pack_tq1_0(ternary(0, 100))


@given(st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_on_chip_packings_round_trip(k: int, n: int, low_first: bool, seed: int) -> None:
    weights = ternary(seed, 16 * k, 16 * n)
    packed = pack_ternary(weights, low_first)
    assert packed.size == weights.size // 4
    assert (unpack_ternary(packed, 16 * k, 16 * n, low_first) == weights).all()
    nibbles = np.random.default_rng(seed).integers(-8, 8, (8 * k, 16 * n)).astype(np.int8)
    assert (unpack_int4(pack_int4(nibbles, low_first), 8 * k, 16 * n, low_first) == nibbles).all()


def test_crumbs_lie_as_the_masks_expect() -> None:
    weights = ternary(3, 16, 32)
    x = nibbles_of(pack_ternary(weights)).reshape(2, 2, 8, 8)  # group, step, row, column
    for group in range(2):
        left = weights[:, 16 * group : 16 * group + 8].reshape(2, 8, 8)
        right = weights[:, 16 * group + 8 : 16 * group + 16].reshape(2, 8, 8)
        assert ((x[group] & 3).astype(int) - 1 == left).all()
        assert ((x[group] & 12).astype(int) - 4 == 4 * right.astype(int)).all()
    with pytest.raises(TilewrightError, match="multiples of 16"):
        pack_ternary(ternary(0, 8, 16))


def test_bitnet_quantisation() -> None:
    weights = np.array([[0.4, -0.2, 0.05, -1.0]])
    codes, gamma = quantise_weights(weights)
    assert gamma == pytest.approx(0.4125) and codes.tolist() == [[1, 0, 0, -1]]
    assert quantise_weights(np.zeros((2, 2)))[1] == 0.0
    x = np.array([[127.0, 0.5, 1.5, -2.5], [0.0, 0.0, 0.0, 0.0]], np.float32)
    rows, scale = quantise_activations(x)
    assert rows[0].tolist() == [127, 0, 2, -2]  # ties to even
    assert scale[1, 0] == pytest.approx(127 / 1e-5)
    total = BLOCKS_2B * sum(k * n * many for _, k, n, many in LAYERS_2B)
    assert total / 2**20 == pytest.approx(1987.5) and total / 4 / 2**20 == pytest.approx(
        497, abs=0.2
    )
