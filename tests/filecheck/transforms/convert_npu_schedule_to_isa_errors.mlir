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
  // expected-error @+1 {{TW1333 tensor.extract_slice: starts at row 16, column 0}}
  %0 = tensor.extract_slice %a[16, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_silu"(%0) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}

// -----

// Overwriting an input would need a copy.
func.func @copy(%a: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %0 = tensor.extract_slice %a[0, 0] [32, 32] [1, 1] : tensor<64x32xbf16> to tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_silu"(%0) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  // expected-error @+1 {{TW1334 tensor.insert_slice: would overwrite a tensor that is still needed}}
  %2 = tensor.insert_slice %1 into %a[0, 0] [32, 32] [1, 1] : tensor<32x32xbf16> into tensor<64x32xbf16>
  return %2 : tensor<64x32xbf16>
}

// -----

// More than the machine's memory.
// expected-error @+1 {{TW1335 func.func: needs 4194304 bytes of DRAM, the machine has 1048576}}
func.func @memory(%a: tensor<1024x2048xbf16>) -> tensor<1024x2048xbf16> {
  return %a : tensor<1024x2048xbf16>
}

// -----

// Values that have no place in memory.
// expected-error @+1 {{TW1331 func.func: a value of type tensor<4xf32> has no place in memory}}
func.func @elsewhere(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
