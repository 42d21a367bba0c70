"""fold-constants: what no input reaches is computed once, and its weights have stable names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spelled import Graph, counts

from tilewright.dialects.context import make_context
from tilewright.dialects.parsing import parse_text
from tilewright.dialects.verification import verify_module
from tilewright.dialects.xdsl_api import (
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    arith,
    bf16,
    f32,
    i8,
    i64,
)
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.io.safetensors_file import save_safetensors
from tilewright.reference.executor import run
from tilewright.transforms.fold_constants import FoldConstants, fold_constants
from tilewright.transforms.known_values import EXPANSION_LIMIT

RNG = np.random.default_rng(3)


def folded(model: Imported, **options) -> tuple[dict[str, int], dict[str, np.ndarray]]:
    """Families and weights after folding, which must not change a bit."""
    arrays = [RNG.standard_normal(spec.shape).astype(np.float32) for spec in model.inputs]
    before = run(model.module, arrays, weights=model.weights)
    weights = fold_constants(model.module, model.weights, **options)
    verify_module(model.module)
    for old, new in zip(before, run(model.module, arrays, weights=weights), strict=True):
        np.testing.assert_array_equal(old, new)
    return counts(model.module), weights


def matrix(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_transposed_weight_becomes_a_weight():
    g = Graph()
    x = g.input("x", (4, 8))
    w = g.transpose(g.weight("layer.w", matrix(6, 8)), [1, 0])
    families, weights = folded(g.finish(g.product(x, w)))
    assert families == {"matmul": 1}
    assert list(weights) == ["layer.w.transpose"]
    assert weights["layer.w.transpose"].flags.c_contiguous


def test_chains_are_computed_and_named_after_their_largest_weight():
    g = Graph()
    x = g.input("x", (4, 8))
    scale = g.op("rsqrt", g.op("add", g.weight("var", np.abs(matrix(6))), 1e-5))
    w = g.op("mul", g.weight("w", matrix(6, 8)), g.reshape(scale, (6, 1)))
    families, weights = folded(g.finish(g.product(x, w, turned=True)))
    assert families == {"matmul": 1}
    assert list(weights) == ["w.mul"]


def test_equal_results_share_one_weight_and_names_do_not_clash():
    g = Graph()
    x = g.input("x", (4, 30))
    g.weights["table.cos"] = np.zeros(1, np.float32)  # a name that is taken
    table = g.weight("table", matrix(4, 30))
    same = g.weight("copy", g.weights["table"].copy())
    y = g.op("add", g.op("add", x, g.op("cos", table)), g.op("cos", same))
    families, weights = folded(g.finish(g.op("mul", y, g.op("sin", table))))
    assert families == {"elementwise_add": 2, "elementwise_mul": 1}
    assert list(weights) == ["table.cos.2", "table.sin"]


def test_small_results_are_written_in_the_module():
    g = Graph()
    x = g.input("x", (4, 8))
    families, weights = folded(g.finish(g.op("add", x, g.op("exp", g.weight("b", matrix(8))))))
    assert families == {"elementwise_add": 1} and weights == {}


def test_what_is_the_same_everywhere_is_a_fill():
    g = Graph()
    x = g.input("x", (4, 8))
    ones = g.op("div", g.weight("w", np.full((4, 8), 3, np.float32)), 3.0)
    families, weights = folded(g.finish(g.op("mul", x, ones)))
    assert families == {"elementwise_mul": 1, "fill": 1} and weights == {}


def test_negative_zero_is_not_zero():
    g = Graph()
    x = g.input("x", (1, 20))
    zeros = np.zeros((1, 20), np.float32)
    zeros[0, 3:] = -0.0
    families, _ = folded(g.finish(g.op("div", x, g.op("neg", g.weight("z", zeros)))))
    assert "fill" not in families


def test_repetitions_are_not_stored():
    """A vector repeated for many rows stays a repetition where it is read in place."""
    g = Graph()
    x = g.input("x", (500, 200))
    wide = g.repeat(g.reshape(g.weight("b", matrix(200)), (1, 200)), (500, 200))
    families, weights = folded(g.finish(g.op("add", x, wide)))
    assert sum(array.size for array in weights.values()) <= 200
    assert families.get("cast") == 1


def test_repetitions_are_stored_where_nobody_reads_them_in_place():
    g = Graph()
    x = g.input("x", (3, 50))
    wide = g.repeat(g.reshape(g.weight("b", matrix(40)), (1, 40)), (50, 40))
    families, weights = folded(g.finish(g.product(x, wide)))
    assert families == {"matmul": 1}
    assert [array.shape for array in weights.values()] == [(50, 40)]


def test_huge_results_of_small_constants_stay():
    rows = EXPANSION_LIMIT // 64
    g = Graph()
    x = g.input("x", (1,))
    left = g.reshape(g.weight("a", matrix(65)), (1, 65))
    total = g.op("add", left, g.reshape(g.weight("b", matrix(rows)), (rows, 1)))
    model = g.finish(g.op("mul", g.reduction("sum", total, [0, 1]), g.reshape(x, ())))
    weights = fold_constants(model.module, model.weights)
    assert counts(model.module)["elementwise_add"] == 1
    assert sum(array.size for array in weights.values()) == rows + 65


def test_unused_weights_go_unless_they_are_kept():
    g = Graph()
    x = g.input("x", (4, 8))
    g.weight("unused", matrix(100))
    g.weights["cache"] = matrix(9)
    model = g.finish(g.op("add", x, 1.0))
    assert list(fold_constants(model.module, model.weights, keep=["cache"])) == ["cache"]


def test_weights_that_were_not_given_are_left_alone():
    g = Graph()
    x = g.input("x", (4, 8))
    type_ = TensorType(f32, [8, 6])
    w = g.add(arith.ConstantOp(DenseResourceAttr.from_params("elsewhere", type_), type_))
    model = g.finish(g.product(x, g.transpose(w, [1, 0]), turned=True))
    assert fold_constants(model.module, {}) == {}
    assert counts(model.module) == {"transpose": 1, "matmul": 1}


def test_quantised_weights_stay_quantised():
    g = Graph()
    x = g.input("x", (4, 8))
    codes = TensorType(i8, [6, 8])
    w = g.add(arith.ConstantOp(DenseResourceAttr.from_params("codes", codes), codes))
    g.weights["codes"] = RNG.integers(-9, 9, (6, 8)).astype(np.int8)
    wide = g.call("dequant", [w], TensorType(f32, [6, 8]), {"scale": FloatAttr(0.5, f32)})
    families, weights = folded(g.finish(g.product(x, g.transpose(wide, [1, 0]))))
    assert families["dequant"] == 1 and list(weights) == ["codes"]


def test_what_fails_to_compute_stays():
    g = Graph()
    x = g.input("x", (4, 8))
    table, at = g.weight("table", matrix(5, 8)), g.weight("at", np.array([0, 1, 9, 2]))
    axis = {"axis": IntegerAttr(0, i64)}
    rows = g.call("gather", [table, at], TensorType(f32, [4, 8]), axis)
    model = g.finish(g.op("add", x, rows))
    fold_constants(model.module, model.weights)
    assert counts(model.module)["gather"] == 1


def test_other_element_types():
    g = Graph()
    x = g.input("x", (3, 20))
    narrow = g.cast(g.weight("w", matrix(3, 20)), bf16)
    at = g.op("add", g.weight("at", np.arange(20)), 1)
    wide = g.op("mul", g.cast(narrow, f32), g.cast(at, f32))
    families, weights = folded(g.finish(g.op("add", x, wide)))
    assert families == {"elementwise_add": 1} and list(weights) == ["w.mul"]


def test_outputs_may_be_constant():
    g = Graph()
    x = g.input("x", (3,))
    model = g.finish(g.op("exp", x), g.op("exp", g.weight("w", matrix(40))))
    families, weights = folded(model)
    assert families == {"elementwise_exp": 1} and list(weights) == ["w.exp"]


TEXT = """
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x6xf32> {
  %w = arith.constant dense_resource<w> : tensor<6x8xf32>
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%w) {permutation = array<i64: 1, 0>} : tensor<6x8xf32> -> tensor<8x6xf32>
  %y = npu_kernel.matmul %x, %t : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}
"""


def test_pass_with_files(tmp_path: Path):
    w = matrix(6, 8)
    save_safetensors(tmp_path / "in.safetensors", {"w": w, "other": w})
    module = parse_text(TEXT, "text.mlir", make_context())
    FoldConstants(str(tmp_path / "in.safetensors"), str(tmp_path / "out.safetensors")).apply(
        make_context(), module
    )
    assert counts(module) == {"matmul": 1}
    x = matrix(4, 8)
    (y,) = run(module, [x], weights=tmp_path / "out.safetensors")
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-5)


@pytest.mark.parametrize("content", [None, b"no tensors"])
def test_bad_weight_files(tmp_path: Path, content: bytes | None):
    path = tmp_path / "in.safetensors"
    if content is not None:
        path.write_bytes(content)
    module = parse_text(TEXT, "text.mlir", make_context())
    with pytest.raises(TilewrightError) as error:
        FoldConstants(str(path)).apply(make_context(), module)
    assert error.value.code.startswith("TW00")
