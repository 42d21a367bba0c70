// RUN: tilewright opt %s -p cse | filecheck %s

// Equal constants and slices become one; chain launches and empty tensors do not.

// CHECK-LABEL: @equal
// CHECK-COUNT-1: arith.constant 0 : index
// CHECK-COUNT-1: tensor.extract_slice
// CHECK-COUNT-2: tensor.empty
// CHECK-COUNT-2: "npu_uk_matmul_acc_mid"
// CHECK-COUNT-1: "npu_uk_silu"
func.func @equal(%a: tensor<64x32xbf16>) -> (tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<4xbf16>, tensor<4xbf16>) {
  %x = arith.constant 0 : index
  %y = arith.constant 0 : index
  %s = tensor.extract_slice %a[%x, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %t = tensor.extract_slice %a[%y, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %e = tensor.empty() : tensor<4xbf16>
  %f = tensor.empty() : tensor<4xbf16>
  %m = npu_schedule.ukernel_launch "npu_uk_matmul_acc_mid"(%s, %t) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %n = npu_schedule.ukernel_launch "npu_uk_matmul_acc_mid"(%s, %t) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %0 = npu_schedule.ukernel_launch "npu_uk_silu"(%s) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_silu"(%t) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0, %1, %e, %f : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<4xbf16>, tensor<4xbf16>
}
