"""simplify-kernels: identities go, movements join, and no value changes."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, counts, inputs_of

from tilewright.dialects.intents import shape_of
from tilewright.dialects.verification import verify_module
from tilewright.dialects.xdsl_api import FloatAttr, bf16, f32, i1
from tilewright.frontend.imported import Imported
from tilewright.reference.executor import run
from tilewright.transforms.known_values import KnownValues
from tilewright.transforms.simplify_kernels import simplify_kernels


def simplified(model: Imported) -> dict[str, int]:
    """The families left, after a check that not a bit has changed."""
    inputs = inputs_of(model)
    before = run(model.module, inputs, weights=model.weights)
    simplify_kernels(model.module, KnownValues(model.weights))
    verify_module(model.module)
    for old, new in zip(before, run(model.module, inputs, weights=model.weights), strict=True):
        np.testing.assert_array_equal(old, new)
    assert not simplify_kernels(model.module, KnownValues(model.weights))
    return counts(model.module)


@st.composite
def movements(draw):
    """A shape and a list of steps that move its elements."""
    shape = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4]), min_size=1, max_size=4))
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["transpose", "reshape", "slice", "concat", "cast", "repeat"]),
                st.integers(0, 999),
            ),
            max_size=6,
        )
    )
    return shape, steps


def factorings(size: int) -> list[tuple[int, ...]]:
    found = [(size,), (1, size), (size, 1), (1, size, 1)]
    found += [(a, size // a) for a in (2, 3, 4) if size % a == 0]
    found += [(a, 1, size // a) for a in (2, 3) if size % a == 0]
    return found


@settings(max_examples=120, deadline=None)
@given(movements())
def test_random_movements(case):
    shape, steps = case
    g = Graph()
    x = g.input("x", shape)
    for kind, seed in steps:
        rng = np.random.default_rng(seed)
        sizes = shape_of(x)
        if math.prod(sizes) > 300:
            break
        if kind == "transpose":
            x = g.transpose(x, [int(p) for p in rng.permutation(len(sizes))])
        elif kind == "reshape":
            options = factorings(math.prod(sizes))
            x = g.reshape(x, options[seed % len(options)])
        elif kind == "slice":
            strides = [int(rng.integers(1, 3)) for _ in sizes]
            offsets = [int(rng.integers(0, n)) for n in sizes]
            cut = [
                int(rng.integers(1, (n - o - 1) // s + 2))
                for n, o, s in zip(sizes, offsets, strides, strict=True)
            ]
            if seed % 4 == 0:
                offsets, cut, strides = [0] * len(sizes), list(sizes), [1] * len(sizes)
            x = g.slice(x, offsets, cut, strides)
        elif kind == "concat":
            axis = seed % len(sizes)
            middle = seed % sizes[axis]
            parts = [x] * (1 + seed % 2)
            if middle and seed % 3 == 0:  # two neighbouring slices
                parts = []
                for start, stop in ((0, middle), (middle, sizes[axis])):
                    offsets, cut = [0] * len(sizes), list(sizes)
                    offsets[axis], cut[axis] = start, stop - start
                    parts.append(g.slice(x, offsets, cut, [1] * len(sizes)))
            x = g.concat(parts, axis)
        elif kind == "cast":
            x = g.cast(g.cast(x, bf16), f32) if seed % 2 else g.cast(x, f32)
        else:
            x = g.repeat(x, [n if n != 1 else 1 + seed % 3 for n in sizes])
    model = g.finish(g.op("add", x, g.op("neg", x)), x)
    before = sum(counts(model.module).values())
    assert sum(simplified(model).values()) <= before


def test_transposes_and_reshapes_join():
    g = Graph()
    x = g.input("x", (2, 3, 4))
    y = g.transpose(g.transpose(x, [1, 0, 2]), [1, 0, 2])
    z = g.transpose(g.transpose(x, [1, 0, 2]), [0, 2, 1])
    w = g.reshape(g.reshape(g.reshape(x, (6, 4)), (24,)), (2, 12))
    assert simplified(g.finish(y, z, w)) == {"transpose": 1, "reshape": 1}


def test_moving_only_unit_dimensions_is_a_reshape():
    g = Graph()
    x = g.input("x", (1, 1, 9, 64))
    assert simplified(g.finish(g.transpose(x, [0, 2, 1, 3]))) == {"reshape": 1}


def test_neutral_numbers():
    g = Graph()
    x = g.input("x", (3, 4))
    y = g.op("div", g.op("sub", g.op("mul", 1.0, x), 0.0), 1.0)
    y = g.op("min", g.op("max", y, -math.inf), math.inf)
    ones = g.weight("ones", np.ones((3, 4), np.float32))
    zero = g.fill(FloatAttr(0.0, f32), (1, 4))
    assert simplified(g.finish(g.op("add", y, zero), g.op("neg", g.op("neg", x)))) == {}
    g = Graph()
    x = g.input("x", (3, 4))
    assert simplified(g.finish(g.op("sub", 0.0, x), g.op("div", 1.0, x)))  # not neutral
    del ones


def test_widened_and_narrowed_again():
    g = Graph()
    x = g.input("x", (3, 4), bf16)
    assert simplified(g.finish(g.cast(g.cast(x, f32), bf16))) == {}
    g = Graph()
    x = g.input("x", (3, 4))
    assert simplified(g.finish(g.cast(g.cast(x, bf16), f32))) == {"cast": 2}


def test_repeated_operands_are_read_in_place():
    g = Graph()
    x, b = g.input("x", (5, 3, 4)), g.input("b", (4,))
    wide = g.repeat(g.reshape(b, (1, 1, 4)), (5, 3, 4))
    assert simplified(g.finish(g.op("mul", x, wide))) == {"elementwise_mul": 1, "reshape": 1}


def test_repetition_that_gives_the_result_its_size_stays():
    g = Graph()
    a, b = g.input("a", (1, 4)), g.input("b", (1, 4))
    y = g.op("add", g.repeat(a, (3, 4)), g.repeat(b, (3, 4)))
    assert simplified(g.finish(y))["cast"] == 1


def test_products_read_transposed_operands_as_they_lie():
    g = Graph()
    x = g.input("x", (2, 5, 8))
    w, k = g.weight("w", np.ones((6, 8), np.float32)), g.input("k", (2, 7, 8))
    y = g.product(x, g.transpose(w, [1, 0]))
    s = g.product(x, g.transpose(k, [0, 2, 1]))
    back = g.product(x, g.transpose(g.transpose(k, [0, 2, 1]), [0, 2, 1]), turned=True)
    assert simplified(g.finish(y, s, back)) == {"matmul": 3}


def test_known_choices():
    g = Graph()
    a, b = g.input("a", (3, 4)), g.input("b", (3, 4))
    always = g.weight("always", np.ones((3, 4), np.bool_))
    never = g.weight("never", np.zeros((3, 4), np.bool_))
    sometimes = g.input("sometimes", (3, 4), i1)
    first = g.op("select", always, a, b)
    second = g.op("select", never, a, b)
    third = g.op("select", sometimes, a, b)
    assert simplified(g.finish(first, second, third)) == {"select": 1}


def test_reductions_from_a_neutral_start():
    g = Graph()
    x = g.input("x", (3, 4))
    low, zero = (g.fill(FloatAttr(n, f32), (3,)) for n in (-math.inf, 0.0))
    top = g.reduction("max", x, [1], init=low)
    total = g.reduction("sum", x, [1], init=zero)
    one = g.reduction("sum", g.reshape(x, (3, 4, 1)), [2])
    assert simplified(g.finish(top, total, one)) == {"reduction_max": 1, "reduction_sum": 1}


def test_overlapping_writes_stay():
    g = Graph()
    a, b, c = g.input("a", (2, 4)), g.input("b", (2, 4)), g.input("c", (2, 6))
    joined = g.insert(b, g.insert(a, c, 0), 2)  # 0..4 and 2..6
    assert simplified(g.finish(joined)) == {"insert_slice": 2}
    g = Graph()
    a, b, c = g.input("a", (2, 3)), g.input("b", (2, 3)), g.input("c", (2, 6))
    joined = g.insert(a, g.insert(b, c, 3), 0)
    assert simplified(g.finish(joined)) == {"concat": 1}
