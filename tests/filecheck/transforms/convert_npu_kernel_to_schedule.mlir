// RUN: tilewright opt %s -p convert-npu-kernel-to-schedule | filecheck %s

// Each kind of kernel becomes its schedule operation, attributes and initial value included.

// CHECK-LABEL: @kernels
// CHECK-NEXT:    %0 = npu_schedule.matmul_tile %a, %b acc(%c : tensor<32x32xbf16>) {transpose_rhs} : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
// CHECK-NEXT:    %1 = npu_schedule.softmax_fragment %0 {axis = 0 : i64} : tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %2 = npu_schedule.ukernel_launch "npu_uk_gemma_attention_bf16_bf16"(%1, %1, %1) {scale = 1.250000e-01 : f32} : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NOT:     npu_kernel
func.func @kernels(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E4M3FN>, %c: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.matmul %a, %b acc(%c : tensor<32x32xbf16>) {transpose_rhs} : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  %1 = npu_kernel.ukernel_generic "npu_uk_softmax"(%0) {axis = 0 : i64} : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %2 = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%1, %1, %1) {scale = 0.125 : f32} : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %2 : tensor<32x32xbf16>
}
