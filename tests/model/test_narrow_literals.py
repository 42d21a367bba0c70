"""Literals and constants that narrow floats do not reach: what is finite in the model stays finite."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.reference import dtypes

LOWEST = float(np.finfo(np.float32).min)


def masked(constant: bool) -> ModelBuilder:
    """Scores and (1 - mask) * float32's smallest number, as transformers write masks."""
    net = ModelBuilder("masked", seed=3)
    x, mask = net.input("x", (6, 40)), net.input("mask", (6, 40))
    lowest = net.weight("lowest", np.full((6, 40), LOWEST, np.float32)) if constant else LOWEST
    hidden = (1.0 - mask) * lowest
    net.output("y", net.softmax(net.linear(x, 40, "scores") + hidden))
    return net


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1", "vpu40", "coral-highmem", "xdna2"])
@pytest.mark.parametrize("constant", [False, True])
def test_a_mask_of_the_smallest_number_times_zero_is_zero(target: str, constant: bool):
    program = tw.compile(masked(constant).build(), target=target)
    random = np.random.default_rng(5)
    x = random.standard_normal((6, 40)).astype(np.float32)
    mask = (random.random((6, 40)) > 0.3).astype(np.float32)
    found = program.verify({"x": x, "mask": mask})
    assert found.ok, found.text()
    y = found.results["y"].astype(np.float64)
    assert (y[mask == 0] == 0).all() and np.allclose(y.sum(-1), 1, atol=0.05)


def test_held_changes_only_what_would_be_infinite():
    numbers = np.array([LOWEST, 1e5, -7e4, 65504.0, -np.inf, np.nan, 0.0, -0.0], np.float32)
    held = dtypes.held(numbers, dtypes.F16)
    assert held[:4].tolist() == [-65504.0, 65504.0, -65504.0, 65504.0]
    assert np.isneginf(held[4]) and np.isnan(held[5]) and np.signbit(held[7])
    assert np.isfinite(dtypes.stored(dtypes.held(numbers[:1], dtypes.BF16), dtypes.BF16)).all()


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1", "coral-highmem", "xdna2"])
def test_rows_hidden_by_the_smallest_number_weigh_all_keys_alike(target: str):
    """As in float32; minus infinity, which bf16 would round it to, less itself is no number."""
    net = ModelBuilder("hidden", seed=4)
    x, mask = net.input("x", (6, 40)), net.input("mask", (6, 40))
    net.output("y", net.softmax(net.linear(x, 40, "scores") + mask))
    hidden = np.zeros((6, 40), np.float32)
    hidden[2:4] = LOWEST
    found = tw.compile(net.build(), target=target).verify({"mask": hidden})
    assert found.ok, found.text()
    assert np.allclose(found.results["y"][2:4].astype(np.float64), 1 / 40, rtol=0.01)


@pytest.mark.parametrize("target", ["atlas-v1", "vpu40", "xdna2"])
def test_what_keeps_a_quotient_from_zero_over_zero_is_not_rounded_to_zero(target: str):
    """1e-12, as rows are brought to length one with, is zero in f16."""
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["h"]),
            helper.make_node("Abs", ["h"], ["size"]),
            helper.make_node("Max", ["size", "least"], ["length"]),
            helper.make_node("Div", ["h", "length"], ["y"]),
        ],
        "signs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 40])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 40])],
        [
            numpy_helper.from_array(np.eye(40, dtype=np.float32), "w"),
            numpy_helper.from_array(np.array(1e-12, np.float32), "least"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.sign(np.random.default_rng(1).standard_normal((6, 40))).astype(np.float32)
    x[3] = 0
    found = tw.compile(model, target=target).verify({"x": x})
    assert found.ok, found.text()
    assert (found.results["y"][3] == 0).all()
