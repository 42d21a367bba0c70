// RUN: tilewright opt %s --split-input-file --verify-diagnostics

// Fields an instruction does not have, lacks, or repeats.
func.func @unknown_field() {
  // expected-error @+1 {{npu_isa.dma_wait has no field size}}
  npu_isa.dma_wait size=3
  return
}

// -----

func.func @missing_field() {
  // expected-error @+2 {{npu_isa.dma_load needs the field flag}}
  npu_isa.dma_load rd=1, base=0
  return
}

// -----

func.func @twice() {
  // expected-error @+1 {{field rd is given twice}}
  npu_isa.dma_load rd=1, rd=2, base=0, flag=0
  return
}

// -----

func.func @registers(%a: tensor<4xbf16>) {
  // expected-error @+1 {{npu_isa.vexp names 2 registers: vrd, vs1}}
  %0 = npu_isa.vexp %a regs=(1, 2, 3) : tensor<4xbf16> -> tensor<4xbf16>
  return
}
