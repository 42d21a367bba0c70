"""What each library kernel must compute: the machine's result bit for bit, and the ideal one.

`exact` follows the arithmetic of a profile on whole matrices of bit patterns (bf16 as uint16,
fp8 as uint8) and shares no code with the kernels. `ideal` works in float64 and also returns how
far a correct bf16 kernel may be from it, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.reference import arithmetic as arith
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


# --- building blocks ----------------------------------------------------------------------


def constant(value: float) -> np.ndarray:
    return arith.f64_to_bf16(np.array([[float(value)]]))


def function(name: str) -> Callable[[Codes], Codes]:
    return lambda x: arith.unary_table(f"v{name}")[x]


_exp, _recip, _sqrt, _tanh, _cos = map(function, ("exp", "recip", "sqrt", "tanh", "cos"))


def _padded(x: Codes, multiple: int = SIDE) -> Codes:
    """Zeros added until both sizes are whole tiles."""
    rows, columns = (-n % multiple for n in x.shape[-2:])
    return np.pad(x, [(0, 0)] * (x.ndim - 2) + [(0, rows), (0, columns)])


def row_total(profile: Profile, x: Codes, kind: str) -> Codes:
    """One number per row: tiles are combined from left to right, then the columns of the last."""
    if kind == "sum":
        fill, combine = 0, arith.add
    else:
        fill = int(arith.f64_to_bf16(np.array([-3.0e38]))[0])
        combine = lambda a, b: arith.extreme(a, b, larger=True)
    width = -(-x.shape[1] // SIDE) * SIDE
    wide = np.full((x.shape[0], width), fill, np.uint16)
    wide[:, : x.shape[1]] = x
    total = wide[:, :SIDE]
    for start in range(SIDE, width, SIDE):
        total = combine(total, wide[:, start : start + SIDE])

    def across(part: Codes) -> Codes:
        if kind == "sum":
            return arith.row_sum(part, profile.row_sum)
        return arith.reduce_extreme(part, 1, larger=True)

    if profile.tile_registers == 2:
        return across(total)[:, :1]
    half = SIDE // 2
    return combine(across(total[:, :half])[:, :1], across(total[:, half:])[:, :1])


def product(a: Codes, b: Codes) -> Codes:
    """fp8 @ fp8, the accumulator rounded after every 32 columns of a."""
    left, right = _padded(a), _padded(b)
    out = np.zeros((left.shape[0], right.shape[1]), np.uint16)
    for i in range(0, left.shape[0], SIDE):
        for j in range(0, right.shape[1], SIDE):
            total = None
            for k in range(0, left.shape[1], SIDE):
                tile = left[i : i + SIDE, k : k + SIDE]
                total = arith.matmul(tile, right[k : k + SIDE, j : j + SIDE], total)
            assert total is not None
            out[i : i + SIDE, j : j + SIDE] = total
    return out[: a.shape[0], : b.shape[1]]


def sigmoid(x: Codes) -> Codes:
    return _recip(arith.add(constant(1.0), _exp(arith.multiply(x, constant(-1.0)))))


def silu(x: Codes) -> Codes:
    return arith.multiply(x, sigmoid(x))


def gelu(x: Codes) -> Codes:
    cube = arith.multiply(arith.multiply(x, x), x)
    inner = arith.add(x, arith.multiply(cube, constant(0.044715)))
    bent = _tanh(arith.multiply(inner, constant(math.sqrt(2 / math.pi))))
    return arith.multiply(arith.multiply(x, constant(0.5)), arith.add(constant(1.0), bent))


def _rms_scale(profile: Profile, x: Codes) -> Codes:
    squares = row_total(profile, arith.multiply(x, x), "sum")
    mean = arith.multiply(squares, constant(1 / x.shape[1]))
    return _recip(_sqrt(arith.add(mean, constant(EPSILON))))


def halves(x: Codes) -> Codes:
    return np.repeat(x, 16, axis=1)


# --- the machine's results ----------------------------------------------------------------


def softmax(profile: Profile, x: Codes) -> Codes:
    powers = _exp(arith.subtract(x, row_total(profile, x, "max")))
    return arith.multiply(powers, _recip(row_total(profile, powers, "sum")))


def rms_norm(profile: Profile, x: Codes) -> Codes:
    return arith.multiply(x, _rms_scale(profile, x))


def layer_norm(profile: Profile, x: Codes, weight: Codes, bias: Codes) -> Codes:
    share = constant(1 / x.shape[1])
    mean = arith.multiply(row_total(profile, x, "sum"), share)
    centred = arith.subtract(x, mean)
    spread = row_total(profile, arith.multiply(centred, centred), "sum")
    variance = arith.add(arith.multiply(spread, share), constant(EPSILON))
    normal = arith.multiply(centred, _recip(_sqrt(variance)))
    return arith.add(arith.multiply(normal, weight[None]), bias[None])


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
    cosines, sines = _cos(angles), function("sin")(angles)
    return rope(profile, x, np.tile(cosines, 2), np.tile(sines, 2))


def quantise_rows(profile: Profile, x: Codes) -> tuple[Codes, Codes]:
    size = arith.extreme(x, arith.multiply(x, constant(-1.0)), larger=True)
    largest = arith.extreme(row_total(profile, size, "max"), constant(LEAST), larger=True)
    step = arith.multiply(largest, constant(1 / 448))
    return arith.pack(arith.multiply(x, _recip(step)), 1), halves(step)


def mini_block(profile: Profile, x: Codes, b: Codes, residual: Codes) -> Codes:
    return arith.add(product(arith.pack(rms_norm(profile, x), 1), b), residual)


def vector_arithmetic(profile: Profile, x: Codes) -> Codes:
    once = arith.subtract(arith.add(x, x), x)
    cube = arith.multiply(arith.multiply(x, x), x)
    return arith.multiply(arith.multiply(once, once), cube)


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


def _elementwise(operation: Exact, function: Callable, roundings: float) -> Reference:
    return Reference(lambda profile, *codes: operation(*codes), _relative(function, roundings))


def _cast_ideal(ideal: Ideal) -> Ideal:
    return lambda *values: to_fp8(*ideal(*values))


_same = _relative(lambda a: a, 0)
_sum = _relative(np.add, 1)
_times = _relative(np.multiply, 1)

REFERENCES: dict[str, Reference] = {
    "elementwise_add": _elementwise(arith.add, np.add, 1),
    "elementwise_sub": _elementwise(arith.subtract, np.subtract, 1),
    "elementwise_mul": _elementwise(arith.multiply, np.multiply, 1),
    "elementwise_div": _elementwise(lambda a, b: arith.multiply(a, _recip(b)), np.divide, 2.1),
    "elementwise_max": _elementwise(lambda a, b: arith.extreme(a, b, larger=True), np.maximum, 0),
    "elementwise_min": _elementwise(lambda a, b: arith.extreme(a, b, larger=False), np.minimum, 0),
    "add_row": _elementwise(lambda a, row: arith.add(a, row[None]), np.add, 1),
    "mul_row": _elementwise(lambda a, row: arith.multiply(a, row[None]), np.multiply, 1),
    "add_column": _elementwise(arith.add, np.add, 1),
    "mul_column": _elementwise(arith.multiply, np.multiply, 1),
    "silu": _elementwise(silu, _silu64, 5),
    "silu_gate": _elementwise(
        lambda g, up: arith.multiply(silu(g), up), lambda g, up: _silu64(g) * up, 6
    ),
    "gelu_tanh": Reference(lambda profile, x: gelu(x), ideal_gelu),
    "cos": _elementwise(_cos, np.cos, 1),
    "exp": _elementwise(_exp, np.exp, 1),
    "tanh": _elementwise(_tanh, np.tanh, 1),
    "sigmoid": _elementwise(sigmoid, lambda x: 1 / (1 + np.exp(-x)), 4),
    "relu": _elementwise(arith.relu, lambda x: np.maximum(x, 0), 0),
    "norm_scale": _elementwise(
        lambda v, m: arith.multiply(m, _recip(_sqrt(v))), lambda v, m: m / np.sqrt(v), 3.1
    ),
    "vector_arithmetic": Reference(vector_arithmetic, _relative(lambda x: x**5, 9)),
    "rope": Reference(rope, ideal_rope),
    "rope_angles": Reference(rope_angles, ideal_rope_angles),
    "reduction_sum": Reference(lambda profile, x: halves(row_total(profile, x, "sum")), _ideal_sum),
    "reduction_max": Reference(
        lambda profile, x: halves(row_total(profile, x, "max")),
        _relative(lambda x: np.repeat(x.max(1, keepdims=True), 16, 1), 0),
    ),
    "reduction_mean": Reference(
        lambda profile, x: halves(
            arith.multiply(row_total(profile, x, "sum"), constant(1 / x.shape[1]))
        ),
        _ideal_mean,
    ),
    "softmax": Reference(softmax, ideal_softmax),
    "rms_norm": Reference(rms_norm, ideal_rms_norm),
    "rms_norm_weight": Reference(
        lambda profile, x, w: arith.multiply(rms_norm(profile, x), w[None]),
        lambda x, w: (
            ideal_rms_norm(x)[0] * w,
            ideal_rms_norm(x)[1] * np.abs(w) * 1.3 + TINY,
        ),
    ),
    "layer_norm": Reference(layer_norm, ideal_layer_norm),
    "requant": Reference(lambda profile, x: arith.pack(x, 1), _cast_ideal(_same)),
    "requant_channels": Reference(
        lambda profile, x, scale: arith.pack(arith.multiply(x, scale[None]), 1), _cast_ideal(_times)
    ),
    "requant_rows": Reference(
        lambda profile, x, scale: arith.pack(arith.multiply(x, scale), 1), _cast_ideal(_times)
    ),
    "quantise_rows": Reference(quantise_rows, _ideal_quantise),
    "dequant_channels": Reference(
        lambda profile, x, step: arith.multiply(arith.unpack(x, 1), step[None]), _times
    ),
    "dequant": Reference(lambda profile, x: arith.unpack(x, 1), _same),
    "bias_add_cast": Reference(
        lambda profile, x, bias: arith.pack(arith.add(x, bias), 1), _cast_ideal(_sum)
    ),
    "transpose": Reference(
        lambda profile, x: np.ascontiguousarray(x.T), _relative(np.transpose, 0)
    ),
    "matmul": Reference(lambda profile, a, b: product(a, b), _ideal_product),
    "matmul_transposed": Reference(
        lambda profile, a, b: product(a, b.T), lambda a, b: _ideal_product(a, b.T)
    ),
    "batch_matmul": Reference(
        lambda profile, a, b: np.stack([product(x, y) for x, y in zip(a, b, strict=True)]),
        _ideal_product,
    ),
    "matmul_bias": Reference(
        lambda profile, a, b, bias: arith.add(product(a, b), bias), _ideal_linear
    ),
    "linear": Reference(
        lambda profile, a, b, bias: arith.add(product(a, b), bias[None]), _ideal_linear
    ),
    "linear_residual": Reference(
        lambda profile, a, b, bias, residual: arith.add(
            arith.add(product(a, b), bias[None]), residual
        ),
        lambda a, b, bias, residual: _ideal_residual(a, b, bias, residual),
    ),
    "linear_gelu": Reference(
        lambda profile, a, b, bias: gelu(arith.add(product(a, b), bias[None])),
        _after(_ideal_linear, _gelu64, 1.2, 6),
    ),
    "linear_silu": Reference(
        lambda profile, a, b, bias: silu(arith.add(product(a, b), bias[None])),
        _after(_ideal_linear, _silu64, 1.1, 5),
    ),
    "matmul_requant": Reference(
        lambda profile, a, b: arith.pack(product(a, b), 1), _cast_ideal(_ideal_product)
    ),
    "linear_scaled": Reference(
        lambda profile, a, b, scale, bias: arith.add(
            arith.multiply(product(a, b), scale[None]), bias[None]
        ),
        _ideal_scaled,
    ),
    "linear_requant": Reference(
        lambda profile, a, b, scale, bias: arith.pack(
            arith.add(arith.multiply(product(a, b), scale[None]), bias[None]), 1
        ),
        _cast_ideal(_ideal_scaled),
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
