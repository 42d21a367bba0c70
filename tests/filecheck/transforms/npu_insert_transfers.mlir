// RUN: tilewright opt %s -p "npu-insert-transfers,npu-verify-buffers" | filecheck %s
// RUN: tilewright opt %s -p "npu-insert-transfers" | tilewright opt - -p "npu-verify-buffers,convert-npu-schedule-to-isa{target=atlas-v0}" | filecheck %s --check-prefix=CODE

// Slices are loaded into buffers, results leave through one; those that never live together share
// an address. The code generator reads the result.

// CHECK-LABEL: @loop
// CHECK:         %[[X:.*]] = tensor.extract_slice %a[%i, 0]
// CHECK-NEXT:    %[[B:.*]] = npu_schedule.alloc {address = 0 : i64} : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
// CHECK-NEXT:    %[[K:.*]] = npu_schedule.dma_load %[[X]] into %[[B]]
// CHECK:         npu_schedule.alloc {address = 2048 : i64}
// CHECK:         npu_schedule.wait %[[K]]
// CHECK-NEXT:    npu_schedule.read %[[B]]
// CHECK-NEXT:    npu_schedule.free %[[B]]
// CHECK:         npu_schedule.ukernel_launch
// CHECK-NEXT:    %[[C:.*]] = npu_schedule.alloc {address = 0 : i64}
// CHECK-NEXT:    npu_schedule.write %{{.*}} into %[[C]]
// CHECK-NEXT:    %[[T:.*]], %[[S:.*]] = npu_schedule.dma_store %[[C]]
// CHECK-NEXT:    npu_schedule.wait %[[S]]
// CHECK-NEXT:    npu_schedule.free %[[C]]
// CHECK-NEXT:    tensor.insert_slice %[[T]] into

// CODE:          npu_isa.buffer "a" at 0 size 4096
// CODE:          npu_isa.native_inst "vadd.bf16"
func.func @loop(%a: tensor<64x32xbf16>, %b: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %init = tensor.empty() : tensor<64x32xbf16>
  %r = scf.for %i = %c0 to %c64 step %c32 iter_args(%acc = %init) -> (tensor<64x32xbf16>) {
    %x = tensor.extract_slice %a[%i, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
    %y = tensor.extract_slice %b[%i, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
    %s = npu_schedule.ukernel_launch "npu_uk_elementwise_add"(%x, %y) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
    %n = tensor.insert_slice %s into %acc[%i, 0] [32, 32] [1, 1] : tensor<32x32xbf16> into tensor<64x32xbf16>
    scf.yield %n : tensor<64x32xbf16>
  }
  return %r : tensor<64x32xbf16>
}
