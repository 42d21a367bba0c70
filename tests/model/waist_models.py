"""Small models as kernel intents, with seeded weights."""

from __future__ import annotations

import numpy as np

from tilewright.frontend.imported import Imported
from tilewright.frontend.mlir_model import import_mlir

ROW = "operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]"
MLP = f"""
func.func @main(%x: tensor<5x24xf32>) -> tensor<5x10xf32> {{
  %w1 = arith.constant dense_resource<"fc1.weight"> : tensor<32x24xf32>
  %b1 = arith.constant dense_resource<"fc1.bias"> : tensor<32xf32>
  %w2 = arith.constant dense_resource<"fc2.weight"> : tensor<10x32xf32>
  %a = npu_kernel.matmul %x, %w1 {{transpose_rhs, tw.layer = "fc1"}} : tensor<5x24xf32>, tensor<32x24xf32> -> tensor<5x32xf32>
  %b = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b1) {{tw.layer = "fc1", {ROW}}} : tensor<5x32xf32>, tensor<32xf32> -> tensor<5x32xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%b) {{tw.layer = "act"}} : tensor<5x32xf32> -> tensor<5x32xf32>
  %d = npu_kernel.matmul %c, %w2 {{transpose_rhs, tw.layer = "fc2"}} : tensor<5x32xf32>, tensor<10x32xf32> -> tensor<5x10xf32>
  return %d : tensor<5x10xf32>
}}
"""
CNN = """
func.func @main(%x: tensor<2x3x9x9xf32>) -> tensor<2x8xf32> {
  %w1 = arith.constant dense_resource<"conv1.weight"> : tensor<8x3x3x3xf32>
  %b1 = arith.constant dense_resource<"conv1.bias"> : tensor<8xf32>
  %w2 = arith.constant dense_resource<"conv2.weight"> : tensor<8x1x3x3xf32>
  %a = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, %w1, %b1) {tw.layer = "conv1", padding = array<i64: 1, 1, 1, 1>} : tensor<2x3x9x9xf32>, tensor<8x3x3x3xf32>, tensor<8xf32> -> tensor<2x8x9x9xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_clamp"(%a) {tw.layer = "act", min = 0.0 : f32, max = 6.0 : f32} : tensor<2x8x9x9xf32> -> tensor<2x8x9x9xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_conv2d"(%r, %w2) {tw.layer = "conv2", groups = 8 : i64, padding = array<i64: 1, 1, 1, 1>} : tensor<2x8x9x9xf32>, tensor<8x1x3x3xf32> -> tensor<2x8x9x9xf32>
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%c, %r) {tw.layer = "sum"} : tensor<2x8x9x9xf32>, tensor<2x8x9x9xf32> -> tensor<2x8x9x9xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_pool_max"(%s) {tw.layer = "pool", kernel = array<i64: 3, 3>, strides = array<i64: 3, 3>} : tensor<2x8x9x9xf32> -> tensor<2x8x3x3xf32>
  %m = npu_kernel.ukernel_generic "npu_uk_reduction_mean"(%p) {tw.layer = "mean", axes = array<i64: 2, 3>} : tensor<2x8x3x3xf32> -> tensor<2x8xf32>
  return %m : tensor<2x8xf32>
}
"""


