// RUN: tilewright opt %s --split-input-file --verify-diagnostics -p convert-linalg-to-npu-kernel

// Dynamic shapes.
func.func @dynamic(%x: tensor<?x8xf32>, %o: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{TW1220 linalg.exp has no kernel: operand 0 has the dynamic shape tensor<?x8xf32>}}
  %0 = linalg.exp ins(%x : tensor<?x8xf32>) outs(%o : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// An op of a dialect nobody knows.
func.func @unknown(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{TW1221 vendor.magic has no kernel: it is an op this compiler does not know}}
  %0 = "vendor.magic"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// An element type without a mapping.
func.func @double(%x: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %o = tensor.empty() : tensor<4x8xf64>
  // expected-error @+1 {{TW1222 linalg.exp has no kernel: no kernel works on f64}}
  %0 = linalg.exp ins(%x : tensor<4x8xf64>) outs(%o : tensor<4x8xf64>) -> tensor<4x8xf64>
  return %0 : tensor<4x8xf64>
}

// -----

// Maps with arithmetic on indices.
func.func @strided(%x: tensor<8xf32>) -> tensor<4xf32> {
  %o = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{TW1223 linalg.generic has no kernel: operand 0 is read through (d0) -> ((d0 * 2))}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0 * 2)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%o : tensor<4xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Maps that contradict the shapes.
func.func @inconsistent(%x: tensor<4x8xf32>, %y: tensor<4x9xf32>) -> tensor<4x8xf32> {
  %o = tensor.empty() : tensor<4x8xf32>
  // expected-error @+1 {{TW1211 linalg.generic: inferred input/output operand #1 has shape's dimension #1 to be 8, but found 9}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<4x9xf32>) outs(%o : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %1 = arith.addf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// A body with an op that is no kernel.
func.func @unsigned_remainder(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %o = tensor.empty() : tensor<4xi32>
  // expected-error @+1 {{TW1225 linalg.generic has no kernel: its body uses arith.remui, which is no kernel}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xi32>, tensor<4xi32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32, %out: i32):
    %1 = arith.remui %a, %b : i32
    linalg.yield %1 : i32
  } -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// A reduction that is none of the known ones.
func.func @odd_reduction(%x: tensor<4x8xf32>, %init: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{TW1225 linalg.reduce has no kernel: its body is no sum, product, maximum or minimum over the reduction loops}}
  %0 = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%init : tensor<4xf32>) dimensions = [1] (%in: f32, %acc: f32) {
    %1 = arith.subf %in, %acc : f32
    linalg.yield %1 : f32
  }
  return %0 : tensor<4xf32>
}

// -----

// Adding to contents that nobody wrote.
func.func @undefined(%x: tensor<4x8xf32>, %w: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %o = tensor.empty() : tensor<4x4xf32>
  // expected-error @+1 {{TW1226 linalg.matmul has no kernel: it adds to an initial value with undefined contents (tensor.empty)}}
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x4xf32>) outs(%o : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

// A region that changes the scores of attention.
func.func @soft_cap(%q: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  %scale = arith.constant 0.25 : f32
  %o = tensor.empty() : tensor<4x8x16xf32>
  // expected-error @+1 {{TW1225 iree_linalg_ext.attention has no kernel: its region changes the score}}
  %0 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>, affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>, affine_map<(b, m, n, k, l) -> (b, m, n)>]> ins(%q, %q, %q, %scale : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32>, f32) outs(%o : tensor<4x8x16xf32>) {
  ^bb0(%score: f32):
    %1 = math.tanh %score : f32
    iree_linalg_ext.yield %1 : f32
  } -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// -----

// Maps of attention that give one loop two ranges.
func.func @attention_maps(%q: tensor<4x8x16xf32>, %k: tensor<4x9x17xf32>) -> tensor<4x8x17xf32> {
  %scale = arith.constant 0.25 : f32
  %o = tensor.empty() : tensor<4x8x17xf32>
  // expected-error @+1 {{TW1211 iree_linalg_ext.attention: indexing map #1 gives loop d3 the range 17, another operand gives it 16}}
  %0 = iree_linalg_ext.attention <indexing_maps = [affine_map<(b, m, n, k, l) -> (b, m, k)>, affine_map<(b, m, n, k, l) -> (b, l, k)>, affine_map<(b, m, n, k, l) -> (b, l, n)>, affine_map<(b, m, n, k, l) -> ()>, affine_map<(b, m, n, k, l) -> (b, m, n)>]> ins(%q, %k, %k, %scale : tensor<4x8x16xf32>, tensor<4x9x17xf32>, tensor<4x9x17xf32>, f32) outs(%o : tensor<4x8x17xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x17xf32>
  return %0 : tensor<4x8x17xf32>
}

// -----

// Shifts alone are only known from decoding block scales.
func.func @shift(%x: tensor<4xi32>) -> tensor<4xi32> {
  %two = arith.constant 2 : i32
  %o = tensor.empty() : tensor<4xi32>
  // expected-error @+1 {{TW1225 linalg.generic has no kernel: its body needs shift left, which only block-scaled decoding has}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<4xi32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: i32, %out: i32):
    %1 = arith.shli %a, %two : i32
    linalg.yield %1 : i32
  } -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// Exponent bytes decoded with NaN at another byte than 255 only look like block scales.
func.func @other_nan(%payload: tensor<8x32xf8E4M3FN>, %exponents: tensor<8xi8>) -> tensor<8x32xf32> {
  %c23 = arith.constant 23 : i32
  %c254 = arith.constant 254 : i32
  %least = arith.constant 1.17549435E-38 : f32
  %nan = arith.constant 0x7FC00000 : f32
  %o = tensor.empty() : tensor<8x32xf32>
  // expected-error @+1 {{TW1225 linalg.generic has no kernel: its body needs widen unsigned, which only block-scaled decoding has}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%payload, %exponents : tensor<8x32xf8E4M3FN>, tensor<8xi8>) outs(%o : tensor<8x32xf32>) {
  ^bb0(%a: f8E4M3FN, %e: i8, %out: f32):
    %1 = arith.extui %e : i8 to i32
    %2 = arith.shli %1, %c23 : i32
    %3 = arith.bitcast %2 : i32 to f32
    %4 = arith.maximumf %3, %least : f32
    %5 = arith.cmpi eq, %1, %c254 : i32
    %6 = arith.select %5, %nan, %4 : f32
    %7 = arith.extf %a : f8E4M3FN to f32
    %8 = arith.mulf %7, %6 : f32
    linalg.yield %8 : f32
  } -> tensor<8x32xf32>
  return %0 : tensor<8x32xf32>
}

// -----

// Functions still in IREE's wrapping.
// expected-error @+1 {{TW1229 util.func: functions in IREE's wrapping have to be unwrapped first}}
util.func public @wrapped(%x: tensor<4xf32>) -> tensor<4xf32> {
  util.return %x : tensor<4xf32>
}
