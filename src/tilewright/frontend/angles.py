"""Inverse trigonometric and hyperbolic functions in intents that every machine has.

`apply(family, *operands)` makes an intent on values and numbers, `choose(predicate, x, number, a, b)`
is a where x compares so with a number and b elsewhere; every front end brings its own. Errors in f32
stay below 4 units in the last place; signed zeros, infinities and NaN are those of IEEE 754.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilewright.frontend import near_zero

Apply = Callable[..., Any]
Choose = Callable[[str, Any, float, Any, Any], Any]

# Chebyshev fit of atan(t) / t in t^2 for t from 0 to 1: relative error below 3e-9.
ATAN = (
    -0.0017437011701986194, 0.010680719278752804, -0.030717508867383003, 0.05746355652809143,
    -0.08372063934803009, 0.10940198600292206, -0.14261573553085327, 0.19998230040073395,
    -0.3333328366279602, 1.0,
)  # fmt: skip
LARGE = 1e9  # beyond it 1 + x^2 is x^2, whose root is x


def _angle(apply: Apply, t: Any) -> Any:
    """atan(t) for t from 0 to 1"""
    z = apply("elementwise_mul", t, t)
    total = apply("elementwise_add", apply("elementwise_mul", z, ATAN[0]), ATAN[1])
    for coefficient in ATAN[2:]:
        total = apply("elementwise_add", apply("elementwise_mul", total, z), coefficient)
    return apply("elementwise_mul", total, t)


def _signed(apply: Apply, choose: Choose, size: Any, x: Any) -> Any:
    """A size with the sign of x, also of a zero."""
    minus = apply("elementwise_neg", size)
    below = choose("lt", apply("elementwise_div", 1.0, x), 0.0, minus, size)  # 1 / -0
    return choose("lt", x, 0.0, minus, below)


def atan(apply: Apply, choose: Choose, x: Any) -> Any:
    """The angle of 1/|x| from a right one where |x| is above 1"""
    a = apply("elementwise_abs", x)
    near, far = apply("elementwise_min", a, 1.0), apply("elementwise_max", a, 1.0)
    r = _angle(apply, apply("elementwise_div", near, far))
    r = choose("gt", a, 1.0, apply("elementwise_sub", math.pi / 2, r), r)
    return _signed(apply, choose, r, x)


def atan2(apply: Apply, choose: Choose, y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from -pi to pi"""
    a, b = apply("elementwise_abs", y), apply("elementwise_abs", x)
    near, far = apply("elementwise_min", a, b), apply("elementwise_max", a, b)
    ratio = apply("elementwise_div", near, choose("eq", far, 0.0, 1.0, far))
    ratio = choose("eq", near, math.inf, 1.0, ratio)
    r = _angle(apply, ratio)
    # Infinities are equal, and differ by no number: their angle is that of 1 and 1.
    steep = choose("lt", b, math.inf, apply("elementwise_sub", a, b), 0.0)
    r = choose("gt", steep, 0.0, apply("elementwise_sub", math.pi / 2, r), r)
    behind = apply("elementwise_sub", math.pi, r)
    left = choose("lt", apply("elementwise_div", 1.0, x), 0.0, behind, r)  # 1 / -0
    r = choose("lt", x, 0.0, behind, left)
    return _signed(apply, choose, r, y)


def _leg(apply: Apply, x: Any) -> Any:
    """The other leg of a right triangle with hypotenuse 1"""
    below, above = apply("elementwise_sub", 1.0, x), apply("elementwise_add", x, 1.0)
    return apply("elementwise_sqrt", apply("elementwise_mul", below, above))


def asin(apply: Apply, choose: Choose, x: Any) -> Any:
    return atan2(apply, choose, x, _leg(apply, x))


def acos(apply: Apply, choose: Choose, x: Any) -> Any:
    return atan2(apply, choose, _leg(apply, x), x)


def asinh(apply: Apply, choose: Choose, x: Any) -> Any:
    """log(1 + a + a^2 / (1 + sqrt(1 + a^2))), which keeps its digits near 0"""
    a = apply("elementwise_abs", x)
    small = apply("elementwise_min", a, LARGE)
    square = apply("elementwise_mul", small, small)
    root = apply("elementwise_sqrt", apply("elementwise_add", square, 1.0))
    inner = apply("elementwise_div", square, apply("elementwise_add", root, 1.0))
    near = near_zero.log1p(apply, apply("elementwise_add", small, inner))
    far = apply("elementwise_add", apply("elementwise_log", a), math.log(2))
    return _signed(apply, choose, choose("gt", a, LARGE, far, near), x)


def acosh(apply: Apply, choose: Choose, x: Any) -> Any:
    """log(1 + t + sqrt(2 t + t^2)) with t = x - 1, which keeps its digits near 1"""
    t = apply("elementwise_min", apply("elementwise_sub", x, 1.0), LARGE)
    roots = (apply("elementwise_sqrt", v) for v in (t, apply("elementwise_add", t, 2.0)))
    near = near_zero.log1p(apply, apply("elementwise_add", t, apply("elementwise_mul", *roots)))
    far = apply("elementwise_add", apply("elementwise_log", x), math.log(2))
    return choose("gt", x, LARGE, far, near)


def atanh(apply: Apply, choose: Choose, x: Any) -> Any:
    """log(1 + 2 a / (1 - a)) / 2"""
    a = apply("elementwise_abs", x)
    ratio = apply(
        "elementwise_div", apply("elementwise_add", a, a), apply("elementwise_sub", 1.0, a)
    )
    size = apply("elementwise_mul", near_zero.log1p(apply, ratio), 0.5)
    return _signed(apply, choose, size, x)


FUNCTIONS = {
    "atan": atan, "asin": asin, "acos": acos, "asinh": asinh, "acosh": acosh, "atanh": atanh,
}  # fmt: skip
