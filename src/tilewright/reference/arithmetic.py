"""Exact arithmetic of the Atlas number formats on numpy arrays of bit patterns.

bf16 values travel as uint16, fp8 (E4M3FN) as uint8. Every function rounds exactly once
unless its name says otherwise. A NaN result is always 0x7FC0 (bf16) or 0x7F (fp8), so
that results compare byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

BF16_NAN = 0x7FC0
FP8_NAN = 0x7F
FP8_MAX = 448.0


def bf16_to_f32(bits: np.ndarray) -> np.ndarray:
    """Widen bf16 patterns, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def f32_to_bf16(values: np.ndarray) -> np.ndarray:
    """Round float32 to bf16 patterns: nearest, ties to even, overflow to infinity."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(BF16_NAN), rounded)


def narrow_to_odd(values: np.ndarray) -> np.ndarray:
    """float64 -> float32, rounding inexact values to the neighbour whose last bit is 1.

    A second rounding to a type of at most 22 bits then gives what one rounding from float64
    would have given: the odd bit remembers on which side of a tie the value was.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        near = values.astype(np.float32)
        exact = near.astype(np.float64)
        bits = near.view(np.uint32).copy()
        # Truncate towards zero where the conversion went away from it, then set the last bit.
        bits -= (np.abs(exact) > np.abs(values)).astype(np.uint32)
        bits |= ((exact != values) & ~np.isnan(values)).astype(np.uint32)
    return bits.view(np.float32)


def f64_to_bf16(values: np.ndarray) -> np.ndarray:
    """Round float64 to bf16 patterns without a second rounding on the way."""
    return f32_to_bf16(narrow_to_odd(values))


def integer_to_bf16(value: int) -> int:
    """The bf16 pattern nearest to an integer."""
    return int(f64_to_bf16(np.array([float(value)]))[0])


def round_to_f16(values: np.ndarray) -> np.ndarray:
    """Round float32 to the fp16 grid; the result stays float32."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return values.astype(np.float16).astype(np.float32)


# --- fp8 E4M3FN -----------------------------------------------------------------------


@lru_cache(maxsize=1)
def fp8_values() -> np.ndarray:
    """float32 value of each of the 256 fp8 patterns."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(
        exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent.astype(float) - 10)
    )
    magnitude[(codes & 0x7F) == 0x7F] = np.nan
    return np.where(codes >= 128, -magnitude, magnitude).astype(np.float32)


@lru_cache(maxsize=1)
def _fp8_of_bf16() -> np.ndarray:
    """fp8 pattern of each of the 65536 bf16 patterns: nearest even, saturating at 448."""
    with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
        values = bf16_to_f32(np.arange(65536, dtype=np.uint16)).astype(np.float64)
    grid = fp8_values()[:0x7F].astype(np.float64)  # non-negative, increasing, up to 448
    magnitude = np.minimum(np.abs(values), FP8_MAX)
    magnitude = np.where(np.isnan(magnitude), 0.0, magnitude)
    upper = np.searchsorted(grid, magnitude).clip(1, len(grid) - 1)
    lower = upper - 1
    to_lower, to_upper = magnitude - grid[lower], grid[upper] - magnitude
    take_upper = (to_upper < to_lower) | ((to_upper == to_lower) & (upper % 2 == 0))
    codes = np.where(take_upper, upper, lower) | (np.signbit(values) * 0x80)
    return np.where(np.isnan(values), FP8_NAN, codes).astype(np.uint8)


def fp8_to_f32(codes: np.ndarray) -> np.ndarray:
    """Value of fp8 patterns, exactly."""
    return fp8_values()[codes]


def bf16_to_fp8(bits: np.ndarray) -> np.ndarray:
    """Round bf16 patterns to fp8: nearest even, magnitudes above 448 become 448."""
    return _fp8_of_bf16()[bits]


# --- functions of one bf16 value: tables over all 65536 inputs ------------------------


def _reciprocal(x: float) -> float:
    return 1.0 / x if x else math.copysign(math.inf, x)


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf


def _exp2(x: float) -> float:
    return math.exp2(x) if x < 1000 else math.inf


def _sine(x: float) -> float:
    return math.sin(x) if math.isfinite(x) else math.nan


def _cosine(x: float) -> float:
    return math.cos(x) if math.isfinite(x) else math.nan


def _log2(x: float) -> float:
    if x > 0:
        return math.log2(x)
    return -math.inf if x == 0 else math.nan


def _square_root(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "vrecip": _reciprocal,
    "vexp": _exp,
    "vexp2": _exp2,
    "vsin": _sine,
    "vcos": _cosine,
    "vtanh": math.tanh,
    "vlog2": _log2,
    "vsqrt": _square_root,
}


@lru_cache(maxsize=len(_FUNCTIONS))
def unary_table(name: str) -> np.ndarray:
    """bf16 result of a transcendental instruction for each bf16 input pattern."""
    with np.errstate(invalid="ignore"):  # signalling NaNs among the patterns
        inputs = bf16_to_f32(np.arange(65536, dtype=np.uint16)).astype(np.float64)
    function = _FUNCTIONS[name]
    results = np.array([math.nan if x != x else function(x) for x in inputs.tolist()])
    return f64_to_bf16(results)


