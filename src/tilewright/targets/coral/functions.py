"""exp, log, tanh and erf in f32, operation for operation as the runtime's C computes them.

There is no libm on the core. Every line is one rounding; the C (runtime/math.c) has the same lines.
Polynomials are Chebyshev fits on the reduced interval. Errors: below 2 units in the last place.
"""

from __future__ import annotations

import numpy as np

F = np.float32
EXP = tuple(
    map(F, (0.500000001, 0.166666667, 0.0416664569, 0.00833329708, 0.00139345337, 0.000199004305))
)
LOG = tuple(
    map(
        F,
        (
            *(0.333333312, -0.249999891, 0.200007081, -0.166684767, 0.142499097),
            *(-0.124111305, 0.116619029, -0.115707074, 0.0714788565),
        ),
    )
)
TANH = tuple(
    map(F, (-0.333333332, 0.133333043, -0.0539594059, 0.0217699608, -0.00834698031, 0.0022958411))
)
ERF = tuple(
    map(
        F,
        (
            *(1.12837917, -0.376126385, 0.112837826, -0.0268654383, 0.00522105341),
            *(-0.000848439656, 0.00011268254, -9.67359107e-06),
        ),
    )
)
ERF_TAIL = tuple(
    map(
        F,
        (
            *(0.282027582, 0.283456327, 0.234641091, 0.239473032, -0.123657185),
            *(0.437151146, -0.645699782, 0.372466257, -0.0798789669),
        ),
    )
)
LOG2_E, LN2_HIGH, LN2_LOW = F(1.44269504), F(0.693359375), F(-2.12194440e-4)
LN2 = F(0.693147182)
SQRT_2 = F(1.41421354)


def polynomial(coefficients: tuple, x: np.ndarray) -> np.ndarray:
    result = np.full_like(x, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        result = result * x + c
    return result


def scaled_exp(r: np.ndarray, n: np.ndarray) -> np.ndarray:
    """e^r * 2^n for r of at most half of ln 2, in two steps, so that subnormal results are reached."""
    y = (polynomial(EXP, r) * (r * r) + r) + F(1)
    half = n >> 1
    y = np.ldexp(F(1), half) * y
    return np.ldexp(F(1), n - half) * y


def exp(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        inside = np.where((x > F(88.72284)) | (x < F(-103.97209)) | np.isnan(x), F(0), x)
        n = np.rint(inside * LOG2_E)
        r = (inside - n * LN2_HIGH) - n * LN2_LOW
        y = scaled_exp(r, n.astype(np.int32))
        y = np.where(x > F(88.72284), F(np.inf), y)
        y = np.where(x < F(-103.97209), F(0), y)
        return np.where(np.isnan(x), x, y).astype(F)


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A positive float as an exponent and a mantissa between sqrt(1/2) and sqrt(2), minus 1."""
    tiny = x < F(1.17549435e-38)
    scaled = np.where(tiny, x * F(8388608.0), x)
    bits = scaled.astype(F).view(np.int32)
    e = (bits >> 23) - 127 - np.where(tiny, 23, 0)
    m = ((bits & 0x7FFFFF) | 0x3F800000).astype(np.int32).view(F)
    large = m > SQRT_2
    m = np.where(large, m * F(0.5), m)
    return np.where(large, e + 1, e).astype(F), m - F(1)


def log(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        good = np.isfinite(x) & (x > 0)
        e, f = _split(np.where(good, x, F(1)))
        s = f * f
        y = (polynomial(LOG, f) * f) * s
        y = y + e * LN2_LOW
        y = y - F(0.5) * s
        y = f + y
        y = y + e * LN2_HIGH
        y = np.where(x == 0, F(-np.inf), y)
        y = np.where(x == np.inf, F(np.inf), y)
        return np.where((x < 0) | np.isnan(x), F(np.nan), y).astype(F)


def tanh(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        a = np.abs(x)
        z = x * x
        small = x + (polynomial(TANH, z) * z) * x
        large = F(1) - F(2) / (exp(a + a) + F(1))
        y = np.copysign(np.where(a < F(0.625), small, large), x)  # -0 stays
        return np.where(np.isnan(x), x, y).astype(F)


def erf(x: np.ndarray) -> np.ndarray:
    """Within 3 units in the last place."""
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        a = np.abs(x)
        z = x * x
        small = polynomial(ERF, z) * x
        t = F(1) / (F(1) + F(0.5) * a)
        large = F(1) - (polynomial(ERF_TAIL, t) * t) * exp(-z)
        large = np.copysign(np.where(a > F(4), F(1), large), x)
        y = np.where(a < F(1), small, large)
        return np.where(np.isnan(x), x, y).astype(F)


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return (F(1) / (F(1) + exp(-np.asarray(x, dtype=F)))).astype(F)


def exp2(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        outside = (x >= F(128)) | (x < F(-150)) | np.isnan(x)
        inside = np.where(outside, F(0), x)
        n = np.rint(inside)
        y = scaled_exp((inside - n) * LN2, n.astype(np.int32))
        y = np.where(x >= F(128), F(np.inf), y)
        y = np.where(x < F(-150), F(0), y)
        return np.where(np.isnan(x), x, y).astype(F)


def log2(x: np.ndarray) -> np.ndarray:
    """Whole numbers for powers of two."""
    x = np.asarray(x, dtype=F)
    with np.errstate(all="ignore"):
        good = np.isfinite(x) & (x > 0)
        e, f = _split(np.where(good, x, F(1)))
        s = f * f
        y = (polynomial(LOG, f) * f) * s
        y = f + (y - F(0.5) * s)
        y = y * LOG2_E + e
        y = np.where(x == 0, F(-np.inf), y)
        y = np.where(x == np.inf, F(np.inf), y)
        return np.where((x < 0) | np.isnan(x), F(np.nan), y).astype(F)
