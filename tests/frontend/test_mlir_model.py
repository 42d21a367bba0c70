"""MLIR text as a model: weights from the text or beside it, IREE's wrapping, calls."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from tilewright.cli.import_model import command
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir_model import import_mlir, read_mlir_model
from tilewright.frontend.models import import_model
from tilewright.io.safetensors_file import save_safetensors
from tilewright.reference.executor import run

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3) / 8
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

PRODUCT = """func.func @model(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %w = arith.constant dense_resource<fc.weight> : tensor<4x3xf32>
  %0 = call @multiply(%x, %w) : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @multiply(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>) -> tensor<2x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4xf32>) -> tensor<2x4xf32>
  %t = tensor.empty() : tensor<3x4xf32>
  %bt = linalg.transpose ins(%b : tensor<4x3xf32>) outs(%t : tensor<3x4xf32>) permutation = [1, 0]
  %r = linalg.matmul ins(%a, %bt : tensor<2x3xf32>, tensor<3x4xf32>) outs(%f : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %r : tensor<2x4xf32>
}
"""
IREE = """util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub, iree.reflection = {iree.abi.declaration = "sync func @main(%tokens: tensor<2x3xf32>) -> (%logits: tensor<2x3xf32>)"}} {
  %w = arith.constant dense_resource<scale> : tensor<3xf32>
  %0 = hal.tensor.import %arg0 "tokens" : !hal.buffer_view -> tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x3xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %w : tensor<2x3xf32>, tensor<3xf32>) outs(%e : tensor<2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %m = arith.mulf %a, %b : f32
    linalg.yield %m : f32
  } -> tensor<2x3xf32>
  %2 = hal.tensor.export %1 "logits" : tensor<2x3xf32> -> !hal.buffer_view
  util.return %2 : !hal.buffer_view
}
"""


def resources(**arrays: np.ndarray) -> str:
    entries = ",\n".join(
        f'      {name}: "0x04000000{array.tobytes().hex()}"' for name, array in arrays.items()
    )
    return f"\n{{-#\n  dialect_resources: {{\n    builtin: {{\n{entries}\n    }}\n  }}\n#-}}\n"


def test_calls_are_followed_and_names_kept() -> None:
    model = import_mlir(PRODUCT, "product.mlir", {"fc.weight": WEIGHT})
    assert [str(spec) for spec in model.inputs] == ["x: 2x3xf32"]
    assert [str(spec) for spec in model.outputs] == ["output: 2x4xf32"]
    names = [op.name for op in model.module.walk()]
    assert names.count("func.func") == 1 and "func.call" not in names
    (found,) = run(model.module, [X], weights=model.weights)
    np.testing.assert_allclose(found, X @ WEIGHT.T, rtol=1e-6)


def test_resources_of_an_iree_dump() -> None:
    scale = np.array([2, 3, 4], np.float32)
    model = import_mlir(IREE + resources(scale=scale), "dump.mlir")
    assert [spec.name for spec in (*model.inputs, *model.outputs)] == ["tokens", "logits"]
    (found,) = run(model.module, [X], weights=model.weights)
    np.testing.assert_array_equal(found, X * scale)


def test_a_file_of_weights_beside_the_text(tmp_path: Path) -> None:
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT)
    with pytest.raises(TilewrightError) as caught:
        import_model(str(path))
    assert caught.value.code == "TW6208" and "fc.weight has no data" in caught.value.message
    assert str(caught.value.location) == f"{path}:2:8"
    save_safetensors(tmp_path / "product.safetensors", {"fc.weight": WEIGHT})
    np.testing.assert_array_equal(import_model(str(path)).weights["fc.weight"], WEIGHT)
    save_safetensors(tmp_path / "product.safetensors", {"fc.weight": WEIGHT.T})
    with pytest.raises(TilewrightError, match=r"shape \[3, 4\]"):
        import_model(str(path))
    (tmp_path / "product.safetensors").write_bytes(b"nonsense")
    with pytest.raises(TilewrightError, match="cannot be read"):
        import_model(str(path))
    save_safetensors(tmp_path / "other.safetensors", {"fc.weight": WEIGHT})
    assert read_mlir_model(path, tmp_path / "other.safetensors").weights


@pytest.mark.parametrize(
    ("element", "dtype"),
    [("bf16", ml_dtypes.bfloat16), ("f8E4M3FN", ml_dtypes.float8_e4m3fn), ("i1", np.bool_),
     ("f8E5M2", ml_dtypes.float8_e5m2)],
)  # fmt: skip
def test_weights_of_every_type(element: str, dtype: type, tmp_path: Path) -> None:
    array = (np.arange(20) % 2).astype(dtype)
    text = (
        f"func.func @main() -> tensor<20x{element}> {{\n"
        f"  %w = arith.constant dense_resource<w> : tensor<20x{element}>\n"
        f"  return %w : tensor<20x{element}>\n}}\n"
    )
    (tmp_path / "m.mlir").write_text(text)
    save_safetensors(tmp_path / "m.safetensors", {"w": array})
    found = import_model(str(tmp_path / "m.mlir")).weights["w"]
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()
    found = import_mlir(text + resources(w=array), "m.mlir").weights["w"]
    assert found.dtype == array.dtype and found.tobytes() == array.tobytes()


def test_large_literals_leave_the_text() -> None:
    values = ", ".join(f"{v}.0" for v in range(40))
    text = (
        "func.func @main() -> tensor<40xf32> {\n"
        f"  %w = arith.constant dense<[{values}]> : tensor<40xf32>\n  return %w : tensor<40xf32>\n}}\n"
    )
    model = import_mlir(text, "literal.mlir")
    np.testing.assert_array_equal(model.weights["literal.0"], np.arange(40))
    (found,) = run(model.module, [], weights=model.weights)
    np.testing.assert_array_equal(found, np.arange(40))


def test_written_by_import_and_read_again(tmp_path: Path) -> None:
    """The module and weights that `tilewright import` writes are a model themselves."""
    (tmp_path / "product.mlir").write_text(PRODUCT)
    save_safetensors(tmp_path / "product.safetensors", {"fc.weight": WEIGHT})
    out = tmp_path / "out.mlir"
    arguments = [str(tmp_path / "product.mlir"), "-o", str(out)]
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0 and "1 tensor ops" in result.stderr
    model = import_model(str(out))
    (found,) = run(model.module, [X], weights=model.weights)
    np.testing.assert_allclose(found, X @ WEIGHT.T, rtol=1e-6)


def test_what_cannot_be_a_model() -> None:
    unknown = 'func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %r = "a.b"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n  return %r : tensor<2xf32>\n}\n'
    with pytest.raises(TilewrightError, match=r"a\.b has no kernel") as caught:
        import_mlir(unknown, "u.mlir")
    assert str(caught.value.location) == "u.mlir:2:8"
    with pytest.raises(TilewrightError) as caught:
        import_mlir(PRODUCT.replace("@multiply(%x", "@gone(%x"), "p.mlir", {"fc.weight": WEIGHT})
    assert caught.value.code == "TW1211" and "@gone" in caught.value.message
    with pytest.raises(TilewrightError, match="a function of tensors"):
        import_mlir("func.func @main(%x: index) -> index {\n  return %x : index\n}\n", "i.mlir")
    with pytest.raises(TilewrightError, match="no function @main"):
        import_mlir("module {\n}\n", "empty.mlir")
