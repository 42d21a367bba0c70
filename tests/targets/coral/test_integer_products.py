"""Quantised files: weights behind a dequantisation become integers again, sums are exact."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.frontend.mlir_model import import_mlir
from tilewright.targets.coral.compile import compile_model
from tilewright.targets.coral.integer_products import steps_of
from tilewright.targets.coral.toolchain import toolchain_missing

built = pytest.mark.skipif(toolchain_missing() is not None, reason="no RISC-V toolchain")


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_found_exactly(seed):
    rng = np.random.default_rng(seed)
    k = rng.integers(-127, 128, (3, 3, 2, 5))
    k[..., 1] = 0
    k[..., 2] = np.clip(k[..., 2], -20, 20)
    steps = rng.uniform(1e-4, 1e-1, 5).astype(np.float32)
    weights = (k * steps).astype(np.float32)
    found = steps_of(weights)
    assert found is not None
    codes, made = found
    assert np.array_equal((codes * made).astype(np.float32), weights)
    weights[0, 0, 0, 0] = np.nextafter(weights[0, 0, 0, 0], np.float32(9))
    assert steps_of(weights) is None  # no multiple any more


def module(zero: int, dtype: str, weights: np.ndarray, bias: np.ndarray, step: float) -> str:
    """convert, minus the zero point, times the scale, convolve, requantise."""
    w = np.array2string(weights, threshold=10**6, separator=", ").replace("\n", "")
    b = np.array2string(bias, separator=", ").replace("\n", "")
    return f"""
func.func @main(%q: tensor<1x6x5x3x{dtype}>) -> (tensor<1x6x5x4xf32>, tensor<1x6x5x4xi8>) {{
  %k = stablehlo.constant dense<{w}> : tensor<3x3x3x4xi8>
  %b = stablehlo.constant dense<{b}> : tensor<4xi32>
  %s = stablehlo.constant dense<{step}> : tensor<f32>
  %z = stablehlo.constant dense<{float(zero)}> : tensor<f32>
  %y = stablehlo.constant dense<0.05> : tensor<f32>
  %bs = stablehlo.multiply %s, %s : tensor<f32>
  %kf = stablehlo.convert %k : (tensor<3x3x3x4xi8>) -> tensor<3x3x3x4xf32>
  %sk = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<3x3x3x4xf32>
  %w = stablehlo.multiply %kf, %sk : tensor<3x3x3x4xf32>
  %xf = stablehlo.convert %q : (tensor<1x6x5x3x{dtype}>) -> tensor<1x6x5x3xf32>
  %zx = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<1x6x5x3xf32>
  %sx = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<1x6x5x3xf32>
  %c = stablehlo.subtract %xf, %zx : tensor<1x6x5x3xf32>
  %x = stablehlo.multiply %c, %sx : tensor<1x6x5x3xf32>
  %bf = stablehlo.convert %b : (tensor<4xi32>) -> tensor<4xf32>
  %bss = stablehlo.broadcast_in_dim %bs, dims = [] : (tensor<f32>) -> tensor<4xf32>
  %bb = stablehlo.multiply %bf, %bss : tensor<4xf32>
  %br = stablehlo.broadcast_in_dim %bb, dims = [3] : (tensor<4xf32>) -> tensor<1x6x5x4xf32>
  %h = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x6x5x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x6x5x4xf32>
  %o = stablehlo.add %h, %br : tensor<1x6x5x4xf32>
  %ys = stablehlo.broadcast_in_dim %y, dims = [] : (tensor<f32>) -> tensor<1x6x5x4xf32>
  %d = stablehlo.divide %o, %ys : tensor<1x6x5x4xf32>
  %r = stablehlo.round_nearest_even %d : tensor<1x6x5x4xf32>
  %lo = stablehlo.constant dense<-128.0> : tensor<f32>
  %hi = stablehlo.constant dense<127.0> : tensor<f32>
  %e = stablehlo.clamp %lo, %r, %hi : (tensor<f32>, tensor<1x6x5x4xf32>, tensor<f32>) -> tensor<1x6x5x4xf32>
  %n = stablehlo.convert %e : (tensor<1x6x5x4xf32>) -> tensor<1x6x5x4xi8>
  return %o, %n : tensor<1x6x5x4xf32>, tensor<1x6x5x4xi8>
}}
"""


@built
@pytest.mark.parametrize(("zero", "dtype"), [(0, "i8"), (-7, "i8"), (130, "ui8")])
def test_codes_are_summed_in_integers(zero, dtype):
    rng = np.random.default_rng(zero + 200)
    k = rng.integers(-127, 128, (3, 3, 3, 4)).astype(np.int8)
    bias = rng.integers(-4000, 4000, 4).astype(np.int32)
    step = 0.0123
    made = compile_model(import_mlir(module(zero, dtype, k, bias, step), "quantised.mlir"))
    assert any(n.kind == "conv" and n.output.dtype == "i32" for n in made.program.nodes)
    assert made.verify(1).ok
    kind = np.int8 if dtype == "i8" else np.uint8
    q = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, (1, 6, 5, 3), dtype=kind)
    image = np.pad(q.astype(np.int64) - zero, ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = np.zeros((1, 6, 5, 4), dtype=np.int64) + bias
    for y in range(3):
        for x in range(3):
            sums += image[:, y : y + 6, x : x + 5] @ k[y, x].astype(np.int64)
    factor = np.float32(np.float64(np.float32(step)) ** 2)
    real = sums.astype(np.float32) * factor
    got, codes = made.run([q])
    assert np.array_equal(got, real)
    wanted = np.clip(np.rint(real / np.float32(0.05)), -128, 127).astype(np.int8)
    assert np.array_equal(codes, wanted)
