"""Epilogues and layer loops: other texts, the same bits, and a way back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from model_machines import MACHINES, ROWS, SHAVED, WHOLE
from waist_models import CNN, MLP, imported, tower_text, transformer_text

from tilewright.dialects.fused import FusedOp
from tilewright.dialects.layers import LayersOp
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.verification import verify_module
from tilewright.dialects.xdsl_api import ModuleOp
from tilewright.model.fold_layers import fold_layers, hoist_constants, unfold_layers
from tilewright.model.fuse import fuse_epilogues, unfuse, usual
from tilewright.model.partition import main_of
from tilewright.model.prepare import prepare
from tilewright.model.simplify import simplify
from tilewright.reference.executor import run

F = np.float32


def inputs(shape: tuple[int, ...], seed: int = 2) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


def plain_text(module: ModuleOp) -> str:
    """The text without hints of names, constants in front and each once."""
    copy = module.clone()
    for function in copy.ops:
        block = function.regions[0].block
        hoist_constants(block)
        known: dict[str, object] = {}
        for op in list(block.ops):
            if op.name == "arith.constant":
                key = str(op.properties["value"])
                if key in known:
                    op.results[0].replace_all_uses_with(known[key])  # type: ignore[arg-type]
                    op.detach()
                    op.erase()
                else:
                    known[key] = op.results[0]
        ordered = sorted(
            (op for op in block.ops if op.name == "arith.constant"),
            key=lambda op: str(op.properties["value"]),
        )
        for op in ordered:
            op.detach()
        first = block.first_op
        assert first is not None
        for op in ordered:
            block.insert_op_before(op, first)
        for op in function.walk():
            for value in op.results:
                value.name_hint = None
        for value in block.args:
            value.name_hint = None
    return print_module(copy)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.name)
@pytest.mark.parametrize(
    ("text", "shape"),
    [(MLP, (5, 24)), (CNN, (2, 3, 9, 9)), (transformer_text(3), (6, 16))],
    ids=["mlp", "cnn", "transformer"],
)
def test_fused_programs_give_the_same_bits(machine, text, shape) -> None:
    x = inputs(shape)
    model, given = imported(text), [{"x": inputs(shape, 9)}]
    after = prepare(model, replace(machine, fuses=usual, layers=True), samples=given).parts
    exact = prepare(model, replace(machine, layers=True), samples=given).parts
    verify_module(after.module)
    found = run(after.module, [x], weights=after.weights)
    assert same(found, run(exact.module, [x], weights=exact.weights))
    again = parse_text(print_module(after.module), "again.mlir")
    verify_module(again)
    assert same(found, run(again, [x], weights=after.weights))


def test_a_product_takes_what_follows() -> None:
    parts = prepare(imported(MLP), replace(SHAVED, fuses=usual)).parts
    (function,) = [f for f in parts.functions("device")]
    fused = [op for op in function.walk() if isinstance(op, FusedOp)]
    families = [[step.family for step in op.steps()] for op in fused]
    assert families == [["elementwise_add", "rescale", "clamp"], ["rescale"]]
    plain = print_module(parts.module)
    assert "epilogue [elementwise_add(_, %" in plain


def test_the_later_of_two_products_takes_their_sum() -> None:
    text = """
    func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %a = npu_kernel.matmul %x, %y : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %b = npu_kernel.matmul %y, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %c = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%a, %b) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      return %c : tensor<4x4xf32>
    }
    """
    module = parse_text(text, "sum.mlir")
    values = [inputs((4, 4), 0), inputs((4, 4), 1)]
    before = run(module, values)
    assert fuse_epilogues(main_of(module)) == 1
    verify_module(module)
    assert "elementwise_sub(%a : tensor<4x4xf32>, _)" in print_module(module)
    assert same(run(module, values), before)
    unfuse(main_of(module))
    assert same(run(module, values), before)
    assert plain_text(module) == plain_text(parse_text(text, "sum.mlir"))


@pytest.mark.parametrize(
    "results",
    [(), ("h0",), ("h0", "k1", "a0", "a1", "a2"), ("x", "h1"), ("k0", "k1", "k2"), ("n2", "h2")],
    ids=lambda r: "-".join(r) or "last",
)
def test_layers_fold_and_unfold(results: tuple[str, ...]) -> None:
    """Whatever is read after the loop: carried values, those of early iterations, inner ones."""
    model = simplify(imported(transformer_text(3, results)))
    whole = run(model.module, [inputs((6, 16))], weights=model.weights)
    module = model.module.clone()
    assert fold_layers(main_of(module)) == 1
    verify_module(module)
    (loop,) = [op for op in module.walk() if isinstance(op, LayersOp)]
    assert loop.iterations == 3
    assert ["layers.0.q.weight", "layers.1.q.weight", "layers.2.q.weight"] in loop.weight_names()
    assert same(run(module, [inputs((6, 16))], weights=model.weights), whole)
    text = print_module(module)
    assert "weights(" in text and '"layers.*.q.weight"' in text
    again = parse_text(text, "again.mlir")
    verify_module(again)
    assert print_module(again) == text
    assert same(run(again, [inputs((6, 16))], weights=model.weights), whole)
    unfold_layers(main_of(again))
    verify_module(again)
    assert plain_text(again) == plain_text(model.module)


def test_encoded_layers_share_scales_and_fold() -> None:
    for machine in (SHAVED, WHOLE):
        machine = replace(machine, fuses=usual, layers=True)
        parts = prepare(imported(transformer_text(4)), machine).parts
        loops = [op for op in parts.module.walk() if isinstance(op, LayersOp)]
        assert loops and max(loop.iterations for loop in loops) >= 3, machine.name


def test_values_that_differ_in_each_iteration() -> None:
    text = """
    func.func @main(%x: tensor<4x4xf32>, %m0: tensor<4x4xf32>, %m1: tensor<4x4xf32>, %s: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %w0 = arith.constant dense_resource<"w.0"> : tensor<4x4xf32>
      %w1 = arith.constant dense_resource<"w.1"> : tensor<4x4xf32>
      %a0 = npu_kernel.matmul %x, %w0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %b0 = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%a0, %m0) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %c0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%b0, %s) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %a1 = npu_kernel.matmul %c0, %w1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %b1 = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%a1, %m1) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      %c1 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%b1, %s) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
      return %c1 : tensor<4x4xf32>
    }
    """
    module = parse_text(text, "each.mlir")
    weights = {"w.0": inputs((4, 4), 5), "w.1": inputs((4, 4), 6)}
    values = [inputs((4, 4), seed) for seed in range(4)]
    before = run(module, values, weights=weights)
    assert fold_layers(main_of(module)) == 1
    assert "each(%m0" in print_module(module)
    assert same(run(module, values, weights=weights), before)


def test_rows_need_no_shared_scales() -> None:
    parts = prepare(imported(transformer_text(2)), replace(ROWS, layers=True)).parts
    verify_module(parts.module)


def test_the_documented_example_is_what_the_compiler_prints() -> None:
    page = (Path(__file__).parents[2] / "docs" / "waist.md").read_text()
    block = page.split("```mlir\n")[1].split("```")[0]
    machine = replace(SHAVED, fuses=usual, layers=True)
    prepared = prepare(imported(tower_text(4)), machine)
    assert print_module(parse_text(block, "waist.md")) == prepared.phases["folded"]
