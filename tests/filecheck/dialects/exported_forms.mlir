// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s --check-prefix=KERNEL

// Forms that exporters write and xDSL alone does not read: mixed-precision batched matmul and
// softmax with its dimension.

// CHECK-LABEL: @scores
// CHECK:         linalg.batch_matmul ins(%{{.*}}, %{{.*}} : tensor<15x291x64xbf16>, tensor<15x64x291xbf16>) outs(%{{.*}} : tensor<15x291x291xf32>) -> tensor<15x291x291xf32>
// CHECK:         linalg.generic
// CHECK:           arith.truncf %{{.*}} : f32 to bf16
// CHECK:         linalg.softmax dimension(2) ins(%{{.*}} : tensor<15x291x291xbf16>) outs(%{{.*}} : tensor<15x291x291xbf16>) -> tensor<15x291x291xbf16>

// KERNEL-LABEL: @scores
// KERNEL:         npu_kernel.matmul %{{.*}}, %{{.*}} : tensor<15x291x64xbf16>, tensor<15x64x291xbf16> -> tensor<15x291x291xf32>
// KERNEL:         npu_kernel.ukernel_generic "npu_uk_cast{{.*}}"
// KERNEL:         npu_kernel.ukernel_generic "npu_uk_softmax{{.*}}"(%{{.*}}) {axis = 2 : i64}
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @scores(%q: tensor<15x291x64xbf16>, %k: tensor<15x64x291xbf16>) -> tensor<15x291x291xbf16> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<15x291x291xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<15x291x291xf32>) -> tensor<15x291x291xf32>
  %s = linalg.batch_matmul ins(%q, %k : tensor<15x291x64xbf16>, tensor<15x64x291xbf16>) outs(%z : tensor<15x291x291xf32>) -> tensor<15x291x291xf32>
  %f = tensor.empty() : tensor<15x291x291xbf16>
  %t = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%s : tensor<15x291x291xf32>) outs(%f : tensor<15x291x291xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %c = arith.truncf %in : f32 to bf16
    linalg.yield %c : bf16
  } -> tensor<15x291x291xbf16>
  %p = linalg.softmax dimension(2) ins(%t : tensor<15x291x291xbf16>) outs(%f : tensor<15x291x291xbf16>) -> tensor<15x291x291xbf16>
  return %p : tensor<15x291x291xbf16>
}
