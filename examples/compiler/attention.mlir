// Causal attention of eight query heads on two key and value heads, as an exporter takes it apart,
// and a norm of its result.
#rows = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#all = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#last = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>

func.func @attention(%q: tensor<1x8x16x32xf32>, %k: tensor<1x2x16x32xf32>, %v: tensor<1x2x16x32xf32>) -> tensor<1x8x16x32xf32> {
  // Every key and value head four times.
  %k4 = npu_kernel.ukernel_generic "npu_uk_cast"(%k) {operand_maps = [#rows]} : tensor<1x2x16x32xf32> -> tensor<1x2x4x16x32xf32>
  %k8 = npu_kernel.ukernel_generic "npu_uk_reshape"(%k4) : tensor<1x2x4x16x32xf32> -> tensor<1x8x16x32xf32>
  %v4 = npu_kernel.ukernel_generic "npu_uk_cast"(%v) {operand_maps = [#rows]} : tensor<1x2x16x32xf32> -> tensor<1x2x4x16x32xf32>
  %v8 = npu_kernel.ukernel_generic "npu_uk_reshape"(%v4) : tensor<1x2x4x16x32xf32> -> tensor<1x8x16x32xf32>

  // Scaled scores; a token sees those before it.
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%k8) {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x8x16x32xf32> -> tensor<1x8x32x16xf32>
  %s = npu_kernel.matmul %q, %t : tensor<1x8x16x32xf32>, tensor<1x8x32x16xf32> -> tensor<1x8x16x16xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%s) {scalar_rhs = 0.176776695 : f32} : tensor<1x8x16x16xf32> -> tensor<1x8x16x16xf32>
  %i = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<16xi64>
  %seen = npu_kernel.ukernel_generic "npu_uk_compare"(%i, %i) {predicate = "le", operand_maps = [affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<16xi64>, tensor<16xi64> -> tensor<16x16xi1>
  %m = npu_kernel.ukernel_generic "npu_uk_select"(%seen, %c) {scalar_b = -1.0e+09 : f32, operand_maps = [affine_map<(d0, d1, d2, d3) -> (d2, d3)>, #all]} : tensor<16x16xi1>, tensor<1x8x16x16xf32> -> tensor<1x8x16x16xf32>

  // Softmax, step by step, and the sum of values.
  %top = npu_kernel.ukernel_generic "npu_uk_reduction_max"(%m) {axes = array<i64: 3>, keepdims} : tensor<1x8x16x16xf32> -> tensor<1x8x16x1xf32>
  %d = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%m, %top) {operand_maps = [#all, #last]} : tensor<1x8x16x16xf32>, tensor<1x8x16x1xf32> -> tensor<1x8x16x16xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%d) : tensor<1x8x16x16xf32> -> tensor<1x8x16x16xf32>
  %sum = npu_kernel.ukernel_generic "npu_uk_reduction_sum"(%e) {axes = array<i64: 3>, keepdims} : tensor<1x8x16x16xf32> -> tensor<1x8x16x1xf32>
  %p = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%e, %sum) {operand_maps = [#all, #last]} : tensor<1x8x16x16xf32>, tensor<1x8x16x1xf32> -> tensor<1x8x16x16xf32>
  %o = npu_kernel.matmul %p, %v8 : tensor<1x8x16x16xf32>, tensor<1x8x16x32xf32> -> tensor<1x8x16x32xf32>

  // x / sqrt(mean(x²) + ε)
  %q2 = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%o, %o) : tensor<1x8x16x32xf32>, tensor<1x8x16x32xf32> -> tensor<1x8x16x32xf32>
  %mean = npu_kernel.ukernel_generic "npu_uk_reduction_mean"(%q2) {axes = array<i64: 3>, keepdims} : tensor<1x8x16x32xf32> -> tensor<1x8x16x1xf32>
  %eps = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%mean) {scalar_rhs = 1.0e-05 : f32} : tensor<1x8x16x1xf32> -> tensor<1x8x16x1xf32>
  %root = npu_kernel.ukernel_generic "npu_uk_elementwise_sqrt"(%eps) : tensor<1x8x16x1xf32> -> tensor<1x8x16x1xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%o, %root) {operand_maps = [#all, #last]} : tensor<1x8x16x32xf32>, tensor<1x8x16x1xf32> -> tensor<1x8x16x32xf32>
  return %y : tensor<1x8x16x32xf32>
}
