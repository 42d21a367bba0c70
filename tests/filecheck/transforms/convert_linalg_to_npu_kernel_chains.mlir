// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s
// RUN: tilewright opt %s -p "convert-linalg-to-npu-kernel{ignore-nan=true}" | filecheck %s --check-prefix=LOOSE

#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#outer = affine_map<(d0, d1, d2) -> (d0, d1)>

// exp(x - max) / sum
// CHECK-LABEL: func.func @softmax(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = arith.constant dense<0xFF800000> : tensor<4xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%low : tensor<4xf32>) dimensions = [1]
  %d = linalg.elementwise <sub> indexing_maps = [#id2, #row, #id2] ins(%x, %top : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = math.exp %d : tensor<4x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%p : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %r = linalg.elementwise <div> indexing_maps = [#id2, #row, #id2] ins(%p, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// The maximum of another tensor is no softmax.
// CHECK-LABEL: func.func @not_softmax(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_max"(%y) {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"(%x, [[V0]]) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"([[V1]]) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_sum"([[V2]]) {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_div"([[V2]], [[V3]]) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V4]] : tensor<4x8xf32>
func.func @not_softmax(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = arith.constant dense<0xFF800000> : tensor<4xf32>
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %top = linalg.reduce { arith.maximumf } ins(%y : tensor<4x8xf32>) outs(%low : tensor<4xf32>) dimensions = [1]
  %d = linalg.elementwise <sub> indexing_maps = [#id2, #row, #id2] ins(%x, %top : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = math.exp %d : tensor<4x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%p : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %r = linalg.elementwise <div> indexing_maps = [#id2, #row, #id2] ins(%p, %sum : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// An rms norm in f32 of a bf16 value, narrowed, times a bf16 weight.
// CHECK-LABEL: func.func @rms_norm(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_rms_norm"(%x, %w) {epsilon = 1.000000e-05 : f32, axis = 1 : i64} : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xbf16>
func.func @rms_norm(%x: tensor<4x8xbf16>, %w: tensor<8xbf16>) -> tensor<4x8xbf16> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %count = arith.constant dense<8.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %eb = tensor.empty() : tensor<4x8xbf16>
  %h = arith.extf %x : tensor<4x8xbf16> to tensor<4x8xf32>
  %s = arith.mulf %h, %h : tensor<4x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%s : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %m = arith.divf %sum, %count : tensor<4xf32>
  %v = arith.addf %m, %eps : tensor<4xf32>
  %i = math.rsqrt %v : tensor<4xf32>
  %n = linalg.elementwise <mul> indexing_maps = [#id2, #row, #id2] ins(%h, %i : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = arith.truncf %n : tensor<4x8xf32> to tensor<4x8xbf16>
  %r = linalg.elementwise <mul> indexing_maps = [#column, #id2, #id2] ins(%w, %b : tensor<8xbf16>, tensor<4x8xbf16>) outs(%eb : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %r : tensor<4x8xbf16>
}

// A divisor that is not the number of elements makes no mean, and so no norm.
// CHECK-LABEL: func.func @not_rms_norm(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_square"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_sum"([[V0]]) {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_div"([[V1]]) {scalar_rhs = 9.000000e+00 : f32} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V2]]) {scalar_rhs = 1.000000e-05 : f32} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_rsqrt"([[V3]]) : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, [[V4]]) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<4x8xf32>, tensor<4xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V5]] : tensor<4x8xf32>
func.func @not_rms_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %count = arith.constant dense<9.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-5> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %s = arith.mulf %x, %x : tensor<4x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%s : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %m = arith.divf %sum, %count : tensor<4xf32>
  %v = arith.addf %m, %eps : tensor<4xf32>
  %i = math.rsqrt %v : tensor<4xf32>
  %n = linalg.elementwise <mul> indexing_maps = [#id2, #row, #id2] ins(%x, %i : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// The norm of the distance to the mean, with weight and bias.
// CHECK-LABEL: func.func @layer_norm(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_layer_norm"(%x, %w, %b) {epsilon = 1.000000e-06 : f32, axis = 1 : i64} : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @layer_norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4xf32>
  %count = arith.constant dense<8.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0e-6> : tensor<4xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %c = arith.divf %t, %count : tensor<4xf32>
  %d = linalg.elementwise <sub> indexing_maps = [#id2, #row, #id2] ins(%x, %c : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = arith.mulf %d, %d : tensor<4x8xf32>
  %sum = linalg.reduce { arith.addf } ins(%s : tensor<4x8xf32>) outs(%zero : tensor<4xf32>) dimensions = [1]
  %m = arith.divf %sum, %count : tensor<4xf32>
  %v = arith.addf %m, %eps : tensor<4xf32>
  %i = math.rsqrt %v : tensor<4xf32>
  %n = linalg.elementwise <mul> indexing_maps = [#id2, #row, #id2] ins(%d, %i : tensor<4x8xf32>, tensor<4xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = linalg.elementwise <mul> indexing_maps = [#id2, #column, #id2] ins(%n, %w : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = linalg.elementwise <add> indexing_maps = [#id2, #column, #id2] ins(%y, %b : tensor<4x8xf32>, tensor<8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// x / (1 + exp(-x)) times another tensor.
// CHECK-LABEL: func.func @silu_gate(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_silu_gate"(%g, %u) : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xbf16>
func.func @silu_gate(%g: tensor<4x8xbf16>, %u: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %one = arith.constant dense<1.0> : tensor<4x8xbf16>
  %n = arith.negf %g : tensor<4x8xbf16>
  %e = math.exp %n : tensor<4x8xbf16>
  %p = arith.addf %e, %one : tensor<4x8xbf16>
  %s = arith.divf %one, %p : tensor<4x8xbf16>
  %y = arith.mulf %s, %g : tensor<4x8xbf16>
  %r = arith.mulf %y, %u : tensor<4x8xbf16>
  return %r : tensor<4x8xbf16>
}

// A value that is read elsewhere keeps the chain apart: silu stays, the product is its own.
// CHECK-LABEL: func.func @silu_shared(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_silu"(%g) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %u) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]], [[V1]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @silu_shared(%g: tensor<4x8xf32>, %u: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %n = arith.negf %g : tensor<4x8xf32>
  %e = math.exp %n : tensor<4x8xf32>
  %p = arith.addf %e, %one : tensor<4x8xf32>
  %s = arith.divf %one, %p : tensor<4x8xf32>
  %y = arith.mulf %s, %g : tensor<4x8xf32>
  %r = arith.mulf %y, %u : tensor<4x8xf32>
  return %y, %r : tensor<4x8xf32>, tensor<4x8xf32>
}

// GELU with tanh; the factor an exporter shortened is kept as it is.
// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gelu_tanh"(%x) {inner_scale = 7.977240e-01 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @gelu_tanh(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = arith.constant 3 : i64
  %cubic = arith.constant 0.044715 : f32
  %factor = arith.constant 0.797724 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %1 = math.fpowi %a, %three : f32, i64
    %2 = arith.mulf %1, %cubic : f32
    %3 = arith.addf %a, %2 : f32
    %4 = arith.mulf %3, %factor : f32
    %5 = math.tanh %4 : f32
    %6 = arith.addf %5, %one : f32
    %7 = arith.mulf %6, %half : f32
    %8 = arith.mulf %a, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Another cubic coefficient is no GELU.
// CHECK-LABEL: func.func @not_gelu(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_cube"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]]) {scalar_rhs = 4.470000e-02 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x, [[V1]]) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V2]]) {scalar_rhs = 0.797884583 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_tanh"([[V3]]) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V4]]) {scalar_rhs = 1.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V5]]) {scalar_rhs = 5.000000e-01 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x, [[V6]]) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V7]] : tensor<4x8xf32>
func.func @not_gelu(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %three = arith.constant 3 : i64
  %cubic = arith.constant 0.0447 : f32
  %factor = arith.constant 0.797884583 : f32
  %one = arith.constant 1.0 : f32
  %half = arith.constant 0.5 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %1 = math.fpowi %a, %three : f32, i64
    %2 = arith.mulf %1, %cubic : f32
    %3 = arith.addf %a, %2 : f32
    %4 = arith.mulf %3, %factor : f32
    %5 = math.tanh %4 : f32
    %6 = arith.addf %5, %one : f32
    %7 = arith.mulf %6, %half : f32
    %8 = arith.mulf %a, %7 : f32
    linalg.yield %8 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// GELU with erf as torch writes it, a division.
// CHECK-LABEL: func.func @gelu_erf_divided(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gelu_erf"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @gelu_erf_divided(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %root = arith.constant dense<1.41421354> : tensor<4x8xf32>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %0 = arith.divf %x, %root : tensor<4x8xf32>
  %1 = math.erf %0 : tensor<4x8xf32>
  %2 = arith.addf %1, %one : tensor<4x8xf32>
  %3 = arith.mulf %2, %half : tensor<4x8xf32>
  %4 = arith.mulf %x, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// GELU with erf, a product inside and the half taken first.
// CHECK-LABEL: func.func @gelu_erf(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gelu_erf"(%x) {inner_scale = 0.707106769 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @gelu_erf(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %root = arith.constant dense<0.707106769> : tensor<4x8xf32>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %0 = arith.mulf %x, %root : tensor<4x8xf32>
  %1 = math.erf %0 : tensor<4x8xf32>
  %2 = arith.addf %1, %one : tensor<4x8xf32>
  %3 = arith.mulf %x, %half : tensor<4x8xf32>
  %4 = arith.mulf %3, %2 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// Bounds: max then min is a clamp; select(x > 0, x, 0) with NaN kept is relu.
// CHECK-LABEL: func.func @bounds(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_clamp"(%x) {min = -2.000000e+00 : f32, max = 3.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_relu"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]], [[V1]] : tensor<4x8xf32>, tensor<4x8xf32>
func.func @bounds(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %low = arith.constant dense<-2.0> : tensor<4x8xf32>
  %high = arith.constant dense<3.0> : tensor<4x8xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = arith.maximumf %x, %low : tensor<4x8xf32>
  %1 = arith.minimumf %0, %high : tensor<4x8xf32>
  %2 = linalg.map ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) (%a: f32, %out: f32) {
    %3 = arith.cmpf ugt, %a, %zero : f32
    %4 = arith.select %3, %a, %zero : f32
    linalg.yield %4 : f32
  }
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// A comparison that turns NaN into the bound is a maximum only for those who do not care.
// LOOSE-LABEL: func.func @loose_bound(
// LOOSE-NEXT: "npu_uk_elementwise_max"(%x) {scalar_rhs = -2.000000e+00 : f32}
// CHECK-LABEL: func.func @loose_bound(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_compare"(%x) {predicate = "ult", scalar_rhs = -2.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xi1>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_select"([[V0]], %x) {scalar_a = -2.000000e+00 : f32} : tensor<4x8xi1>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V1]] : tensor<4x8xf32>
func.func @loose_bound(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %low = arith.constant -2.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.map ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) (%a: f32, %out: f32) {
    %1 = arith.cmpf ult, %a, %low : f32
    %2 = arith.select %1, %low, %a : f32
    linalg.yield %2 : f32
  }
  return %0 : tensor<4x8xf32>
}

// To f8: the quotient is part of the kernel, bounds at the largest f8 add nothing.
// CHECK-LABEL: func.func @requant_f8(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_requant"(%x) {scale = 3.000000e+00 : f32} : tensor<4x8xbf16> -> tensor<4x8xf8E4M3FN>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf8E4M3FN>
func.func @requant_f8(%x: tensor<4x8xbf16>) -> tensor<4x8xf8E4M3FN> {
  %scale = arith.constant dense<3.0> : tensor<4x8xbf16>
  %low = arith.constant dense<-448.0> : tensor<4x8xbf16>
  %high = arith.constant dense<448.0> : tensor<4x8xbf16>
  %0 = arith.divf %x, %scale : tensor<4x8xbf16>
  %1 = arith.maximumf %0, %low : tensor<4x8xbf16>
  %2 = arith.minimumf %1, %high : tensor<4x8xbf16>
  %3 = arith.truncf %2 : tensor<4x8xbf16> to tensor<4x8xf8E4M3FN>
  return %3 : tensor<4x8xf8E4M3FN>
}

// To i8: quotient, nearest, bounds. Multiplying by 0.3 is no division, and stays.
// CHECK-LABEL: func.func @requant_i8(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_requant"(%x) {scale = 3.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xi8>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x) {scalar_rhs = 3.000000e-01 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_requant"([[V1]]) : tensor<4x8xf32> -> tensor<4x8xi8>
// CHECK-NEXT: func.return [[V0]], [[V2]] : tensor<4x8xi8>, tensor<4x8xi8>
func.func @requant_i8(%x: tensor<4x8xf32>) -> (tensor<4x8xi8>, tensor<4x8xi8>) {
  %i = tensor.empty() : tensor<4x8xi8>
  %scale = arith.constant dense<3.0> : tensor<4x8xf32>
  %factor = arith.constant dense<0.3> : tensor<4x8xf32>
  %low = arith.constant dense<-128.0> : tensor<4x8xf32>
  %high = arith.constant dense<127.0> : tensor<4x8xf32>
  %0 = arith.divf %x, %scale : tensor<4x8xf32>
  %1 = math.roundeven %0 : tensor<4x8xf32>
  %2 = arith.maximumf %1, %low : tensor<4x8xf32>
  %3 = arith.minimumf %2, %high : tensor<4x8xf32>
  %4 = linalg.map { arith.fptosi } ins(%3 : tensor<4x8xf32>) outs(%i : tensor<4x8xi8>)
  %5 = arith.mulf %x, %factor : tensor<4x8xf32>
  %6 = math.roundeven %5 : tensor<4x8xf32>
  %7 = arith.maximumf %6, %low : tensor<4x8xf32>
  %8 = arith.minimumf %7, %high : tensor<4x8xf32>
  %9 = linalg.map { arith.fptosi } ins(%8 : tensor<4x8xf32>) outs(%i : tensor<4x8xi8>)
  return %4, %9 : tensor<4x8xi8>, tensor<4x8xi8>
}

// A weight times its scale per row.
// CHECK-LABEL: func.func @dequant(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_dequant"(%w, %s) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>]} : tensor<4x8xf8E4M3FN>, tensor<4xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xbf16>
func.func @dequant(%w: tensor<4x8xf8E4M3FN>, %s: tensor<4xbf16>) -> tensor<4x8xbf16> {
  %e = tensor.empty() : tensor<4x8xbf16>
  %0 = arith.extf %w : tensor<4x8xf8E4M3FN> to tensor<4x8xbf16>
  %1 = linalg.elementwise <mul> indexing_maps = [#id2, #row, #id2] ins(%0, %s : tensor<4x8xbf16>, tensor<4xbf16>) outs(%e : tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}

// Blocks of 32 that share an exponent byte: shifted into place, bounded, NaN at 255, then the product.
// CHECK-LABEL: func.func @mx_blocks(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_dequant"(%payload, %exponents) {block = 32 : i64, axis = 1 : i64, scale_encoding = "e8m0"} : tensor<8x64xf8E4M3FN>, tensor<8x2xi8> -> tensor<8x64xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<8x64xbf16>
func.func @mx_blocks(%payload: tensor<8x64xf8E4M3FN>, %exponents: tensor<8x2xi8>) -> tensor<8x64xbf16> {
  %c23 = arith.constant 23 : i32
  %c255 = arith.constant 255 : i32
  %least = arith.constant 1.17549435E-38 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %i = tensor.empty() : tensor<8x2xi32>
  %f = tensor.empty() : tensor<8x2xf32>
  %wide = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%exponents : tensor<8x2xi8>) outs(%i : tensor<8x2xi32>) {
  ^bb0(%a: i8, %o: i32):
    %0 = arith.extui %a : i8 to i32
    linalg.yield %0 : i32
  } -> tensor<8x2xi32>
  %bits = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%wide : tensor<8x2xi32>) outs(%i : tensor<8x2xi32>) {
  ^bb0(%a: i32, %o: i32):
    %0 = arith.shli %a, %c23 : i32
    linalg.yield %0 : i32
  } -> tensor<8x2xi32>
  %scale = linalg.generic {indexing_maps = [#id2, #id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%bits, %wide : tensor<8x2xi32>, tensor<8x2xi32>) outs(%f : tensor<8x2xf32>) {
  ^bb0(%a: i32, %e: i32, %o: f32):
    %0 = arith.bitcast %a : i32 to f32
    %1 = arith.maximumf %0, %least : f32
    %2 = arith.cmpi eq, %e, %c255 : i32
    %3 = arith.select %2, %nan, %1 : f32
    linalg.yield %3 : f32
  } -> tensor<8x2xf32>
  %h = tensor.empty() : tensor<8x2xbf16>
  %half = linalg.generic {indexing_maps = [#id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%scale : tensor<8x2xf32>) outs(%h : tensor<8x2xbf16>) {
  ^bb0(%a: f32, %o: bf16):
    %0 = arith.truncf %a : f32 to bf16
    linalg.yield %0 : bf16
  } -> tensor<8x2xbf16>
  %blocks = tensor.expand_shape %payload [[0], [1, 2]] output_shape [8, 2, 32] : tensor<8x64xf8E4M3FN> into tensor<8x2x32xf8E4M3FN>
  %w = tensor.empty() : tensor<8x2x32xbf16>
  %decoded = linalg.generic {indexing_maps = [#id3, #outer, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%blocks, %half : tensor<8x2x32xf8E4M3FN>, tensor<8x2xbf16>) outs(%w : tensor<8x2x32xbf16>) {
  ^bb0(%a: f8E4M3FN, %s: bf16, %o: bf16):
    %0 = arith.extf %a : f8E4M3FN to bf16
    %1 = arith.mulf %0, %s : bf16
    linalg.yield %1 : bf16
  } -> tensor<8x2x32xbf16>
  %flat = tensor.collapse_shape %decoded [[0], [1, 2]] : tensor<8x2x32xbf16> into tensor<8x64xbf16>
  return %flat : tensor<8x64xbf16>
}
