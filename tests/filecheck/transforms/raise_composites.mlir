// RUN: tilewright opt %s -p raise-composites | filecheck %s
// RUN: tilewright opt %s -p "raise-composites{exact-masked-rows=true}" | filecheck %s --check-prefix=EXACT

// Divided by the root of a mean of squares; the layer of the last step stays.
// CHECK-LABEL: func.func @rms_norm(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_rms_norm"(%x, %w) {epsilon = 1.000000e-05 : f32, axis = 1 : i64, tw.layer = "norm"} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
func.func @rms_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_pow"(%x) {scalar_rhs = 2.0 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
  %m = npu_kernel.ukernel_generic "npu_uk_reduction_mean"(%s) {axes = array<i64: 1>, keepdims} : tensor<4x8xf32> -> tensor<4x1xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%m) {scalar_rhs = 1.0e-05 : f32} : tensor<4x1xf32> -> tensor<4x1xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_sqrt"(%e) : tensor<4x1xf32> -> tensor<4x1xf32>
  %n = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%x, %r) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>]} : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%w, %n) {operand_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>], tw.layer = "norm"} : tensor<8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// With the small number outside the root it is no rms norm.
// CHECK-LABEL: func.func @epsilon_outside(
// CHECK-NOT: rms_norm
// CHECK: func.return
func.func @epsilon_outside(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_square"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
  %m = npu_kernel.ukernel_generic "npu_uk_reduction_mean"(%s) {axes = array<i64: 1>, keepdims} : tensor<4x8xf32> -> tensor<4x1xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_sqrt"(%m) : tensor<4x1xf32> -> tensor<4x1xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%r) {scalar_rhs = 1.0e-05 : f32} : tensor<4x1xf32> -> tensor<4x1xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%x, %e) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, 0)>]} : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Heads repeated for two queries each, a mask by choice: one attention on the heads themselves.
// CHECK-LABEL: func.func @attention(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v, %mask) {scale = 1.250000e-01 : f32, kv_group = 2 : i64, mask_kind = "bool"} : tensor<1x4x3x64xf32>, tensor<1x2x5x64xf32>, tensor<1x2x5x64xf32>, tensor<1x1x3x5xi1> -> tensor<1x4x3x64xf32>
// A row may have no key it sees, which the pieces and the kernel treat differently.
// EXACT-LABEL: func.func @attention(
// EXACT-NOT: gemma_attention
// EXACT: func.return
func.func @attention(%q: tensor<1x4x3x64xf32>, %k: tensor<1x2x5x64xf32>, %v: tensor<1x2x5x64xf32>, %mask: tensor<1x1x3x5xi1>) -> tensor<1x4x3x64xf32> {
  %k1 = npu_kernel.ukernel_generic "npu_uk_cast"(%k) {operand_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>]} : tensor<1x2x5x64xf32> -> tensor<1x2x2x5x64xf32>
  %k2 = npu_kernel.ukernel_generic "npu_uk_reshape"(%k1) : tensor<1x2x2x5x64xf32> -> tensor<1x4x5x64xf32>
  %v1 = npu_kernel.ukernel_generic "npu_uk_cast"(%v) {operand_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>]} : tensor<1x2x5x64xf32> -> tensor<1x2x2x5x64xf32>
  %v2 = npu_kernel.ukernel_generic "npu_uk_reshape"(%v1) : tensor<1x2x2x5x64xf32> -> tensor<1x4x5x64xf32>
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%k2) {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x4x5x64xf32> -> tensor<1x4x64x5xf32>
  %s = npu_kernel.matmul %q, %t : tensor<1x4x3x64xf32>, tensor<1x4x64x5xf32> -> tensor<1x4x3x5xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%s) {scalar_rhs = 1.25e-01 : f32} : tensor<1x4x3x5xf32> -> tensor<1x4x3x5xf32>
  %m = npu_kernel.ukernel_generic "npu_uk_select"(%mask, %c) {scalar_b = -3.40282347e+38 : f32, operand_maps = [affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]} : tensor<1x1x3x5xi1>, tensor<1x4x3x5xf32> -> tensor<1x4x3x5xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_softmax"(%m) {axis = 3 : i64} : tensor<1x4x3x5xf32> -> tensor<1x4x3x5xf32>
  %y = npu_kernel.matmul %p, %v2 : tensor<1x4x3x5xf32>, tensor<1x4x5x64xf32> -> tensor<1x4x3x64xf32>
  return %y : tensor<1x4x3x64xf32>
}

