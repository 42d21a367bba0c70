"""Products of whole matrices against the definition on single tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.reference import arithmetic as arith
from tilewright.reference import matrix_products
from tilewright.reference.matrix_products import SIDE, product


def tile_by_tile(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    """The definition: one accumulator per tile, through all steps."""
    left, right = (np.pad(x, [(0, -n % SIDE) for n in x.shape]) for x in (a, w))
    out = np.zeros((left.shape[0], right.shape[1]), np.uint16)
    for i in range(0, left.shape[0], SIDE):
        for j in range(0, right.shape[1], SIDE):
            total = None
            for k in range(0, left.shape[1], SIDE):
                tile = left[i : i + SIDE, k : k + SIDE]
                total = arith.matmul(tile, right[k : k + SIDE, j : j + SIDE], total)
            assert total is not None
            out[i : i + SIDE, j : j + SIDE] = total
    return out[: a.shape[0], : w.shape[1]]


def codes(numbers: np.ndarray) -> np.ndarray:
    return arith.bf16_to_fp8(arith.f64_to_bf16(numbers))


def normal(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return codes(random.standard_normal(shape) * 5)


def finite(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Any number: sums of very different magnitudes, many of them inexact in float32."""
    found = random.integers(0, 256, shape).astype(np.uint8)
    found[(found & 0x7F) == arith.FP8_NAN] = 0
    return found


def anything(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return random.integers(0, 256, shape).astype(np.uint8)


def whole_numbers(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Sums are integers: many are ties of fp16 or bf16."""
    return codes(random.integers(-16, 17, shape).astype(float))


def cancelling(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Large terms that meet their negatives, with tiny ones between them."""
    found = finite(random, shape)
    pairs = shape[1] // 2
    found[:, 1 : 2 * pairs : 2] = found[:, 0 : 2 * pairs : 2] ^ 0x80
    found[random.random(shape) < 0.1] = 3
    return found


def extreme(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Largest and smallest numbers, ones and zeros, of both signs."""
    return random.choice(np.array([0, 0x38, 1, 0x7E, 0x80, 0xB8, 0x81, 0xFE], np.uint8), shape)


def sparse(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    found = normal(random, shape)
    found[random.random(shape) < 0.9] = random.choice(np.array([0, 0x80], np.uint8))
    return found


def moderate(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Numbers of all magnitudes up to 16: nothing overflows, much is inexact in float32."""
    return random.integers(0, 0x59, shape).astype(np.uint8) | (
        random.integers(0, 2, shape).astype(np.uint8) << 7
    )


def moderate_cancelling(random: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    found = moderate(random, shape)
    half = shape[1] // 2
    found[:, half : 2 * half] = found[:, :half] ^ 0x80
    found[random.random(shape) < 0.05] ^= 1
    return found


KINDS = [
    normal, finite, anything, whole_numbers, cancelling, extreme, sparse, moderate,
    moderate_cancelling,
]  # fmt: skip


@pytest.mark.parametrize("right", KINDS)
@pytest.mark.parametrize("left", KINDS)
def test_kinds_of_numbers(left, right):
    random = np.random.default_rng(KINDS.index(left) * 10 + KINDS.index(right))
    a, w = left(random, (70, 100)), right(random, (100, 40))
    np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))


@pytest.mark.parametrize("left", KINDS)
def test_single_rows(left, monkeypatch):
    """A row alone is computed another way, in several parts if it is wide."""
    random = np.random.default_rng(KINDS.index(left))
    for right in KINDS:
        a, w = left(random, (1, 100)), right(random, (100, 70))
        np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))
    a, w = left(random, (1, 33)), left(random, (33, 2100))
    monkeypatch.setattr(matrix_products, "CACHED", 1 << 15)
    np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))


def swallowing() -> tuple[np.ndarray, np.ndarray]:
    """Small terms between two large ones that cancel."""
    a = np.full((32, 32), 0x01, np.uint8)  # 2^-9
    a[:, [2, 30]] = 0x78, 0xF8  # 256, -256
    w = np.full((32, 32), 0x08, np.uint8)  # 2^-6
    w[[2, 30]] = 0x78
    return a, w


def test_large_terms_that_cancel_over_small_ones():
    """The order of the sums decides the result: 2^16 swallows what is added before it leaves."""
    a, w = swallowing()
    found = product(a, w)
    np.testing.assert_array_equal(found, tile_by_tile(a, w))
    exact = (arith.fp8_to_f32(a).astype(np.float64) @ arith.fp8_to_f32(w))[0, 0]
    assert arith.bf16_to_f32(found)[0, 0] != exact


def test_several_panels_and_blocks():
    random = np.random.default_rng(1)
    a, w = normal(random, (150, 65)), normal(random, (65, 700))
    np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(*[st.integers(1, 100)] * 3),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    seed=st.integers(0, 2**32 - 1),
)
def test_random_shapes(shape, kinds, seed):
    rows, deep, columns = shape
    random = np.random.default_rng(seed)
    a, w = kinds[0](random, (rows, deep)), kinds[1](random, (deep, columns))
    np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))


def test_doubtful_sums_are_needed(monkeypatch):
    """Without following doubtful sums as defined, some results are wrong: the test can tell."""
    monkeypatch.setattr(matrix_products._Sums, "_follow", lambda self, a, w, result: None)
    a, w = swallowing()
    assert (product(a, w) != tile_by_tile(a, w)).any()
    random = np.random.default_rng(0)
    a, w = moderate_cancelling(random, (500, 32)), moderate(random, (32, 500))
    assert (product(a, w) != tile_by_tile(a, w)).any()


def test_ties_are_to_even_without_following_them(monkeypatch):
    """Sums that float32 holds exactly are never doubtful."""
    monkeypatch.setattr(matrix_products._Sums, "_follow", lambda self, a, w, result: None)
    random = np.random.default_rng(0)
    a, w = whole_numbers(random, (200, 32)), whole_numbers(random, (32, 200))
    np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))


def test_the_margin_holds():
    """The difference between the sums in order and the true ones stays within 10 u |a| |w|."""
    random = np.random.default_rng(2)
    for kind in (finite, cancelling, extreme):
        a, w = (arith.fp8_to_f32(kind(random, (2000, 32))) for _ in range(2))
        true = (a.astype(np.float64) * w).sum(1)
        off = np.abs(matrix_products._in_order(a, w) - true)
        reach = np.linalg.norm(a.astype(np.float64), axis=1) * np.linalg.norm(w, axis=1)
        assert (off <= 10 * 2.0**-24 * reach).all()
        assert off.max() > 0


def test_sums_that_cancel_almost_entirely():
    """Both operands repeat, one with its sign turned: what is left is a few bits of the last."""
    random = np.random.default_rng(4)
    for _ in range(10):
        a, half = moderate_cancelling(random, (64, 32)), moderate(random, (16, 64))
        w = np.concatenate([half, half])
        np.testing.assert_array_equal(product(a, w), tile_by_tile(a, w))
