// RUN: tilewright opt %s -p convert-npu-schedule-to-isa | filecheck %s
// RUN: tilewright opt %s -p convert-npu-schedule-to-isa | tilewright translate --mlir-to-npu-text-isa - | filecheck %s --check-prefix=TEXT

// Operands are loaded one after the other, each with its wait; the result is stored.

// CHECK-LABEL: @matmul
// CHECK-NEXT:    npu_isa.dma_load rd=0, base=0, size=2048, flag=0
// CHECK-NEXT:    npu_isa.dma_wait flag=0
// CHECK-NEXT:    npu_isa.dma_load_mxu0 rd=1, base=2048, size=512, flag=0
// CHECK-NEXT:    npu_isa.dma_wait flag=0
// CHECK-NEXT:    %0 = npu_isa.matmul_mxu0 %a, %b regs=(2, 0, 1)
// CHECK-NEXT:    npu_isa.dma_store %0 rs1=2, base=2560, size=4096, flag=0
// CHECK-NEXT:    npu_isa.dma_wait flag=0

// TEXT:          # matmul
// TEXT-NEXT:     dma.load rd=0, base=0, size=2048, flag=0
// TEXT-NEXT:     dma.wait flag=0
// TEXT-NEXT:     dma.load.mxu0 rd=1, base=2048, size=512, flag=0
// TEXT-NEXT:     dma.wait flag=0
// TEXT-NEXT:     matmul.mxu0 rd=2, rs1=0, rs2=1
// TEXT-NEXT:     dma.store rs1=2, base=2560, size=4096, flag=0
func.func @matmul(%a: tensor<64x32xf8E4M3FN>, %b: tensor<32x16xf8E4M3FN>) -> tensor<64x16xf32> {
  %0 = npu_schedule.ukernel_launch "npu_uk_matmul_f8E4M3FN_f8E4M3FN_f32"(%a, %b) : tensor<64x32xf8E4M3FN>, tensor<32x16xf8E4M3FN> -> tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}

// Softmax subtracts the row maximum before the exponential.

// CHECK-LABEL: @softmax
// CHECK:         npu_isa.vreduce_max
// CHECK-NEXT:    npu_isa.vsub
// CHECK-NEXT:    npu_isa.vexp
// CHECK-NEXT:    npu_isa.vreduce_sum
// CHECK-NEXT:    npu_isa.vrcp
// CHECK-NEXT:    npu_isa.vmul
// TEXT:          vexp vrd=3, vs1=2
// TEXT-NEXT:     vreduce.sum vrd=4, vs1=3
// TEXT-NEXT:     vrcp vrd=5, vs1=4
// TEXT-NEXT:     vmul vrd=6, vs1=3, vs2=5
func.func @softmax(%a: tensor<64x16xf32>) -> tensor<64x16xf32> {
  %0 = npu_schedule.softmax_fragment %a : tensor<64x16xf32> -> tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}

// Attention is two matmuls around a softmax.

// CHECK-LABEL: @attention
// CHECK:         npu_isa.matmul_mxu0
// CHECK:         npu_isa.vexp
// CHECK:         npu_isa.matmul_mxu0
// CHECK-NOT:     npu_schedule
func.func @attention(%q: tensor<64x16xbf16>, %k: tensor<32x16xbf16>) -> tensor<64x16xbf16> {
  %0 = npu_schedule.ukernel_launch "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %k) : tensor<64x16xbf16>, tensor<32x16xbf16>, tensor<32x16xbf16> -> tensor<64x16xbf16>
  return %0 : tensor<64x16xbf16>
}
