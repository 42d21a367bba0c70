// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s

// Launches, fragments, buffers and transfers print as they are written.

// CHECK-LABEL: @schedule
// CHECK-NEXT:    %0 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%a, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %1 = npu_schedule.matmul_tile %a, %a {transpose_lhs} : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %2 = npu_schedule.softmax_fragment %1 : tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:    %3 = npu_schedule.alloc : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
// CHECK-NEXT:    %4 = npu_schedule.dma_load %2 into %3 : tensor<32x32xbf16>, !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
// CHECK-NEXT:    npu_schedule.wait %4
// CHECK-NEXT:    %5, %6 = npu_schedule.dma_store %3 : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem"> -> tensor<32x32xbf16>
// CHECK-NEXT:    npu_schedule.wait %6
// CHECK-NEXT:    npu_schedule.free %3 : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
func.func @schedule(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%a, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %1 = npu_schedule.matmul_tile %a, %a {transpose_lhs} : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %2 = npu_schedule.softmax_fragment %1 : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %3 = npu_schedule.alloc : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
  %4 = npu_schedule.dma_load %2 into %3 : tensor<32x32xbf16>, !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
  npu_schedule.wait %4
  %5, %6 = npu_schedule.dma_store %3 : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem"> -> tensor<32x32xbf16>
  npu_schedule.wait %6
  npu_schedule.free %3 : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
  return %5 : tensor<32x32xbf16>
}

// Buffers of bytes with addresses: views, copies to several places, launches on buffers.

// CHECK-LABEL: @buffers
// CHECK-NEXT:    %0 = npu_schedule.alloc {id = "x", address = 0 : i64} : !npu_schedule.buffer<tensor<256xi8>, "dram">
// CHECK-NEXT:    %1 = npu_schedule.alloc {id = "a", address = 64 : i64} : !npu_schedule.buffer<tensor<64xi8>, "cmx0">
// CHECK-NEXT:    %2 = npu_schedule.alloc {id = "b", address = 64 : i64} : !npu_schedule.buffer<tensor<64xi8>, "cmx1">
// CHECK-NEXT:    %3 = npu_schedule.view %0 at 32 : i64 stride 64 : i64 : !npu_schedule.buffer<tensor<256xi8>, "dram"> -> !npu_schedule.buffer<tensor<2x32xi8>, "dram">
// CHECK-NEXT:    %4 = npu_schedule.copy from(%3) to(%1, %2) : (!npu_schedule.buffer<tensor<2x32xi8>, "dram">) -> (!npu_schedule.buffer<tensor<64xi8>, "cmx0">, !npu_schedule.buffer<tensor<64xi8>, "cmx1">)
// CHECK-NEXT:    npu_schedule.wait %4
// CHECK-NEXT:    %5 = npu_schedule.launch "fill" reads() writes(%1) : () -> (!npu_schedule.buffer<tensor<64xi8>, "cmx0">)
func.func @buffers() {
  %0 = npu_schedule.alloc {id = "x", address = 0 : i64} : !npu_schedule.buffer<tensor<256xi8>, "dram">
  %1 = npu_schedule.alloc {id = "a", address = 64 : i64} : !npu_schedule.buffer<tensor<64xi8>, "cmx0">
  %2 = npu_schedule.alloc {id = "b", address = 64 : i64} : !npu_schedule.buffer<tensor<64xi8>, "cmx1">
  %3 = npu_schedule.view %0 at 32 : i64 stride 64 : i64 : !npu_schedule.buffer<tensor<256xi8>, "dram"> -> !npu_schedule.buffer<tensor<2x32xi8>, "dram">
  %4 = npu_schedule.copy from (%3) to (%1, %2) : (!npu_schedule.buffer<tensor<2x32xi8>, "dram">) -> (!npu_schedule.buffer<tensor<64xi8>, "cmx0">, !npu_schedule.buffer<tensor<64xi8>, "cmx1">)
  npu_schedule.wait %4
  %5 = npu_schedule.launch "fill" reads () writes (%1) : () -> (!npu_schedule.buffer<tensor<64xi8>, "cmx0">)
  return
}
