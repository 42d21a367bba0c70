"""Operator sets 7 to 12: what old files say in their own way is what newer ones say in theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.frontend.onnx import read_onnx
from tilewright.reference.executor import run

X = (4 * np.random.default_rng(3).standard_normal((2, 3, 4, 6))).astype(np.float32)
Node = tuple[str, dict[str, Any], dict[str, Any]]  # operator, inputs after the first, attributes


def values(opset: int, *nodes: Node, results: int = 1) -> list[np.ndarray]:
    """What a chain of nodes makes of X."""
    made, stored = [], []
    for number, (operator, given, attributes) in enumerate(nodes):
        names = [f"{name}{number}" if array is not None else "" for name, array in given.items()]
        arrays = [np.asarray(array) for array in given.values() if array is not None]
        stored += map(numpy_helper.from_array, arrays, [name for name in names if name])
        last = number == len(nodes) - 1
        out = [f"y{i}" for i in range(results)] if last else [f"t{number}"]
        source = f"t{number - 1}" if number else "x"
        made.append(helper.make_node(operator, [source, *names], out, **attributes))
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(results)]
    whole = helper.make_graph(made, "old", [info], outputs, stored)
    file = helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    model = read_onnx(file)
    return run(model.module, [X], weights=model.weights)


PAIRS: dict[str, tuple[list[int], Node, Node]] = {
    "slice": (
        [7, 9],
        ("Slice", {}, {"starts": [1, -3], "ends": [99, -1], "axes": [2, 3]}),
        ("Slice", {"s": [1, -3], "e": [99, -1], "a": [2, 3]}, {}),
    ),
    "slice without axes": (
        [7],
        ("Slice", {}, {"starts": [0, 1], "ends": [1, 3]}),
        ("Slice", {"s": [0, 1], "e": [1, 3]}, {}),
    ),
    "pad": (
        [7, 10],
        ("Pad", {}, {"pads": [0, 0, 1, 2, 0, 0, 3, 0], "value": 1.5}),
        ("Pad", {"p": [0, 0, 1, 2, 0, 0, 3, 0], "v": np.float32(1.5)}, {}),
    ),
    "clip": (
        [7, 10],
        ("Clip", {}, {"min": -0.25, "max": 0.75}),
        ("Clip", {"low": np.float32(-0.25), "high": np.float32(0.75)}, {}),
    ),
    "clip above": (
        [7],
        ("Clip", {}, {"max": 0.75}),
        ("Clip", {"low": None, "high": np.float32(0.75)}, {}),
    ),
    "top": ([7], ("TopK", {}, {"k": 3, "axis": 3}), ("TopK", {"k": [3]}, {"axis": 3})),
    "dropout": ([7, 10], ("Dropout", {}, {"ratio": 0.4}), ("Identity", {}, {})),
    "squeeze": (
        [7, 12],
        ("Unsqueeze", {}, {"axes": [0, 3]}),
        ("Unsqueeze", {"a": [0, 3]}, {}),
    ),
    "sum": (
        [7, 12],
        ("ReduceSum", {}, {"axes": [1, 3], "keepdims": 0}),
        ("ReduceSum", {"a": [1, 3]}, {"keepdims": 0}),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_attributes_that_became_inputs(name: str) -> None:
    opsets, old, new = PAIRS[name]
    results = 2 if name == "top" else 1
    wanted = values(13, new, results=results)
    for opset in opsets:
        for one, other in zip(values(opset, old, results=results), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3, -1, -2])
@pytest.mark.parametrize("opset", [7, 12])
def test_softmax_was_one_over_all_dimensions_from_the_axis(opset: int, axis: int | None) -> None:
    given = {} if axis is None else {"axis": axis}
    first = 1 if axis is None else axis % X.ndim
    rows = X.reshape(int(np.prod(X.shape[:first])), -1).astype(np.float64)
    exact = np.exp(rows - rows.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    best = np.zeros_like(rows)
    best[np.arange(len(rows)), rows.argmax(1)] = 1
    for operator, wanted in (
        ("Softmax", exact),
        ("LogSoftmax", np.log(exact)),
        ("Hardmax", best),
    ):
        (found,) = values(opset, (operator, {}, given))
        assert found.shape == X.shape
        np.testing.assert_allclose(found.reshape(rows.shape), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (7, ("Upsample", {}, {"scales": [1.0, 1.0, 3.0, 2.0]})),
        (9, ("Upsample", {"s": np.array([1, 1, 3, 2], np.float32)}, {})),
        (10, ("Resize", {"s": np.array([1, 1, 3, 2], np.float32)}, {})),
    ],
)
def test_pixels_were_repeated_from_their_lower_side(opset: int, node: Node) -> None:
    (found,) = values(opset, node)
    np.testing.assert_array_equal(found, X.repeat(3, 2).repeat(2, 3))


def test_images_became_smaller_by_the_next_pixel() -> None:
    (found,) = values(10, ("Resize", {"s": np.array([1, 1, 0.5, 0.5], np.float32)}, {}))
    np.testing.assert_array_equal(found, X[:, :, ::2, ::2])


def test_shapes_are_computed_with_old_slices() -> None:
    """The batch of a tensor, as exporters of those days took it from its shape."""
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s"], ["b"], starts=[0], ends=[1]),
        helper.make_node("Concat", ["b", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ]
    whole = helper.make_graph(
        nodes,
        "old",
        [info],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array([-1]), "rest")],
    )
    model = read_onnx(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 9)]))
    assert model.outputs[0].shape == (2, 72)


def test_scans_over_batches_are_refused() -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["i"], ["o"])],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.FLOAT, [4, 6])],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, [4, 6])],
    )
    node = helper.make_node("Scan", ["", "x"], ["y"], body=body, num_scan_inputs=1)
    whole = helper.make_graph(
        [node],
        "old",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape)],
    )
    file = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 8)], ir_version=8)
    with pytest.raises((TilewrightError, TilewrightErrors), match="before operator set 9"):
        read_onnx(file)
