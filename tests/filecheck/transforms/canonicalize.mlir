// RUN: tilewright opt --split-input-file %s -p canonicalize | filecheck %s

// A loop of one iteration becomes its body, and slices of everything disappear.

// CHECK-LABEL: @one_iteration
// CHECK-NEXT:    %l = npu_schedule.ukernel_launch "npu_uk_silu"(%a)
// CHECK-NEXT:    func.return %l
func.func @one_iteration(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %init = tensor.empty() : tensor<32x32xbf16>
  %r = scf.for %i = %c0 to %c32 step %c32 iter_args(%acc = %init) -> (tensor<32x32xbf16>) {
    %s = tensor.extract_slice %a[%i, %c0] [32, 32] [1, 1] : tensor<32x32xbf16> to tensor<32x32xbf16>
    %l = npu_schedule.ukernel_launch "npu_uk_silu"(%s) : tensor<32x32xbf16> -> tensor<32x32xbf16>
    %n = tensor.insert_slice %l into %acc[%i, %c0] [32, 32] [1, 1] : tensor<32x32xbf16> into tensor<32x32xbf16>
    scf.yield %n : tensor<32x32xbf16>
  }
  return %r : tensor<32x32xbf16>
}

// -----

// A loop of no iteration gives its initial value; a loop of two stays.

// CHECK-LABEL: @none_and_two
// CHECK-NOT:     scf.for %i
// CHECK:         scf.for %j
// CHECK:         func.return %a
func.func @none_and_two(%a: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %none = scf.for %i = %c2 to %c2 step %c1 iter_args(%acc = %a) -> (tensor<4xbf16>) {
    scf.yield %acc : tensor<4xbf16>
  }
  %two = scf.for %j = %c0 to %c2 step %c1 iter_args(%acc = %a) -> (tensor<4xbf16>) {
    %l = npu_schedule.ukernel_launch "npu_uk_silu"(%acc) : tensor<4xbf16> -> tensor<4xbf16>
    scf.yield %l : tensor<4xbf16>
  }
  return %none, %two : tensor<4xbf16>, tensor<4xbf16>
}

// -----

// Constant offsets move into the slice; index arithmetic on constants is folded.

// CHECK-LABEL: @offsets
// CHECK-NEXT:    tensor.extract_slice %a[6, %i] [2, 2] [1, 1]
func.func @offsets(%a: tensor<8x8xbf16>, %i: index) -> tensor<2x2xbf16> {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.muli %c2, %c3 : index
  %s = tensor.extract_slice %a[%c6, %i] [2, 2] [1, 1] : tensor<8x8xbf16> to tensor<2x2xbf16>
  return %s : tensor<2x2xbf16>
}

// -----

// Unused pure operations go; launches of a chain stay, because they change the accumulator.

// CHECK-LABEL: @dead
// CHECK-NEXT:    "npu_uk_matmul_acc_first"
// CHECK-NEXT:    "npu_uk_matmul_acc_last"
// CHECK-NEXT:    return
func.func @dead(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %unused = npu_kernel.matmul %a, %b : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  %0 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%a, %b) : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_last"(%a, %b) : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}

// -----

// A reshape or cast to the same type is nothing.

// CHECK-LABEL: @nothing
// CHECK-NEXT:    func.return %a
func.func @nothing(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_reshape"(%a) : tensor<4x4xbf16> -> tensor<4x4xbf16>
  %1 = npu_kernel.ukernel_generic "npu_uk_cast"(%0) : tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %1 : tensor<4x4xbf16>
}
