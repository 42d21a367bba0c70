"""What each library kernel must compute: the machine's result bit for bit, and the ideal one.

`exact` follows the arithmetic of a profile on whole matrices of bit patterns (bf16 as uint16,
fp8 as uint8), in the steps that references of whole models have, and shares no code with the kernels. `ideal` works in float64 and also returns how
far a correct bf16 kernel may be from it, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.reference.matrix_products import product
from tilewright.targets.atlas.model.kernel_options import NormOptions
from tilewright.targets.atlas.model.references import norm
from tilewright.targets.atlas.model.references_steps import UNARY, constant, recip, row_total
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE

U = 2.0**-8  # largest relative error of one rounding to bf16
U8 = 2.0**-4  # and to fp8
TINY = 1e-30
EPSILON = 1e-6
LEAST = 1e-30

Codes = np.ndarray
Exact = Callable[..., Any]  # (profile, *codes) -> codes, a tuple of them for several results
Ideal = Callable[..., tuple[np.ndarray, np.ndarray]]  # (*values) -> value, largest error


@dataclass(frozen=True)
class Reference:
    """Both definitions of one operator."""

    exact: Exact
    ideal: Ideal | None = None


# --- the machine's results ----------------------------------------------------------------


def halves(x: Codes) -> Codes:
    return np.repeat(x, 16, axis=1)


def rope(profile: Profile, x: Codes, cosines: Codes, sines: Codes) -> Codes:
    half = x.shape[1] // 2
    low, high = x[:, :half], x[:, half:]
    first = arith.subtract(
        arith.multiply(low, cosines[:, :half]), arith.multiply(high, sines[:, :half])
    )
    second = arith.add(
        arith.multiply(high, cosines[:, half:]), arith.multiply(low, sines[:, half:])
    )
    return np.concatenate([first, second], axis=1)


def rope_angles(profile: Profile, x: Codes, angles: Codes) -> Codes:
    cosines, sines = UNARY["cos"](angles), UNARY["sin"](angles)
    return rope(profile, x, np.tile(cosines, 2), np.tile(sines, 2))


def quantise_rows(profile: Profile, x: Codes) -> tuple[Codes, Codes]:
    size = arith.extreme(x, arith.multiply(x, constant(-1.0)), larger=True)
    largest = arith.extreme(row_total(profile, size, "max"), constant(LEAST), larger=True)
    step = arith.multiply(largest, constant(1 / 448))
    return arith.pack(arith.multiply(x, recip(step)), 1), halves(step)


def mini_block(profile: Profile, x: Codes, b: Codes, residual: Codes) -> Codes:
    options = NormOptions(
        kind="rms", epsilon=EPSILON, out="fp8", factor=1.0, weight=False, bias=False,
        guarded=False, passes=False, stacked=False,
    )  # fmt: skip
    return arith.add(product(norm(profile, options, {"x": x})["out"], b), residual)


# --- ideal results and how far a kernel may be from them -----------------------------------


def _relative(function: Callable[..., np.ndarray], roundings: float) -> Ideal:
    """An ideal whose kernel rounds so many times, each relative to the result."""

    def ideal(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(all="ignore"):
            result = function(*values)
        return result, roundings * U * np.abs(result) + TINY

    return ideal


def _tiles(count: int) -> int:
    return -(-count // SIDE)


def _gelu64(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _silu64(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def ideal_gelu(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 + tanh cancels for negative x, so the error is relative to x."""
    return _gelu64(x), 6 * U * np.abs(x) + TINY


