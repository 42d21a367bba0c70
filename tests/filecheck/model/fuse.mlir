// RUN: tilewright opt %s -p fuse-epilogues | filecheck %s
// RUN: tilewright opt %s -p fuse-epilogues --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright opt %s -p fuse-epilogues,unfuse-epilogues | filecheck %s --check-prefix=BACK

// Bias, activation and residual join the product; the value so far may be any operand.
// CHECK-LABEL: func.func @residual(
// CHECK:         %s = npu_kernel.fused "npu_uk_matmul"(%x, %w) {transpose_rhs} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32> epilogue [elementwise_add(_, %b : tensor<8xf32>) {operand_maps = {{.*}}} -> tensor<4x8xf32>, gelu_tanh(_) -> tensor<4x8xf32>, elementwise_sub(%x : tensor<4x8xf32>, _) -> tensor<4x8xf32>]
// CHECK-NEXT:    func.return %s
// BACK-LABEL:  func.func @residual(
// BACK:          npu_kernel.matmul %x, %w {transpose_rhs}
// BACK-NEXT:     npu_uk_elementwise_add
// BACK-NEXT:     npu_uk_gelu_tanh
// BACK-NEXT:     "npu_uk_elementwise_sub"(%x, %{{.*}})
func.func @residual(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %a = npu_kernel.matmul %x, %w {transpose_rhs} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %g = npu_kernel.ukernel_generic "npu_uk_gelu_tanh"(%c) : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%x, %g) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// A product that somebody else reads stays.
// CHECK-LABEL: func.func @read_twice(
// CHECK:         npu_kernel.matmul
// CHECK-NEXT:    npu_uk_elementwise_relu
func.func @read_twice(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = npu_kernel.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%a) : tensor<4x4xf32> -> tensor<4x4xf32>
  return %a, %r : tensor<4x4xf32>, tensor<4x4xf32>
}

// Read transposed it is not element by element.
// CHECK-LABEL: func.func @turned(
// CHECK-NOT:     fused
// CHECK:         func.return
func.func @turned(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = npu_kernel.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %r = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%a) {operand_maps = [affine_map<(d0, d1) -> (d1, d0)>]} : tensor<4x4xf32> -> tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}
