"""What the fuzzer found once: each is refused with an error that can be printed."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright.dialects.parsing import parse_text
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.models import import_model
from tilewright.io.tensor_files import read_tensor
from tilewright.reference.executor import Executor
from tilewright.targets.atlas.passes.generate_code import generate_code
from tilewright.targets.atlas.profile import load_profile


def test_halves_of_characters_can_be_printed():
    error = TilewrightError("TW0001", "a name \ud800", Location("file\udfff"), "not \udc80")
    assert str(error).encode() and json.dumps(error.to_json())


def test_a_shape_that_is_no_list(tmp_path: Path):
    header = json.dumps({"x": {"dtype": "U8", "shape": {}, "data_offsets": [0, 1]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
    with pytest.raises(TilewrightError, match="malformed"):
        read_tensor(f"{tmp_path / 'x.safetensors'}#x")


def test_a_function_without_a_name(tmp_path: Path):
    text = '"builtin.module"() ({"func.func"() ({}) : () -> ()\n"stablehlo.x"() : () -> ()}) : () -> ()'
    (tmp_path / "x.mlir").write_text(text)
    with pytest.raises(TilewrightError):
        import_model(str(tmp_path / "x.mlir"))


def test_layers_without_end():
    text = """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = npu_kernel.layers 4000000000 iter(%a = %x : tensor<4xf32>)
          weights(%w = "l.*.w" : tensor<4xf32>) {
        npu_kernel.yield %a : tensor<4xf32>
      } : tensor<4xf32>
      func.return %y : tensor<4xf32>
    }"""
    with pytest.raises(TilewrightError, match="more than"):
        parse_text(text)


@pytest.mark.parametrize("size", [f"{9 * 10**30}", "9" * 5000, f"{1 << 40}x{1 << 40}"])
def test_shapes_beyond_every_integer(size: str):
    text = f"func.func @f(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{\n  return %x : f32\n}}"
    with pytest.raises(TilewrightError, match="a shape has at most 4611686018427387904 elements"):
        parse_text(text)


def test_attention_without_columns_costs_nothing():
    """A million heads of no width: the scores would be 256 million numbers."""
    kind = {"q": "1000000x8x0xbf16", "k": "1000000x32x0xbf16"}
    text = f"""func.func @f(%q: tensor<{kind["q"]}>, %k: tensor<{kind["k"]}>) -> tensor<{kind["q"]}> {{
      %s = arith.constant 1.0 : f32
      %e = tensor.empty() : tensor<{kind["q"]}>
      %0 = iree_linalg_ext.attention <indexing_maps = [
          affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>,
          affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>,
          affine_map<(b, m, n, k, l) -> (b, m, n)>]>
          ins(%q, %k, %k, %s : tensor<{kind["q"]}>, tensor<{kind["k"]}>, tensor<{kind["k"]}>, f32)
          outs(%e : tensor<{kind["q"]}>) {{
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
      }} -> tensor<{kind["q"]}>
      return %0 : tensor<{kind["q"]}>
    }}"""
    given = [np.zeros((1000000, rows, 0), ml_dtypes.bfloat16) for rows in (8, 32)]
    (result,) = Executor(parse_text(text)).run(given, "f")
    assert result.shape == (1000000, 8, 0)


@pytest.mark.parametrize("number", [10**400, -(10**5000), 1e39], ids=["wide", "wider", "float"])
@pytest.mark.parametrize(
    "where", ["tw.state(N)", "tw.full(N)", "x[m, :] * N", "tw.to_operand(x[m, :], N)"]
)
def test_numbers_that_no_tile_holds(number: float, where: str):
    @tw.kernel
    def kernel(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            made = eval(where, {"tw": tw, "x": x, "m": m, "N": number})
            out[m, :] = x[m, :] + made

    x = np.ones((32, 32), ml_dtypes.bfloat16)
    with pytest.raises(TilewrightError) as caught:
        kernel.compile(x, target="atlas-v1")
    assert caught.value.code in ("TW1616", "TW1624") and len(str(caught.value)) < 500


def test_programs_on_tensors_without_elements():
    kind = "tensor<0x0xbf16>"
    text = f"""func.func @f(%a: {kind}) -> {kind} {{
      %r = npu_schedule.ukernel_launch "npu_uk_silu"(%a) : {kind} -> {kind}
      return %r : {kind}
    }}"""
    (function,) = parse_text(text).ops
    with pytest.raises(TilewrightError, match="has no elements"):
        generate_code(function, load_profile("atlas-v1"))  # type: ignore[arg-type]


def test_blocks_move_by_numbers():
    @tw.kernel
    def kernel(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            out[m, :] = x[m + m, :]  # type: ignore[operator]

    with pytest.raises(TilewrightError, match="moves by a number of elements, not by Block"):
        kernel.compile(np.ones((64, 32), ml_dtypes.bfloat16))


@pytest.mark.parametrize("columns", [(1 << 20) + 1, 1 << 40])
def test_more_tiles_than_anybody_reads_at_once(columns: int):
    @tw.kernel
    def kernel(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for m in tw.grid(x.M):
            out[m, :] = tw.relu(x[m, :])

    with pytest.raises(TilewrightError, match="at most 32,768 are read or written"):
        kernel.ir(M=64, N=columns)


def test_reshapes_that_do_not_fit():
    text = """func.func @f(%x: tensor<2x1x4xf32>) -> tensor<6x4xf32> {
      %y = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x1x4xf32> into tensor<6x4xf32>
      return %y : tensor<6x4xf32>
    }"""
    with pytest.raises(TilewrightError) as caught:
        Executor(parse_text(text)).run([np.zeros((2, 1, 4), np.float32)], "f")
    assert caught.value.code == "TW1502"


def test_loops_that_never_end_are_refused() -> None:
    @tw.kernel
    def endless(x: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
        for _ in tw.each(2**70):
            pass
        out[:, :] = x[:, :]

    x = np.zeros((32, 32), ml_dtypes.bfloat16)
    with pytest.raises(TilewrightError, match=r"1.18e\+21 elements takes more"):
        endless.eager(x)
