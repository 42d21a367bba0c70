"""The backend interface: prepare, run_model, run_node, supports_device."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import TilewrightError
from tilewright.integrations import onnx_backend

sys.path.insert(0, str(Path(__file__).parent))
from onnx_models import model

FLOAT = TensorProto.FLOAT


def test_a_prepared_model_runs_at_any_size_and_is_imported_once_for_each() -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"])]
    prepared = onnx_backend.prepare(model(nodes, {"x": (FLOAT, ["n", 4])}, ["y"]))
    for rows in (1, 3, 1):
        x = np.arange(rows * 4, dtype=np.float32).reshape(rows, 4)
        (y,) = prepared.run([x])
        e = np.exp(x - x.max(-1, keepdims=True))
        np.testing.assert_allclose(y, e / e.sum(-1, keepdims=True), rtol=1e-6)
    assert len(prepared.programs) == 2
    np.testing.assert_array_equal(prepared.run({"x": x})[0], y)


def test_inputs_that_decide_shapes_are_fixed_when_it_runs() -> None:
    nodes = [helper.make_node("Reshape", ["x", "wanted"], ["y"])]
    inputs = {"x": (FLOAT, [2, 6]), "wanted": (TensorProto.INT64, [2])}
    prepared = onnx_backend.prepare(model(nodes, inputs, ["y"]))
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    for shape in ([3, 4], [12, 1]):
        (y,) = prepared.run([x, np.array(shape)])
        np.testing.assert_array_equal(y, x.reshape(shape))


def test_a_single_node() -> None:
    node = helper.make_node("Clip", ["x", "", "high"], ["y"])
    x, high = np.array([1, 5, 9], np.float32), np.float32(6)
    (y,) = onnx_backend.run_node(node, [x, high])
    np.testing.assert_array_equal(y, np.array([1, 5, 6], np.float32))


def test_run_model_and_devices() -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(onnx_backend.run_model(proto, [x])[0], -x)
    assert onnx_backend.supports_device("CPU")
    assert not onnx_backend.supports_device("CUDA:1")
    with pytest.raises(TilewrightError, match="CUDA"):
        onnx_backend.prepare(proto, "CUDA")


def test_wrong_inputs_are_named() -> None:
    proto = model([helper.make_node("Neg", ["x"], ["y"])], {"x": (FLOAT, [2])}, ["y"])
    prepared = onnx_backend.prepare(proto)
    with pytest.raises(TilewrightError, match="2 inputs were given, the model takes 1"):
        prepared.run([np.zeros(2), np.zeros(2)])
    with pytest.raises(TilewrightError, match="no value was given for x"):
        prepared.run({})
    with pytest.raises(TilewrightError, match="float64"):
        prepared.run([np.zeros(2)])
    with pytest.raises(TilewrightError, match="dimension 0 of the input x is 2"):
        prepared.run([np.zeros(3, np.float32)])


def test_models_on_the_simulated_machine() -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((48, 40)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 40])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    prepared = onnx_backend.prepare(model, "ATLAS-V1")
    for rows in (5, 5, 33):
        x = random.standard_normal((rows, 48)).astype(np.float32)
        (y,) = prepared.run([x])
        wanted = np.maximum(x @ weight, 0)
        cosine = (y * wanted).sum() / np.sqrt((y * y).sum() * (wanted * wanted).sum())
        assert y.shape == (rows, 40) and cosine > 0.998
    assert len(prepared.compiled) == 2
    node = helper.make_node("Relu", ["x"], ["y"])
    x = np.array([[-1.0, 2.0, 0.5]], np.float32)
    (y,) = onnx_backend.run_node(node, [x], device="ATLAS-V1:0")
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert onnx_backend.supports_device("ATLAS-V0") and not onnx_backend.supports_device("CUDA")
