// RUN: tilewright opt %s -p "smooth-model{alpha=0}" | filecheck %s
// RUN: tilewright opt %s -p "smooth-model{alpha=0},smooth-model{alpha=0}" | filecheck %s
// RUN: tilewright opt %s -p "smooth-model{alpha=0},quantise-model{ranges=mse}" | filecheck %s --check-prefix=CODES
// RUN: not tilewright opt %s -p "smooth-model{alpha=2}" 2>&1 | filecheck %s --check-prefix=WRONG

// With alpha 0 weights alone decide: rows of 8, 2 and 0.5 become rows of 2, the norm takes the rest.
// CHECK-LABEL: func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32>
// CHECK:      %g = arith.constant dense<[4.000000e+00, 7.500000e-01, 3.750000e-01]> : tensor<3xf32>
// CHECK:      "npu_uk_rms_norm"(%x, %g) {{.*}}tw.smoothed
// CHECK:      %w = arith.constant dense<{{\[\[}}2.000000e+00, -2.500000e-01], [2.500000e-01, 2.000000e+00], [-2.000000e+00, 5.000000e-01]]> : tensor<3x2xf32>
// CHECK:      npu_kernel.matmul {{.*}}, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>

// CODES:      npu_kernel.matmul {{.*}} -> tensor<2x2xi32>

// WRONG: TW1711  2 is no part of a range that can move into weights
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %g = arith.constant dense<[1.0, 0.75, 1.5]> : tensor<3xf32>
  %w = arith.constant dense<[[8.0, -1.0], [0.25, 2.0], [-0.5, 0.125]]> : tensor<3x2xf32>
  %n = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%x, %g) {epsilon = 1.000000e-05 : f32} : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %y = npu_kernel.matmul %n, %w : tensor<2x3xf32>, tensor<3x2xf32> -> tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}
