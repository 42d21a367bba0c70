// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright opt %s --print-generic | filecheck %s --check-prefix=GENERIC

// Kernel intents keep initial values, transposition marks and attributes through both forms.

// CHECK-LABEL: @kernels
// CHECK-NEXT:    %0 = npu_kernel.matmul %a, %b : tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<32x32xbf16>
// CHECK-NEXT:    %1 = npu_kernel.matmul %a, %c acc(%0 : tensor<32x32xbf16>) {transpose_rhs} : tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN> -> tensor<32x32xbf16>
// CHECK-NEXT:    %2 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%0, %1) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %3 = npu_kernel.ukernel_generic "npu_uk_softmax"(%2) {axis = 0 : i64} : tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %4 = npu_kernel.ukernel_generic "npu_uk_fill"() {value = 1.000000e+00 : bf16} : () -> tensor<32x32xbf16>

// GENERIC:       "npu_kernel.matmul"(%a, %c, %0) <{transpose_rhs}> : (tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
// GENERIC:       "npu_kernel.ukernel_generic"(%2) <{symbol = "npu_uk_softmax"}> {axis = 0 : i64} : (tensor<32x32xbf16>) -> tensor<32x32xbf16>
func.func @kernels(%a: tensor<32x64xf8E4M3FN>, %b: tensor<64x32xf8E4M3FN>, %c: tensor<32x64xf8E4M3FN>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.matmul %a, %b : tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<32x32xbf16>
  %1 = npu_kernel.matmul %a, %c acc(%0 : tensor<32x32xbf16>) {transpose_rhs} : tensor<32x64xf8E4M3FN>, tensor<32x64xf8E4M3FN> -> tensor<32x32xbf16>
  // Types may stand in parentheses.
  %2 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%0, %1) : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %3 = npu_kernel.ukernel_generic "npu_uk_softmax"(%2) {axis = 0 : i64} : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %4 = npu_kernel.ukernel_generic "npu_uk_fill"() {value = 1.0 : bf16} : () -> tensor<32x32xbf16>
  return %3 : tensor<32x32xbf16>
}

// A demoted matmul: rhs is read transposed because only that fits, and the result is widened.

// CHECK-LABEL: @demoted
// CHECK-NEXT:    %0 = npu_kernel.matmul %expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16> -> tensor<1x960xbf16>
// CHECK:         arith.extf %{{.*}} : bf16 to f32
func.func @demoted(%expanded: tensor<1x32xbf16>, %w: tensor<960x32xbf16>, %out: tensor<1x960xf32>) -> tensor<1x960xf32> {
  %0 = npu_kernel.matmul %expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16> -> tensor<1x960xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<1x960xbf16>) outs(%out : tensor<1x960xf32>) {
  ^bb0(%in: bf16, %o: f32):
    %2 = arith.extf %in : bf16 to f32
    linalg.yield %2 : f32
  } -> tensor<1x960xf32>
  return %1 : tensor<1x960xf32>
}
