"""The distance to float32 that rounding explains."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.mlir_model import import_mlir
from tilewright.frontend.onnx import read_onnx
from tilewright.reference.dtypes import numpy_type
from tilewright.reference.executor import Executor
from tilewright.runtime.noise import REST, limits


def test_every_product_counts():
    """Operands of products are disturbed whether they are weights, activations or images."""
    net = ModelBuilder("products", seed=1)
    x = net.input("x", (1, 40, 32))
    heads = net.heads(x, 2)
    net.output("attention", net.attention(heads, heads, heads))
    net.output("plain", net.relu(x))
    image = net.input("image", (1, 3, 8, 8))
    net.output("pool", net.max_pool(image, 2))
    model = net.build()
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(spec.shape).astype(np.float32) for spec in model.inputs]
    exact = Executor(model.module, model.weights).run(inputs)
    attention, plain, pool = limits(model, inputs, exact)
    assert attention.cosine < 1 - 2 * REST
    assert 1 - 2 * REST < plain.cosine <= 1 - REST
    assert pool.cosine < 1 - 2 * REST


def test_products_that_cancel_are_further_off():
    near, far = (_limit_of_difference(scale) for scale in (1.0, 0.1))
    assert far < near < 1 - REST


def _limit_of_difference(scale: float) -> float:
    """x @ w less nearly the same: what is left is the smaller, the smaller the scale."""
    net = ModelBuilder("difference", seed=2)
    x, y = net.input("x", (40, 32)), net.input("y", (40, 48))
    net.output("z", net.linear(x, 48, "layer", bias=False) - y)
    model = net.build()
    random = np.random.default_rng(0)
    first = random.standard_normal((40, 32)).astype(np.float32)
    product = first @ model.weights["layer.weight"].T
    other = product + np.float32(scale) * random.standard_normal((40, 48)).astype(np.float32)
    exact = Executor(model.module, model.weights).run([first, other])
    return limits(model, [first, other], exact)[0].cosine


def test_a_few_numbers_are_judged_by_their_error() -> None:
    """A sum that nearly cancels may change its sign; one that does not may not be twice as large."""
    from tilewright.runtime.noise import _limit
    from tilewright.runtime.verification import accuracy

    def limit(exact: float, *noisy: float):
        return _limit([accuracy(np.array([n]), np.array([exact])) for n in noisy], 1)

    cancelled = limit(0.009, 0.011, 0.004, 0.012)
    assert cancelled.cosine == -1 and cancelled.relative > 1.2
    plain = limit(2.0, 2.01, 1.98, 2.02)
    assert plain.relative < 0.3 and plain.cosine > 0.9


def test_an_error_within_its_limit_may_turn_the_output() -> None:
    """Rows that repeat are rounded alike, all to one side: cosine asks no more than the error does."""
    from tilewright.runtime.noise import _limit
    from tilewright.runtime.verification import Accuracy

    found = _limit([Accuracy(0.3, 0.1, 0.0537, 0.99866)], 330)
    assert found.relative == pytest.approx(0.196, abs=0.01)
    assert found.cosine**2 + found.relative**2 <= 1 + 1e-12


def test_sums_that_cancel() -> None:
    """What bf16 rounds counts where little is left of it."""
    model = read_onnx(
        _network(
            [
                helper.make_node("ReduceMean", ["x", "last"], ["sum"], keepdims=0),
                helper.make_node("Relu", ["x"], ["relu"]),
            ],
            {"x": [16, 64]},
            {"sum": [16], "relu": [16, 64]},
            {"last": np.array([-1])},
        )
    )
    given = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float32)
    given -= given.mean(-1, keepdims=True) * np.float32(0.999)
    exact = Executor(model.module, model.weights).run([given])
    cancelled, plain = limits(model, [given], exact)
    assert cancelled.relative > 1 > 10 * plain.relative


def test_whole_numbers_are_not_a_little_off() -> None:
    """An index that is computed in float32 stays what it is: table[floor(x * 0.5)]."""
    table = np.random.default_rng(0).standard_normal((6, 40)).astype(np.float32)
    nodes = [
        helper.make_node("Mul", ["x", "half"], ["m"]),
        helper.make_node("Floor", ["m"], ["f"]),
        helper.make_node("Cast", ["f"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "i"], ["y"]),
    ]
    stored = {"half": np.float32(0.5), "table": table}
    model = read_onnx(_network(nodes, {"x": [12]}, {"y": [12, 40]}, stored))
    ids = np.arange(12, dtype=np.float32)
    exact = Executor(model.module, model.weights).run([ids])
    assert limits(model, [ids], exact)[0].cosine == pytest.approx(1 - REST)


def _network(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int]],
    outputs: dict[str, list[int]],
    stored: dict[str, Any],
) -> onnx.ModelProto:
    into, out = (
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in side.items()
        ]
        for side in (inputs, outputs)
    )
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    graph = helper.make_graph(nodes, "network", into, out, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("element", ["f64", "f16", "bf16"])
def test_models_in_other_floats_are_judged_alike(element: str) -> None:
    """A language model comes in bf16; its products round to fp8 as those of float32 do."""
    rng = np.random.default_rng(5)
    weights = {name: rng.standard_normal((64, 64)).astype(np.float32) for name in ("w", "v")}
    found = {}
    for kind in ("f32", element):
        text = f"""
        func.func @main(%x: tensor<16x64x{kind}>) -> tensor<16x64x{kind}> {{
          %w = arith.constant dense_resource<w> : tensor<64x64x{kind}>
          %v = arith.constant dense_resource<v> : tensor<64x64x{kind}>
          %a = npu_kernel.matmul %x, %w : tensor<16x64x{kind}>, tensor<64x64x{kind}> -> tensor<16x64x{kind}>
          %b = npu_kernel.matmul %a, %v : tensor<16x64x{kind}>, tensor<64x64x{kind}> -> tensor<16x64x{kind}>
          return %b : tensor<16x64x{kind}>
        }}"""
        given = {name: array.astype(numpy_type(kind)) for name, array in weights.items()}
        model = import_mlir(text, "model.mlir", given)
        inputs = [np.random.default_rng(6).standard_normal((16, 64)).astype(numpy_type(kind))]
        exact = Executor(model.module, model.weights).run(inputs)
        found[kind] = limits(model, inputs, exact)[0]
    assert found["f32"].cosine < 1 - 4 * REST
    assert 1 - found[element].cosine == pytest.approx(1 - found["f32"].cosine, rel=0.3)


def test_rounded_results_may_be_one_off() -> None:
    """round(x @ w) is no index: a product that is a little off may round to the next number."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Round", ["p"], ["y"]),
    ]
    weight = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    model = read_onnx(_network(nodes, {"x": [8, 32]}, {"y": [8, 32]}, {"w": weight}))
    x = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    exact = Executor(model.module, model.weights).run([x])
    assert limits(model, [x], exact)[0].cosine < 1 - 2 * REST


