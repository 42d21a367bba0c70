// RUN: tilewright opt %s -p "convert-linalg-to-npu-kernel{demote-score-matmuls=true}" | filecheck %s
// RUN: tilewright opt %s -p "convert-linalg-to-npu-kernel{demote-score-matmuls=true demote-casts=linalg}" | filecheck %s --check-prefix=LINALG
// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s --check-prefix=OFF

// An f32 matmul goes through bf16 only where asked; the result is widened again.
// CHECK-LABEL: func.func @scores(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16> -> tensor<1x960xbf16>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"([[V0]]) : tensor<1x960xbf16> -> tensor<1x960xf32>
// CHECK-NEXT: func.return [[V1]] : tensor<1x960xf32>
// LINALG-LABEL: func.func @scores(
// LINALG-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16> -> tensor<1x960xbf16>
// LINALG-NEXT: [[V1:%[a-zA-Z0-9_]+]] = tensor.empty() : tensor<1x960xf32>
// LINALG-NEXT: [[V2:%[a-zA-Z0-9_]+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins([[V0]] : tensor<1x960xbf16>) outs([[V1]] : tensor<1x960xf32>) {
// LINALG-NEXT: ^{{.*}}([[V3:%[a-zA-Z0-9_]+]]: bf16, [[V4:%[a-zA-Z0-9_]+]]: f32):
// LINALG-NEXT: [[V5:%[a-zA-Z0-9_]+]] = arith.extf [[V3]] : bf16 to f32
// LINALG-NEXT: linalg.yield [[V5]] : f32
// LINALG-NEXT: } -> tensor<1x960xf32>
// LINALG-NEXT: func.return [[V2]] : tensor<1x960xf32>
// OFF-LABEL: func.func @scores(
// OFF-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16> -> tensor<1x960xf32>
// OFF-NEXT: func.return [[V0]] : tensor<1x960xf32>
func.func @scores(%expanded: tensor<1x32xbf16>, %w: tensor<960x32xbf16>) -> tensor<1x960xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x960xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x960xf32>) -> tensor<1x960xf32>
  %0 = linalg.matmul_transpose_b ins(%expanded, %w : tensor<1x32xbf16>, tensor<960x32xbf16>) outs(%f : tensor<1x960xf32>) -> tensor<1x960xf32>
  return %0 : tensor<1x960xf32>
}

// Operands that are not bf16 are narrowed first.
// CHECK-LABEL: func.func @mixed(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"(%a) : tensor<2x4x8xf32> -> tensor<2x4x8xbf16>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V0]], %b : tensor<2x4x8xbf16>, tensor<2x8x4xbf16> -> tensor<2x4x4xbf16>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"([[V1]]) : tensor<2x4x4xbf16> -> tensor<2x4x4xf32>
// CHECK-NEXT: func.return [[V2]] : tensor<2x4x4xf32>
// LINALG-LABEL: func.func @mixed(
// LINALG-NEXT: [[V0:%[a-zA-Z0-9_]+]] = tensor.empty() : tensor<2x4x8xbf16>
// LINALG-NEXT: [[V1:%[a-zA-Z0-9_]+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%a : tensor<2x4x8xf32>) outs([[V0]] : tensor<2x4x8xbf16>) {
// LINALG-NEXT: ^{{.*}}([[V2:%[a-zA-Z0-9_]+]]: f32, [[V3:%[a-zA-Z0-9_]+]]: bf16):
// LINALG-NEXT: [[V4:%[a-zA-Z0-9_]+]] = arith.truncf [[V2]] : f32 to bf16
// LINALG-NEXT: linalg.yield [[V4]] : bf16
// LINALG-NEXT: } -> tensor<2x4x8xbf16>
// LINALG-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V1]], %b : tensor<2x4x8xbf16>, tensor<2x8x4xbf16> -> tensor<2x4x4xbf16>
// LINALG-NEXT: [[V6:%[a-zA-Z0-9_]+]] = tensor.empty() : tensor<2x4x4xf32>
// LINALG-NEXT: [[V7:%[a-zA-Z0-9_]+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins([[V5]] : tensor<2x4x4xbf16>) outs([[V6]] : tensor<2x4x4xf32>) {
// LINALG-NEXT: ^{{.*}}([[V8:%[a-zA-Z0-9_]+]]: bf16, [[V9:%[a-zA-Z0-9_]+]]: f32):
// LINALG-NEXT: [[V10:%[a-zA-Z0-9_]+]] = arith.extf [[V8]] : bf16 to f32
// LINALG-NEXT: linalg.yield [[V10]] : f32
// LINALG-NEXT: } -> tensor<2x4x4xf32>
// LINALG-NEXT: func.return [[V7]] : tensor<2x4x4xf32>
// OFF-LABEL: func.func @mixed(
// OFF-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %a, %b : tensor<2x4x8xf32>, tensor<2x8x4xbf16> -> tensor<2x4x4xf32>
// OFF-NEXT: func.return [[V0]] : tensor<2x4x4xf32>
func.func @mixed(%a: tensor<2x4x8xf32>, %b: tensor<2x8x4xbf16>) -> tensor<2x4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  %0 = linalg.batch_matmul ins(%a, %b : tensor<2x4x8xf32>, tensor<2x8x4xbf16>) outs(%f : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}
