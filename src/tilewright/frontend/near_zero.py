"""Functions that keep their digits near zero, in intents that every machine has.

e^x - 1 and log(1 + x) lose everything to rounding for small x when they are computed as they are
written: on a machine that rounds to bf16 after every step, the result for x = 0.003 is 0 or twice
as large. The formulas here are exact as formulas, and every step keeps its relative precision. They
choose between cases by adding parts of which one is zero: nothing needs a comparison.

`apply(family, *operands)` makes an intent on values and numbers; every front end brings its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Apply = Callable[..., Any]
SMALLEST = 2.0**-24


def expm1(apply: Apply, x: Any) -> Any:
    """e^x - 1 = tanh(x / 2) (e^x + 1)"""
    bend = apply("elementwise_tanh", apply("elementwise_mul", x, 0.5))
    return apply(
        "elementwise_mul", bend, apply("elementwise_add", apply("elementwise_exp", x), 1.0)
    )


def log1p(apply: Apply, x: Any) -> Any:
    """log(1 + x) = log(w) + (x - (w - 1)) / w, where w is 1 + x as it was rounded; the second part
    for x from -1 to 1, beyond that it is zero."""
    near = apply("elementwise_min", apply("elementwise_max", x, -1.0), 1.0)
    rounded = apply("elementwise_add", near, 1.0)
    lost = apply("elementwise_sub", near, apply("elementwise_sub", rounded, 1.0))
    lost = apply("elementwise_div", lost, apply("elementwise_max", rounded, SMALLEST))
    return apply(
        "elementwise_add", apply("elementwise_log", apply("elementwise_add", x, 1.0)), lost
    )


def softplus(apply: Apply, x: Any) -> Any:
    """log(1 + e^x) = max(x, 0) + log(1 + e^-|x|), which never overflows"""
    u = apply("elementwise_exp", apply("elementwise_neg", apply("elementwise_abs", x)))
    w = apply("elementwise_add", u, 1.0)  # from 1 to 2
    lost = apply(
        "elementwise_div", apply("elementwise_sub", u, apply("elementwise_sub", w, 1.0)), w
    )
    tail = apply("elementwise_add", apply("elementwise_log", w), lost)
    return apply("elementwise_add", apply("elementwise_relu", x), tail)


def elu(apply: Apply, x: Any, below: float = 1.0, above: float = 1.0, inner: float = 1.0) -> Any:
    """above x for x > 0, else below (e^(inner x) - 1): as the sum of both, one of which is zero"""
    low = apply("elementwise_min", x, 0.0)
    low = expm1(apply, low if inner == 1 else apply("elementwise_mul", low, inner))
    low = low if below == 1 else apply("elementwise_mul", low, below)
    high = apply("elementwise_relu", x)
    high = high if above == 1 else apply("elementwise_mul", high, above)
    return apply("elementwise_add", high, low)


def sinh(apply: Apply, x: Any) -> Any:
    """((e^x - 1) - (e^-x - 1)) / 2"""
    parts = expm1(apply, x), expm1(apply, apply("elementwise_neg", x))
    return apply("elementwise_mul", apply("elementwise_sub", *parts), 0.5)
