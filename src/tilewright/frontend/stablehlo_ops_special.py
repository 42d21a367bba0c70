"""StableHLO and CHLO functions of one number that no kernel has: compositions of simpler steps."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dialects.stablehlo import BY_NAME as BY_OPERATION
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import SSAValue
from tilewright.frontend import angles, near_zero
from tilewright.frontend.stablehlo_builder import (
    HLOImporter,
    Value,
    lowers,
)
from tilewright.frontend.stablehlo_ops_elementwise import known, through


@lowers("sign")
def sign(importer: HLOImporter, op: HLOOp) -> Value:
    return through(importer, importer.operand(0), lambda x: signs(importer, x))


def signs(importer: HLOImporter, x: SSAValue) -> SSAValue:
    """-1, 0 or 1; NaN stays NaN."""
    kind = importer.kind(x)
    positive = importer.matched(x, "gt", 0)
    negative = importer.matched(x, "lt", 0)
    other = importer.chosen(negative, _filled(importer, -1, x), x)
    assert isinstance(other, SSAValue)
    found = importer.chosen(positive, _filled(importer, 1, x), other)
    assert isinstance(found, SSAValue)
    assert importer.kind(found) == kind
    return found


def _filled(importer: HLOImporter, value: float, like: SSAValue) -> SSAValue:
    return importer.filled(value, importer.info(like))


@lowers("cbrt")
def cbrt(importer: HLOImporter, op: HLOOp) -> Value:
    """sign(x) * |x| to the 1/3"""

    def root(x: SSAValue) -> SSAValue:
        size = importer.apply("elementwise_pow", importer.unary("elementwise_abs", x), 1.0 / 3.0)
        return importer.apply("elementwise_mul", signs(importer, x), size)

    return through(importer, importer.operand(0), root)


@lowers("tan", "chlo.tan")
def tangent(importer: HLOImporter, op: HLOOp) -> Value:
    def ratio(x: SSAValue) -> SSAValue:
        sine, cosine = (importer.unary(f"elementwise_{name}", x) for name in ("sin", "cos"))
        return importer.apply("elementwise_div", sine, cosine)

    return through(importer, importer.operand(0), ratio)


@lowers("exponential_minus_one")
def exponential_minus_one(importer: HLOImporter, op: HLOOp) -> Value:
    return through(importer, importer.operand(0), lambda x: near_zero.expm1(importer.apply, x))


@lowers("log_plus_one")
def log_plus_one(importer: HLOImporter, op: HLOOp) -> Value:
    return through(importer, importer.operand(0), lambda x: near_zero.log1p(importer.apply, x))


@lowers("round_nearest_afz")
def round_away(importer: HLOImporter, op: HLOOp) -> Value:
    """sign(x) * floor(|x| + 1/2)"""

    def rounded(x: SSAValue) -> SSAValue:
        size = importer.apply("elementwise_add", importer.unary("elementwise_abs", x), 0.5)
        whole = importer.unary("elementwise_floor", size)
        return importer.apply("elementwise_mul", signs(importer, x), whole)

    return through(importer, importer.operand(0), rounded)


@lowers("is_finite")
def is_finite(importer: HLOImporter, op: HLOOp) -> Value:
    def finite(x: SSAValue) -> SSAValue:
        return importer.matched(importer.unary("elementwise_abs", x), "lt", math.inf)

    return through(importer, importer.operand(0), finite)


@lowers("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_infinite(importer: HLOImporter, op: HLOOp) -> Value:
    def infinite(x: SSAValue) -> SSAValue:
        if op.name == "chlo.is_inf":
            return importer.matched(importer.unary("elementwise_abs", x), "eq", math.inf)
        return importer.matched(x, "eq", math.inf if "pos" in op.name else -math.inf)

    return through(importer, importer.operand(0), infinite)


@lowers("chlo.sinh", "chlo.cosh")
def hyperbolic(importer: HLOImporter, op: HLOOp) -> Value:
    """sinh by e^x - 1, which keeps its digits near 0; cosh as it is defined"""

    def found(x: SSAValue) -> SSAValue:
        apply = importer.apply
        if op.name == "chlo.sinh":
            return near_zero.sinh(apply, x)
        minus = importer.unary("elementwise_neg", x)
        powers = [importer.unary("elementwise_exp", v) for v in (x, minus)]
        return apply("elementwise_mul", apply("elementwise_add", *powers), 0.5)

    return through(importer, importer.operand(0), found)


@lowers("chlo.atan", "chlo.asin", "chlo.acos", "chlo.asinh", "chlo.acosh", "chlo.atanh")
def inverse(importer: HLOImporter, op: HLOOp) -> Value:
    function = angles.FUNCTIONS[op.name.removeprefix("chlo.")]
    choose = chooser(importer)
    return through(importer, importer.operand(0), lambda x: function(importer.apply, choose, x))


@lowers("atan2")
def angle(importer: HLOImporter, op: HLOOp) -> Value:
    y, x = (importer.whole(importer.operand(k)) for k in range(2))
    if importer.is_known(y) and importer.is_known(x):
        return known(importer, np.arctan2(importer.array(y), importer.array(x)))
    return angles.atan2(importer.apply, chooser(importer), y, x)


def chooser(importer: HLOImporter) -> angles.Choose:
    """a where a value compares with a number so, else b."""

    def choose(predicate: str, x: SSAValue, number: float, a: Value | float, b: Value | float):
        return importer.whole(importer.chosen(importer.matched(x, predicate, number), a, b))

    return choose


# Chebyshev fit of log(erfc(x) / t) + x² in t = 1 / (1 + x/2): relative error below 1.2e-7 everywhere.
ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


@lowers("chlo.erfc")
def complementary_error(importer: HLOImporter, op: HLOOp) -> Value:
    """1 - erf(x); JAX writes GELU with it, which a later step must still be able to see."""

    def placed(x: SSAValue) -> SSAValue:
        if x in importer.known:
            return erfc(importer, x)
        return importer.add(BY_OPERATION["chlo.erfc"].create(operands=[x], result_types=[x.type]))

    return through(importer, importer.operand(0), placed)


def erfc(importer: HLOImporter, x: SSAValue) -> SSAValue:
    """1 - erf(x), in a form that keeps its digits where it is tiny."""
    apply = importer.apply
    size = importer.unary("elementwise_abs", x)
    below = apply("elementwise_add", apply("elementwise_mul", size, 0.5), 1.0)
    t = apply("elementwise_div", 1.0, below)
    total: SSAValue = apply("elementwise_add", apply("elementwise_mul", t, ERFC[-1]), ERFC[-2])
    for coefficient in ERFC[-3::-1]:
        total = apply("elementwise_add", apply("elementwise_mul", total, t), coefficient)
    power = apply("elementwise_sub", total, importer.unary("elementwise_square", x))
    tail = apply("elementwise_mul", t, importer.unary("elementwise_exp", power))
    other = apply("elementwise_sub", 2.0, tail)
    found = importer.chosen(importer.matched(x, "lt", 0.0), other, tail)
    assert isinstance(found, SSAValue)
    return found


# Giles' polynomials for the inverse of erf in w = -log(1 - x²), below and above w = 5.
ERF_INV_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
ERF_INV_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


@lowers("chlo.erf_inv")
def inverse_error(importer: HLOImporter, op: HLOOp) -> Value:
    """The x that erf takes to a value: what JAX makes normal random numbers with"""

    def inverse(x: SSAValue) -> SSAValue:
        apply = importer.apply
        below = apply("elementwise_sub", 1.0, importer.unary("elementwise_square", x))
        w = importer.unary("elementwise_neg", importer.unary("elementwise_log", below))
        root = apply("elementwise_sub", importer.unary("elementwise_sqrt", w), 3.0)
        sides = []
        for place, row in (
            (apply("elementwise_sub", w, 2.5), ERF_INV_CENTRE),
            (root, ERF_INV_TAIL),
        ):
            total: SSAValue = apply(
                "elementwise_add", apply("elementwise_mul", place, row[0]), row[1]
            )
            for coefficient in row[2:]:
                total = apply(
                    "elementwise_add", apply("elementwise_mul", total, place), coefficient
                )
            sides.append(total)
        factor = importer.chosen(importer.matched(w, "lt", 5.0), sides[0], sides[1])
        return apply("elementwise_mul", factor, x)

    return through(importer, importer.operand(0), inverse)
