// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{kernel-manifest=atlas-v0}" | filecheck %s

// Every address role is bound to its tile: A at 0 and 1024, B at 2048 and 3072, C at 4096. The
// first launch of the chain stores nothing.

// CHECK-LABEL: @chain
// CHECK-NEXT:    %0 = npu_isa.buffer "a" at 0 size 2048 {layout = "fp8_tile", role = "input"} : tensor<32x64xf8E4M3FN>
// CHECK-NEXT:    %1 = npu_isa.buffer "b" at 2048 size 2048 {layout = "fp8_tile", role = "input"} : tensor<64x32xf8E4M3FN>
// CHECK-NEXT:    %2 = npu_isa.buffer "temp2" at 4096 size 2048 {layout = "bf16_split_halves", role = "output"} : tensor<32x32xbf16>
// CHECK-NEXT:    npu_isa.native_inst "lui" {rd = 1, imm = 0}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 1, rs1 = 1, imm = 0}
// CHECK-NEXT:    npu_isa.native_inst "lui" {rd = 2, imm = 1}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 2, rs1 = 2, imm = -2048}
// CHECK:         npu_isa.native_inst "vmatmul.mxu0" {vd = 0, vs1 = 0, vs2 = 0}
// CHECK-NOT:     dma.store
// CHECK:         npu_isa.native_inst "lui" {rd = 1, imm = 0}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 1, rs1 = 1, imm = 1024}
// CHECK-NEXT:    npu_isa.native_inst "lui" {rd = 2, imm = 1}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 2, rs1 = 2, imm = -1024}
// CHECK-NEXT:    npu_isa.native_inst "lui" {rd = 3, imm = 1}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 3, rs1 = 3, imm = 0}
// CHECK:         npu_isa.native_inst "vmatmul.acc.mxu0" {vd = 0, vs1 = 0, vs2 = 0}
// CHECK:         npu_isa.native_inst "dma.store.ch<N>" {rd = 3, rs1 = 8, rs2 = 4, size = 0, channel = 0}
// CHECK:         npu_isa.native_inst "dma.store.ch<N>" {rd = 9, rs1 = 10, rs2 = 4, size = 0, channel = 1}
// CHECK-NEXT:    npu_isa.native_inst "dma.wait.ch<N>" {channel = 0}
// CHECK-NEXT:    npu_isa.native_inst "dma.wait.ch<N>" {channel = 1}
// CHECK-NEXT:    func.return %2 : tensor<32x32xbf16>
func.func @chain(%a: tensor<32x64xf8E4M3FN>, %b: tensor<64x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %a0 = tensor.extract_slice %a[0, 0] [32, 32] [1, 1] : tensor<32x64xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %b0 = tensor.extract_slice %b[0, 0] [32, 32] [1, 1] : tensor<64x32xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %0 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%a0, %b0) : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  %a1 = tensor.extract_slice %a[0, 32] [32, 32] [1, 1] : tensor<32x64xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %b1 = tensor.extract_slice %b[32, 0] [32, 32] [1, 1] : tensor<64x32xf8E4M3FN> to tensor<32x32xf8E4M3FN>
  %1 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_last"(%a1, %b1) : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}

// -----

// Loops are walked, and results land in place: the second tile of the sum is at 8192 + 2048.

// CHECK-LABEL: @loop
// CHECK:         npu_isa.buffer "temp2" at 8192 size 4096
// CHECK:         npu_isa.native_inst "lui" {rd = 3, imm = 2}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 3, rs1 = 3, imm = 0}
// CHECK:         npu_isa.native_inst "lui" {rd = 3, imm = 3}
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 3, rs1 = 3, imm = -2048}
// CHECK-NOT:     scf.for
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
