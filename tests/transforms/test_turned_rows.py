"""raise-composites: transposes that cancel behind element-wise steps, reshapes and convolutions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spelled import Graph, attribute_of, simplified

from tilewright.dialects.intents import Lane, integers, shape_of
from tilewright.dialects.xdsl_api import FloatAttr, IntegerAttr, TensorType, UnitAttr, f32, i64
from tilewright.transforms.kernel_rewriting import family_name

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(11)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def convolution(g: Graph, x, filters: int, groups: int, bias: bool):
    """A convolution of length 1 over [n, c, m], as importers write it."""
    n, channels, size = x.type.get_shape()
    name = f"w{len(g.weights)}"
    weight = g.weight(name, numbers(filters, channels // groups, 1, 1))
    image = g.reshape(x, (n, channels, 1, size))
    attributes = {
        "strides": integers((1, 1)), "padding": integers((0, 0, 0, 0)),
        "dilations": integers((1, 1)), "groups": IntegerAttr(groups, i64),
    }  # fmt: skip
    operands = [image, weight, *([g.weight(f"b{name}", numbers(filters))] if bias else [])]
    result = TensorType(f32, [n, filters, 1, size])
    return g.reshape(g.call("conv2d", operands, result, attributes), (n, filters, size))


@SOME
@given(
    batch=st.integers(1, 2),
    rows=st.integers(2, 5),
    groups=st.sampled_from([1, 2, 3]),
    per_group=st.sampled_from([2, 5, 32]),
    made=st.sampled_from([1, 4, 64]),
    bias=st.booleans(),
)
def test_convolution_of_rows_is_a_product(batch, rows, groups, per_group, made, bias):
    """Channels come from a transpose and go back by one: rows all the way, whatever the groups."""
    g = Graph()
    x = g.input("x", (batch, rows, groups * per_group))
    first = convolution(g, g.transpose(x, (0, 2, 1)), groups * made, groups, bias)
    made_of = g.finish(g.transpose(g.unary("gelu_erf", first), (0, 2, 1)))
    _, found = simplified(made_of)
    assert "conv2d" not in found and "transpose" not in found


def test_groups_of_whole_tiles_stay_apart_where_zeros_are_many():
    g = Graph()
    x = g.input("x", (1, 4, 512))
    value = convolution(g, g.transpose(x, (0, 2, 1)), 512, 4, True)
    _, found = simplified(g.finish(g.transpose(value, (0, 2, 1))))
    assert found["matmul"] == 4 and found["slice"] == 4


@pytest.mark.parametrize("kernel", [1, 3])
def test_images_of_several_rows_stay_images(kernel):
    """Two dimensions of pixels, or filters wider than one, are for kernels of images."""
    g = Graph()
    x = g.transpose(g.input("x", (1, 12, 8)), (0, 2, 1))
    image = g.reshape(x, (1, 8, 3, 4) if kernel == 1 else (1, 8, 1, 12))
    weight = g.weight("w", numbers(8, 8, 1, kernel))
    pads = integers((0, kernel // 2, 0, kernel // 2))
    attributes = {
        "strides": integers((1, 1)), "padding": pads, "dilations": integers((1, 1)),
        "groups": IntegerAttr(1, i64),
    }  # fmt: skip
    value = g.call("conv2d", [image, weight], image.type, attributes)
    _, found = simplified(g.finish(value))
    assert found["conv2d"] == 1


@SOME
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(2, 4), st.integers(2, 4)),
    order=st.permutations([0, 1, 2]),
    constant=st.sampled_from(["none", "last", "middle", "whole", "literal"]),
)
def test_steps_between_transposes(shape, order, constant):
    """transpose(relu(transpose(x) + transpose(y) * constant)) is computed where x lies."""
    g = Graph()
    x, y = g.input("x", shape), g.input("y", shape)
    a, b = g.transpose(x, order), g.transpose(y, order)
    sizes = [shape[d] for d in order]
    extents = dict(enumerate(sizes))
    if constant == "literal":
        scaled = g.call(
            "elementwise_mul", [b], b.type, {"scalar_rhs": FloatAttr(1.5, f32)}
        )  # fmt: skip
    elif constant == "none":
        scaled = b
    else:
        loops = {"last": (2,), "middle": (1,), "whole": (0, 1, 2)}[constant]
        weight = g.weight("w", numbers(*(sizes[d] for d in loops)))
        lanes = [Lane(b, (0, 1, 2)), Lane(weight, loops)]
        scaled = g.elementwise("elementwise_mul", lanes, f32, extents).tensor
    lanes = [Lane(a, (0, 1, 2)), Lane(scaled, (0, 1, 2))]
    total = g.elementwise("elementwise_add", lanes, f32, extents).tensor
    back = [list(order).index(d) for d in range(3)]
    _, found = simplified(g.finish(g.transpose(g.unary("elementwise_relu", total), back)))
    assert "transpose" not in found


def test_values_that_are_read_both_ways_are_computed_once():
    g = Graph()
    x = g.input("x", (1, 4, 6))
    value = g.unary("gelu_erf", g.transpose(x, (0, 2, 1)))
    pooled = g.reduction("sum", value, (1,))
    _, found = simplified(g.finish(g.transpose(value, (0, 2, 1)), pooled))
    assert found["gelu_erf"] == 1


@SOME
@given(heads=st.integers(1, 3), rows=st.integers(2, 5), width=st.sampled_from([2, 4]))
def test_heads_of_turned_rows(heads, rows, width):
    """Channels first: attention reads rows, and its result becomes rows, with no channels between."""
    g = Graph()
    channels = heads * width
    x = g.transpose(g.input("x", (1, rows, channels)), (0, 2, 1))
    q, k, v = (
        g.reshape(convolution(g, x, channels, 1, True), (1, heads, width, rows)) for _ in range(3)
    )
    attributes = {
        "scale": FloatAttr(0.5, f32),
        "transpose_k": UnitAttr(),
        "transpose_v": UnitAttr(),
    }
    q = g.transpose(q, (0, 1, 3, 2))
    made = g.call("gemma_attention", [q, k, v], q.type, attributes, (f32, f32))
    made = g.reshape(g.transpose(made, (0, 1, 3, 2)), (1, channels, rows))
    model = g.finish(g.transpose(convolution(g, made, 8, 1, True), (0, 2, 1)))
    result, found = simplified(model)
    assert "conv2d" not in found and found.get("transpose", 0) <= (4 if heads > 1 else 0)
    assert attribute_of(result, "gemma_attention", "transpose_k") is None


@SOME
@given(
    lead=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    heads=st.integers(1, 3),
    mask=st.sampled_from(["none", "one for all", "each"]),
)
def test_attention_over_several_batches(lead, heads, mask):
    g = Graph()
    shape = (*lead, heads, 4, 6)
    operands = [g.input(name, shape) for name in "qkv"]
    if mask != "none":
        wide = (1, 1, 1, 4, 4) if mask == "one for all" else (*lead, heads, 4, 4)
        operands.append(g.weight("m", numbers(*wide)))
    made = g.call(
        "gemma_attention", operands, operands[0].type, {"scale": FloatAttr(0.5, f32)}, (f32, f32)
    )  # fmt: skip
    result, _ = simplified(g.finish(made))
    attention = next(op for op in result.module.walk() if family_name(op) == "gemma_attention")
    assert shape_of(attention.results[0]) == (lead[0] * lead[1], heads, 4, 6)
