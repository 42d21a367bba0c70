"""raise-composites: every spelling gets its name and its value, near misses stay as they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.spelled import Graph, attribute_of, counts, simplified, text_of
from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import FloatAttr, IntegerAttr, SSAValue, bf16, f32, i1, i64

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(7)


def vector(size: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(size)).astype(np.float32)


# ---------------------------------------------------------------------------------------- norms

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
    form=st.sampled_from(["two means", "fast", "clipped"]),
    order=st.sampled_from(["last", "factor"]),
    weight=st.booleans(),
    bias=st.booleans(),
)
def test_layer_norm(batch, rows, width, form, order, weight, bias):
    g = Graph()
    x = g.input("x", (batch, rows, width))
    average = g.mean(x)
    if form == "two means":
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


# ----------------------------------------------------------------------------------------- rope


def tables(g: Graph, batch: int, rows: int, width: int, heads_first: bool, known: bool):
    shape = (batch, 1, rows, width) if heads_first else (batch, rows, 1, width)
    if not known:
        return g.input("cos", shape), g.input("sin", shape)
    angles = RNG.standard_normal(shape).astype(np.float32)
    return g.weight("cos", np.cos(angles)), g.weight("sin", np.sin(angles))


def turned(g: Graph, a, b, cos, sin, sign: str = "sub"):
    if sign == "sub":
        first = g.op("sub", g.op("mul", a, cos), g.op("mul", b, sin))
    else:
        first = g.op("add", g.op("mul", a, cos), g.op("mul", g.op("neg", b), sin))
    return first, g.op("add", g.op("mul", b, cos), g.op("mul", a, sin))


def rotated(g: Graph, x, cos, sin, style: str):
    """The spellings of one rotation."""
    shape, rank = shape_of(x), len(shape_of(x))
    half = shape[-1] // 2
    a, b = g.halves(x)
    if style in ("split", "negative"):
        parts = turned(g, a, b, cos, sin, "sub" if style == "split" else "add")
        return g.concat(parts, rank - 1)
    if style == "half":
        swapped = g.concat([g.op("neg", b), a], rank - 1)
        cos, sin = (g.concat([t, t], rank - 1) for t in (cos, sin))
        return g.op("add", g.op("mul", x, cos), g.op("mul", swapped, sin))
    if style == "tiled":
        swapped = g.concat([g.op("neg", b), a], rank - 1)
        doubled = []
        for t in (cos, sin):
            sizes = shape_of(t)
            wide = g.reshape(t, (*sizes[:-1], 1, half))
            wide = g.repeat(wide, (*sizes[:-1], 2, half))
            doubled.append(g.reshape(wide, (*sizes[:-1], 2 * half)))
        return g.op("add", g.op("mul", x, doubled[0]), g.op("mul", swapped, doubled[1]))
    if style == "assign":
        first, last = turned(g, a, b, cos, sin)
        target = g.fill(FloatAttr(0.0, f32), shape)
        for start, value in ((0, first), (half, last)):
            target = insert(g, value, target, start, 1)
        return target
    a, b = g.part(x, 0, half, 2), g.part(x, 1, half, 2)
    first, last = turned(g, a, b, cos, sin)
    if style == "assign pairs":
        target = g.fill(FloatAttr(0.0, f32), shape)
        return insert(g, last, insert(g, first, target, 0, 2), 1, 2)
    if style == "pairs":
        stacked = [g.reshape(v, (*shape[:-1], half, 1)) for v in (first, last)]
        return g.reshape(g.concat(stacked, rank), shape)
    assert style == "whole pairs"
    stacked = [g.reshape(v, (*shape[:-1], half, 1)) for v in (g.op("neg", b), a)]
    swapped = g.reshape(g.concat(stacked, rank), shape)
    doubled = []
    for t in (cos, sin):
        sizes = shape_of(t)
        wide = g.repeat(g.reshape(t, (*sizes[:-1], half, 1)), (*sizes[:-1], half, 2))
        doubled.append(g.reshape(wide, (*sizes[:-1], 2 * half)))
    return g.op("add", g.op("mul", x, doubled[0]), g.op("mul", swapped, doubled[1]))


def insert(g: Graph, value, target, start: int, step: int):
    from tilewright.dialects.intents import integers

    rest = len(shape_of(target)) - 1
    attributes = {
        "offsets": integers([0] * rest + [start]),
        "sizes": integers(shape_of(value)),
        "strides": integers([1] * rest + [step]),
    }
    return g.call("insert_slice", [value, target], target.type, attributes)


STYLES = [
    "split", "negative", "half", "tiled", "assign", "pairs", "assign pairs", "whole pairs",
]  # fmt: skip


@SOME
@given(
    style=st.sampled_from(STYLES),
    batch=st.integers(1, 2),
    rows=st.integers(1, 5),
    heads=st.integers(1, 3),
    half=st.integers(2, 5),
    heads_first=st.booleans(),
    known=st.booleans(),
)
def test_rope(style, batch, rows, heads, half, heads_first, known):
    g = Graph()
    shape = (batch, heads, rows, 2 * half) if heads_first else (batch, rows, heads, 2 * half)
    x = g.input("x", shape)
    cos, sin = tables(g, batch, rows, half, heads_first, known)
    result, families = simplified(g.finish(rotated(g, x, cos, sin, style)))
    assert families.pop("rope") == 1
    assert set(families) <= {"reshape"}
    expected = "interleaved" if "pairs" in style else "split_half"
    assert text_of(result, "rope", "style") == expected
    op = next(o for o in result.module.walk() if "style" in o.attributes)
    assert shape_of(op.operands[1])[-1] == half


def test_rope_with_tables_of_doubled_angles():
    g = Graph()
    x = g.input("x", (1, 3, 5, 8))
    angles = g.input("angles", (1, 5, 4))
    doubled = g.concat([angles, angles], 2)
    cos, sin = (g.reshape(g.op(f, doubled), (1, 1, 5, 8)) for f in ("cos", "sin"))
    a, b = g.halves(x)
    y = g.op("add", g.op("mul", x, cos), g.op("mul", g.concat([g.op("neg", b), a], 3), sin))
    result, families = simplified(g.finish(y))
    assert families["rope"] == 1 and "concat" not in families
    op = next(o for o in result.module.walk() if "style" in o.attributes)
    assert shape_of(op.operands[1])[-1] == 4


def test_rope_keeps_whole_tables_that_do_not_repeat():
    g = Graph()
    x = g.input("x", (1, 3, 5, 8))
    cos, sin = (g.weight(n, RNG.standard_normal((5, 8)).astype(np.float32)) for n in ("c", "s"))
    a, b = g.halves(x)
    y = g.op("add", g.op("mul", x, cos), g.op("mul", g.concat([g.op("neg", b), a], 3), sin))
    result, families = simplified(g.finish(y))
    assert families == {"rope": 1}
    op = next(o for o in result.module.walk() if "style" in o.attributes)
    assert shape_of(op.operands[1]) == (5, 8)


def test_rope_with_one_doubled_table():
    g = Graph()
    x = g.input("x", (2, 5, 8))
    half, sin = g.input("half", (5, 4)), g.input("sin", (5, 8))
    cos = g.concat([half, half], 1)
    a, b = g.halves(x)
    y = g.op("add", g.op("mul", x, cos), g.op("mul", g.concat([g.op("neg", b), a], 2), sin))
    assert simplified(g.finish(y))[1] == {"rope": 1, "concat": 1}


def test_near_misses_of_rope_stay():
    def families(change) -> dict[str, int]:
        g = Graph()
        x, z = g.input("x", (2, 5, 8)), g.input("z", (2, 5, 8))
        cos, sin = g.input("cos", (5, 4)), g.input("sin", (5, 4))
        return simplified(g.finish(*change(g, x, z, cos, sin)))[1]

    def other_half(g, x, z, cos, sin):
        return (g.concat(turned(g, g.halves(x)[0], g.halves(z)[1], cos, sin), 2),)

    def exchanged(g, x, z, cos, sin):
        return (g.concat(turned(g, *reversed(g.halves(x)), cos, sin), 2),)

    def other_table(g, x, z, cos, sin):
        a, b = g.halves(x)
        first, _ = turned(g, a, b, cos, sin)
        return (g.concat([first, turned(g, a, b, sin, cos)[1]], 2),)

    def read_twice(g, x, z, cos, sin):
        parts = turned(g, *g.halves(x), cos, sin)
        return g.concat(parts, 2), parts[0]

    def wrong_axis(g, x, z, cos, sin):
        return (g.concat(turned(g, *g.halves(x), cos, sin), 1),)

    for change in (other_half, exchanged, other_table, read_twice, wrong_axis):
        assert "rope" not in families(change), change.__name__


# ------------------------------------------------------------------------------------ attention


def repeated(g: Graph, x, group: int, style: str):
    """[batch, heads, keys, width] with every head `group` times in a row."""
    batch, heads, keys, width = shape_of(x)
    if group == 1:
        return x
    wide = g.reshape(x, (batch, heads, 1, keys, width))
    if style == "broadcast":
        wide = g.repeat(wide, (batch, heads, group, keys, width))
    elif style == "concat":
        wide = g.concat([wide] * group, 2)
    else:
        numbers = np.repeat(np.arange(heads), group)
        axis = {"axis": IntegerAttr(1, i64)}
        from tilewright.dialects.xdsl_api import TensorType

        type_ = TensorType(f32, [batch, heads * group, keys, width])
        return g.call("gather", [x, g.weight(f"at{len(g.weights)}", numbers)], type_, axis)
    return g.reshape(wide, (batch, heads * group, keys, width))


@SOME
@given(
    batch=st.integers(1, 2),
    heads=st.integers(1, 3),
    group=st.integers(1, 3),
    queries=st.integers(1, 4),
    keys=st.integers(2, 5),
    width=st.sampled_from([4, 6]),
    style=st.sampled_from(["broadcast", "concat", "lookup"]),
    mask=st.sampled_from(["none", "bool", "hidden", "additive", "chosen", "key", "one for all"]),
    scale=st.sampled_from(["after", "quotient", "before", "both", "none"]),
    layout=st.sampled_from(["heads first", "tokens first"]),
    turned_key=st.booleans(),
)
def test_attention(batch, heads, group, queries, keys, width, style, mask, scale, layout, turned_key):
    g = Graph()
    if layout == "heads first":
        q = g.input("q", (batch, heads * group, queries, width))
        k, v = (g.input(n, (batch, heads, keys, width)) for n in "kv")
    else:
        q = g.transpose(g.input("q", (batch, queries, heads * group, width)), [0, 2, 1, 3])
        k, v = (
            g.transpose(g.input(n, (batch, keys, heads, width)), [0, 2, 1, 3]) for n in "kv"
        )
    k, v = (repeated(g, x, group, style) for x in (k, v))
    if scale in ("before", "both"):
        q = g.op("mul", q, 0.7)
    if scale == "both":
        k = g.op("mul", k, 0.7)
    if turned_key:
        s = g.product(q, g.transpose(k, [0, 1, 3, 2]))
    else:
        s = g.product(q, k, turned=True)
    if scale == "after":
        s = g.op("mul", s, 0.5)
    elif scale == "quotient":
        s = g.op("div", s, 2.0)
    if mask == "bool":
        s = g.op("select", g.input("mask", (batch, 1, queries, keys), i1), s, -3e38)
    elif mask == "hidden":
        hidden = g.op("logical_not", g.input("mask", (batch, 1, queries, keys), i1))
        s = g.op("select", hidden, -3e38, s)
    elif mask == "additive":
        s = g.op("add", s, g.input("mask", (1, 1, queries, keys)))
    elif mask == "chosen":
        zero = g.fill(FloatAttr(0.0, f32), ())
        low = g.op("select", g.input("mask", (queries, keys), i1), zero, -math.inf)
        s = g.op("add", low, s)
    elif mask == "key":
        s = g.op("select", g.input("mask", (batch, 1, 1, keys), i1), s, -1e9)
    elif mask == "one for all":
        s = g.op("add", s, g.input("mask", (keys,)))
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    result, families = simplified(g.finish(g.product(p, v)), tolerance=1e-5)
    assert families.pop("gemma_attention") == 1
    assert not {"matmul", "softmax", "elementwise_mul", "elementwise_div"} & set(families)
    found = attribute_of(result, "gemma_attention", "kv_group")
    if heads * group == 1 or (group == 1 and scale != "both"):
        assert found is None
    elif scale != "both" and group > 1:  # a factor on repeated keys is in the way of grouping
        assert isinstance(found, IntegerAttr) and found.value.data == group
    if mask in ("bool", "hidden", "chosen", "key"):
        assert text_of(result, "gemma_attention", "mask_kind") == "bool"


def plain_attention(g: Graph, shape=(2, 3, 4, 8), keys=4, mask=None, softmax_axis=-1):
    batch, heads, queries, width = shape
    q = g.input("q", shape)
    k, v = (g.input(n, (batch, heads, keys, width)) for n in "kv")
    s = g.op("mul", g.product(q, k, turned=True), 0.25)
    if mask is not None:
        s = mask(g, s)
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(softmax_axis, i64)})
    return g.product(p, v), s, p


@pytest.mark.parametrize("queries, keys", [(4, 4), (3, 5), (1, 4)])
@pytest.mark.parametrize("kind", ["bool", "additive", "compare"])
def test_causal_masks_become_an_attribute(queries, keys, kind):
    triangle = np.tril(np.ones((queries, keys), bool), keys - queries)

    def mask(g: Graph, s):
        if kind == "bool":
            return g.op("select", g.weight("m", triangle.reshape(1, 1, queries, keys)), s, -3e38)
        if kind == "additive":
            return g.op("add", s, g.weight("m", np.where(triangle, 0, -np.inf).astype(np.float32)))
        from tilewright.dialects.xdsl_api import StringAttr, TensorType

        at = [
            g.call("iota", [], TensorType(i64, [n]), {"axis": IntegerAttr(0, i64)})
            for n in (queries, keys)
        ]
        rows = g.reshape(g.op("add", at[0], keys - queries), (queries, 1))
        from tilewright.dialects.intents import Lane

        lanes = [Lane(at[1], (1,)), Lane(rows, (0, None))]
        test = g.elementwise(
            "compare", lanes, i1, {0: queries, 1: keys}, {"predicate": StringAttr("le")}
        )
        return g.op("select", test.tensor, s, -3e38)

    g = Graph()
    y = plain_attention(g, (2, 3, queries, 8), keys, mask)[0]
    result, families = simplified(g.finish(y), tolerance=1e-5, exact_masked_rows=True)
    assert families == {"gemma_attention": 1}
    assert (attribute_of(result, "gemma_attention", "causal") is not None) == (queries > 1)
    assert result.weights == {}


def test_masks_that_hide_nothing_go():
    for array in (np.ones((4, 4), bool), np.zeros((1, 1, 4, 4), np.float32)):

        def mask(g: Graph, s, array=array):
            value = g.weight("m", array)
            return g.op("select", value, s, -1e9) if array.dtype == bool else g.op("add", s, value)

        g = Graph()
        result, families = simplified(g.finish(plain_attention(g, mask=mask)[0]), tolerance=1e-5)
        assert families == {"gemma_attention": 1}
        assert attribute_of(result, "gemma_attention", "mask_kind") is None


def test_other_known_masks_stay_masks():
    array = np.array([True, True, True, False])

    def mask(g: Graph, s):
        return g.op("select", g.weight("m", array), s, -1e9)

    g = Graph()
    result, families = simplified(g.finish(plain_attention(g, mask=mask)[0]), tolerance=1e-5)
    assert families["gemma_attention"] == 1
    assert text_of(result, "gemma_attention", "mask_kind") == "bool"
    assert attribute_of(result, "gemma_attention", "causal") is None


def test_causal_mask_with_another():
    triangle = np.tril(np.ones((4, 4), bool))

    def mask(g: Graph, s):
        s = g.op("select", g.weight("m", triangle), s, -3e38)
        return g.op("add", s, g.input("more", (2, 1, 1, 4)))

    g = Graph()
    result, families = simplified(g.finish(plain_attention(g, mask=mask)[0]), tolerance=1e-5)
    assert families["gemma_attention"] == 1
    assert attribute_of(result, "gemma_attention", "causal") is not None
    assert text_of(result, "gemma_attention", "mask_kind") == "additive"


def test_two_bool_masks_become_one():
    def mask(g: Graph, s):
        s = g.op("select", g.input("rows", (2, 1, 4, 4), i1), s, -3e38)
        return g.op("select", g.input("keys", (1, 1, 1, 4), i1), s, -3e38)

    g = Graph()
    _, families = simplified(g.finish(plain_attention(g, mask=mask)[0]), tolerance=1e-5)
    assert families["gemma_attention"] == 1 and families["logical_and"] == 1


def test_attention_on_collapsed_heads():
    g = Graph()
    q, k, v = (g.input(n, (2, 3, 4, 8)) for n in "qkv")
    flat = [g.reshape(x, (6, 4, 8)) for x in (q, k, v)]
    s = g.reshape(g.op("mul", g.product(flat[0], flat[1], turned=True), 0.25), (2, 3, 4, 4))
    s = g.op("add", s, g.input("mask", (2, 1, 1, 4)))
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    y = g.reshape(g.product(g.reshape(p, (6, 4, 4)), flat[2]), (2, 3, 4, 8))
    _, families = simplified(g.finish(y), tolerance=1e-5)
    assert families == {"gemma_attention": 1, "cast": 1}


def test_attention_turned_round():
    """Values times weights, and keys times queries: the result is turned."""
    g = Graph()
    q, k, v = (g.input(n, (2, 3, 4, 8)) for n in "qkv")
    s = g.transpose(g.product(k, q, turned=True), [0, 1, 3, 2])
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    y = g.product(g.transpose(v, [0, 1, 3, 2]), p, turned=True)
    _, families = simplified(g.finish(y), tolerance=1e-5)
    assert families == {"gemma_attention": 1, "transpose": 1}


def test_decomposed_softmax_inside_attention():
    g = Graph()
    q, k, v = (g.input(n, (1, 2, 4, 8)) for n in "qkv")
    s = g.op("mul", g.product(q, k, turned=True), 0.25)
    e = g.op("exp", g.op("sub", s, g.reduction("max", s, [3], keepdims=True)))
    p = g.op("div", e, g.reduction("sum", e, [3], keepdims=True))
    assert simplified(g.finish(g.product(p, v)), tolerance=1e-5)[1] == {"gemma_attention": 1}


def test_bf16_attention_with_f32_scores():
    g = Graph()
    q, k, v = (g.input(n, (1, 2, 4, 8), bf16) for n in "qkv")
    s = g.op("mul", g.product(g.cast(q, f32), g.cast(k, f32), turned=True), 0.25)
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    y = g.product(g.cast(p, bf16), v)
    assert simplified(g.finish(y), tolerance=1e-2)[1] == {"gemma_attention": 1}


def test_near_misses_of_attention_stay():
    def families(*results: int, **options) -> dict[str, int]:
        g = Graph()
        made = plain_attention(g, **options)
        return simplified(g.finish(*(made[i] for i in (0, *results))), tolerance=1e-5)[1]

    assert "gemma_attention" in families()
    assert "gemma_attention" not in families(1)  # the scores are read elsewhere
    assert "gemma_attention" not in families(2)  # the weights are read elsewhere
    assert "gemma_attention" not in families(softmax_axis=-2)
    bent = families(mask=lambda g, s: g.op("tanh", s))
    assert "gemma_attention" not in bent
    small = families(mask=lambda g, s: g.op("select", g.input("m", (4, 4), i1), s, -5.0))
    assert "gemma_attention" not in small  # -5 hides nothing
    scaled = families(mask=lambda g, s: g.op("mul", g.op("add", s, g.input("m", (4, 4))), 2.0))
    assert "gemma_attention" not in scaled  # the mask would be scaled too


def test_heads_in_another_order_are_not_grouped():
    g = Graph()
    q = g.input("q", (1, 4, 3, 8))
    k, v = (g.input(n, (1, 2, 3, 8)) for n in "kv")
    k, v = (g.concat([x, x], 1) for x in (k, v))  # heads 0 1 0 1, not 0 0 1 1
    s = g.product(q, k, turned=True)
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    result, families = simplified(g.finish(g.product(p, v)), tolerance=1e-5)
    assert families == {"gemma_attention": 1, "concat": 2}
    assert attribute_of(result, "gemma_attention", "kv_group") is None


def test_rows_without_keys():
    """With exact_masked_rows a mask that may hide everything keeps attention in pieces."""

    def mask(g: Graph, s):
        return g.op("select", g.input("m", (4, 4), i1), s, -3e38)

    g = Graph()
    model = g.finish(plain_attention(g, mask=mask)[0])
    assert "gemma_attention" in simplified(model, tolerance=1e-5)[1]
    exact = simplified(model, exact_masked_rows=True)[1]
    assert "gemma_attention" not in exact and exact["matmul"] == 2


# ------------------------------------------------------------------------------------ batch norm


def test_batch_norm_goes_into_the_convolution():
    from tilewright.dialects.intents import integers
    from tilewright.dialects.xdsl_api import TensorType

    for bias in (False, True):
        g = Graph()
        x = g.input("x", (2, 3, 5, 5))
        w = g.weight("w", RNG.standard_normal((4, 3, 3, 3)).astype(np.float32))
        operands = [x, w] + ([g.weight("b", vector(4))] if bias else [])
        y = g.call("conv2d", operands, TensorType(f32, [2, 4, 3, 3]), {"strides": integers([1, 1])})
        channel = [g.weight(n, vector(4)) for n in ("gamma", "beta", "mean")]
        spread = g.op("rsqrt", g.op("add", g.weight("var", np.abs(vector(4))), 1e-5))
        gamma, beta, mean, spread = (g.reshape(v, (4, 1, 1)) for v in (*channel, spread))
        y = g.op("mul", g.op("mul", g.op("sub", y, mean), spread), gamma)
        result, families = simplified(g.finish(g.op("add", y, beta)), tolerance=1e-5)
        assert families == {"conv2d": 1}
        assert len(result.weights) == 1  # the filters; a bias of four is in the module
        assert sorted(result.weights) != ["w"]


def test_scale_and_shift_go_into_a_product():
    for turned_weight in (False, True):
        g = Graph()
        x = g.input("x", (2, 5, 8))
        shape = (20, 8) if turned_weight else (8, 20)
        w = g.weight("w", RNG.standard_normal(shape).astype(np.float32))
        y = g.op("add", g.product(x, w, turned=turned_weight), g.weight("b", vector(20)))
        y = g.op("div", g.op("mul", y, g.weight("scale", vector(20))), g.weight("d", vector(20)))
        y = g.op("add", y, g.weight("shift", vector(20)))
        result, families = simplified(g.finish(y), tolerance=1e-5)
        assert families == {"matmul": 1, "elementwise_add": 1}
        assert len(result.weights) == 2


def test_scale_of_a_shared_or_unknown_product_stays():
    g = Graph()
    x, z = g.input("x", (4, 8)), g.input("z", (8, 6))
    w = g.weight("w", RNG.standard_normal((8, 6)).astype(np.float32))
    shared = g.product(x, w)
    y = g.op("mul", shared, g.weight("scale", vector(6)))
    unknown = g.op("mul", g.product(x, z), g.weight("other", vector(6)))
    rows = g.op("mul", g.product(x, w), g.reshape(g.weight("rows", vector(4)), (4, 1)))
    _, families = simplified(g.finish(y, shared, unknown, rows))
    assert families["elementwise_mul"] == 3


def test_bias_row_after_a_product_stays():
    g = Graph()
    x = g.input("x", (4, 8))
    w = g.weight("w", RNG.standard_normal((6, 8)).astype(np.float32))
    y = g.op("add", g.product(x, w, turned=True), g.weight("b", vector(6)))
    result, families = simplified(g.finish(y), tolerance=0.0)
    assert families == {"matmul": 1, "elementwise_add": 1}
    assert sorted(result.weights) == ["b", "w"]


def test_the_given_model_stays_as_it_was():
    g = Graph()
    x = g.input("x", (2, 3, 16))
    model = g.finish(spelled_rms_norm(g, x))
    before = counts(model.module)
    simplified(model)
    assert counts(model.module) == before
