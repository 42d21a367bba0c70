"""Kernels give the same bits eagerly and compiled, on both profiles, and those are right."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tile_kernels as k

PROFILES = ("atlas-v1", "atlas-v0")
FP8, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.bfloat16


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape) * scale


def rounded(x: np.ndarray, dtype: Any) -> np.ndarray:
    return x.astype(dtype).astype(np.float64)


def same_bits(a: Any, b: Any) -> bool:
    rows = [(a, b)] if not isinstance(a, tuple) else list(zip(a, b, strict=True))
    return all(
        np.array_equal(x.astype(np.float32), y.astype(np.float32), equal_nan=True) for x, y in rows
    )


def run_both(kernel: Any, profile: str, *arrays: np.ndarray) -> Any:
    """The result of the compiled kernel, after comparing it with the eager one."""
    compiled = kernel.compile(*arrays, target=profile)
    result = compiled.run(*arrays)
    assert same_bits(result, kernel.eager(*arrays, profile=profile))
    assert not compiled.lint().errors
    return result


def close(result: Any, expected: np.ndarray, tolerance: float) -> None:
    difference = np.abs(np.asarray(result, np.float64) - expected).max()
    assert result.shape == expected.shape
    assert difference <= tolerance, difference


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(64, 64, 64), (50, 33, 97), (1, 32, 32)])
def test_linear_gelu(profile: str, shape: tuple[int, int, int]) -> None:
    m, inner, n = shape
    a, b, bias = numbers(m, inner), numbers(inner, n), numbers(n)
    x = rounded(a, FP8) @ rounded(b, FP8) + rounded(bias, BF16)
    expected = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    close(run_both(k.linear_gelu, profile, a, b, bias), expected, 0.3)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(64, 96), (33, 70), (5, 31)])
def test_softmax(profile: str, shape: tuple[int, int]) -> None:
    x = numbers(*shape)
    powers = np.exp(rounded(x, BF16))
    close(run_both(k.softmax, profile, x), powers / powers.sum(1, keepdims=True), 0.01)


@pytest.mark.parametrize("profile", PROFILES)
def test_rms_norm(profile: str) -> None:
    x, w = numbers(40, 300), numbers(300)
    scale = np.sqrt((rounded(x, BF16) ** 2).mean(1, keepdims=True) + 1e-5)
    expected = rounded(x, BF16) / scale * rounded(w, BF16)
    close(run_both(k.rms_norm, profile, x, w), expected, 0.15)


def attention(q: np.ndarray, keys: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    scores = np.einsum("hmd,hnd->hmn", rounded(q, FP8), rounded(keys, FP8))
    m, n = scores.shape[1:]
    if causal:
        scores = np.where(np.arange(n) <= np.arange(m)[:, None] + n - m, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hmn,hnd->hmd", p / p.sum(-1, keepdims=True), rounded(v, FP8))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(2, 64, 96, 64), (1, 50, 97, 33)])
def test_flash_attention(profile: str, shape: tuple[int, int, int, int]) -> None:
    heads, m, n, d = shape
    q, keys, v = numbers(heads, m, d, scale=0.2), numbers(heads, n, d), numbers(heads, n, d, seed=1)
    expected = attention(q, keys, v, causal=False)
    close(run_both(k.flash_attention, profile, q, keys, v), expected, 0.05)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("shape", [(1, 64, 320, 32), (1, 70, 97, 32)])
def test_causal_attention(profile: str, shape: tuple[int, int, int, int]) -> None:
    """Masks of tiles on the diagonal, before it and behind it, in loops and outside of them."""
    heads, m, n, d = shape
    q, keys, v = numbers(heads, m, d, scale=0.2), numbers(heads, n, d), numbers(heads, n, d, seed=1)
    expected = attention(q, keys, v, causal=True)
    close(run_both(k.causal_attention, profile, q, keys, v), expected, 0.06)


@pytest.mark.parametrize("profile", PROFILES)
def test_loops_of_the_program_carry_state(profile: str) -> None:
    """Enough keys that steps become a loop, whose state lives on chip."""
    q, keys, v = numbers(1, 32, 32, scale=0.2), numbers(1, 2400, 32), numbers(1, 2400, 32, seed=1)
    compiled = k.flash_attention.compile(q, keys, v, target=profile)
    assert "scf.for" in compiled.ir and "iter_args(%carried" in compiled.ir
    result = run_both(k.flash_attention, profile, q, keys, v)
    close(result, attention(q, keys, v, causal=False), 0.05)


@pytest.mark.parametrize("profile", PROFILES)
def test_accumulators_are_carried(profile: str) -> None:
    """A loop over k continues the sums of the iteration before, bit for bit."""
    a, b = numbers(64, 3000, scale=0.3), numbers(3000, 64, seed=1, scale=0.3)
    compiled = k.large_sum.compile(a, b, target=profile)
    assert "matmul_acc_first" in compiled.ir and "iter_args(%carried" in compiled.ir
    result = run_both(k.large_sum, profile, a, b)
    close(result, rounded(a, FP8) @ rounded(b, FP8) * 0.5, 1.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_transposed_operand(profile: str) -> None:
    a, b = numbers(70, 64), numbers(40, 64)
    expected = rounded(a, FP8) @ rounded(b, FP8).T
    close(run_both(k.matmul_transposed, profile, a, b), expected, 0.3)


@pytest.mark.parametrize("profile", PROFILES)
def test_batches(profile: str) -> None:
    a, b = numbers(3, 32, 40), numbers(3, 40, 50)
    close(run_both(k.batched, profile, a, b), rounded(a, FP8) @ rounded(b, FP8), 0.3)


@pytest.mark.parametrize("profile", PROFILES)
def test_columns_and_ragged_edges(profile: str) -> None:
    """Reductions never see what lies beyond the edge, whichever sign the numbers have."""
    for sign in (5.0, -5.0):
        x = numbers(45, 70) + sign
        exact = rounded(x, BF16)
        total, largest, smallest, rows = run_both(k.columns, profile, x)
        close(total, exact.sum(0), 1.0)
        close(largest, exact.max(0), 0)
        close(smallest, exact.min(0), 0)
        close(rows, exact.min(1, keepdims=True) - exact.sum(1, keepdims=True), 3.0)


@pytest.mark.parametrize("profile", PROFILES)
def test_masks_and_columns(profile: str) -> None:
    x, gain = numbers(40, 50), numbers(40, 1)
    keep = np.random.default_rng(3).random((40, 50)) < 0.5
    expected = np.where(keep, rounded(x, BF16) * rounded(gain, BF16), -2.0)
    close(run_both(k.masked, profile, x, keep, gain), expected, 0.02)


@pytest.mark.parametrize("profile", PROFILES)
def test_rows_that_are_kept(profile: str) -> None:
    """Other rows become +0 whatever they hold; a tile whose rows are all kept is only limited."""
    x = numbers(64, 32, scale=20.0)
    x[:, 0], x[:, 1], x[:, 2] = np.inf, -np.inf, -0.0
    rows = k.EVERY_THIRD[:, None]
    whole = np.where(rows, rounded(x, BF16), 0.0)
    plain, loaded, limited = (np.asarray(y, np.float64) for y in run_both(k.kept, profile, x))
    assert np.array_equal(plain, whole) and np.array_equal(loaded, whole)
    assert np.array_equal(limited, np.where(rows, np.clip(rounded(x, BF16), 0, 6), 0.0))
    for found in (plain, loaded, limited):
        assert not np.signbit(found[~k.EVERY_THIRD]).any()


@pytest.mark.parametrize("profile", PROFILES)
def test_casts_with_scales(profile: str) -> None:
    x = numbers(33, 40) * 20
    small, back = run_both(k.quantised, profile, x)
    expected = np.clip(rounded(x, BF16) * 4, -448, 448).astype(FP8)
    assert np.array_equal(small.view(np.uint8), expected.view(np.uint8))
    close(back, (expected.astype(np.float64) / 4).astype(BF16).astype(np.float64), 0)


@pytest.mark.parametrize("profile", PROFILES)
def test_grouped_heads_and_rows_of_a_matrix(profile: str) -> None:
    q, keys, bias = numbers(4, 32, 32), numbers(2, 64, 32), numbers(4, 64)
    scores = np.einsum("hmd,hnd->hmn", rounded(q, FP8), rounded(keys, FP8).repeat(2, axis=0))
    expected = scores + rounded(bias, BF16)[:, None]
    close(run_both(k.grouped, profile, q, keys, bias), expected, 0.3)


@pytest.mark.parametrize("profile", PROFILES)
def test_elementwise(profile: str) -> None:
    a, b = numbers(32, 40), numbers(32, 40, seed=2)
    x, y = rounded(a, BF16), rounded(b, BF16)
    first = np.sin(x) + np.cos(y) - np.tanh(x * y) / (1.5 + np.abs(y))
    second = np.maximum(np.exp2(x), np.log2(np.abs(y))) + np.minimum(-x, 0.25)
    third = np.sqrt(np.abs(x)) * np.maximum(y, 0) + 1 / (y**3 + 20) + x * x
    sigmoid = 1 / (1 + np.exp(-x))
    fourth = sigmoid + y / (1 + np.exp(-y)) + np.log(np.abs(x) + 1) + 1 / np.sqrt(y * y + 1)
    close(run_both(k.elementwise, profile, a, b), first + second + third + fourth, 0.2)


@pytest.mark.parametrize("profile", PROFILES)
def test_options(profile: str) -> None:
    a, b = numbers(160, 64), numbers(64, 96)
    compiled = k.with_options.compile(a, b, target=profile)
    assert "unit = 1" in compiled.ir and "unit = 0" not in compiled.ir
    close(run_both(k.with_options, profile, a, b), rounded(a, FP8) @ rounded(b, FP8), 0.3)


def test_both_machines_agree() -> None:
    arrays = numbers(33, 40), numbers(40, 20), numbers(20)
    compiled = k.linear_gelu.compile(*arrays)
    native = compiled.run(*arrays, machine="native")
    ticks = compiled.cycles
    assert same_bits(native, compiled.run(*arrays, machine="python"))
    assert compiled.cycles == ticks


def test_calls_compile_once() -> None:
    x = numbers(32, 32)
    first = k.softmax(x)
    assert same_bits(first, k.softmax(x)) and same_bits(first, k.softmax.eager(x))
    assert len([key for key in k.softmax._cache if key[1][0][1] == (32, 32)]) == 1


def test_special_values() -> None:
    """NaN and infinities travel as on the machine."""
    x = np.array([[np.nan, np.inf, -np.inf, 0.0, -0.0, 448, 3e38, 1e-40] * 5] * 3)
    for profile in PROFILES:
        run_both(k.elementwise, profile, x, x)
        run_both(k.quantised, profile, x)
