// RUN: tilewright opt %s --split-input-file --verify-diagnostics

// A tile that is not the buffer's.
func.func @tile(%a: tensor<16x32xbf16>) {
  %b = npu_schedule.alloc : !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
  // expected-error @+1 {{TW1211 npu_schedule.dma_load: the buffer holds tensor<32x32xbf16>, the tensor is tensor<16x32xbf16>}}
  %t = npu_schedule.dma_load %a into %b : tensor<16x32xbf16>, !npu_schedule.buffer<tensor<32x32xbf16>, "vmem">
  return
}

// -----

// A memory that does not exist.
func.func @space() {
  // expected-error @+1 {{memory space "cache" is not one of vmem, mxu0, mxu1, dram}}
  %b = npu_schedule.alloc : !npu_schedule.buffer<tensor<32x32xbf16>, "cache">
  return
}