def test_noise_passes_where_numbers_choose() -> None:
    """Experts are chosen by sorting; what comes before the choice is off all the same."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("ArgMax", ["h"], ["best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["table", "best"], ["chosen"]),
        helper.make_node("Add", ["h", "chosen"], ["y"]),
    ]
    rng = np.random.default_rng(3)
    stored = {n: rng.standard_normal((32, 32)).astype(np.float32) for n in ("w", "table")}
    model = read_onnx(_network(nodes, {"x": [8, 32]}, {"y": [8, 32]}, stored))
    x = rng.standard_normal((8, 32)).astype(np.float32)
    exact = Executor(model.module, model.weights).run([x])
    assert limits(model, [x], exact)[0].cosine < 1 - 2 * REST


def test_outputs_that_rounding_has_eaten_are_said_to_be_lost():
    """They are within their limits, which then mean nothing: nobody should take them for right."""
    net = ModelBuilder("cancels", seed=2)
    x = net.input("x", (33, 48))
    y = net.linear(x, 48, "a")
    net.output("lost", (y + 1000.0) - 1000.0)
    net.output("kept", y)
    found = tw.compile(net.build()).verify()
    notes = [note for note in found.notes if "far from float32" in note]
    assert found.ok and len(notes) == 1 and notes[0].startswith("lost ")


def test_the_tail_of_gelu() -> None:
    """x / 2 * (1 + t) with t near -1: what bf16 leaves of it is coarse, though never more than all of it."""
    net = ModelBuilder("tail", seed=3)
    x = net.input("x", (5, 64))
    net.output("y", net.gelu(net.softmax(x) - 3.0))
    model = net.build()
    program = tw.compile(model)
    assert program.verify(seed=0).ok
    values = np.random.default_rng(0).standard_normal((5, 64)).astype(np.float32)
    exact = Executor(model.module, model.weights).run([values])
    (limit,) = limits(model, [values], exact)
    assert limit.relative > 0.1
    (near,) = limits(
        _gelu_of_inputs(), [values], Executor(_gelu_of_inputs().module, {}).run([values])
    )
    assert near.relative < 0.06


def _gelu_of_inputs() -> Any:
    net = ModelBuilder("whole", seed=3)
    net.output("y", net.gelu(net.input("x", (5, 64))))
    return net.build()
