"""What the fuzzer found once: each is refused with an error that can be printed."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tilewright.dialects.parsing import parse_text
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.models import import_model
from tilewright.io.tensor_files import read_tensor


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
