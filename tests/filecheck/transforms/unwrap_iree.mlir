// RUN: tilewright opt %s -p unwrap-iree | filecheck %s

// Imports become arguments, exports results, barriers nothing; a hoisted global is computed where it is used.
// CHECK-NOT: util.
// CHECK: func.func @main(%{{.*}}: tensor<4x8xf32>) -> tensor<4x16xf32>
// CHECK: arith.constant dense_resource<proj.weight> : tensor<16x8xf32>
// CHECK: linalg.negf
// CHECK: linalg.matmul
// CHECK: func.return %{{.*}} : tensor<4x16xf32>

util.global private @hoisted : tensor<16x8xf32>
util.initializer {
  %w = arith.constant dense_resource<proj.weight> : tensor<16x8xf32>
  %e = tensor.empty() : tensor<16x8xf32>
  %n = linalg.negf ins(%w : tensor<16x8xf32>) outs(%e : tensor<16x8xf32>) -> tensor<16x8xf32>
  util.global.store %n, @hoisted : tensor<16x8xf32>
  util.return
}
util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view attributes {iree.abi.stub} {
  %cst = arith.constant 0.0 : f32
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x8xf32>
  %1 = iree_tensor_ext.compute_barrier.start %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %w = util.global.load immutable @hoisted : tensor<16x8xf32>
  %2 = tensor.empty() : tensor<4x16xf32>
  %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(%1, %w : tensor<4x8xf32>, tensor<16x8xf32>) outs(%3 : tensor<4x16xf32>) -> tensor<4x16xf32>
  %5 = iree_tensor_ext.compute_barrier.end %4 : tensor<4x16xf32> -> tensor<4x16xf32>
  %6 = hal.tensor.export %5 "output0" : tensor<4x16xf32> -> !hal.buffer_view
  util.return %6 : !hal.buffer_view
}
