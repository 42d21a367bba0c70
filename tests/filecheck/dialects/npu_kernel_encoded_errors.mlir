// RUN: tilewright opt %s --split-input-file --verify-diagnostics

// Codes are not numbers: they are decoded before other families read them.
func.func @codes(%a: tensor<4xi8, #npu_kernel.scale<0.5>>) -> tensor<4xi8, #npu_kernel.scale<0.5>> {
  // expected-error @+1 {{TW1208 "npu_uk_elementwise_add": the family elementwise_add does not compute with codes}}
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %a) : tensor<4xi8, #npu_kernel.scale<0.5>>, tensor<4xi8, #npu_kernel.scale<0.5>> -> tensor<4xi8, #npu_kernel.scale<0.5>>
  return %0 : tensor<4xi8, #npu_kernel.scale<0.5>>
}

// -----

// Movement keeps the meaning of codes.
func.func @moved(%a: tensor<4xi8, #npu_kernel.scale<0.5>>) -> tensor<2x2xi8, #npu_kernel.scale<0.25>> {
  // expected-error @+1 {{TW1208 "npu_uk_reshape": operands and result have different encodings}}
  %0 = npu_kernel.ukernel_generic "npu_uk_reshape"(%a) : tensor<4xi8, #npu_kernel.scale<0.5>> -> tensor<2x2xi8, #npu_kernel.scale<0.25>>
  return %0 : tensor<2x2xi8, #npu_kernel.scale<0.25>>
}

// -----

// A product of codes is a sum in its own unit until it is rescaled.
func.func @product(%a: tensor<4x4xi8, #npu_kernel.scale<0.5>>) -> tensor<4x4xi32, #npu_kernel.scale<0.25>> {
  // expected-error @+1 {{TW1208 "npu_uk_matmul": a product of codes has no encoding of its own}}
  %0 = npu_kernel.matmul %a, %a : tensor<4x4xi8, #npu_kernel.scale<0.5>>, tensor<4x4xi8, #npu_kernel.scale<0.5>> -> tensor<4x4xi32, #npu_kernel.scale<0.25>>
  return %0 : tensor<4x4xi32, #npu_kernel.scale<0.25>>
}

// -----

// Weights are symmetric.
func.func @zero(%a: tensor<4x4xi8, #npu_kernel.scale<0.5>>, %w: tensor<4x4xi8, #npu_kernel.scale<0.5, zero = 1>>) -> tensor<4x4xi32> {
  // expected-error @+1 {{TW1208 "npu_uk_matmul": the second operand has a zero point}}
  %0 = npu_kernel.matmul %a, %w : tensor<4x4xi8, #npu_kernel.scale<0.5>>, tensor<4x4xi8, #npu_kernel.scale<0.5, zero = 1>> -> tensor<4x4xi32>
  return %0 : tensor<4x4xi32>
}

// -----

// A zero point is a code.
func.func @range(%a: tensor<4xf32>) -> tensor<4xi8, #npu_kernel.scale<0.5, zero = 128>> {
  // expected-error @+1 {{TW1209 "npu_uk_quantise": 128 is not a code of i8}}
  %0 = npu_kernel.ukernel_generic "npu_uk_quantise"(%a) : tensor<4xf32> -> tensor<4xi8, #npu_kernel.scale<0.5, zero = 128>>
  return %0 : tensor<4xi8, #npu_kernel.scale<0.5, zero = 128>>
}

// -----

// Quantising needs to know the scale.
func.func @unknown(%a: tensor<4xf32>) -> tensor<4xi8> {
  // expected-error @+1 {{TW1208 "npu_uk_quantise": the result has no scale}}
  %0 = npu_kernel.ukernel_generic "npu_uk_quantise"(%a) : tensor<4xf32> -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// -----

// A step reads the value so far once.
func.func @twice(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{TW1210 step 0 of the epilogue reads the value so far 2 times}}
  %0 = npu_kernel.fused "npu_uk_matmul"(%a, %a) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32> epilogue [elementwise_mul(_, _) -> tensor<4x4xf32>]
  return %0 : tensor<4x4xf32>
}

// -----

// Steps are kernel families.
func.func @step(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{TW1210 npu_kernel.fused: npu_uk_gelu is not a kernel family}}
  %0 = npu_kernel.fused "npu_uk_matmul"(%a, %a) : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32> epilogue [gelu(_) -> tensor<4x4xf32>]
  return %0 : tensor<4x4xf32>
}

// -----

// An iteration leaves what the next one starts with.
func.func @layers(%a: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{TW1211 npu_kernel.layers: yield leaves other types than the iteration starts with}}
  %0 = npu_kernel.layers 2 iter(%h = %a : tensor<4x4xf32>) weights(%w = "w.*" : tensor<4x2xf32>) {
    %n = npu_kernel.matmul %h, %w : tensor<4x4xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
    npu_kernel.yield %n : tensor<4x2xf32>
  } : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
