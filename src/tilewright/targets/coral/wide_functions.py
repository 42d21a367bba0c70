"""pow, sin and cos in f32: functions whose arguments need more than the 24 bits of a float.

The argument's part that decides the result is computed in integers, the rest in f32; every line
has its equal in runtime/math.c, so results agree to the bit. Errors: below 3 units in the last place.
"""

from __future__ import annotations

import numpy as np

from tilewright.targets.coral.functions import LN2, F, polynomial, scaled_exp

U = np.uint64
# 2 / pi after the binary point, 32 bits to a word.
TWO_OVER_PI = np.array(
    [0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB], dtype=U
)
SIN = tuple(map(F, (-0.166666667, 0.00833333187, -0.000198400857, 2.72498229e-06)))
COS = tuple(map(F, (0.0416666667, -0.00138888873, 2.48004958e-05, -2.72912833e-07)))
QUARTER = F(0.785398185)  # below it an angle is its own remainder
ANGLE = F(3.40612159e-19)  # pi / 2 of 2^62 steps
FRACTION = 55  # bits after the point of logarithms


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper 64 of the 128 bits of a product."""
    mask, half = U(0xFFFFFFFF), U(32)
    al, ah, bl, bh = a & mask, a >> half, b & mask, b >> half
    low, middle = al * bl, ah * bl
    middle = middle + (low >> half)
    other = al * bh + (middle & mask)
    return ah * bh + (middle >> half) + (other >> half)


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x, dtype=F).view(np.uint32).astype(np.int64)


def log2_fixed(x: np.ndarray) -> np.ndarray:
    """log2 of a positive finite float with 55 bits after the point, one bit per squaring."""
    tiny = x < F(1.17549435e-38)
    bits = _bits(np.where(tiny, x * F(8388608.0), x))
    exponent = (bits >> 23) - 127 - np.where(tiny, 23, 0)
    u = ((bits & 0x7FFFFF) | 0x800000).astype(U) << U(40)
    result = exponent.astype(np.int64)
    for _ in range(FRACTION):
        square = multiply_high(u, u)
        bit = square >> U(63)
        u = np.where(bit == 1, square, square << U(1))
        result = (result << 1) | bit.astype(np.int64)
    return result


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x to the y with the special cases of IEEE's pow."""
    x, y = np.broadcast_arrays(np.asarray(x, dtype=F), np.asarray(y, dtype=F))
    with np.errstate(all="ignore"):
        a = np.abs(x)
        plain = np.isfinite(x) & (x != 0) & np.isfinite(y) & (y != 0)
        logarithm = log2_fixed(np.where(plain, a, F(1)))
        factor = _bits(np.where(plain, np.abs(y), F(1)))
        shift = np.maximum(factor >> 23, 1) - 126  # |y| = mantissa * 2^(shift - 24)
        mantissa = np.where(factor >> 23 == 0, factor, (factor & 0x7FFFFF) | 0x800000).astype(U)
        size = np.abs(logarithm).astype(U)
        product = ((size >> U(32)) * mantissa << U(8)) + (
            (size & U(0xFFFFFFFF)) * mantissa >> U(24)
        )
        left = np.clip(shift, 0, 62).astype(U)
        huge = (product >= (U(160 << FRACTION) >> left)) & (shift > 0)
        exponent = np.where(shift > 0, product << left, product >> np.clip(-shift, 0, 63).astype(U))
        huge |= exponent >= U(160 << FRACTION)
        exponent = np.where(huge, U(0), exponent).astype(np.int64)
        down = (logarithm < 0) != (y < 0)
        exponent = np.where(down, -exponent, exponent)
        n = (exponent + (1 << (FRACTION - 1))) >> FRACTION
        rest = (exponent - (n << FRACTION)) >> (FRACTION - 31)
        fraction = rest.astype(np.int32).astype(F) * F(4.65661287e-10)
        result = scaled_exp(fraction * LN2, n.astype(np.int32))
        result = np.where(huge, np.where(down, F(0), F(np.inf)), result)

        whole = (np.abs(y) >= F(8388608.0)) | (np.trunc(y) == y)
        odd = whole & (np.abs(y) < F(16777216.0))
        odd &= np.where(odd, y, F(0)).astype(np.int32) & 1 == 1
        grows = (a > 1) == (y > 0)
        edge = (x == 0) | np.isinf(x) | np.isinf(y)
        result = np.where(edge, np.where(grows, F(np.inf), F(0)), result)
        result = np.where(np.isinf(y) & (a == 1), F(1), result)
        negative = np.signbit(x)
        result = np.where(negative & odd, -result, result)
        result = np.where((x < 0) & np.isfinite(x) & np.isfinite(y) & ~whole, F(np.nan), result)
        result = np.where(np.isnan(x) | np.isnan(y), F(np.nan), result)
        return np.where((y == 0) | (x == 1), F(1), result).astype(F)


def reduced(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """|x| modulo half turns: the quadrant, and the angle in -pi/4 .. pi/4."""
    a = np.abs(x)
    direct = a < QUARTER
    bits = _bits(np.where(direct | ~np.isfinite(x), F(1), a))
    mantissa = ((bits & 0x7FFFFF) | 0x800000).astype(U)
    e = (bits >> 23) - 150
    offset = np.maximum(e - 2, 0)
    word, within = offset >> 5, (offset & 31).astype(U)
    mask = U(0xFFFFFFFF)
    # Three words of 2 / pi from the first bit that does not give whole turns.
    first, second, third, fourth = (TWO_OVER_PI[word + k] for k in range(4))
    pairs = ((first, second), (second, third), (third, fourth))
    window = [(((high << U(32)) | low) << within) >> U(32) & mask for high, low in pairs]
    carry = window[2] * mantissa >> U(32)
    middle = window[1] * mantissa + carry
    top = window[0] * mantissa + (middle >> U(32))
    lower = (middle & mask) | ((top & mask) << U(32))
    more = top >> U(32)
    shift = (2 - (e - offset)).astype(U)
    turned = np.where(
        shift == 0, lower, (lower >> shift) | (more << (U(64) - np.maximum(shift, U(1))))
    )
    quadrant = (turned + U(1 << 61)) >> U(62)
    rest = (turned - (quadrant << U(62))).astype(np.int64)
    high = (rest >> 32).astype(np.int32).astype(F) * F(4294967296.0)
    low = (rest & 0xFFFFFFFF).astype(np.uint32).astype(F)
    angle = (high + low) * ANGLE
    return np.where(direct, 0, quadrant.astype(np.int64) & 3), np.where(direct, a, angle).astype(F)


def _wave(angle: np.ndarray, even: np.ndarray) -> np.ndarray:
    z = angle * angle
    sine = angle + (polynomial(SIN, z) * z) * angle
    cosine = (F(1) - F(0.5) * z) + polynomial(COS, z) * (z * z)
    return np.where(even, sine, cosine)


def sin(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        quadrant, angle = reduced(x)
        y = _wave(angle, quadrant & 1 == 0)
        y = np.where((quadrant & 2 != 0) != np.signbit(x), -y, y)
        return np.where(np.isfinite(x), y, F(np.nan)).astype(F)


def cos(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        quadrant, angle = reduced(x)
        y = _wave(angle, quadrant & 1 == 1)
        y = np.where((quadrant + 1) & 2 != 0, -y, y)
        return np.where(np.isfinite(x), y, F(np.nan)).astype(F)
