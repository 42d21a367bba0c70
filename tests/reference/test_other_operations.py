"""Operations in generic form and rarer ones: forall, switches, affine, gather, unsigned casts, errors."""

from __future__ import annotations

import numpy as np
import pytest
from running import array, execute, floats

from tilewright.dialects.parsing import parse_text
from tilewright.errors import TilewrightError
from tilewright.reference.executor import run


def unverified(text: str, *inputs: np.ndarray | np.generic) -> list[np.ndarray]:
    """Run text with operations that have no definition here."""
    return run(parse_text(text, "test.mlir"), list(inputs))


def test_forall_writes_its_slices() -> None:
    text = """
func.func @main(%x: tensor<4x6xf32>, %o: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %r = "scf.forall"(%o) <{operandSegmentSizes = array<i32: 0, 0, 0, 1>, staticLowerBound = array<i64: 0, 0>,
      staticUpperBound = array<i64: 4, 6>, staticStep = array<i64: 2, 3>}> ({
  ^bb0(%i: index, %j: index, %s: tensor<4x6xf32>):
    %t = tensor.extract_slice %x[%i, %j] [2, 3] [1, 1] : tensor<4x6xf32> to tensor<2x3xf32>
    %u = arith.addf %t, %t : tensor<2x3xf32>
    "scf.forall.in_parallel"() ({
      "tensor.parallel_insert_slice"(%u, %s, %i, %j) <{operandSegmentSizes = array<i32: 1, 1, 2, 0, 0>,
          static_offsets = array<i64: -9223372036854775808, -9223372036854775808>,
          static_sizes = array<i64: 2, 3>, static_strides = array<i64: 1, 1>}> :
          (tensor<2x3xf32>, tensor<4x6xf32>, index, index) -> ()
    }) : () -> ()
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %r : tensor<4x6xf32>
}"""
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    (result,) = unverified(text, x, np.zeros((4, 6), np.float32))
    assert result.tolist() == (2 * x).tolist()


def test_affine_and_switch() -> None:
    text = """
func.func @main(%n: index) -> (index, index, index) {
  %a = affine.apply affine_map<(d0)[s0] -> (d0 * 2 + s0 floordiv 3)> (%n)[%n]
  %b = affine.min affine_map<(d0) -> (d0 + 4, 10)> (%n)
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %c = scf.index_switch %n -> index
  case 7 {
    scf.yield %one : index
  }
  default {
    scf.yield %two : index
  }
  return %a, %b, %c : index, index, index
}"""
    assert [int(v) for v in unverified(text, np.asarray(7))] == [16, 10, 1]
    assert [int(v) for v in unverified(text, np.asarray(3))] == [7, 7, 2]


def test_gather_and_dynamic_shapes() -> None:
    text = """
func.func @main(%x: tensor<5x3xf32>, %i: tensor<2x1xi64>, %d: tensor<?x3xf32>) -> (tensor<2x3xf32>, index, tensor<?x3xf32>) {
  %g = "tensor.gather"(%x, %i) <{gather_dims = array<i64: 0>}> : (tensor<5x3xf32>, tensor<2x1xi64>) -> tensor<2x3xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %d, %c0 : tensor<?x3xf32>
  %e = tensor.empty(%n) : tensor<?x3xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%d : tensor<?x3xf32>) outs(%e : tensor<?x3xf32>) {
  ^bb0(%v: f32, %o: f32):
    %w = arith.mulf %v, %v : f32
    linalg.yield %w : f32
  } -> tensor<?x3xf32>
  return %g, %n, %s : tensor<2x3xf32>, index, tensor<?x3xf32>
}"""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    g, n, s = unverified(text, x, np.array([[4], [1]]), x[:4])
    assert g.tolist() == x[[4, 1]].tolist() and int(n) == 4
    assert s.tolist() == (x[:4] ** 2).tolist()


