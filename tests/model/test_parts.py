"""Parts of a model: the same values as the whole, whoever runs what."""

from __future__ import annotations

import random
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir import read_mlir
from tilewright.frontend.mlir_model import import_mlir
from tilewright.model.calibrate import example_inputs
from tilewright.model.capture import Node
from tilewright.model.options import CompileOptions
from tilewright.model.parts import Parts
from tilewright.model.prepare import Machine, prepare
from tilewright.reference.executor import Executor, run

sys.path.insert(0, str(Path(__file__).parents[1] / "reference"))
from random_recipes import random_module

from random_modules import SeededChoices

TEXT = """
func.func @main(%x: tensor<4x8xf32>, %ids: tensor<4xi64>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %t = arith.constant dense_resource<table> : tensor<16x8xf32>
  %w = arith.constant dense_resource<"lin.weight"> : tensor<8x8xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_embedding"(%t, %ids) {tw.layer = "embed"} : tensor<16x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%x) {tw.layer = "act"} : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%e, %r) {tw.layer = "sum"} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %y = npu_kernel.matmul %s, %w {tw.layer = "lin"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %y, %x : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


def weights() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    return {
        "table": generator.standard_normal((16, 8)).astype(np.float32),
        "lin.weight": generator.standard_normal((8, 8)).astype(np.float32),
    }


def no_lookups(node: Node) -> str | None:
    return "it has no lookups" if node.family in ("embedding", "gather") else None


def run_parts(parts: Parts, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """As a runtime does: part after part, values by port."""
    held = {spec.name: value for spec, value in zip(parts.inputs, inputs, strict=True)}
    executor = Executor(parts.module, parts.weights)
    for part in parts.parts:
        results = executor.run([held[name] for name in part.inputs], part.function)
        for name, value in zip(part.outputs, results, strict=True):
            assert parts.ports[name].shape == value.shape
            assert name not in held
            held[name] = value
    return [held[spec.name] for spec in parts.outputs]


def same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


def test_functions_ports_and_reasons() -> None:
    model = import_mlir(TEXT, "test.mlir", weights())
    prepared = prepare(model, Machine("test", no_lookups))
    parts = prepared.parts
    assert [p.function for p in parts.parts] == ["host_0", "device_0"]
    host, device = parts.parts
    assert host.reasons[0] == "embed: it has no lookups"
    assert "output1" in host.reasons[1] or "an input" in host.reasons[1]
    assert set(device.inputs) == {"x", host.outputs[0]}
    assert device.outputs == (parts.outputs[0].name,)
    inputs = list(example_inputs(model).values())
    whole = run(model.module, inputs, weights=model.weights)
    assert same(run_parts(parts, inputs), whole)
    assert same(run(parts.module, inputs, weights=parts.weights), whole)
    assert list(prepared.phases) == ["imported", "simplified", "partitioned"]
    assert 'tw.reasons = ["embed: it has no lookups"' in prepared.phases["partitioned"]


def test_host_gets_only_its_weights() -> None:
    parts = prepare(import_mlir(TEXT, "test.mlir", weights()), Machine("test", no_lookups)).parts
    assert set(parts.host_weights) == {"table"}
    text = print_module(parts.host_module)
    assert "@host_0" in text
    assert "@device_0" not in text


def test_layers_can_be_given_to_the_host() -> None:
    model = import_mlir(TEXT, "test.mlir", weights())
    options = CompileOptions(host=("act",))
    parts = prepare(model, Machine("test", no_lookups), options).parts
    assert "act: asked for" in parts.parts[0].reasons
    with pytest.raises(TilewrightError, match="has no layer nonsense"):
        prepare(model, Machine("test", no_lookups), CompileOptions(host=("nonsense",)))


def test_no_host_is_an_error_with_the_reason() -> None:
    model = import_mlir(TEXT, "test.mlir", weights())
    with pytest.raises(TilewrightError, match="embed would run on the host: it has no lookups"):
        prepare(model, Machine("test", no_lookups), CompileOptions(no_host=True))


def test_movement_between_host_operations_stays_there() -> None:
    text = """
    func.func @main(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {
      %a = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
      %b = npu_kernel.ukernel_generic "npu_uk_transpose"(%a) {permutation = array<i64: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
      %c = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%b) : tensor<8x4xf32> -> tensor<8x4xf32>
      return %c : tensor<8x4xf32>
    }
    """

    def no_exp(node: Node) -> str | None:
        return "no" if node.family == "elementwise_exp" else None

    parts = prepare(import_mlir(text, "test.mlir"), Machine("test", no_exp)).parts
    assert [part.function for part in parts.parts] == ["host_0"]


@pytest.mark.parametrize("seed", range(30))
def test_random_models_with_random_places(seed: int) -> None:
    """Whatever the machine supports, the parts compute what the model does."""
    choices = SeededChoices(seed)
    model = import_mlir(random_module(choices).text, "random.mlir")
    chance = random.Random(seed)
    share = chance.choice([0.1, 0.5, 0.9])
    machine = Machine("random", lambda node: "by chance" if chance.random() < share else None)
    prepared = prepare(model, machine)
    parts, simple = prepared.parts, prepared.model
    inputs = list(example_inputs(model, seed).values())
    whole = run(simple.module, inputs, weights=simple.weights)
    again = read_mlir(print_module(parts.module))
    assert same(run_parts(parts, inputs), whole)
    assert same(run(again, inputs, weights=parts.weights), whole)
    kinds = [part.place for part in parts.parts]
    assert all(a != b for a, b in pairwise(kinds)), "parts take turns"
