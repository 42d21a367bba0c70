"""ONNX models that are quantised already: integers as the standard defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx: Any = pytest.importorskip("onnx")
helper: Any = pytest.importorskip("onnx.helper")
numpy_helper: Any = pytest.importorskip("onnx.numpy_helper")

from tilewright.frontend.onnx import read_onnx  # noqa: E402
from tilewright.targets.coral.compile import compile_model  # noqa: E402
from tilewright.targets.coral.toolchain import toolchain_missing  # noqa: E402

pytestmark = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")
TYPES = {np.dtype(np.int8): 3, np.dtype(np.uint8): 2, np.dtype(np.float32): 1}


def model_of(nodes, inputs, outputs, constants) -> Any:
    """A model; inputs and outputs are name -> (element type, shape)."""

    def ports(table):
        return [
            helper.make_tensor_value_info(n, TYPES[np.dtype(t)], s) for n, (t, s) in table.items()
        ]

    weights = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()]
    graph = helper.make_graph(nodes, "g", ports(inputs), ports(outputs), weights)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def sums(q: np.ndarray, zero: int, w: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """A 3x3 convolution with padding 1 and stride 1 in integers; NCHW."""
    image = np.pad(q.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
    n, _, height, width = q.shape
    total = np.zeros((n, w.shape[0], height, width), dtype=np.int64) + bias[:, None, None]
    for y in range(3):
        for x in range(3):
            part = image[:, :, y : y + height, x : x + width]
            total += np.einsum("nchw,fc->nfhw", part, w[:, :, y, x].astype(np.int64))
    return total


@pytest.mark.parametrize(("kind", "zero", "out_zero"), [(np.int8, 5, -3), (np.uint8, 131, 128)])
@pytest.mark.parametrize("form", ["QLinearConv", "QDQ"])
def test_quantised_convolutions(form, kind, zero, out_zero):
    rng = np.random.default_rng(zero)
    w = rng.integers(-127, 128, (6, 3, 3, 3)).astype(np.int8)
    w[:, 0, 0, 0] = 127  # the largest code occurs in every filter, as quantisers make it
    bias = rng.integers(-2000, 2000, 6).astype(np.int32)
    scales = rng.uniform(0.002, 0.02, 6).astype(np.float32)
    x_scale, y_scale = np.float32(0.03), np.float32(0.11)
    constants = {"xs": x_scale, "xz": kind(zero), "w": w, "ws": scales}
    constants |= {"wz": np.zeros(6, np.int8), "ys": y_scale, "yz": kind(out_zero), "b": bias}
    window = {"pads": [1, 1, 1, 1]}
    if form == "QLinearConv":
        names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"]
        nodes = [helper.make_node(form, names, ["y"], **window)]
    else:
        constants["bs"] = (x_scale * scales).astype(np.float32)
        constants["bz"] = np.zeros(6, np.int32)
        nodes = [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
            helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
            helper.make_node("DequantizeLinear", ["b", "bs", "bz"], ["bf"], axis=0),
            helper.make_node("Conv", ["xf", "wf", "bf"], ["yf"], **window),
            helper.make_node("QuantizeLinear", ["yf", "ys", "yz"], ["y"]),
        ]
    shapes = {"x": (kind, [2, 3, 5, 4])}, {"y": (kind, [2, 6, 5, 4])}
    made = compile_model(read_onnx(model_of(nodes, *shapes, constants)))
    assert made.verify(1).ok
    products = [n for n in made.program.nodes if n.kind == "conv"]
    assert [v.dtype for v in (*products[0].inputs[:2], products[0].output)] == ["i8", "i8", "i32"]
    q = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (2, 3, 5, 4), dtype=kind)
    factor = (np.float64(x_scale) * scales.astype(np.float64)).astype(np.float32)
    real = sums(q, zero, w, bias).astype(np.float32) * factor[:, None, None]
    limits = np.iinfo(kind)
    wanted = np.clip(np.rint(real / y_scale) + out_zero, limits.min, limits.max).astype(kind)
    assert np.array_equal(made.run([q])[0], wanted)