def _block(number: int, source: str) -> str:
    """One layer of a transformer without positions: 6 rows of 16, two heads of 8."""
    n, t = number, "tensor<6x16xf32>"
    heads = "tensor<6x2x8xf32>"
    turned = "tensor<2x6x8xf32>"
    text = f"""
  %g{n} = arith.constant dense_resource<"layers.{n}.norm.weight"> : tensor<16xf32>
  %wq{n} = arith.constant dense_resource<"layers.{n}.q.weight"> : tensor<16x16xf32>
  %wk{n} = arith.constant dense_resource<"layers.{n}.k.weight"> : tensor<16x16xf32>
  %wv{n} = arith.constant dense_resource<"layers.{n}.v.weight"> : tensor<16x16xf32>
  %wo{n} = arith.constant dense_resource<"layers.{n}.o.weight"> : tensor<16x16xf32>
  %n{n} = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%{source}, %g{n}) {{tw.layer = "layers.{n}.norm", epsilon = 1.0e-5 : f32}} : {t}, tensor<16xf32> -> {t}
"""
    for name in "qkv":
        text += f"""
  %{name}{n} = npu_kernel.matmul %n{n}, %w{name}{n} {{tw.layer = "layers.{n}.{name}"}} : {t}, tensor<16x16xf32> -> {t}
  %{name}s{n} = npu_kernel.ukernel_generic "npu_uk_reshape"(%{name}{n}) {{tw.layer = "layers.{n}.{name}"}} : {t} -> {heads}
  %{name}t{n} = npu_kernel.ukernel_generic "npu_uk_transpose"(%{name}s{n}) {{tw.layer = "layers.{n}.{name}", permutation = array<i64: 1, 0, 2>}} : {heads} -> {turned}
"""
    return (
        text
        + f"""
  %a{n} = npu_kernel.ukernel_generic "npu_uk_gemma_attention"(%qt{n}, %kt{n}, %vt{n}) {{tw.layer = "layers.{n}.attention", causal}} : {turned}, {turned}, {turned} -> {turned}
  %at{n} = npu_kernel.ukernel_generic "npu_uk_transpose"(%a{n}) {{tw.layer = "layers.{n}.attention", permutation = array<i64: 1, 0, 2>}} : {turned} -> {heads}
  %as{n} = npu_kernel.ukernel_generic "npu_uk_reshape"(%at{n}) {{tw.layer = "layers.{n}.attention"}} : {heads} -> {t}
  %o{n} = npu_kernel.matmul %as{n}, %wo{n} {{tw.layer = "layers.{n}.o"}} : {t}, tensor<16x16xf32> -> {t}
  %h{n} = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%{source}, %o{n}) {{tw.layer = "layers.{n}"}} : {t}, {t} -> {t}
"""
    )


def transformer_text(layers: int, results: tuple[str, ...] = ()) -> str:
    """Identical layers; the last state is returned, and other values by name."""
    body, source = "", "x"
    for number in range(layers):
        body += _block(number, source)
        source = f"h{number}"
    wanted = [source, *results]
    shapes = {"a": "2x6x8", "k": "6x16", "h": "6x16", "x": "6x16", "n": "6x16"}
    types = ", ".join(f"tensor<{shapes[name[0]]}xf32>" for name in wanted)
    names = ", ".join(f"%{name}" for name in wanted)
    head = f"func.func @main(%x: tensor<6x16xf32>) -> ({types}) {{"
    return f"{head}{body}  return {names} : {types}\n}}\n"


def imported(text: str, seed: int = 5) -> Imported:
    """A model with random weights for whatever it names."""
    generator = np.random.default_rng(seed)
    weights: dict[str, np.ndarray] = {}
    for line in text.splitlines():
        if "dense_resource" in line:
            name = line.split('"')[1]
            shape = [int(n) for n in line.split("tensor<")[1].split("xf32")[0].split("x")]
            spread = 1.0 / np.sqrt(shape[-1]) if len(shape) > 1 else 1.0
            weights[name] = (generator.standard_normal(shape) * spread).astype(np.float32)
    return import_mlir(text, "model.mlir", weights)


def tower_text(layers: int) -> str:
    """Identical layers of a norm, a product with bias and activation, and a residual."""
    t, body, source = "tensor<6x16xf32>", "", "x"
    for n in range(layers):
        body += f"""
  %g{n} = arith.constant dense_resource<"layers.{n}.norm.weight"> : tensor<16xf32>
  %w{n} = arith.constant dense_resource<"layers.{n}.linear.weight"> : tensor<16x16xf32>
  %b{n} = arith.constant dense_resource<"layers.{n}.linear.bias"> : tensor<16xf32>
  %n{n} = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%{source}, %g{n}) {{tw.layer = "layers.{n}.norm", epsilon = 1.0e-5 : f32}} : {t}, tensor<16xf32> -> {t}
  %a{n} = npu_kernel.matmul %n{n}, %w{n} {{tw.layer = "layers.{n}.linear"}} : {t}, tensor<16x16xf32> -> {t}
  %c{n} = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a{n}, %b{n}) {{tw.layer = "layers.{n}.linear", {ROW}}} : {t}, tensor<16xf32> -> {t}
  %s{n} = npu_kernel.ukernel_generic "npu_uk_silu"(%c{n}) {{tw.layer = "layers.{n}.act"}} : {t} -> {t}
  %h{n} = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%{source}, %s{n}) {{tw.layer = "layers.{n}"}} : {t}, {t} -> {t}
"""
        source = f"h{n}"
    return f"func.func @main(%x: {t}) -> {t} {{{body}  return %{source} : {t}\n}}\n"
