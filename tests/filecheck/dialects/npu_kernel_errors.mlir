// RUN: tilewright opt %s --split-input-file --verify-diagnostics

// Operands that cannot be contracted.
func.func @shapes(%a: tensor<32x64xbf16>, %b: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1203 "npu_uk_matmul": 32x64 by 32x32 does not give 32x32}}
  %0 = npu_kernel.matmul %a, %b : tensor<32x64xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// A mask that does not cover the scores.
func.func @mask(%q: tensor<12x1024x64xbf16>, %m: tensor<12x1024x1xi1>) -> tensor<12x1024x64xbf16> {
  // expected-error @+1 {{TW1203 "npu_uk_attention": the mask has shape 12x1024x1, attention needs 12x1024x1024}}
  %0 = npu_kernel.ukernel_generic "npu_uk_attention"(%q, %q, %q, %m) : tensor<12x1024x64xbf16>, tensor<12x1024x64xbf16>, tensor<12x1024x64xbf16>, tensor<12x1024x1xi1> -> tensor<12x1024x64xbf16>
  return %0 : tensor<12x1024x64xbf16>
}

// -----

// Dynamic shapes.
func.func @dynamic(%a: tensor<?x4xbf16>) -> tensor<?x4xbf16> {
  // expected-error @+1 {{TW1201 "npu_uk_silu": operand 0 has the dynamic shape ?x4}}
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%a) : tensor<?x4xbf16> -> tensor<?x4xbf16>
  return %0 : tensor<?x4xbf16>
}

// -----

// The number of operands.
func.func @operands(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error @+1 {{TW1202 "npu_uk_elementwise_add": takes 2 operands (lhs, rhs), got 1}}
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a) : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// An attribute the family does not have, and one of the wrong kind.
func.func @attribute(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error @+1 {{TW1204 "npu_uk_silu": family silu has no attribute axis}}
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%a) {axis = 0 : i64} : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

func.func @kind(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  // expected-error @+1 {{TW1204 "npu_uk_softmax": attribute axis is "last", expected integer}}
  %0 = npu_kernel.ukernel_generic "npu_uk_softmax"(%a) {axis = "last"} : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Element types that differ.
func.func @elements(%a: tensor<4xbf16>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{TW1205 "npu_uk_elementwise_add": element types differ: bf16, f32, f32}}
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) : tensor<4xbf16>, tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An axis outside the rank.
func.func @axis(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{TW1206 "npu_uk_softmax": axis 2 is outside rank 2}}
  %0 = npu_kernel.ukernel_generic "npu_uk_softmax"(%a) {axis = 2 : i64} : tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

// A map that reads something else than dimensions.
func.func @maps(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{TW1207 "npu_uk_silu": operand map 0 has the result}}
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%a) {operand_maps = [affine_map<(d0, d1) -> (d0 + d1, d1)>]} : tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

// Text that is not MLIR, and an operation nobody knows.
func.func @malformed(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{TW1210}}
  %0 = npu_kernel.matmul %a %a : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

func.func @unknown(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{TW1210 there is no operation mystery.op with a custom form}}
  %0 = mystery.op %a : tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

// A value used before it exists.
func.func @order(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  // expected-error @+1 {{TW1211 npu_kernel.ukernel_generic: uses %later before it is defined}}
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%later) : tensor<4x4xbf16> -> tensor<4x4xbf16>
  %later = npu_kernel.ukernel_generic "npu_uk_silu"(%a) : tensor<4x4xbf16> -> tensor<4x4xbf16>
  return %0 : tensor<4x4xbf16>
}

// -----

// A value nobody defines.
func.func @undefined() -> tensor<4xbf16> {
  // expected-error @+1 {{TW1210 the value %nowhere is used but not defined}}
  return %nowhere : tensor<4xbf16>
}
