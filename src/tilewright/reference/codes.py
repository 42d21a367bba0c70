"""The arithmetic of codes: the one definition of quantising, decoding and rescaling.

All rounding is to the nearest, ties to even. "f32" means: rounded to float32 at that place.

quantise      code = clamp(rint(f32(x * f32(1 / s))) + z)          method multiply
              code = clamp(rint(f32(x / s)) + z)                   method divide
              NaN becomes code 0
dequantise    f32(f32(code - z) * s)
rescale       y = f32(f32(acc) * factor); code = clamp(rint(y) + z), or y rounded to a float type
rescale_fixed h = ((acc << left) * multiplier) >> 32, exact; q = sat16(rint(h / 2^shift));
              code = sat8(sat16(q + z))
add, float    code = clamp(rint(f32(f32(a - za) * f32(sa / s) + f32(b - zb) * f32(sb / s))) + z),
              each product rounded to float32
add, fixed    code = sat8(rint(((a - za) * Ma + (b - zb) * Mb) / 2^20) + z), M = rint(2^20 * scale / s)
products, sums exact in 32 bits; a sum that leaves them is an error, never a wrap
"""

from __future__ import annotations

import numpy as np

from tilewright.reference.dtypes import Array, ElementType

F = np.float32
FIXED_POINT = 20  # fractional bits of the factors of a fixed addition


def limits(bits: int) -> tuple[int, int]:
    """The smallest and the largest code."""
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def encode(y: Array, zero: int, bits: int) -> Array:
    """Codes of float32 numbers in units of the scale."""
    with np.errstate(invalid="ignore"):
        whole = np.rint(y.astype(F, copy=False)) + F(zero)
    whole = np.where(np.isnan(whole), F(0), whole)
    return np.clip(whole, *limits(bits)).astype(np.int64)


def quantise(x: Array, scale: float, zero: int, bits: int, method: str = "multiply") -> Array:
    """Codes of numbers."""
    x = x.astype(F, copy=False)
    with np.errstate(all="ignore"):
        y = x / F(scale) if method == "divide" else x * F(1.0 / float(scale))
    return encode(y, zero, bits)


def dequantise(codes: Array, scale: float, zero: int) -> Array:
    """The float32 numbers that codes stand for."""
    return (codes.astype(np.int32) - np.int32(zero)).astype(F) * F(scale)


def rescale(acc: Array, factor: Array | float) -> Array:
    """32-bit sums as float32 numbers in the unit of the result."""
    with np.errstate(all="ignore"):
        return acc.astype(F) * np.asarray(factor, dtype=F)


def multiplier_and_shift(m: Array) -> tuple[Array, Array]:
    """M and r with m = M / 2^(32 + r) and 2^30 <= M < 2^31, for m below 0.5.

    A factor so small that r would be over 31 gives M = 0, which makes every result the zero point.
    """
    multipliers, shifts = [], []
    for value in np.asarray(m, dtype=np.float64).reshape(-1):
        r = 0
        while 0 < value * 2.0 ** (32 + r) < 2.0**30 and r <= 32:
            r += 1
        if value <= 0 or r > 31:
            multipliers.append(0)
            shifts.append(0)
        else:
            multipliers.append(min(int(np.rint(value * 2.0 ** (32 + r))), 2**31 - 1))
            shifts.append(r)
    return np.array(multipliers, dtype=np.int32), np.array(shifts, dtype=np.int16)


def shifted(h: Array, r: Array) -> Array:
    """h / 2^r, rounded to even, in 64-bit integers."""
    q = h >> r
    rest = h - (q << r)
    half = np.where(r > 0, np.int64(1) << np.maximum(r - 1, 0), np.int64(1))
    return q + ((r > 0) & ((rest > half) | ((rest == half) & (q & 1 == 1))))


def rescale_fixed(acc: Array, multiplier: Array, shift: Array, left: int, zero: int) -> Array:
    """8-bit codes of 32-bit sums; fails when a sum leaves 32 bits by the shift to the left."""
    wide = acc.astype(np.int64) << left
    if wide.size and int(np.abs(wide).max()) >= 2**31:
        raise ValueError("a sum leaves 32 bits when it is shifted left")
    h = (wide * multiplier.astype(np.int64)) >> 32
    q = np.clip(shifted(h, shift.astype(np.int64)), -(2**15), 2**15 - 1)
    return np.clip(np.clip(q + zero, -(2**15), 2**15 - 1), *limits(8))


def ratio(scale: float, result: float) -> np.float32:
    """The factor from one scale to another, divided in float64 and rounded once."""
    return F(float(scale) / float(result))


def add(
    terms: tuple[tuple[Array, float, int], tuple[Array, float, int]],
    scale: float,
    zero: int,
    method: str = "float",
) -> Array:
    """8-bit codes of a sum; terms are codes with their scale and zero point."""
    if method == "fixed":
        total = np.int64(0)
        for codes, own, offset in terms:
            unit = np.int64(np.rint(2.0**FIXED_POINT * float(own) / float(scale)))
            total = total + (codes.astype(np.int64) - offset) * unit
        q = shifted(np.asarray(total), np.asarray(FIXED_POINT, dtype=np.int64))
        return np.clip(q + zero, *limits(8))
    parts = [
        (codes.astype(np.int32) - offset).astype(F) * ratio(own, scale)
        for codes, own, offset in terms
    ]
    return encode(parts[0] + parts[1], zero, 8)


def absmax_factor(x: Array, axis: int, limit: float, least: float) -> Array:
    """limit / max(|x|) of each row, in float32."""
    largest = np.abs(x.astype(F, copy=False)).max(axis=axis, keepdims=True)
    return F(limit) / np.maximum(largest, F(least))


def check_sum(values: Array, target: ElementType) -> None:
    """Fail when an exact sum does not fit the type it is kept in."""
    low, high = limits(target.bits)
    if values.size and (int(values.min()) < low or int(values.max()) > high):
        raise ValueError(f"a sum leaves the {target.bits} bits of its accumulator")
