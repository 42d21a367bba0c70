// RUN: tilewright opt %s -p fold-constants | filecheck %s

// What is made of constants in the module is computed.
// CHECK-LABEL: func.func @computed(
// CHECK-NEXT: %t = arith.constant dense<{{.}}[1.000000e+00, 3.000000e+00], [2.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-NEXT: npu_kernel.matmul %x, %t : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
func.func @computed(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%w) {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
  %y = npu_kernel.matmul %x, %t : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// One number everywhere becomes a fill, and what nobody reads goes.
// CHECK-LABEL: func.func @uniform(
// CHECK-NEXT: [[F:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_fill"() {value = 5.000000e+00 : f32} : () -> tensor<2x2xf32>
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, [[F]])
// CHECK-NEXT: func.return
func.func @uniform(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %a = arith.constant dense<2.0> : tensor<2x2xf32>
  %b = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a) {scalar_rhs = 3.0 : f32} : tensor<2x2xf32> -> tensor<2x2xf32>
  %unused = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%x) : tensor<2x2xf32> -> tensor<2x2xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, %b) : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}

// Weights that are not there stay as they are used.
// CHECK-LABEL: func.func @elsewhere(
// CHECK: dense_resource<w>
// CHECK-NEXT: "npu_uk_transpose"
func.func @elsewhere(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = arith.constant dense_resource<w> : tensor<2x2xf32>
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%w) {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
  %y = npu_kernel.matmul %x, %t : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}
