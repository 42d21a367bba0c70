// RUN: tilewright opt %s -p simplify-kernels | filecheck %s

// Two transposes are one, and none when they undo each other.
// CHECK-LABEL: func.func @transposes(
// CHECK-NEXT: [[T:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_transpose"(%x) {permutation = array<i64: 1, 2, 0>} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
// CHECK-NEXT: func.return [[T]], %x
func.func @transposes(%x: tensor<2x3x4xf32>) -> (tensor<3x4x2xf32>, tensor<2x3x4xf32>) {
  %a = npu_kernel.ukernel_generic "npu_uk_transpose"(%x) {permutation = array<i64: 1, 0, 2>} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %b = npu_kernel.ukernel_generic "npu_uk_transpose"(%a) {permutation = array<i64: 0, 2, 1>} : tensor<3x2x4xf32> -> tensor<3x4x2xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_transpose"(%a) {permutation = array<i64: 1, 0, 2>} : tensor<3x2x4xf32> -> tensor<2x3x4xf32>
  return %b, %c : tensor<3x4x2xf32>, tensor<2x3x4xf32>
}

// Neutral numbers, reshapes back, whole slices and a concat of one part say nothing.
// CHECK-LABEL: func.func @nothing(
// CHECK-NEXT: func.return %x
func.func @nothing(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %a = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x) {scalar_rhs = 1.0 : f32} : tensor<2x6xf32> -> tensor<2x6xf32>
  %b = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a) {scalar_lhs = 0.0 : f32} : tensor<2x6xf32> -> tensor<2x6xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_reshape"(%b) : tensor<2x6xf32> -> tensor<12xf32>
  %d = npu_kernel.ukernel_generic "npu_uk_reshape"(%c) : tensor<12xf32> -> tensor<2x6xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_slice"(%d) {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 6>} : tensor<2x6xf32> -> tensor<2x6xf32>
  %f = npu_kernel.ukernel_generic "npu_uk_concat"(%e) {axis = 0 : i64} : tensor<2x6xf32> -> tensor<2x6xf32>
  %g = npu_kernel.ukernel_generic "npu_uk_cast"(%f) : tensor<2x6xf32> -> tensor<2x6xf32>
  return %g : tensor<2x6xf32>
}

// A product reads a transposed operand as it lies.
// CHECK-LABEL: func.func @product(
// CHECK-NEXT: npu_kernel.matmul %x, %w {transpose_rhs} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
func.func @product(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) -> tensor<4x6xf32> {
  %t = npu_kernel.ukernel_generic "npu_uk_transpose"(%w) {permutation = array<i64: 1, 0>} : tensor<6x8xf32> -> tensor<8x6xf32>
  %y = npu_kernel.matmul %x, %t : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %y : tensor<4x6xf32>
}

// A row that is repeated only to be added is read in place.
// CHECK-LABEL: func.func @repeated(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x, %b) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
func.func @repeated(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %w = npu_kernel.ukernel_generic "npu_uk_cast"(%b) {operand_maps = [affine_map<(d0, d1) -> (d1)>]} : tensor<8xf32> -> tensor<4x8xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x, %w) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// Halves written into a tensor one after the other are a concat.
// CHECK-LABEL: func.func @written(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_concat"(%a, %b) {axis = 1 : i64} : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x4xf32>
func.func @written(%a: tensor<4x2xf32>, %b: tensor<4x2xf32>) -> tensor<4x4xf32> {
  %e = tensor.empty() : tensor<4x4xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_insert_slice"(%a, %e) {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 2>} : tensor<4x2xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %d = npu_kernel.ukernel_generic "npu_uk_insert_slice"(%b, %c) {offsets = array<i64: 0, 2>, sizes = array<i64: 4, 2>} : tensor<4x2xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %d : tensor<4x4xf32>
}
