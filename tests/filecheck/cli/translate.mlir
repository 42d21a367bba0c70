// RUN: tilewright translate --mlir-to-npu-text-isa %s | filecheck %s
// RUN: tilewright translate --memory-map %s | filecheck %s --check-prefix=MAP
// RUN: not tilewright translate --mlir-to-npu-text-isa --function nobody %s 2>&1 | filecheck %s --check-prefix=NOBODY

// One instruction per line with its fields; buffers are data, not instructions.
// CHECK:      # program
// CHECK-NEXT: lui rd=1, imm=16
// CHECK-NEXT: dma.load.ch<N> rd=4, rs1=1, rs2=7, size=0, channel=0
// CHECK-NEXT: vload vd=1, rs1=4, imm12=32

// MAP: "program": [
// MAP: "name": "x",
// MAP-NEXT: "address": 65536,
// MAP-NEXT: "size": 2048,

// NOBODY: TW1341 the module has no body of a function @nobody to translate
func.func @program() {
  %0 = npu_isa.buffer "x" at 65536 size 2048 {layout = "bf16_split_halves", role = "input"} : tensor<32x32xbf16>
  npu_isa.native_inst "lui" {rd = 1, imm = 16}
  npu_isa.native_inst "dma.load.ch<N>" {rd = 4, rs1 = 1, rs2 = 7, size = 0, channel = 0}
  npu_isa.native_inst "vload" {vd = 1, rs1 = 4, imm12 = 32}
  return
}
