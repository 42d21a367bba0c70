// RUN: tilewright opt %s -p fold-layers | filecheck %s
// RUN: tilewright opt %s -p fold-layers --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright opt %s -p fold-layers,unfold-layers | filecheck %s --check-prefix=BACK

// Three layers with other weights; the bias is the same in all; the second state is read later.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    %b = arith.constant dense_resource<bias> : tensor<4xf32>
// CHECK-NEXT:    %h2, [[C0:%.+]], [[C1:%.+]], [[C2:%.+]] = npu_kernel.layers 3 iter(%x_1 = %x : tensor<2x4xf32>) weights(%w0 = "layers.*.weight" : tensor<4x4xf32>) attributes {tw.layers = ["layers.0", "layers.1", "layers.2"]} {
// CHECK:           npu_kernel.matmul %x_1, %w0
// CHECK:           npu_kernel.yield [[H:%.+]] : tensor<2x4xf32> collect([[H]] : tensor<2x4xf32>)
// CHECK-NEXT:    } : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
// CHECK-NEXT:    func.return %h2, [[C1]]

// BACK:          dense_resource<layers.0.weight>
// BACK:          npu_kernel.matmul %x,
// BACK-SAME:     tw.layer = "layers.0.linear"
// BACK:          dense_resource<layers.1.weight>
// BACK:          tw.layer = "layers.1.linear"
// BACK:          dense_resource<layers.2.weight>
// BACK:          tw.layer = "layers.2.linear"
func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %b = arith.constant dense_resource<bias> : tensor<4xf32>
  %w0 = arith.constant dense_resource<layers.0.weight> : tensor<4x4xf32>
  %a0 = npu_kernel.matmul %x, %w0 {tw.layer = "layers.0.linear"} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %h0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a0, %b) {tw.layer = "layers.0", operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %w1 = arith.constant dense_resource<layers.1.weight> : tensor<4x4xf32>
  %a1 = npu_kernel.matmul %h0, %w1 {tw.layer = "layers.1.linear"} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %h1 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a1, %b) {tw.layer = "layers.1", operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %w2 = arith.constant dense_resource<layers.2.weight> : tensor<4x4xf32>
  %a2 = npu_kernel.matmul %h1, %w2 {tw.layer = "layers.2.linear"} : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %h2 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a2, %b) {tw.layer = "layers.2", operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  return %h2, %h1 : tensor<2x4xf32>, tensor<2x4xf32>
}