def ideal_softmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rounding x - max by u changes exp of it by u times its size."""
    away = x - x.max(1, keepdims=True)
    powers = np.exp(away)
    total = powers.sum(1, keepdims=True)
    growth = 1 + np.abs(away)
    summed = (powers * growth).sum(1, keepdims=True) / total
    result = powers / total
    return result, 1.1 * U * result * (growth + summed + _tiles(x.shape[1]) + 4) + TINY


def ideal_rms_norm(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    result = x / np.sqrt((x**2).mean(1, keepdims=True) + EPSILON)
    return result, U * (_tiles(x.shape[1]) + 8) * np.abs(result) + TINY


def ideal_layer_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    tiles = _tiles(x.shape[1])
    centred = x - x.mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True) + EPSILON
    sigma = np.sqrt(variance)
    off = U * np.abs(centred) + U * (tiles + 4) * np.abs(x).mean(1, keepdims=True)
    spread = 2 * (np.abs(centred) * off).mean(1, keepdims=True) / variance + (tiles + 6) * U
    normal = centred / sigma
    error = off / sigma + np.abs(normal) * (spread / 2 + 3 * U)
    result = normal * weight + bias
    return result, 1.2 * (np.abs(weight) * error + U * (np.abs(normal * weight) + np.abs(result)))


def ideal_rope(
    x: np.ndarray, cosines: np.ndarray, sines: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    half = x.shape[1] // 2
    turned = np.concatenate([-x[:, half:], x[:, :half]], axis=1)
    size = np.abs(x * cosines) + np.abs(turned * sines)
    return x * cosines + turned * sines, 2.1 * U * size + TINY


def ideal_rope_angles(x: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value, error = ideal_rope(x, np.tile(np.cos(angles), 2), np.tile(np.sin(angles), 2))
    return value, 2 * error


def _ideal_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every 32 columns the sum is rounded to fp16 and bf16; it stays below sum |a| |b|."""
    size = np.abs(a) @ np.abs(b)
    return a @ b, 1.3 * U * _tiles(a.shape[-1]) * size + TINY


