// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s

#q = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#k = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#v = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#vt = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
#s = affine_map<(d0, d1, d2, d3, d4) -> ()>
#m = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#m2 = affine_map<(d0, d1, d2, d3, d4) -> (d1, d4)>
#o = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
#tail = affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>
#id4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// Scale and types are kept.
// CHECK-LABEL: func.func @plain(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %v) {scale = 1.250000e-01 : f32} : tensor<4x8x16xbf16>, tensor<4x32x16xbf16>, tensor<4x32x16xbf16> -> tensor<4x8x16xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8x16xbf16>
func.func @plain(%q: tensor<4x8x16xbf16>, %k: tensor<4x32x16xbf16>, %v: tensor<4x32x16xbf16>) -> tensor<4x8x16xbf16> {
  %scale = arith.constant 1.250000e-01 : f32
  %e = tensor.empty() : tensor<4x8x16xbf16>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k, %v, %scale : tensor<4x8x16xbf16>, tensor<4x32x16xbf16>, tensor<4x32x16xbf16>, f32) outs(%e : tensor<4x8x16xbf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x16xbf16>
  return %0 : tensor<4x8x16xbf16>
}

// V stored transposed, and a mask of bits.
// CHECK-LABEL: func.func @turned(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %vt, %mask) {scale = 0.100097656 : f32, transpose_v, mask_kind = "bool"} : tensor<4x8x16xbf16>, tensor<4x32x16xbf16>, tensor<4x16x32xbf16>, tensor<4x8x32xi1> -> tensor<4x8x16xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8x16xbf16>
func.func @turned(%q: tensor<4x8x16xbf16>, %k: tensor<4x32x16xbf16>, %vt: tensor<4x16x32xbf16>, %mask: tensor<4x8x32xi1>) -> tensor<4x8x16xbf16> {
  %scale = arith.constant 1.000000e-01 : bf16
  %e = tensor.empty() : tensor<4x8x16xbf16>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #m, #o]> ins(%q, %k, %vt, %scale, %mask : tensor<4x8x16xbf16>, tensor<4x32x16xbf16>, tensor<4x16x32xbf16>, bf16, tensor<4x8x32xi1>) outs(%e : tensor<4x8x16xbf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x16xbf16>
  return %0 : tensor<4x8x16xbf16>
}

// An additive mask that is the same for all heads.
// CHECK-LABEL: func.func @additive(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v, %mask) {scale = 1.250000e-01 : f32, mask_kind = "additive"} : tensor<4x8x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, tensor<8x32xf32> -> tensor<4x8x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8x16xf32>
func.func @additive(%q: tensor<4x8x16xf32>, %k: tensor<4x32x16xf32>, %v: tensor<4x32x16xf32>, %mask: tensor<8x32xf32>) -> tensor<4x8x16xf32> {
  %scale = arith.constant 1.250000e-01 : f32
  %e = tensor.empty() : tensor<4x8x16xf32>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m2, #o]> ins(%q, %k, %v, %scale, %mask : tensor<4x8x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, f32, tensor<8x32xf32>) outs(%e : tensor<4x8x16xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// A mask that hides later keys is a mark, where there are as many keys as queries.
// CHECK-LABEL: func.func @causal_mask(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v) {scale = 2.500000e-01 : f32, causal} : tensor<4x32x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32> -> tensor<4x32x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x32x16xf32>
func.func @causal_mask(%q: tensor<4x32x16xf32>, %k: tensor<4x32x16xf32>, %v: tensor<4x32x16xf32>) -> tensor<4x32x16xf32> {
  %scale = arith.constant 2.500000e-01 : f32
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<32x32xf32>
  %mask = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<32x32xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    %s = arith.select %c, %zero, %low : f32
    linalg.yield %s : f32
  } -> tensor<32x32xf32>
  %o = tensor.empty() : tensor<4x32x16xf32>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m2, #o]> ins(%q, %k, %v, %scale, %mask : tensor<4x32x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, f32, tensor<32x32xf32>) outs(%o : tensor<4x32x16xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x32x16xf32>
  return %0 : tensor<4x32x16xf32>
}

// With more keys than queries the mask stays a mask.
// CHECK-LABEL: func.func @longer_keys(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<8xi64>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<32xi64>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_compare"([[V0]], [[V1]]) {predicate = "ge", operand_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>]} : tensor<8xi64>, tensor<32xi64> -> tensor<8x32xi1>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v, [[V2]]) {scale = 2.500000e-01 : f32, mask_kind = "bool"} : tensor<4x8x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, tensor<8x32xi1> -> tensor<4x8x16xf32>
// CHECK-NEXT: func.return [[V3]] : tensor<4x8x16xf32>
func.func @longer_keys(%q: tensor<4x8x16xf32>, %k: tensor<4x32x16xf32>, %v: tensor<4x32x16xf32>) -> tensor<4x8x16xf32> {
  %scale = arith.constant 2.500000e-01 : f32
  %e = tensor.empty() : tensor<8x32xi1>
  %mask = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<8x32xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    linalg.yield %c : i1
  } -> tensor<8x32xi1>
  %o = tensor.empty() : tensor<4x8x16xf32>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #m2, #o]> ins(%q, %k, %v, %scale, %mask : tensor<4x8x16xf32>, tensor<4x32x16xf32>, tensor<4x32x16xf32>, f32, tensor<8x32xi1>) outs(%o : tensor<4x8x16xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<4x8x16xf32>
  return %0 : tensor<4x8x16xf32>
}

// Keys and values repeated for grouped heads are read unrepeated.
// CHECK-LABEL: func.func @grouped(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_gemma_attention_f32_f32"(%q, %k, %v) {scale = 1.250000e-01 : f32, kv_group = 3 : i64} : tensor<6x8x16xf32>, tensor<2x32x16xf32>, tensor<2x32x16xf32> -> tensor<6x8x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<6x8x16xf32>
func.func @grouped(%q: tensor<6x8x16xf32>, %k: tensor<2x32x16xf32>, %v: tensor<2x32x16xf32>) -> tensor<6x8x16xf32> {
  %scale = arith.constant 1.250000e-01 : f32
  %w = tensor.empty() : tensor<2x3x32x16xf32>
  %k4 = linalg.generic {indexing_maps = [#tail, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%k : tensor<2x32x16xf32>) outs(%w : tensor<2x3x32x16xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x32x16xf32>
  %v4 = linalg.generic {indexing_maps = [#tail, #id4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%v : tensor<2x32x16xf32>) outs(%w : tensor<2x3x32x16xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<2x3x32x16xf32>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x3x32x16xf32> into tensor<6x32x16xf32>
  %v3 = tensor.collapse_shape %v4 [[0, 1], [2], [3]] : tensor<2x3x32x16xf32> into tensor<6x32x16xf32>
  %e = tensor.empty() : tensor<6x8x16xf32>
  %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #v, #s, #o]> ins(%q, %k3, %v3, %scale : tensor<6x8x16xf32>, tensor<6x32x16xf32>, tensor<6x32x16xf32>, f32) outs(%e : tensor<6x8x16xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<6x8x16xf32>
  return %0 : tensor<6x8x16xf32>
}
