// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s

// Fields may be written with or without blanks; a size may be missing.

// CHECK-LABEL: @abstract
// CHECK-NEXT:    npu_isa.dma_load rd=2, base=111, flag=9
// CHECK-NEXT:    npu_isa.dma_wait flag=99
// CHECK-NEXT:    npu_isa.dma_load_mxu0 rd=1, base=222, size=512, flag=9
// CHECK-NEXT:    npu_isa.dma_load_mxu1 rd=1, base=222, size=512, flag=9
// CHECK-NEXT:    %0 = npu_isa.matmul_mxu0 %a, %b regs=(0, 2, 1) : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN> -> tensor<64x16xf32>
// CHECK-NEXT:    npu_isa.matmul_mxu0 rd=0, rs1=2, rs2=1
// CHECK-NEXT:    npu_isa.vexp vrd=5, vs1=4
// CHECK-NEXT:    npu_isa.vreduce_sum vrd=6, vs1=5
// CHECK-NEXT:    npu_isa.vmul vrd=6, vs1=1, vs2=2
// CHECK-NEXT:    npu_isa.dma_store %0 rs1=0, base=333, size=1024, flag=9 : tensor<64x16xf32>
// CHECK-NEXT:    npu_isa.dma_store rs1=6, base=12288, size=2048, flag=0
func.func @abstract(%a: tensor<64x32xf8E4M3FN>, %b: tensor<32x16xf8E4M3FN>) -> tensor<64x16xf32> {
  npu_isa.dma_load rd=2, base=111, flag=9
  npu_isa.dma_wait flag=99
  npu_isa.dma_load_mxu0 rd = 1, base = 222, size = 512, flag = 9
  npu_isa.dma_load_mxu1 rd = 1, base = 222, size = 512, flag = 9
  %0 = npu_isa.matmul_mxu0 %a, %b regs = (0, 2, 1) : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN> -> tensor<64x16xf32>
  npu_isa.matmul_mxu0 rd=0, rs1=2, rs2=1
  npu_isa.vexp vrd=5, vs1=4
  npu_isa.vreduce_sum vrd=6, vs1=5
  npu_isa.vmul vrd=6, vs1=1, vs2=2
  npu_isa.dma_store %0 rs1 = 0, base = 333, size = 1024, flag = 9 : tensor<64x16xf32>
  npu_isa.dma_store rs1=6, base=12288, size=2048, flag=0
  return %0 : tensor<64x16xf32>
}

// CHECK-LABEL: @native
// CHECK-NEXT:    npu_isa.buffer "x" at 4096 size 2048 {layout = "bf16_split_halves"} : tensor<32x32xbf16>
// CHECK-NEXT:    npu_isa.native_inst "addi" {rd = 1, rs1 = 0, imm = -64}
// CHECK-NEXT:    npu_isa.native_inst "ecall"
func.func @native() {
  %0 = npu_isa.buffer "x" at 4096 size 2048 {layout = "bf16_split_halves"} : tensor<32x32xbf16>
  npu_isa.native_inst "addi" {rd = 1, rs1 = 0 : i64, imm = -64}
  npu_isa.native_inst "ecall"
  return
}
