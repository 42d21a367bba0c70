"""raise-composites: norms, activations and softmax get their names, near misses stay."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, attribute_of, counts, simplified

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import (
    FloatAttr,
    SSAValue,
    bf16,
    f32,
)

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(7)


def vector(size: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(size)).astype(np.float32)


SQUARES = {
    "square": lambda g, x: g.op("square", x),
    "product": lambda g, x: g.op("mul", x, x),
    "power": lambda g, x: g.op("pow", x, 2.0),
}
MEANS = {
    "mean": lambda g, x: g.mean(x),
    "sum and quotient": lambda g, x: g.op(
        "div", g.reduction("sum", x, [len(shape_of(x)) - 1], keepdims=True), float(shape_of(x)[-1])
    ),
    "sum and product": lambda g, x: g.op(
        "mul", g.reduction("sum", x, [len(shape_of(x)) - 1], keepdims=True), 1 / shape_of(x)[-1]
    ),
}
INVERSES = {
    "rsqrt": lambda g, x, v: g.op("mul", x, g.op("rsqrt", v)),
    "recip of sqrt": lambda g, x, v: g.op("mul", g.op("recip", g.op("sqrt", v)), x),
    "1 / sqrt": lambda g, x, v: g.op("mul", x, g.op("div", 1.0, g.op("sqrt", v))),
    "x / sqrt": lambda g, x, v: g.op("div", x, g.op("sqrt", v)),
    "power": lambda g, x, v: g.op("mul", x, g.op("pow", v, -0.5)),
}


@SOME
@given(
    batch=st.integers(1, 2),
    rows=st.integers(1, 5),
    width=st.integers(2, 12),
    epsilon=st.sampled_from([1e-6, 1e-5, 0.1]),
    square=st.sampled_from(sorted(SQUARES)),
    mean=st.sampled_from(sorted(MEANS)),
    inverse=st.sampled_from(sorted(INVERSES)),
    weight=st.sampled_from(["none", "vector", "wide", "left"]),
)
def test_rms_norm(batch, rows, width, epsilon, square, mean, inverse, weight):
    g = Graph()
    x = g.input("x", (batch, rows, width))
    v = g.op("add", MEANS[mean](g, SQUARES[square](g, x)), epsilon)
    y = INVERSES[inverse](g, x, v)
    if weight == "vector":
        y = g.op("mul", y, g.weight("w", vector(width)))
    elif weight == "wide":
        y = g.op("mul", y, g.weight("w", vector(width).reshape(1, 1, width)))
    elif weight == "left":
        y = g.op("mul", g.weight("w", vector(width)), y)
    result, families = simplified(g.finish(y))
    assert families == {"rms_norm": 1}
    found = attribute_of(result, "rms_norm", "epsilon")
    assert isinstance(found, FloatAttr) and found.value.data == pytest.approx(epsilon)


def spelled_rms_norm(g: Graph, x: SSAValue, epsilon: float = 1e-5) -> SSAValue:
    v = g.op("add", g.mean(g.op("square", x)), epsilon)
    return g.op("mul", x, g.op("rsqrt", v))


def test_rms_norm_in_f32_of_bf16():
    g = Graph()
    x = g.input("x", (2, 3, 16), bf16)
    y = g.cast(spelled_rms_norm(g, g.cast(x, f32)), bf16)
    weight = g.weight("w", vector(16).astype("bfloat16"))
    _, families = simplified(g.finish(g.op("mul", weight, y)), tolerance=1e-2)
    assert families == {"rms_norm": 1}


def test_rms_norm_with_weight_in_the_factor():
    g = Graph()
    x = g.input("x", (2, 3, 16))
    v = g.op("rsqrt", g.op("add", g.mean(g.op("square", x)), 1e-5))
    y = g.op("mul", x, g.op("mul", v, g.weight("w", vector(16))))
    assert simplified(g.finish(y))[1] == {"rms_norm": 1}


def test_near_misses_of_rms_norm_stay():
    def families(change) -> dict[str, int]:
        g = Graph()
        return simplified(g.finish(*change(g, g.input("x", (2, 4, 4)))))[1]

    def read_twice(g, x):
        v = g.op("add", g.mean(g.op("square", x)), 1e-5)
        return g.op("mul", x, g.op("rsqrt", v)), v

    def epsilon_after_root(g, x):
        return (g.op("div", x, g.op("add", g.op("sqrt", g.mean(g.op("square", x))), 1e-5)),)

    def other_value(g, x):
        y = g.op("exp", x)
        return (g.op("mul", y, g.op("rsqrt", g.op("add", g.mean(g.op("square", x)), 1e-5))),)

    def not_the_mean(g, x):
        total = g.op("mul", g.reduction("sum", g.op("square", x), [2], keepdims=True), 0.3)
        return (g.op("mul", x, g.op("rsqrt", g.op("add", total, 1e-5))),)

    def other_axis(g, x):
        row = g.reduction("mean", g.op("square", x), [1])  # read along the wrong dimension
        return (g.op("mul", x, g.op("rsqrt", g.op("add", g.reshape(row, (2, 4, 1)), 1e-5))),)

    def cube(g, x):
        return (g.op("mul", x, g.op("rsqrt", g.op("add", g.mean(g.op("pow", x, 4.0)), 1e-5))),)

    for change in (read_twice, epsilon_after_root, other_value, not_the_mean, other_axis, cube):
        assert "rms_norm" not in families(change), change.__name__


@SOME
@given(
    batch=st.integers(1, 2),
    rows=st.integers(1, 5),
    width=st.integers(3, 12),
    form=st.sampled_from(["two means", "fast", "clipped", "rows"]),
    order=st.sampled_from(["last", "factor"]),
    weight=st.booleans(),
    bias=st.booleans(),
)
def test_layer_norm(batch, rows, width, form, order, weight, bias):
    g = Graph()
    x = g.input("x", (batch, rows, width))
    average = g.mean(x)
    if form == "rows":  # means without the last dimension, which comes back by a reshape
        column = (batch, rows, 1)
        average = g.reshape(g.reduction("mean", x, [2]), column)
        squares = g.reshape(g.reduction("mean", g.op("square", x), [2]), column)
        variance = g.op("relu", g.op("sub", squares, g.op("square", average)))
        centred = g.op("sub", x, average)
    elif form == "two means":
        centred = g.op("sub", x, average)
        variance = g.mean(g.op("mul", centred, centred))
    else:
        variance = g.op("sub", g.mean(g.op("square", x)), g.op("square", average))
        variance = g.op("max", variance, 0.0) if form == "clipped" else variance
        centred = g.op("sub", x, average)
    inverse = g.op("rsqrt", g.op("add", variance, 1e-3))
    w = g.weight("w", vector(width))
    if weight and order == "factor":
        y = g.op("mul", centred, g.op("mul", inverse, w))
    else:
        y = g.op("mul", centred, inverse)
        y = g.op("mul", y, w) if weight else y
    if bias and weight:
        y = g.op("add", y, g.weight("b", vector(width)))
    _, families = simplified(g.finish(y), tolerance=2e-5)
    assert families == {"layer_norm": 1}


def test_layer_norm_divided_by_the_root():
    g = Graph()
    x = g.input("x", (2, 5, 8))
    d = g.op("sub", x, g.mean(x))
    y = g.op("div", d, g.op("sqrt", g.op("add", g.mean(g.op("pow", d, 2.0)), 1e-5)))
    y = g.op("add", g.op("mul", y, g.weight("w", vector(8))), g.weight("b", vector(8)))
    assert simplified(g.finish(y))[1] == {"layer_norm": 1}


def test_spellings_stay_where_a_step_is_read_elsewhere():
    def root_read(g, x):
        root = g.op("sqrt", g.op("add", g.mean(g.op("square", x)), 1e-5))
        return g.op("div", x, root), root

    def exponential_read(g, x):
        e = g.op("exp", g.op("neg", x))
        return g.op("div", x, g.op("add", e, 1.0)), e

    def inverse_read(g, x):
        e = g.op("exp", g.op("sub", x, g.reduction("max", x, [2], keepdims=True)))
        inverse = g.op("recip", g.reduction("sum", e, [2], keepdims=True))
        return g.op("mul", e, inverse), inverse

    def bent_read(g, x):
        plus = g.op("add", g.op("erf", g.op("div", x, math.sqrt(2))), 1.0)
        return g.op("mul", g.op("mul", x, plus), 0.5), plus

    for change in (root_read, exponential_read, inverse_read, bent_read):
        g = Graph()
        model = g.finish(*change(g, g.input("x", (2, 3, 8))))
        before = counts(model.module)
        assert simplified(model, tolerance=0.0)[1] == before, change.__name__


# ----------------------------------------------------------------------------------- activations


def test_activations():
    def sigmoid_product(g, x):
        return g.op("mul", x, g.op("sigmoid", x))

    def quotient(g, x):
        return g.op("div", x, g.op("add", g.op("exp", g.op("neg", x)), 1.0))

    def inverse(g, x):
        e = g.op("add", g.op("exp", g.op("neg", x)), 1.0)
        return g.op("mul", x, g.op("div", 1.0, e))

    for spelling in (sigmoid_product, quotient, inverse):
        g = Graph()
        x, up = g.input("x", (3, 8)), g.input("up", (3, 8))
        y = spelling(g, x)
        assert simplified(g.finish(y))[1] == {"silu": 1}, spelling.__name__
        g = Graph()
        x, up = g.input("x", (3, 8)), g.input("up", (3, 8))
        assert simplified(g.finish(g.op("mul", up, spelling(g, x))))[1] == {"silu_gate": 1}


CUBES = {
    "cube": lambda g, x: g.op("cube", x),
    "power": lambda g, x: g.op("pow", x, 3.0),
    "product": lambda g, x: g.op("mul", g.op("mul", x, x), x),
}


@pytest.mark.parametrize("cube", sorted(CUBES))
@pytest.mark.parametrize("half", ["factor", "x", "last", "quotient"])
@pytest.mark.parametrize("kind", ["gelu_tanh", "gelu_erf"])
def test_gelu(cube, half, kind):
    g = Graph()
    x = g.input("x", (3, 8))
    if kind == "gelu_tanh":
        inner = g.op("add", x, g.op("mul", CUBES[cube](g, x), 0.044715))
        bend = g.op("tanh", g.op("mul", inner, math.sqrt(2 / math.pi)))
    else:
        bend = g.op("erf", g.op("div", x, math.sqrt(2)))
    plus = g.op("add", bend, 1.0)
    if half == "factor":
        y = g.op("mul", x, g.op("mul", plus, 0.5))
    elif half == "x":
        y = g.op("mul", g.op("mul", x, 0.5), plus)
    elif half == "last":
        y = g.op("mul", g.op("mul", x, plus), 0.5)
    else:
        y = g.op("div", g.op("mul", x, plus), 2.0)
    assert simplified(g.finish(y))[1] == {kind: 1}


def test_near_misses_of_activations_stay():
    g = Graph()
    x, z = g.input("x", (3, 8)), g.input("z", (3, 8))
    gate = g.op("sigmoid", x)
    families = simplified(g.finish(g.op("mul", x, gate), g.op("mul", z, gate)))[1]
    assert "silu" not in families
    g = Graph()
    x = g.input("x", (3, 8))
    inner = g.op("add", x, g.op("mul", g.op("cube", x), 0.05))  # another coefficient
    y = g.op("mul", x, g.op("mul", g.op("add", g.op("tanh", inner), 1.0), 0.5))
    assert "gelu_tanh" not in simplified(g.finish(y))[1]


def test_softmax():
    for inverse in (False, True):
        g = Graph()
        x = g.input("x", (2, 3, 5))
        low = g.fill(FloatAttr(-math.inf, f32), (2, 3, 1))
        top = g.op("max", g.reduction("max", x, [2], keepdims=True), low)
        e = g.op("exp", g.op("sub", x, top))
        total = g.reduction("sum", e, [2], keepdims=True)
        y = g.op("mul", e, g.op("div", 1.0, total)) if inverse else g.op("div", e, total)
        assert simplified(g.finish(y))[1] == {"softmax": 1}


def test_the_given_model_stays_as_it_was():
    g = Graph()
    x = g.input("x", (2, 3, 16))
    model = g.finish(spelled_rms_norm(g, x))
    before = counts(model.module)
    simplified(model)
    assert counts(model.module) == before