def relu(bits: np.ndarray) -> np.ndarray:
    """The value if positive; -0 stays -0, everything else below becomes +0."""
    values = bf16_to_f32(bits)
    keep = (values > 0) | (bits == 0x8000)
    result = np.where(keep, bits, np.uint16(0))
    return np.where(np.isnan(values), np.uint16(BF16_NAN), result)


# --- two bf16 operands ----------------------------------------------------------------


def _binary(operation: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def apply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return f32_to_bf16(operation(bf16_to_f32(a), bf16_to_f32(b)))

    return apply


add = _binary(np.add)
subtract = _binary(np.subtract)
multiply = _binary(np.multiply)


def extreme(a: np.ndarray, b: np.ndarray, larger: bool) -> np.ndarray:
    """Larger or smaller of a and b; ties give b, NaN if either is NaN."""
    x, y = bf16_to_f32(a), bf16_to_f32(b)
    result = np.where(x > y if larger else x < y, a, b)
    return np.where(np.isnan(x) | np.isnan(y), np.uint16(BF16_NAN), result)


# --- reductions -----------------------------------------------------------------------


def _ordered_sum(terms: list[np.ndarray]) -> np.ndarray:
    """Left-to-right float32 sum starting at +0."""
    total = np.zeros_like(terms[0])
    for term in terms:
        total = total + term
    return total


def column_sum(bits: np.ndarray, order: str) -> np.ndarray:
    """Sum over the rows of each column, broadcast back; `order` as in the profile."""
    rows = list(bf16_to_f32(bits))
    with np.errstate(all="ignore"):
        if order == "two_halves":
            half = len(rows) // 2
            total = _ordered_sum(rows[:half]) + _ordered_sum(rows[half:])
        else:  # four_strides
            p = [_ordered_sum(rows[k::4]) for k in range(4)]
            total = ((p[0] + p[1]) + p[2]) + p[3]
    return np.broadcast_to(f32_to_bf16(total)[None, :], bits.shape)


def row_sum(bits: np.ndarray, order: str) -> np.ndarray:
    """Sum over the columns of each row, broadcast back; `order` as in the profile."""
    x = bf16_to_f32(bits)
    width = x.shape[1]
    with np.errstate(all="ignore"):
        if order == "four_lanes":
            quarter = width // 4
            a, b, c, d = (x[:, k * quarter : (k + 1) * quarter] for k in range(4))
            lanes = (a + b) + (c + d)
        else:  # two_lanes
            lanes = x[:, : width // 2] + x[:, width // 2 :]
        total = _ordered_sum([lanes[:, j] for j in range(lanes.shape[1])])
    return np.broadcast_to(f32_to_bf16(total)[:, None], bits.shape)


def reduce_extreme(bits: np.ndarray, axis: int, larger: bool) -> np.ndarray:
    """Largest or smallest along an axis, broadcast back; ties give the lowest index."""
    values = bf16_to_f32(bits)
    nan = np.isnan(values)
    filled = np.where(nan, np.float32(0), values)
    place = filled.argmax(axis) if larger else filled.argmin(axis)
    picked = np.take_along_axis(bits, np.expand_dims(place, axis), axis)
    picked = np.where(nan.any(axis, keepdims=True), np.uint16(BF16_NAN), picked)
    return np.broadcast_to(picked, bits.shape)


# --- scales and matrix products -------------------------------------------------------


def pack(bits: np.ndarray, scale: int) -> np.ndarray:
    """fp8 of bf16(value * scale)."""
    with np.errstate(all="ignore"):
        return bf16_to_fp8(f32_to_bf16(bf16_to_f32(bits) * np.float32(scale)))


def unpack(codes: np.ndarray, scale: int) -> np.ndarray:
    """bf16 of value / scale."""
    with np.errstate(all="ignore"):
        return f32_to_bf16(fp8_to_f32(codes) / np.float32(scale))


def truncate_to_fp8(bits: np.ndarray, scale: int) -> np.ndarray:
    """fp8 of the integer part of value / scale."""
    with np.errstate(all="ignore"):
        return bf16_to_fp8(f32_to_bf16(np.trunc(bf16_to_f32(bits) / np.float32(scale))))


def matmul(a: np.ndarray, w: np.ndarray, acc: np.ndarray | None = None) -> np.ndarray:
    """bf16 tile of fp8 a @ fp8 w, added to acc if given.

    Four interleaved float32 partial sums over k, combined left to right, rounded to fp16
    and then to bf16; an accumulation adds in fp16.
    """
    x, y = fp8_to_f32(a), fp8_to_f32(w)
    with np.errstate(all="ignore"):
        products = x[:, :, None] * y[None, :, :]  # exact: [m, k, n]
        p = [_ordered_sum([products[:, k] for k in range(j, x.shape[1], 4)]) for j in range(4)]
        total = round_to_f16(((p[0] + p[1]) + p[2]) + p[3])
        if acc is not None:
            total = round_to_f16(total + round_to_f16(bf16_to_f32(acc)))
    return f32_to_bf16(total)
