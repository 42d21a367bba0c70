"""Micro-kernels: what a launch of each family does to 32x32 tiles.

A body is a plain function over tile operations (`Tiles` when compiling, `EagerTiles` when
running on numpy). Every step rounds to bf16; the order of steps is part of the definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

Body = Callable[..., Any]
BODIES: dict[str, Body] = {}


def body(*families: str) -> Callable[[Body], Body]:
    def register(function: Body) -> Body:
        for family in families:
            BODIES[family] = function
        return function

    return register


# --- element by element -----------------------------------------------------------------


@body("elementwise_add")
def add(t, a, b):
    return t.add(a, b)


@body("elementwise_sub")
def sub(t, a, b):
    return t.sub(a, b)


@body("elementwise_mul")
def mul(t, a, b):
    return t.mul(a, b)


@body("elementwise_div")
def div(t, a, b):
    return t.mul(a, t.unary("recip", b))


@body("elementwise_max")
def maximum(t, a, b):
    return t.maximum(a, b)


@body("elementwise_min")
def minimum(t, a, b):
    return t.minimum(a, b)


@body("elementwise_neg")
def neg(t, x):
    return t.mul(x, t.constant(-1.0))


@body("elementwise_abs")
def absolute(t, x):
    return t.maximum(x, neg(t, x))


@body("elementwise_rsqrt")
def rsqrt(t, x):
    return t.unary("recip", t.unary("sqrt", x))


@body("elementwise_log")
def log(t, x):
    return t.mul(t.unary("log2", x), t.constant(math.log(2)))


@body("elementwise_sigmoid")
def sigmoid(t, x):
    return t.unary("recip", t.add(t.constant(1.0), t.unary("exp", neg(t, x))))


@body("elementwise_square")
def square(t, x):
    return t.square(x)


@body("elementwise_cube")
def cube(t, x):
    return t.cube(x)


def _function(name: str) -> Body:
    return lambda t, x: t.unary(name, x)


for _name in ("exp", "exp2", "log2", "sqrt", "recip", "tanh", "sin", "cos", "relu"):
    BODIES[f"elementwise_{_name}"] = _function(_name)


@body("silu")
def silu(t, x):
    """x / (1 + exp(-x))"""
    return t.mul(x, sigmoid(t, x))


@body("silu_gate")
def silu_gate(t, gate, up):
    return t.mul(silu(t, gate), up)


@body("gelu_tanh")
def gelu_tanh(t, x):
    """x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))"""
    inner = t.add(x, t.mul(t.cube(x), t.constant(0.044715)))
    bent = t.unary("tanh", t.mul(inner, t.constant(math.sqrt(2 / math.pi))))
    return t.mul(t.mul(x, t.constant(0.5)), t.add(t.constant(1.0), bent))


# --- casts and movement -----------------------------------------------------------------


@body("requant")
def requant(t, x, scale=None):
    return t.pack(x, scale)


@body("dequant")
def dequant(t, x, scale=None):
    return t.unpack(x, scale)


@body("transpose")
def transpose(t, x):
    return t.transpose(x)


# --- rows -------------------------------------------------------------------------------


@body("reduction_sum")
def row_sum(t, x):
    return t.rows("sum", x)


@body("reduction_max")
def row_max(t, x):
    return t.rows("max", x)


@body("reduction_min")
def row_min(t, x):
    return t.rows("min", x)


@body("softmax")
def softmax(t, x):
    powers = t.unary("exp", t.sub(x, t.rows("max", x)))
    return t.mul(powers, t.unary("recip", t.rows("sum", powers)))


# --- matrix units -----------------------------------------------------------------------


@body("matmul_acc_first")
def matmul_first(t, a, b, unit=1):
    acc = t.accumulator(unit)
    t.multiply(acc, a, t.weight(b, unit), first=True)
    return acc


@body("matmul_acc_mid")
def matmul_mid(t, acc, a, b):
    t.multiply(acc, a, t.weight(b, acc.unit), first=False)
    return acc


@body("matmul_pop")
def matmul_pop(t, acc):
    return t.pop(acc)


@body("matmul")
def matmul(t, a, b, unit=1):
    return t.pop(matmul_first(t, a, b, unit))
