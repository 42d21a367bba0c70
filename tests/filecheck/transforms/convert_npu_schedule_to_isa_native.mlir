// RUN: tilewright opt --split-input-file %s -p "convert-npu-schedule-to-isa{kernel-manifest=atlas-v0}" | filecheck %s

// Kernels of a manifest joined as its documents do it. Every address role is bound to its tile: A at 0 and 1024, B at 2048 and 3072, C at 4096. The
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

// A value between two kernels has a region of its own.

// CHECK-LABEL: @between
// CHECK:         npu_isa.buffer "temp2" at 4096 size 2048 {layout = "bf16_split_halves", role = "temporary"}
// CHECK-NEXT:    npu_isa.buffer "temp3" at 6144 size 2048 {layout = "bf16_split_halves", role = "output"}
func.func @between(%a: tensor<32x32xbf16>, %b: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %s = npu_schedule.ukernel_launch "npu_uk_elementwise_add"(%a, %b) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %r = npu_schedule.ukernel_launch "npu_uk_silu"(%s) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %r : tensor<32x32xbf16>
}
