"""Recurrent layers, linear models and resizing of ONNX against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.errors import TilewrightError
from tilewright.frontend.onnx import read_onnx
from tilewright.reference.executor import run

onnx: Any = pytest.importorskip("onnx")
runtime: Any = pytest.importorskip("onnxruntime")
helper = onnx.helper
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) * 10.0 ** random.integers(-1, 2, shape) / 3).astype(
        np.float32
    )


def check(
    node: Any, inputs: dict[str, np.ndarray], constants: dict[str, np.ndarray],
    outputs: dict[str, int], domain: str = "",
) -> None:  # fmt: skip
    """One node, inputs given and constants stored, against onnxruntime."""
    kinds = {np.dtype(np.float32): 1, np.dtype(np.int64): 7, np.dtype(np.int32): 6}
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info(n, kinds[a.dtype], a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in outputs.items()],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 3))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options)
    expected = session.run(None, inputs)
    imported = read_onnx(model)
    found = run(imported.module, list(inputs.values()), weights=imported.weights)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, 2e-5, 2e-6)


def layer(kind: str, directions: int, steps: int, batch: int, **extra: np.ndarray) -> Any:
    width, hidden, gates = 3, 4, GATES[kind]
    inputs = {"x": numbers(steps, batch, width, seed=1)}
    constants = {
        "w": numbers(directions, gates * hidden, width, seed=2),
        "r": numbers(directions, gates * hidden, hidden, seed=3),
        "b": numbers(directions, 2 * gates * hidden, seed=4),
        **extra,
    }
    return hidden, inputs, constants


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers(kind: str, direction: str) -> None:
    directions = 2 if direction == "bidirectional" else 1
    hidden, inputs, constants = layer(kind, directions, 5, 2)
    lengths = np.array([5, 3], np.int32)
    start = numbers(directions, 2, hidden, seed=5)
    names = ["x", "w", "r", "b", "n", "h"]
    constants |= {"n": lengths, "h": start}
    outputs = {"y": 1, "y_h": 1}
    if kind == "LSTM":
        names += ["c", "p"]
        constants |= {"c": numbers(directions, 2, hidden, seed=6)}
        constants |= {"p": numbers(directions, 3 * hidden, seed=7)}
        outputs |= {"y_c": 1}
    options: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(
        kind, names, list(outputs), hidden_size=hidden, direction=direction, **options
    )
    check(node, inputs, constants, outputs)


@pytest.mark.parametrize("kind", GATES)
def test_recurrent_layers_are_loops_on_the_device(kind: str) -> None:
    """Both directions of a layer are a kernel each, and nothing is left to the host."""
    hidden, inputs, constants = layer(kind, 2, 6, 2)
    constants = {name: array / 8 for name, array in constants.items()}
    options: dict[str, Any] = {"linear_before_reset": 1} if kind == "GRU" else {}
    node = helper.make_node(
        kind, ["x", *constants], ["y"], hidden_size=hidden, direction="bidirectional", **options
    )
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", 1, inputs["x"].shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21)]
    program = tw.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    kernels = [step.kernel for step in program.model.artifact.steps]
    assert kernels.count("recurrent") == 2 and len(kernels) < 8
    assert program.model.provenance["host_share"] == 0
    assert program.verify().ok


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("GRU", {"linear_before_reset": 0, "clip": 0.7}),
        ("LSTM", {"input_forget": 1}),
        ("RNN", {"activations": ["Relu"]}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"], "clip": 1.5}),
        ("GRU", {"activations": ["HardSigmoid", "Softsign"]}),
        (
            "LSTM",
            {
                "activations": ["HardSigmoid", "Elu", "LeakyRelu"],
                "activation_alpha": [0.3, 0.8, 0.1],
                "activation_beta": [0.4],
            },
        ),
        ("RNN", {"activations": ["Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}),
        (
            "RNN",
            {"activations": ["ScaledTanh"], "activation_alpha": [0.5], "activation_beta": [2.0]},
        ),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.3]}),
    ],
)
def test_options_of_recurrent_layers(kind: str, options: dict[str, Any]) -> None:
    hidden, inputs, constants = layer(kind, 1, 4, 3)
    del constants["b"]
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=hidden, **options)
    check(node, inputs, constants, {"y": 1})


def test_an_activation_without_a_mapping_is_named() -> None:
    hidden, inputs, constants = layer("RNN", 1, 4, 3)
    node = helper.make_node(
        "RNN", ["x", "w", "r"], ["y"], hidden_size=hidden, activations=["Cosine"]
    )
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", 1, inputs["x"].shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [onnx.numpy_helper.from_array(constants[n], n) for n in ("w", "r")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    with pytest.raises(TilewrightError, match="Cosine"):
        read_onnx(model)


ML = "ai.onnx.ml"


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(transform: str) -> None:
    coefficients, intercepts = numbers(3, 5, seed=8), numbers(3, seed=9)
    options = {
        "coefficients": coefficients.reshape(-1).tolist(),
        "intercepts": intercepts.tolist(),
        "post_transform": transform,
    }
    x = {"x": numbers(7, 5, seed=10)}
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "score"], domain=ML,
        classlabels_ints=[4, -1, 9], multi_class=1, **options,
    )  # fmt: skip
    check(node, x, {}, {"label": 7, "score": 1}, ML)
    node = helper.make_node("LinearRegressor", ["x"], ["y"], domain=ML, targets=3, **options)
    if transform == "NONE":
        check(node, x, {}, {"y": 1}, ML)


def test_scaled_and_normalised_rows() -> None:
    x = numbers(6, 4, seed=11)
    x[2] = 0.0
    offset, scale = numbers(4, seed=12).tolist(), numbers(4, seed=13).tolist()
    node = helper.make_node("Scaler", ["x"], ["y"], domain=ML, offset=offset, scale=scale)
    check(node, {"x": x}, {}, {"y": 1}, ML)
    for norm in ("MAX", "L1", "L2"):
        node = helper.make_node("Normalizer", ["x"], ["y"], domain=ML, norm=norm)
        check(node, {"x": x}, {}, {"y": 1}, ML)


@pytest.mark.parametrize("threshold", [None, 0.25, -1.0])
def test_numbers_above_a_threshold(threshold: float | None) -> None:
    x = numbers(7, 4, seed=15)
    x[:2] = [[0.25, -0.25, 3.0, -1.0], [np.inf, -np.inf, 0.0, -0.0]]
    options = {} if threshold is None else {"threshold": threshold}
    node = helper.make_node("Binarizer", ["x"], ["y"], domain=ML, **options)
    check(node, {"x": x}, {}, {"y": 1}, ML)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resizing_with_attributes_of_other_modes(mode: str) -> None:
    """What exporters write for every mode is no reason to refuse one."""
    node = helper.make_node(
        "Resize", ["x", "roi", "scales"], ["y"], mode=mode, cubic_coeff_a=-0.6,
        nearest_mode="floor", extrapolation_value=3.0, exclude_outside=1 if mode == "cubic" else 0,
        coordinate_transformation_mode="pytorch_half_pixel",
    )  # fmt: skip
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1, 1, 1.6, 0.7], np.float32)}
    check(node, {"x": numbers(1, 2, 5, 6, seed=14)}, constants, {"y": 1})
