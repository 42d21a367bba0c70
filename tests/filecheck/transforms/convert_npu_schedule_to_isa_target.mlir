// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{target=atlas-v0}" | filecheck %s
// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{target=atlas-v1}" | filecheck %s
// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{target=atlas-v0}" | filecheck %s --check-prefix=FOUND
// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{target=atlas-v1}" | filecheck %s --check-prefix=MADE

// Loops and slices become a program: tensors at their places, then scheduled instructions.

// CHECK-LABEL: @loop
// CHECK-NEXT:    %0 = npu_isa.buffer "a" at 0 size 4096 {layout = "bf16_split_halves", role = "input"} : tensor<64x32xbf16>
// CHECK-NEXT:    %1 = npu_isa.buffer "b" at 4096 size 4096 {layout = "bf16_split_halves", role = "input"} : tensor<64x32xbf16>
// CHECK-NEXT:    %2 = npu_isa.buffer "out" at 8192 size 4096 {layout = "bf16_split_halves", role = "output"} : tensor<64x32xbf16>
// CHECK-NOT:     scf.for
// CHECK:         npu_isa.native_inst "dma.load.ch<N>"
// CHECK:         npu_isa.native_inst "vadd.bf16"
// CHECK:         npu_isa.native_inst "dma.store.ch<N>"
// CHECK:         func.return %2 : tensor<64x32xbf16>
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

// -----

// Masks for the edge of a tensor are bytes that the program finds in DRAM, or makes where that is faster.

// FOUND-LABEL: @edge
// FOUND:         npu_isa.buffer "constants_0"
// FOUND-SAME:      layout = "bytes", role = "constant", value = dense<
// MADE-LABEL:  @edge
// MADE-NOT:      npu_isa.buffer "constants_0"
// MADE:          npu_isa.native_inst "sw"
func.func @edge(%a: tensor<32x20xbf16>) -> tensor<32x20xbf16> {
  %0 = npu_schedule.softmax_fragment %a : tensor<32x20xbf16> -> tensor<32x20xbf16>
  return %0 : tensor<32x20xbf16>
}
