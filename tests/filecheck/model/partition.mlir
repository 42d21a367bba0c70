// RUN: tilewright opt %s -p "partition-model{host=embedding}" | filecheck %s
// RUN: tilewright opt %s -p "partition-model{host=embedding}" | tilewright opt - | filecheck %s

// @main is nothing but calls; values between them are ports.
// CHECK-LABEL: func.func @main(
// CHECK-NEXT:    [[E:%.+]] = func.call @host_0(%ids) : (tensor<4xi64>) -> tensor<4x8xf32>
// CHECK-NEXT:    [[Y:%.+]] = func.call @device_0(%x, [[E]])
// CHECK-NEXT:    [[Z:%.+]] = func.call @host_1([[Y]])
// CHECK-NEXT:    func.return [[Z]]

// The host's functions say why, for each operation, in the model's words.
// CHECK-LABEL: func.func @host_0(
// CHECK-SAME:    tw.place = "host", tw.inputs = ["ids"], tw.outputs = ["e"], tw.reasons = ["embed: no kernel for embedding"]
// CHECK:         dense_resource<table>

// CHECK-LABEL: func.func @device_0(
// CHECK-SAME:    tw.place = "device"
// CHECK-NOT:     dense_resource
// CHECK:         npu_uk_elementwise_add

// An operation that was marked before keeps its reason, the mark itself is gone.
// CHECK-LABEL: func.func @host_1(
// CHECK-SAME:    tw.reasons = ["elementwise_exp: sine of the times"]
// CHECK-NOT:     tw.host
func.func @main(%x: tensor<4x8xf32>, %ids: tensor<4xi64>) -> tensor<4x8xf32> {
  %t = arith.constant dense_resource<table> : tensor<16x8xf32>
  %e = npu_kernel.ukernel_generic "npu_uk_embedding"(%t, %ids) {tw.layer = "embed"} : tensor<16x8xf32>, tensor<4xi64> -> tensor<4x8xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x, %e) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %z = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%y) {tw.host = "sine of the times"} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
