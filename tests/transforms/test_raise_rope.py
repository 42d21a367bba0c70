"""raise-composites: rotary embeddings in all their spellings."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, simplified, text_of

from tilewright.dialects.intents import shape_of
from tilewright.dialects.xdsl_api import (
    FloatAttr,
    IntegerAttr,
    f32,
    i64,
)
from tilewright.transforms.kernel_rewriting import family_name

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(7)


def vector(size: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(size)).astype(np.float32)


def tables(g: Graph, batch: int, rows: int, width: int, heads_first: bool, known: bool):
    shape = (batch, 1, rows, width) if heads_first else (batch, rows, 1, width)
    if not known:
        return g.input("cos", shape), g.input("sin", shape)
    angles = RNG.standard_normal(shape).astype(np.float32)
    return g.weight("cos", np.cos(angles)), g.weight("sin", np.sin(angles))


def turned(g: Graph, halves, cos, sin, sign: str = "sub"):
    a, b = halves
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
        parts = turned(g, (a, b), cos, sin, "sub" if style == "split" else "add")
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
        first, last = turned(g, (a, b), cos, sin)
        target = g.fill(FloatAttr(0.0, f32), shape)
        for start, value in ((0, first), (half, last)):
            target = g.insert(value, target, start)
        return target
    if style == "complex pairs":  # real and imaginary parts of [.., half, 2]
        apart = g.reshape(x, (*shape[:-1], half, 2))
        a, b = (g.reshape(g.part(apart, i, 1), (*shape[:-1], half)) for i in (0, 1))
    else:
        a, b = g.part(x, 0, half, 2), g.part(x, 1, half, 2)
    first, last = turned(g, (a, b), cos, sin)
    if style == "assign pairs":
        target = g.fill(FloatAttr(0.0, f32), shape)
        return g.insert(last, g.insert(first, target, 0, 2), 1, 2)
    if style in ("pairs", "complex pairs"):
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


STYLES = [
    "split", "negative", "half", "tiled", "assign", "pairs", "assign pairs", "whole pairs",
    "complex pairs",
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


@SOME
@given(style=st.sampled_from(["split", "pairs"]), half=st.integers(2, 5), longer=st.booleans())
def test_a_norm_of_rotated_rows_comes_first(style, half, longer):
    """A rotation keeps lengths, so the norm is of what is rotated; one that stretches rows stays."""
    g = Graph()
    x = g.input("x", (1, 3, 5, 2 * half))
    cos, sin = tables(g, 1, 5, half, True, True)
    if longer:
        cos = g.op("mul", cos, 1.5)
    attributes = {"epsilon": FloatAttr(1e-3, f32), "axis": IntegerAttr(3, i64)}
    y = g.call("rms_norm", [rotated(g, x, cos, sin, style)], x.type, attributes)
    result, families = simplified(g.finish(y))
    assert families["rope"] == 1 and families["rms_norm"] == 1
    order = [family_name(o) for o in result.module.walk()]
    assert (order.index("rms_norm") < order.index("rope")) is not longer


def test_a_norm_of_rotated_rows_with_a_weight_stays():
    g = Graph()
    x = g.input("x", (1, 3, 5, 8))
    cos, sin = tables(g, 1, 5, 4, True, True)
    attributes = {"epsilon": FloatAttr(1e-3, f32), "axis": IntegerAttr(3, i64)}
    operands = [rotated(g, x, cos, sin, "split"), g.weight("w", vector(8))]
    result, _ = simplified(g.finish(g.call("rms_norm", operands, x.type, attributes)))
    order = [family_name(o) for o in result.module.walk()]
    assert order.index("rope") < order.index("rms_norm")


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
        return (g.concat(turned(g, (g.halves(x)[0], g.halves(z)[1]), cos, sin), 2),)

    def exchanged(g, x, z, cos, sin):
        return (g.concat(turned(g, g.halves(x)[::-1], cos, sin), 2),)

    def other_table(g, x, z, cos, sin):
        a, b = g.halves(x)
        first, _ = turned(g, (a, b), cos, sin)
        return (g.concat([first, turned(g, (a, b), sin, cos)[1]], 2),)

    def read_twice(g, x, z, cos, sin):
        parts = turned(g, g.halves(x), cos, sin)
        return g.concat(parts, 2), parts[0]

    def wrong_axis(g, x, z, cos, sin):
        return (g.concat(turned(g, g.halves(x), cos, sin), 1),)

    for change in (other_half, exchanged, other_table, read_twice, wrong_axis):
        assert "rope" not in families(change), change.__name__
