"""Reading MLIR text: IREE's phases, weights, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.dialects.locations import location_of
from tilewright.errors import TilewrightError
from tilewright.frontend.mlir import read_mlir, read_model
from tilewright.reference.executor import run

BODY = """
    %w = arith.constant dense_resource<proj.weight> : tensor<2x3xf32>
    %e = tensor.empty() : tensor<4x2xf32>
    %z = arith.constant 0.0 : f32
    %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x2xf32>) -> tensor<4x2xf32>
    %r = linalg.matmul_transpose_b ins(%x, %w : tensor<4x3xf32>, tensor<2x3xf32>) outs(%f : tensor<4x2xf32>) -> tensor<4x2xf32>
"""
RESOURCES = """
{-#
  dialect_resources: {
    builtin: {
      proj.weight: "0x040000000000803F0000004000004040000080400000A0400000C040"
    }
  }
#-}
"""
PLAIN = f"""module {{
  func.func @main(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {{{BODY}
    return %r : tensor<4x2xf32>
  }}
}}
"""
TENSORS = f"""module {{
  util.func public @main(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {{{BODY}
    util.return %r : tensor<4x2xf32>
  }}
}}
"""
VIEWS = f"""module attributes {{stream.affinity.default = #hal.device.affinity<@__device_0>}} {{
  util.global private @__device_0 = #hal.device.target<"local", [#hal.executable.target<"llvm-cpu", "x", {{cpu = ""}}>]> : !hal.device
  util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view attributes {{iree.abi.stub, iree.reflection = {{iree.abi.declaration = "sync func @main(%input0: tensor<4x3xf32>)"}}}} {{
    %i = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x3xf32>
    %x = iree_tensor_ext.compute_barrier.start %i : tensor<4x3xf32> -> tensor<4x3xf32>{BODY}
    %b = iree_tensor_ext.compute_barrier.end %r : tensor<4x2xf32> -> tensor<4x2xf32>
    %v = hal.tensor.export %b "output0" : tensor<4x2xf32> -> !hal.buffer_view
    util.return %v : !hal.buffer_view
  }}
}}
"""
ASYNCHRONOUS = f"""module {{
  util.func public @main$async(%arg0: !hal.buffer_view, %arg1: !hal.fence, %arg2: !hal.fence) -> !hal.buffer_view {{
    %x = hal.tensor.import wait(%arg1) => %arg0 : !hal.buffer_view -> tensor<4x3xf32>{BODY}
    %j = hal.tensor.barrier join(%r : tensor<4x2xf32>) => %arg2 : !hal.fence
    %v = hal.tensor.export %j : tensor<4x2xf32> -> !hal.buffer_view
    util.return %v : !hal.buffer_view
  }}
  util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {{
    %fence = hal.fence.create device(%device : !hal.device) flags("None") : !hal.fence
    %0 = util.call @main$async(%arg0, %null, %fence) : (!hal.buffer_view, !hal.fence, !hal.fence) -> !hal.buffer_view
    util.return %0 : !hal.buffer_view
  }}
}}
"""
HOISTED = """module {
  util.global private @scale = dense<2.0> : tensor<3xf32>
  util.global private @double : tensor<3xf32>
  util.initializer {
    %s = util.global.load immutable @scale : tensor<3xf32>
    %e = tensor.empty() : tensor<3xf32>
    %d = linalg.add ins(%s, %s : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
    util.global.store %d, @double : tensor<3xf32>
    util.return
  }
  util.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
    %d = util.global.load immutable @double : tensor<3xf32>
    %e = tensor.empty() : tensor<3xf32>
    %r = linalg.mul ins(%x, %d : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
    util.return %r : tensor<3xf32>
  }
}
"""


@pytest.mark.parametrize("text", [PLAIN, TENSORS, VIEWS, ASYNCHRONOUS])
def test_all_phases_give_the_same_function(text: str) -> None:
    model = read_model(text + RESOURCES)
    assert list(model.weights) == ["proj.weight"]
    weight = np.frombuffer(model.weights["proj.weight"], np.float32).reshape(2, 3)
    assert weight.tolist() == [[1, 2, 3], [4, 5, 6]]
    functions = [op for op in model.module.walk() if op.name == "func.func"]
    assert [f.properties["sym_name"].data for f in functions] == ["main"]  # type: ignore[attr-defined]
    assert not any(op.name.startswith(("util.", "hal.", "iree_")) for op in model.module.walk())
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    (result,) = run(model.module, [x], weights={"proj.weight": weight})
    assert np.array_equal(result, x @ weight.T)


def test_globals_are_computed_where_they_are_loaded() -> None:
    module = read_mlir(HOISTED)
    (result,) = run(module, [np.array([1, 2, 3], np.float32)])
    assert result.tolist() == [4, 8, 12]


def test_ops_know_their_line_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(VIEWS + RESOURCES)
    module = read_mlir(path)
    matmul = next(op for op in module.walk() if op.name == "linalg.matmul_transpose_b")
    place = location_of(matmul)
    assert place is not None and place.file == str(path)
    assert "matmul_transpose_b" in path.read_text().splitlines()[place.line - 1]


REFUSED = {
    "TW1230": 'module { util.func public @f(%x: tensor<3xf32>) -> tensor<3xf32> {\n%0 = "flow.dispatch"(%x) '
    ": (tensor<3xf32>) -> tensor<3xf32>\nutil.return %0 : tensor<3xf32> } }",
    "TW1232": "module { util.global private @g : tensor<3xf32>\nutil.func public @f() -> tensor<3xf32> {\n"
    "%0 = util.global.load immutable @g : tensor<3xf32>\nutil.return %0 : tensor<3xf32> } }",
    "TW1233": "module {\nutil.func public @f(%x: !hal.buffer_view) -> !hal.buffer_view {\n"
    "util.return %x : !hal.buffer_view } }",
    "TW1210": "module { func.func @f(%x: tensor<3xf32>) {\n%0 = linalg.exp ins(%x : tensor<3xf32>\nreturn } }",
    "TW1211": "module { func.func @f(%x: tensor<3xf32>) {\n%0 = linalg.exp ins(%x : tensor<3xf32>) "
    "outs(%x : tensor<3xf32>) -> tensor<4xf32>\nreturn } }",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_cannot_be_read_is_one_error_with_a_place_and_reason(code: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        read_mlir(REFUSED[code])
    assert caught.value.code == code
    assert caught.value.location is not None and caught.value.location.line >= 1


@pytest.mark.parametrize(
    ("data", "line"), [('"0x04"', 14), ('"not hexadecimal"', 14), ('"0x0400000001"\n', None)]
)
def test_resources_that_are_not_bytes(data: str, line: int | None) -> None:
    section = "\n{-#\n dialect_resources: {\n builtin: {\n proj.weight: DATA } } #-}\n"
    text = PLAIN + section.replace("DATA", data)
    if line is None:
        assert read_model(text).weights["proj.weight"] == b"\x01"
        return
    with pytest.raises(TilewrightError, match="does not hold bytes") as caught:
        read_model(text)
    assert caught.value.code == "TW1231"
    assert caught.value.location is not None
    assert "proj.weight" in text.splitlines()[caught.value.location.line - 1]


def test_a_cut_off_resource_section_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="has no end"):
        read_model(PLAIN + '\n{-#\n dialect_resources: { builtin: { a: "0x04000000" } }')