def test_named_operations_in_generic_form() -> None:
    text = """
func.func @main(%a: tensor<2x3x4xbf16>, %b: tensor<2x4x5xbf16>, %c: tensor<2x3x5xf32>) -> tensor<2x3x5xf32> {
  %r = "linalg.batch_matmul"(%a, %b, %c) <{operandSegmentSizes = array<i32: 2, 1>}> ({
  ^bb0(%x: bf16, %y: bf16, %o: f32):
    %0 = arith.extf %x : bf16 to f32
    %1 = arith.extf %y : bf16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %o, %2 : f32
    linalg.yield %3 : f32
  }) : (tensor<2x3x4xbf16>, tensor<2x4x5xbf16>, tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  return %r : tensor<2x3x5xf32>
}"""
    random = np.random.default_rng(0)
    a, b = (array(random.standard_normal(s), "bf16") for s in ((2, 3, 4), (2, 4, 5)))
    c = random.standard_normal((2, 3, 5)).astype(np.float32)
    wanted = (floats(a) @ floats(b) + c).astype(np.float32)
    np.testing.assert_array_equal(unverified(text, a, b, c)[0], wanted)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("add", lambda x, y: x + y),
        ("sub", lambda x, y: x - y),
        ("mul", lambda x, y: x * y),
        ("div", lambda x, y: x / y),
        ("max", np.maximum),
        ("min", np.minimum),
    ],
)
def test_named_binary_operations(name: str, wanted) -> None:
    text = f"""
func.func @main(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {{
  %e = tensor.empty() : tensor<3x4xf32>
  %r = linalg.{name} ins(%a, %b : tensor<3x4xf32>, tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}}"""
    random = np.random.default_rng(2)
    a, b = (random.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
    np.testing.assert_array_equal(execute(text, a, b)[0], wanted(a, b))


@pytest.mark.parametrize(
    ("name", "attributes", "x", "w", "out", "subscripts"),
    [
        ("depthwise_conv_2d_nhwc_hwc", 2, (1, 6, 5, 3), (2, 2, 3), (1, 3, 2, 3), "nhwcyx,yxc->nhwc"),
        ("conv_2d_nhwc_fhwc", 1, (2, 5, 4, 3), (4, 3, 2, 3), (2, 3, 3, 4), "nhwcyx,fyxc->nhwf"),
        ("conv_2d_ngchw_gfchw", 1, (1, 2, 3, 4, 5), (2, 4, 3, 2, 2), (1, 2, 4, 3, 4), "ngchwyx,gfcyx->ngfhw"),
    ],
)  # fmt: skip
def test_named_convolutions(name, attributes, x, w, out, subscripts) -> None:
    def type_of(shape) -> str:
        return f"tensor<{'x'.join(map(str, shape))}xf32>"

    text = f"""
func.func @main(%x: {type_of(x)}, %w: {type_of(w)}, %o: {type_of(out)}) -> {type_of(out)} {{
  %r = linalg.{name} {{strides = dense<{attributes}> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
      ins(%x, %w : {type_of(x)}, {type_of(w)}) outs(%o : {type_of(out)}) -> {type_of(out)}
  return %r : {type_of(out)}
}}"""
    random = np.random.default_rng(9)
    a, b = (
        random.integers(-4, 5, x).astype(np.float32),
        random.integers(-4, 5, w).astype(np.float32),
    )
    spatial = (1, 2) if "nhwc" in name else (3, 4)
    kernel = {"depthwise_conv_2d_nhwc_hwc": w[:2], "conv_2d_nhwc_fhwc": w[1:3]}.get(name, w[3:])
    view = np.lib.stride_tricks.sliding_window_view(a, kernel, axis=spatial)
    step = [slice(None)] * view.ndim
    for axis in spatial:
        step[axis] = slice(None, None, attributes)
    wanted = np.einsum(subscripts, view[tuple(step)].astype(float), b.astype(float))
    found = execute(text, a, b, np.zeros(out, np.float32))[0]
    np.testing.assert_array_equal(found, wanted)


def test_unsupported_rounding_and_shapes_are_errors() -> None:
    text = """
func.func @main(%x: tensor<2xf32>) -> tensor<2xbf16> {
  %r = arith.truncf %x {roundingmode = "upward"} : tensor<2xf32> to tensor<2xbf16>
  return %r : tensor<2xbf16>
}"""
    with pytest.raises(TilewrightError, match="rounding mode") as caught:
        unverified(text, np.zeros(2, np.float32))
    assert caught.value.code == "TW1502"
    text = """
func.func @main(%x: tensor<2xcomplex<f32>>) -> tensor<2xcomplex<f32>> {
  return %x : tensor<2xcomplex<f32>>
}"""
    with pytest.raises(TilewrightError, match="no values of type"):
        unverified(text, np.zeros(2, np.complex64))