// A triangle made of two counters is the causal rule.
// CHECK-LABEL: func.func @causal(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v) {scale = 5.000000e-01 : f32, causal} : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
// EXACT-LABEL: func.func @causal(
// EXACT-NEXT: "npu_uk_gemma_attention_f32_f32"(%q, %k, %v) {scale = 5.000000e-01 : f32, causal}
func.func @causal(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %i = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<4xi64>
  %seen = npu_kernel.ukernel_generic "npu_uk_compare"(%i, %i) {predicate = "le", operand_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<4xi64>, tensor<4xi64> -> tensor<4x4xi1>
  %s = npu_kernel.matmul %q, %k {transpose_rhs} : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%s) {scalar_rhs = 2.0 : f32} : tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %m = npu_kernel.ukernel_generic "npu_uk_select"(%seen, %c) {scalar_b = -1.0e+09 : f32, operand_maps = [affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]} : tensor<4x4xi1>, tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_softmax"(%m) {axis = 2 : i64} : tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %y = npu_kernel.matmul %p, %v : tensor<2x4x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %y : tensor<2x4x8xf32>
}

// Scores that somebody else reads stay scores.
// CHECK-LABEL: func.func @scores_read(
// CHECK-NOT: gemma_attention
// CHECK: func.return
func.func @scores_read(%q: tensor<2x4x8xf32>, %k: tensor<2x4x8xf32>, %v: tensor<2x4x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x4xf32>) {
  %s = npu_kernel.matmul %q, %k {transpose_rhs} : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_softmax"(%s) {axis = 2 : i64} : tensor<2x4x4xf32> -> tensor<2x4x4xf32>
  %y = npu_kernel.matmul %p, %v : tensor<2x4x4xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %y, %s : tensor<2x4x8xf32>, tensor<2x4x4xf32>
}

// Tables of doubled angles are halved before sine and cosine are taken.
// CHECK-LABEL: func.func @rope(
// CHECK-NOT: concat
// CHECK: npu_kernel.ukernel_generic "npu_uk_rope"(%x, {{%[0-9a-z]+}}, {{%[0-9a-z]+}}) {style = "split_half", axis = 2 : i64} : tensor<3x5x8xf32>, tensor<5x4xf32>, tensor<5x4xf32> -> tensor<3x5x8xf32>
func.func @rope(%x: tensor<3x5x8xf32>, %angle: tensor<5x4xf32>) -> tensor<3x5x8xf32> {
  %twice = npu_kernel.ukernel_generic "npu_uk_concat"(%angle, %angle) {axis = 1 : i64} : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<5x8xf32>
  %cos = npu_kernel.ukernel_generic "npu_uk_elementwise_cos"(%twice) : tensor<5x8xf32> -> tensor<5x8xf32>
  %sin = npu_kernel.ukernel_generic "npu_uk_elementwise_sin"(%twice) : tensor<5x8xf32> -> tensor<5x8xf32>
  %a = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 3, 5, 4>} : tensor<3x5x8xf32> -> tensor<3x5x4xf32>
  %b = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 3, 5, 4>} : tensor<3x5x8xf32> -> tensor<3x5x4xf32>
  %n = npu_kernel.ukernel_generic "npu_uk_elementwise_neg"(%b) : tensor<3x5x4xf32> -> tensor<3x5x4xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_concat"(%n, %a) {axis = 2 : i64} : tensor<3x5x4xf32>, tensor<3x5x4xf32> -> tensor<3x5x8xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>]} : tensor<3x5x8xf32>, tensor<5x8xf32> -> tensor<3x5x8xf32>
  %q = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%r, %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>]} : tensor<3x5x8xf32>, tensor<5x8xf32> -> tensor<3x5x8xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%p, %q) : tensor<3x5x8xf32>, tensor<3x5x8xf32> -> tensor<3x5x8xf32>
  return %y : tensor<3x5x8xf32>
}

// A factor and a term per channel after a convolution go into its weights.
// CHECK-LABEL: func.func @batch_norm(
// CHECK: npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, {{%[0-9a-z]+}}, {{%[0-9a-z]+}}) : tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
// CHECK-NEXT: func.return
func.func @batch_norm(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x2x2xf32> {
  %w = arith.constant dense<1.0> : tensor<2x1x3x3xf32>
  %scale = arith.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %shift = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, %w) : tensor<1x1x4x4xf32>, tensor<2x1x3x3xf32> -> tensor<1x2x2x2xf32>
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%c, %scale) {operand_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>]} : tensor<1x2x2x2xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%s, %shift) {operand_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d1)>]} : tensor<1x2x2x2xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
  return %y : tensor<1x2x2x2xf32>
}