def _after(product: Ideal, outer: Callable, steepness: float, roundings: float) -> Ideal:
    """A function of a product: its error times the function's steepness, plus own roundings."""

    def ideal(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner, error = product(*values)
        return outer(inner), steepness * error + roundings * U * np.abs(inner) + TINY

    return ideal


def _ideal_linear(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    product, error = _ideal_product(a, b)
    result = product + bias
    return result, error + U * (np.abs(result) + error)


def _ideal_continued(
    a: np.ndarray, b: np.ndarray, total: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sum so far is rounded to fp16 too."""
    product, error = _ideal_product(a, b)
    return product + total, error + 1.3 * U * (np.abs(product) + 2 * np.abs(total) + error)


def _ideal_scaled(
    a: np.ndarray, b: np.ndarray, scale: np.ndarray, bias: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    product, error = _ideal_product(a, b)
    scaled = product * scale
    error = error * np.abs(scale) + U * (np.abs(scaled) + error * np.abs(scale))
    return scaled + bias, error + U * (np.abs(scaled + bias) + error)


def _ideal_quantise(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The reciprocal and the product round to bf16, then fp8 has steps of up to 32 at 448."""
    step = np.maximum(np.abs(x).max(1, keepdims=True), LEAST) / 448
    return to_fp8(x / step, 4 * U * np.abs(x / step))


def _ideal_residual(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    linear, error = _ideal_linear(a, b, bias)
    total = linear + residual
    return total, error + U * (np.abs(total) + error)


def _ideal_sum(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = np.abs(x).sum(1, keepdims=True)
    error = (_tiles(x.shape[1]) + 2) * U * size + TINY
    return np.repeat(x.sum(1, keepdims=True), 16, 1), np.repeat(error, 16, 1)


def _ideal_mean(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total, error = _ideal_sum(x)
    return total / x.shape[1], 2 * error / x.shape[1]


def to_fp8(value: np.ndarray, error: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    clipped = np.clip(value, -arith.FP8_MAX, arith.FP8_MAX)
    return clipped, error + U8 * (np.abs(clipped) + error) + 2.0**-10


def _ideal_mini_block(
    x: np.ndarray, b: np.ndarray, residual: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    normal, spread = to_fp8(*ideal_rms_norm(x))
    product, error = _ideal_product(normal, b)
    error = error * (1 + U8) + spread @ np.abs(b)
    result = product + residual
    return result, error + U * (np.abs(result) + error)


def _cast_ideal(ideal: Ideal) -> Ideal:
    return lambda *values: to_fp8(*ideal(*values))


_same = _relative(lambda a: a, 0)
_sum = _relative(np.add, 1)
_times = _relative(np.multiply, 1)

# Of kernels whose exact references are those of records (`record_entries.py`).
IDEALS: dict[str, Ideal] = {
    "elementwise_add": _sum,
    "elementwise_sub": _relative(np.subtract, 1),
    "elementwise_mul": _times,
    "elementwise_div": _relative(np.divide, 2.1),
    "elementwise_max": _relative(np.maximum, 0),
    "elementwise_min": _relative(np.minimum, 0),
    "silu": _relative(_silu64, 5),
    "silu_gate": _relative(lambda g, up: _silu64(g) * up, 6),
    "gelu_tanh": ideal_gelu,
    "cos": _relative(np.cos, 1),
    "exp": _relative(np.exp, 1),
    "tanh": _relative(np.tanh, 1),
    "sigmoid": _relative(lambda x: 1 / (1 + np.exp(-x)), 4),
    "relu": _relative(lambda x: np.maximum(x, 0), 0),
    "norm_scale": _relative(lambda v, m: m / np.sqrt(v), 3.1),
    "vector_arithmetic": _relative(lambda x: x**5, 9),
    "bias_add_cast": _cast_ideal(_sum),
    "softmax": ideal_softmax,
    "rms_norm": ideal_rms_norm,
    "rms_norm_weight": lambda x, w: (
        ideal_rms_norm(x)[0] * w,
        ideal_rms_norm(x)[1] * np.abs(w) * 1.3 + TINY,
    ),
    "layer_norm": ideal_layer_norm,
    "matmul": _ideal_product,
    "matmul_bias": _ideal_linear,
    "linear": _ideal_linear,
    "linear_residual": _ideal_residual,
    "linear_gelu": _after(_ideal_linear, _gelu64, 1.2, 6),
    "linear_silu": _after(_ideal_linear, _silu64, 1.1, 5),
    "matmul_requant": _cast_ideal(_ideal_product),
    "linear_scaled": _ideal_scaled,
    "linear_requant": _cast_ideal(_ideal_scaled),
    "add_row": _sum,
    "mul_row": _times,
    "add_column": _sum,
    "mul_column": _times,
    "reduction_sum": _ideal_sum,
    "reduction_max": _relative(lambda x: np.repeat(x.max(1, keepdims=True), 16, 1), 0),
    "reduction_mean": _ideal_mean,
    "requant": _cast_ideal(_same),
    "requant_channels": _cast_ideal(_times),
    "requant_rows": _cast_ideal(_times),
    "matmul_transposed": lambda a, b: _ideal_product(a, b.T),
    "batch_matmul": _ideal_product,
    "gemm": _ideal_product,
}


REFERENCES: dict[str, Reference] = {
    "rope": Reference(rope, ideal_rope),
    "rope_angles": Reference(rope_angles, ideal_rope_angles),
    "quantise_rows": Reference(quantise_rows, _ideal_quantise),
    "dequant_channels": Reference(
        lambda profile, x, step: arith.multiply(arith.unpack(x, 1), step[None]), _times
    ),
    "dequant": Reference(lambda profile, x: arith.unpack(x, 1), _same),
    "transpose": Reference(
        lambda profile, x: np.ascontiguousarray(x.T), _relative(np.transpose, 0)
    ),
    "matmul_acc_first": Reference(lambda profile, a, b: arith.matmul(a, b), _ideal_product),
    "matmul_acc_mid": Reference(
        lambda profile, a, b, total: arith.matmul(a, b, total), _ideal_continued
    ),
    "matmul_acc_last": Reference(
        lambda profile, a, b, total: arith.matmul(a, b, total), _ideal_continued
    ),
    "mini_block": Reference(mini_block, _ideal_mini_block),
}
