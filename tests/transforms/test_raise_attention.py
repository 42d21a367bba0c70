"""raise-composites: attention spelled out, its masks and grouped heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, attribute_of, simplified, text_of

from tilewright.dialects.intents import Lane, shape_of
from tilewright.dialects.xdsl_api import (
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    bf16,
    f32,
    i1,
    i64,
)

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(7)


def vector(size: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(size)).astype(np.float32)


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
def test_attention(
    batch, heads, group, queries, keys, width, style, mask, scale, layout, turned_key
):
    g = Graph()
    if layout == "heads first":
        q = g.input("q", (batch, heads * group, queries, width))
        k, v = (g.input(n, (batch, heads, keys, width)) for n in "kv")
    else:
        q = g.transpose(g.input("q", (batch, queries, heads * group, width)), [0, 2, 1, 3])
        k, v = (g.transpose(g.input(n, (batch, keys, heads, width)), [0, 2, 1, 3]) for n in "kv")
    k, v = (repeated(g, x, group, style) for x in (k, v))
    if scale in ("before", "both"):
        q = g.op("mul", q, 0.7)
    if scale == "both":
        k = g.op("mul", k, 0.7)
    lying = g.transpose(k, [0, 1, 3, 2]) if turned_key else k
    s = g.product(q, lying, turned=not turned_key)
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
    batch, heads, _, width = shape
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
        at = [
            g.call("iota", [], TensorType(i64, [n]), {"axis": IntegerAttr(0, i64)})
            for n in (queries, keys)
        ]
        rows = g.reshape(g.op("add", at[0], keys - queries), (queries, 1))

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


def test_causal_mask_in_a_sum_of_masks():
    triangle = np.where(np.tril(np.ones((4, 4), bool)), 0, -np.inf).astype(np.float32)

    def mask(g: Graph, s):
        return g.op("add", s, g.op("add", g.input("more", (2, 1, 4, 4)), g.weight("m", triangle)))

    g = Graph()
    result, families = simplified(g.finish(plain_attention(g, mask=mask)[0]), tolerance=1e-5)
    assert families == {"gemma_attention": 1}
    assert attribute_of(result, "gemma_attention", "causal") is not None


@pytest.mark.parametrize("of", ["mask", "scores", "another"])
def test_rows_that_are_set_to_zero(of):
    """A choice of 0 for rows without visible keys is what the kernel does anyway."""
    g = Graph()
    q, k, v = (g.input(n, (2, 3, 4, 8)) for n in "qkv")
    mask = g.op(
        "select", g.input("m", (2, 1, 4, 4), i1), g.fill(FloatAttr(0.0, f32), ()), -math.inf
    )
    s = g.op("add", g.op("mul", g.product(q, k, turned=True), 0.25), mask)
    source = {"mask": mask, "scores": s, "another": g.input("other", (2, 3, 4, 4))}[of]
    top = g.reduction("max", source, [3], keepdims=True)
    lowest = {"predicate": StringAttr("eq"), "scalar_rhs": FloatAttr(-math.inf, f32)}
    nothing = g.call("compare", [top], TensorType(i1, list(shape_of(top))), lowest)
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    y = g.product(g.op("select", nothing, 0.0, p), v)
    _, families = simplified(g.finish(y), tolerance=1e-5, exact_masked_rows=of != "scores")
    # The scores are read by the choice, too, and stay; the mask may have any number of readers.
    assert ("gemma_attention" in families) == (of == "mask")


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


def test_heads_counted_as_rows():
    """Query heads that share keys, stacked as rows of one product."""
    g = Graph()
    q, k, v = g.input("q", (2, 3, 4, 8)), g.input("k", (2, 5, 8)), g.input("v", (2, 5, 6))
    s = g.op("mul", g.product(g.reshape(q, (2, 12, 8)), k, turned=True), 0.25)
    s = g.op("select", g.input("mask", (2, 1, 4, 5), i1), g.reshape(s, (2, 3, 4, 5)), -1e9)
    p = g.call("softmax", [s], s.type, {"axis": IntegerAttr(-1, i64)})
    y = g.product(g.reshape(p, (2, 12, 5)), v)
    result, families = simplified(g.finish(y), tolerance=1e-5)
    assert families == {"gemma_attention": 1, "reshape": 3}
    found = attribute_of(result, "gemma_attention", "kv_group")
    assert isinstance(found, IntegerAttr) and found.value.data == 3


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
