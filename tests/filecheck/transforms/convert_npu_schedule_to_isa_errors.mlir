// RUN: tilewright opt %s --split-input-file --verify-diagnostics -p "convert-npu-schedule-to-isa{kernel-manifest=atlas-v0}"

// No kernel of that symbol.
func.func @missing(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1314 npu_schedule.ukernel_launch: the kernel manifest atlas-v0 has no kernel for "npu_uk_elementwise_erf"}}
  %0 = npu_schedule.ukernel_launch "npu_uk_elementwise_erf"(%a) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// A kernel for other element types.
func.func @elements(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1332 npu_schedule.matmul_tile: operand 0 holds bf16, kernel matmul takes f8E4M3FN}}
  %0 = npu_schedule.matmul_tile %a, %a : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// An attribute the kernel cannot honour must not be dropped.
func.func @attribute(%a: tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1332 npu_schedule.matmul_tile: kernel matmul cannot honour the attribute transpose_rhs}}
  %0 = npu_schedule.matmul_tile %a, %a {transpose_rhs} : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// A tile larger than the kernel's.
func.func @tile(%a: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  // expected-error @+1 {{TW1332 npu_schedule.ukernel_launch: a tile of 64x32 does not fit kernel silu, which works on 32x32}}
  %0 = npu_schedule.ukernel_launch "npu_uk_silu"(%a) : tensor<64x32xbf16> -> tensor<64x32xbf16>
  return %0 : tensor<64x32xbf16>
}

// -----

// A slice that starts inside a tile.
func.func @grid(%a: tensor<64x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1331 tensor.extract_slice: is no tile at a place known here}}
  %0 = tensor.extract_slice %a[16, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_silu"(%0) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}

// -----

// Loops and results in parts are for the code generator.
func.func @part(%a: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %0 = tensor.extract_slice %a[0, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_silu"(%0) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  // expected-error @+1 {{TW1331 tensor.insert_slice: has no place among kernels of a manifest}}
  %2 = tensor.insert_slice %1 into %a[0, 0] [32, 32] [1, 1] : tensor<32x32xbf16> into tensor<64x32xbf16>
  return %2 : tensor<64x32xbf16>
}

// -----

// Values that have no place in memory.
// expected-error @+1 {{TW1331 func.func: a value of type tensor<4xf32> has no place in memory}}
func.func @elsewhere(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
