// RUN: tilewright opt %s -p npu-coverage 2>&1 | filecheck %s
// RUN: tilewright opt %s -p "npu-coverage{json=%t}" > %t.out && filecheck %s --check-prefix=JSON --input-file=%t
// RUN: not tilewright opt %s -p "npu-coverage{strict=true}" 2>&1 | filecheck %s --check-prefix=STRICT
// RUN: tilewright opt %s -p "npu-coverage{unmapped=host strict=true}" 2>&1 | filecheck %s --check-prefix=HOST
// RUN: tilewright opt %s -p "convert-linalg-to-npu-kernel{unmapped=host}" | filecheck %s --check-prefix=KEPT

// CHECK: count op state kernel or reason
// CHECK: 1 linalg.matmul bound npu_uk_matmul_f32_f32_f32
// CHECK: 1 linalg.fill folded read in place by the kernels that use it
// CHECK: 1 linalg.transpose folded read in place by the kernels that use it
// CHECK: 1 linalg.exp dead
// CHECK: 1 linalg.generic host npu_uk_embedding
// CHECK: 1 linalg.log unbound no kernel works on f64
// CHECK: 6 tensor ops: 1 bound, 2 folded, 1 dead, 1 host, 1 unbound; 83.3% assigned
// CHECK: linalg.matmul

// JSON: "ops": 6,
// JSON: "unbound": 1,
// JSON: "assigned": 0.8333,
// JSON: "op": "linalg.log",
// JSON: "state": "unbound",
// JSON: "hint": "compute in f32

// STRICT: TW1227 {{.*}}npu_coverage.mlir:{{[0-9]+}}:8 1 of 6 tensor ops have no kernel; the first is linalg.log: no kernel works on f64
// HOST: 1 linalg.log host no kernel works on f64
// KEPT: linalg.log {npu.host = "no kernel works on f64"} ins(

func.func @main(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %table: tensor<100x8xf32>, %ids: tensor<3xi64>, %d: tensor<4xf64>) -> (tensor<4x16xf32>, tensor<3x8xf32>, tensor<4xf64>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  %unused = linalg.exp ins(%0 : tensor<4x16xf32>) outs(%o : tensor<4x16xf32>) -> tensor<4x16xf32>
  %p = tensor.empty() : tensor<3x8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<3xi64>) outs(%p : tensor<3x8xf32>) {
  ^bb0(%i: i64, %out: f32):
    %a = arith.index_cast %i : i64 to index
    %b = linalg.index 1 : index
    %c = tensor.extract %table[%a, %b] : tensor<100x8xf32>
    linalg.yield %c : f32
  } -> tensor<3x8xf32>
  %q = tensor.empty() : tensor<4xf64>
  %2 = linalg.log ins(%d : tensor<4xf64>) outs(%q : tensor<4xf64>) -> tensor<4xf64>
  return %0, %1, %2 : tensor<4x16xf32>, tensor<3x8xf32>, tensor<4xf64>
}
