"""raise-composites: activations, sums and means of convolutions over one dimension, as on images."""

from __future__ import annotations

import numpy as np
import pytest
from spelled import Graph, simplified

import tilewright as tw
from tilewright.dialects.intents import integers, shape_of
from tilewright.dialects.xdsl_api import ArrayAttr, IntegerAttr, TensorType, f32, i64
from tilewright.transforms.kernel_rewriting import family_name

RNG = np.random.default_rng(5)


def numbers(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / 4).astype(np.float32)


def convolution(g: Graph, x, filters: int, taps: int = 3, step: int = 1):
    """A convolution over the last of [n, c, m], as importers write it."""
    n, channels, size = shape_of(x)
    name = f"w{len(g.weights)}"
    operands = [
        g.reshape(x, (n, channels, 1, size)),
        g.weight(name, numbers(filters, channels, 1, taps)),
        g.weight(f"b{name}", numbers(filters)),
    ]
    around = taps // 2
    attributes = {
        "strides": integers((1, step)), "padding": integers((0, around, 0, around)),
        "dilations": integers((1, 1)), "groups": IntegerAttr(1, i64),
    }  # fmt: skip
    wide = (size + 2 * around - taps) // step + 1
    result = TensorType(f32, [n, filters, 1, wide])
    return g.reshape(g.call("conv2d", operands, result, attributes), (n, filters, wide))


def network(batch: int = 1, size: int = 150, channels: int = 33):
    """Norms folded or not, a residual, a mean: what networks over time are made of."""
    g = Graph()
    x = g.input("x", (batch, channels, size))
    y = g.op("relu", convolution(g, x, channels, step=2))
    shift = g.weight("shift", numbers(channels, 1))
    z = g.op("add", g.op("tanh", convolution(g, y, channels)), shift)
    z = g.op("add", convolution(g, z, channels, taps=1), y)
    return g, g.op("mul", z, 0.5)


def reshapes(imported) -> int:
    return sum(family_name(op) == "reshape" for op in imported.module.walk())


def test_one_row_from_convolution_to_convolution():
    g, y = network()
    imported = g.finish(y)
    simple, found = simplified(imported)
    assert found["conv2d"] == 3
    assert reshapes(simple) == 2  # what comes in, and what goes out
    assert {
        len(shape_of(op.results[0]))
        for op in simple.module.walk()
        if family_name(op) == "elementwise_add"
    } == {4}


def test_the_mean_of_a_row_is_that_of_an_image():
    for kept in (True, False):
        g, y = network(2)
        axes = [2]
        imported = g.finish(g.reduction("mean", y, axes, keepdims=kept))
        simple, _ = simplified(imported)
        (mean,) = [op for op in simple.module.walk() if family_name(op) == "reduction_mean"]
        assert len(shape_of(mean.operands[0])) == 4


def test_maps_of_operands_are_moved_with_their_dimensions():
    g, y = network()
    simple, _ = simplified(g.finish(y))
    maps = [
        op.attributes["operand_maps"]
        for op in simple.module.walk()
        if "operand_maps" in op.attributes
    ]
    assert all(isinstance(m, ArrayAttr) for m in maps)
    assert any("(d0, d1, d2, d3) -> (d1, 0)" in str(m) or "-> (d1" in str(m) for m in maps)


def test_single_tokens_of_transformers_are_no_images():
    """A reshape that drops a dimension of one is common; only behind a convolution is it a row."""
    g = Graph()
    x = g.input("x", (1, 12, 1, 64))
    imported = g.finish(g.op("relu", g.reshape(g.op("tanh", x), (1, 12, 64))))
    simple, _ = simplified(imported)
    (relu,) = [op for op in simple.module.walk() if family_name(op) == "elementwise_relu"]
    assert len(shape_of(relu.results[0])) == 3


@pytest.mark.parametrize("target", ["atlas-v1", "atlas-v0", "vpu40"])
@pytest.mark.parametrize(("batch", "size", "channels"), [(1, 150, 33), (2, 64, 20), (1, 31, 96)])
def test_what_it_computes_stays(batch: int, size: int, channels: int, target: str):
    g, y = network(batch, size, channels)
    imported = g.finish(g.reduction("mean", y, [2]))
    program = tw.compile(imported, target=target)
    assert program.verify().ok
    if target == "atlas-v1":
        kernels = [step["kernel"] for step in program.report().to_json()["steps"]]
        assert "pointwise" not in kernels and kernels.count("conv2d") >= 3
