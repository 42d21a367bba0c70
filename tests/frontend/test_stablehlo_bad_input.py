"""StableHLO that cannot be imported: one error with a code, the operation and its place."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.errors import TilewrightError, TilewrightErrors
from tilewright.frontend.mlir_model import read_mlir_model
from tilewright.frontend.models import import_model
from tilewright.frontend.stablehlo import import_text

DATA = Path(__file__).resolve().parent.parent / "data" / "stablehlo"
T = "tensor<4xf32>"


def text(body: str, result: str = T) -> str:
    return f"func.func public @main(%x: {T}) -> {result} {{\n  {body}\n  return %r : {result}\n}}\n"


def failure(source: str) -> TilewrightError:
    with pytest.raises(TilewrightError) as caught:
        import_text(source, "bad.mlir")
    return caught.value


LOOP = f"""%r = stablehlo.while(%s = %x) : {T}
  cond {{
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %t = stablehlo.reduce(%s init: %z) applies stablehlo.add across dimensions = [0] : ({T}, tensor<f32>) -> tensor<f32>
    %p = stablehlo.compare LT, %t, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %n = stablehlo.add %s, %s : {T}
    stablehlo.return %n : {T}
  }}"""
UNENDING = f"""%r = stablehlo.while(%s = %x) : {T}
  cond {{
    %p = stablehlo.constant dense<true> : tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    stablehlo.return %s : {T}
  }}"""


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (f'%r = "stablehlo.cholesky"(%x) : ({T}) -> {T}', "TW6201", "stablehlo.cholesky has no"),
        (f"%r = stablehlo.fft %x, type = FFT, length = [4] : {T}", "TW6201", "stablehlo.fft"),
        (f"%r = chlo.digamma %x : {T} -> {T}", "TW6201", "chlo.digamma has no mapping"),
        (f"%r = stablehlo.custom_call @cublas(%x) : ({T}) -> {T}", "TW6201", "@cublas has no"),
        (f'%r = "other.thing"(%x) : ({T}) -> {T}', "TW6201", "other.thing has no mapping"),
        (f"%r = stablehlo.nonsense %x : {T}", "TW1210", "stablehlo.nonsense"),
        (LOOP, "TW6202", "depends on the inputs"),
        (UNENDING, "TW6202", "more than 4096 steps"),
        (f"%r = stablehlo.bitcast_convert %x : ({T}) -> {T}", "TW6203", "has no kernel"),
        (f"%r = stablehlo.transpose %x, dims = [1] : ({T}) -> {T}", "TW6204", "orders rank 1"),
        (f"%r = stablehlo.slice %x [0:9] : ({T}) -> {T}", "TW6204", "reaches outside [4]"),
        (
            f"%b = stablehlo.reshape %x : ({T}) -> tensor<4x2xf32>\n  %r = stablehlo.slice %b [0:4, 0:1] : (tensor<4x2xf32>) -> {T}",
            "TW6204",
            "into [4, 2]",
        ),
        (f"%r = call @gone(%x) : ({T}) -> {T}", "TW6204", "@gone, which is not there"),
        (
            "%d = stablehlo.dot_general %x, %x, contracting_dims = [3] x [0] : "
            f"({T}, {T}) -> tensor<f32>\n  %r = stablehlo.broadcast_in_dim %d, dims = [] : (tensor<f32>) -> {T}",
            "TW6204",
            "do not fit",
        ),
        (f"%r = stablehlo.add %x, %y : {T}", "TW1210", "%y is used but not defined"),
    ],
)
def test_the_operation_and_its_line(body: str, code: str, words: str) -> None:
    error = failure(text(body))
    assert error.code == code and words in str(error)
    assert error.location is not None and str(error.location).startswith("bad.mlir:2")


def test_every_unknown_operation_is_named_at_once() -> None:
    body = f'%a = "stablehlo.fft"(%x) : ({T}) -> {T}\n  %r = chlo.lgamma %a : {T} -> {T}'
    with pytest.raises(TilewrightErrors) as caught:
        import_text(text(body), "bad.mlir")
    names = [error.message.split()[0] for error in caught.value.errors]
    assert names == ["stablehlo.fft", "chlo.lgamma"]


def test_dead_operations_do_not_matter() -> None:
    body = f'%a = "stablehlo.fft"(%x) : ({T}) -> {T}\n  %r = stablehlo.abs %x : {T}'
    assert len(import_text(text(body), "fine.mlir").inputs) == 1


def test_shapes_types_and_functions() -> None:
    dynamic = (
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n  return %x : tensor<?xf32>\n}"
    )
    assert failure(dynamic).code == "TW6205"
    number = (
        "func.func @main(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {\n"
        "  return %x : tensor<2xcomplex<f32>>\n}"
    )
    assert failure(number).code == "TW6205"
    two = "".join(
        f"func.func @{name}(%x: {T}) -> {T} {{\n  %r = stablehlo.abs %x : {T}\n  return %r : {T}\n}}\n"
        for name in ("f", "g")
    )
    error = failure(two)
    assert error.code == "TW6206" and "@f, @g" in error.message
    endless = text(f"%r = call @main(%x) : ({T}) -> {T}")
    assert failure(endless).code == "TW6204"


def test_weights_have_to_fit() -> None:
    source = text(f"%r = stablehlo.abs %x : {T}")
    with pytest.raises(TilewrightError) as caught:
        import_text(source, "model.mlir", {"arg0": np.ones(5, np.float32)})
    assert caught.value.code == "TW6208" and "[5]" in caught.value.message


def test_files(tmp_path: Path) -> None:
    broken = tmp_path / "broken.stablehlo"
    broken.write_bytes((DATA / "encoder.stablehlo").read_bytes()[:900])
    with pytest.raises(TilewrightError) as caught:
        read_mlir_model(broken)
    assert caught.value.code == "TW6209"
    if importlib.util.find_spec("jaxlib") is None:
        assert "not installed" in caught.value.message
    other = tmp_path / "other.mlirbc"
    other.write_bytes(b"ML\xefR\x01MLIR20\x00")
    with pytest.raises(TilewrightError, match="bytecode"):
        import_model(str(other))
    with pytest.raises(TilewrightError, match="cannot read"):
        import_model(str(tmp_path / "missing.mlir"))
    with pytest.raises(TilewrightError, match="only ONNX models"):
        import_model(str(DATA / "mlp.mlir"), {"batch": 2})


SAVED = {name: (DATA / f"{name}.mlir").read_text() for name in ("mlp", "cnn")}


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(sorted(SAVED)),
    st.integers(0, 6000),
    st.sampled_from(["cut", "7", "-", "[", "]", "f64", "%arg1", "0", " ", "x", "i1", "->"]),
    st.integers(1, 6),
)
def test_damaged_text_is_an_error(name: str, place: int, put: str, count: int) -> None:
    """Whatever is wrong with the text, it is an error of ours or still a model."""
    source = SAVED[name]
    place %= len(source)
    damaged = source[:place] if put == "cut" else source[:place] + put + source[place + count :]
    try:
        import_text(damaged, "damaged.mlir")
    except (TilewrightError, TilewrightErrors) as error:
        assert str(error).startswith("TW")
