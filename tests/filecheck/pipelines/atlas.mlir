// RUN: tilewright opt %s --split-input-file --pipeline atlas | filecheck %s

// An addition of 64x64 tensors, as linalg writes it, is four launches on tiles.

// CHECK-LABEL: @add_64x64
// CHECK:         %[[INIT:.*]] = tensor.empty() : tensor<64x64xbf16>
// CHECK-NEXT:    scf.for %i = %c0 to %c64 step %c32 iter_args(%{{.*}} = %{{.*}}) -> (tensor<64x64xbf16>) {
// CHECK-NEXT:      scf.for %j = %c0 to %c64 step %c32 iter_args(%{{.*}} = %{{.*}}) -> (tensor<64x64xbf16>) {
// CHECK-NEXT:        tensor.extract_slice %a[%i, %j] [32, 32] [1, 1]
// CHECK-NEXT:        tensor.extract_slice %b[%i, %j] [32, 32] [1, 1]
// CHECK-NEXT:        npu_schedule.ukernel_launch "npu_uk_elementwise_add"
// CHECK-NEXT:        tensor.insert_slice %{{.*}} into %{{.*}}[%i, %j] [32, 32] [1, 1]
// CHECK-NEXT:        scf.yield
// CHECK-NEXT:      }
// CHECK-NEXT:      scf.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @add_64x64(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %e = tensor.empty() : tensor<64x64xbf16>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<64x64xbf16>, tensor<64x64xbf16>) outs(%e : tensor<64x64xbf16>) {
  ^bb0(%x: bf16, %y: bf16, %o: bf16):
    %s = arith.addf %x, %y : bf16
    linalg.yield %s : bf16
  } -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}

// -----

// A mixed-precision matmul whose M and N are one tile: the loops fold away, the chain stays.

// CHECK-LABEL: @chain
// CHECK-NOT:     scf.for
// CHECK:         "npu_uk_matmul_acc_first"
// CHECK:         [[OUT:%.*]] = npu_schedule.ukernel_launch "npu_uk_matmul_acc_last"
// CHECK-NEXT:    func.return
func.func @chain(%a: tensor<32x64xf8E4M3FN>, %b: tensor<64x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %z = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<32x32xbf16>
  %f = linalg.fill ins(%z : bf16) outs(%e : tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %0 = linalg.matmul ins(%a, %b : tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN>) outs(%f : tensor<32x32xbf16>) -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// Attention with its scale and mask, batched: loops over heads and blocks of queries.

// CHECK-LABEL: @attention
// CHECK:         scf.for %b = %c0 to %c4 step %c1
// CHECK:           "npu_uk_attention_acc_first"
// CHECK-SAME:        scale = 1.250000e-01 : f32
// CHECK:           "npu_uk_attention_acc_last"
func.func @attention(%q: tensor<4x64x64xbf16>, %k: tensor<4x64x64xbf16>, %v: tensor<4x64x64xbf16>, %m: tensor<4x64x64xi1>) -> tensor<4x64x64xbf16> {
  %s = arith.constant 0.125 : f32
  %e = tensor.empty() : tensor<4x64x64xbf16>
  %0 = iree_linalg_ext.attention <indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>, affine_map<(d0, d1, d2, d3, d4) -> ()>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>]> ins(%q, %k, %v, %s, %m : tensor<4x64x64xbf16>, tensor<4x64x64xbf16>, tensor<4x64x64xbf16>, f32, tensor<4x64x64xi1>) outs(%e : tensor<4x64x64xbf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x64x64xbf16>
  return %0 : tensor<4x64x64xbf16>
}
