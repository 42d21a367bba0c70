"""raise-composites: batch norm and other factors per channel go into weights."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from spelled import Graph, simplified

from tilewright.dialects.intents import integers
from tilewright.dialects.xdsl_api import (
    TensorType,
    f32,
)

SOME = settings(max_examples=25, deadline=None)
RNG = np.random.default_rng(7)


def vector(size: int) -> np.ndarray:
    return (1 + 0.1 * RNG.standard_normal(size)).astype(np.float32)


def test_batch_norm_goes_into_the_convolution():

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


def _without_fill(families: dict[str, int]) -> dict[str, int]:
    """A bias may be one number repeated."""
    return {name: count for name, count in families.items() if name != "fill"}


def test_one_number_for_all_channels_goes_into_the_convolution():
    """A batch norm before training multiplies every channel alike."""
    for family, number, bias in (
        ("mul", 0.75, False), ("add", -2.0, False), ("sub", 3.0, True), ("div", 4.0, True),
    ):  # fmt: skip
        g = Graph()
        x = g.input("x", (2, 3, 5, 5))
        w = g.weight("w", RNG.standard_normal((4, 3, 3, 3)).astype(np.float32))
        operands = [x, w] + ([g.weight("b", vector(4))] if bias else [])
        y = g.call("conv2d", operands, TensorType(f32, [2, 4, 3, 3]), {"strides": integers([1, 1])})
        _, families = simplified(g.finish(g.op(family, y, number)), tolerance=1e-5)
        assert _without_fill(families) == {"conv2d": 1}
        g = Graph()  # the number on the left
        x, w = g.input("x", (2, 3, 5, 5)), g.weight("w", vector(4 * 27).reshape(4, 3, 3, 3))
        y = g.call("conv2d", [x, w], TensorType(f32, [2, 4, 3, 3]), {"strides": integers([1, 1])})
        _, families = simplified(g.finish(g.op(family, number, y)), tolerance=1e-5)
        kept = 1 if family in ("sub", "div") else 0
        assert _without_fill(families) == {
            "conv2d": 1, **({f"elementwise_{family}": 1} if kept else {}),
        }  # fmt: skip


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
