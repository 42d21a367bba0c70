// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s
// RUN: tilewright opt %s -p "convert-linalg-to-npu-kernel{convolution=direct}" | filecheck %s --check-prefix=DIRECT

// Patches that do not overlap are rows after a reshape and a transpose; the bias is the start of the matmul.
// CHECK-LABEL: func.func @patches(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"(%b) {operand_maps = [affine_map<(d0, d1) -> (d1)>]} : tensor<16xf32> -> tensor<4x16xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%x) : tensor<1x3x8x8xf32> -> tensor<1x3x2x4x2x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_transpose"([[V1]]) {permutation = array<i64: 0, 2, 4, 1, 3, 5>} : tensor<1x3x2x4x2x4xf32> -> tensor<1x2x2x3x4x4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V2]]) : tensor<1x2x2x3x4x4xf32> -> tensor<4x48xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%w) : tensor<16x3x4x4xf32> -> tensor<16x48xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V3]], [[V4]] acc([[V0]] : tensor<4x16xf32>) {strategy = "im2col"} : tensor<4x48xf32>, tensor<16x48xf32> -> tensor<4x16xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V5]]) : tensor<4x16xf32> -> tensor<1x2x2x16xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_transpose"([[V6]]) {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x2x2x16xf32> -> tensor<1x16x2x2xf32>
// CHECK-NEXT: func.return [[V7]] : tensor<1x16x2x2xf32>
// DIRECT-LABEL: func.func @patches(
// DIRECT-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, %w, %b) {strides = array<i64: 4, 4>, dilations = array<i64: 1, 1>, layout = "nchw_fchw", strategy = "direct", groups = 1 : i64} : tensor<1x3x8x8xf32>, tensor<16x3x4x4xf32>, tensor<16xf32> -> tensor<1x16x2x2xf32>
// DIRECT-NEXT: func.return [[V0]] : tensor<1x16x2x2xf32>
func.func @patches(%x: tensor<1x3x8x8xf32>, %w: tensor<16x3x4x4xf32>, %b: tensor<16xf32>) -> tensor<1x16x2x2xf32> {
  %e = tensor.empty() : tensor<1x16x2x2xf32>
  %init = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e : tensor<1x16x2x2xf32>) dimensions = [0, 2, 3]
  %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<4> : vector<2xi64>} ins(%x, %w : tensor<1x3x8x8xf32>, tensor<16x3x4x4xf32>) outs(%init : tensor<1x16x2x2xf32>) -> tensor<1x16x2x2xf32>
  return %0 : tensor<1x16x2x2xf32>
}

// Overlapping windows are gathered tap by tap; a border of zeros folds into a direct convolution.
// CHECK-LABEL: func.func @overlapping(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pad"(%x) {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = 0.000000e+00 : bf16} : tensor<1x6x6x3xbf16> -> tensor<1x8x8x3xbf16>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"([[V0]]) {offsets = array<i64: 0, 0, 0, 0>, sizes = array<i64: 1, 7, 7, 3>} : tensor<1x8x8x3xbf16> -> tensor<1x7x7x3xbf16>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V1]]) : tensor<1x7x7x3xbf16> -> tensor<1x7x7x1x3xbf16>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"([[V0]]) {offsets = array<i64: 0, 0, 1, 0>, sizes = array<i64: 1, 7, 7, 3>} : tensor<1x8x8x3xbf16> -> tensor<1x7x7x3xbf16>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V3]]) : tensor<1x7x7x3xbf16> -> tensor<1x7x7x1x3xbf16>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"([[V0]]) {offsets = array<i64: 0, 1, 0, 0>, sizes = array<i64: 1, 7, 7, 3>} : tensor<1x8x8x3xbf16> -> tensor<1x7x7x3xbf16>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V5]]) : tensor<1x7x7x3xbf16> -> tensor<1x7x7x1x3xbf16>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"([[V0]]) {offsets = array<i64: 0, 1, 1, 0>, sizes = array<i64: 1, 7, 7, 3>} : tensor<1x8x8x3xbf16> -> tensor<1x7x7x3xbf16>
// CHECK-NEXT: [[V8:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V7]]) : tensor<1x7x7x3xbf16> -> tensor<1x7x7x1x3xbf16>
// CHECK-NEXT: [[V9:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"([[V2]], [[V4]], [[V6]], [[V8]]) {axis = 3 : i64} : tensor<1x7x7x1x3xbf16>, tensor<1x7x7x1x3xbf16>, tensor<1x7x7x1x3xbf16>, tensor<1x7x7x1x3xbf16> -> tensor<1x7x7x4x3xbf16>
// CHECK-NEXT: [[V10:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V9]]) : tensor<1x7x7x4x3xbf16> -> tensor<49x12xbf16>
// CHECK-NEXT: [[V11:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%w) : tensor<2x2x3x8xbf16> -> tensor<12x8xbf16>
// CHECK-NEXT: [[V12:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V10]], [[V11]] {strategy = "im2col"} : tensor<49x12xbf16>, tensor<12x8xbf16> -> tensor<49x8xf32>
// CHECK-NEXT: [[V13:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V12]]) : tensor<49x8xf32> -> tensor<1x7x7x8xf32>
// CHECK-NEXT: func.return [[V13]] : tensor<1x7x7x8xf32>
// DIRECT-LABEL: func.func @overlapping(
// DIRECT-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, layout = "nhwc_hwcf", strategy = "direct", groups = 1 : i64, padding = array<i64: 1, 1, 1, 1>} : tensor<1x6x6x3xbf16>, tensor<2x2x3x8xbf16> -> tensor<1x7x7x8xf32>
// DIRECT-NEXT: func.return [[V0]] : tensor<1x7x7x8xf32>
func.func @overlapping(%x: tensor<1x6x6x3xbf16>, %w: tensor<2x2x3x8xbf16>) -> tensor<1x7x7x8xf32> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0.0 : bf16
  %p = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %none : bf16
  } : tensor<1x6x6x3xbf16> to tensor<1x8x8x3xbf16>
  %e = tensor.empty() : tensor<1x7x7x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x7x7x8xf32>) -> tensor<1x7x7x8xf32>
  %0 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%p, %w : tensor<1x8x8x3xbf16>, tensor<2x2x3x8xbf16>) outs(%f : tensor<1x7x7x8xf32>) -> tensor<1x7x7x8xf32>
  return %0 : tensor<1x7x7x8xf32>
}

// Depthwise convolutions are direct, one group per channel.
// CHECK-LABEL: func.func @depthwise(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%w) : tensor<3x3x3xf32> -> tensor<3x3x1x3xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, [[V0]]) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, layout = "nhwc_hwcf", strategy = "direct", groups = 3 : i64} : tensor<1x6x6x3xf32>, tensor<3x3x1x3xf32> -> tensor<1x4x4x3xf32>
// CHECK-NEXT: func.return [[V1]] : tensor<1x4x4x3xf32>
// DIRECT-LABEL: func.func @depthwise(
// DIRECT-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%w) : tensor<3x3x3xf32> -> tensor<3x3x1x3xf32>
// DIRECT-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_conv2d"(%x, [[V0]]) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, layout = "nhwc_hwcf", strategy = "direct", groups = 3 : i64} : tensor<1x6x6x3xf32>, tensor<3x3x1x3xf32> -> tensor<1x4x4x3xf32>
// DIRECT-NEXT: func.return [[V1]] : tensor<1x4x4x3xf32>
func.func @depthwise(%x: tensor<1x6x6x3xf32>, %w: tensor<3x3x3xf32>) -> tensor<1x4x4x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x4x4x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  %0 = linalg.depthwise_conv_2d_nhwc_hwc {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%x, %w : tensor<1x6x6x3xf32>, tensor<3x3x3xf32>) outs(%f : tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
  return %0 : tensor<1x4x4x3xf32>
}

// A window sum divided by its size is an average.
// CHECK-LABEL: func.func @pooling(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pool_max"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, layout = "nchw"} : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pool_avg"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, layout = "nchw"} : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
// CHECK-NEXT: func.return [[V0]], [[V1]] : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
// DIRECT-LABEL: func.func @pooling(
// DIRECT-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pool_max"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, layout = "nchw"} : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
// DIRECT-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pool_avg"(%x) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, layout = "nchw"} : tensor<1x3x8x8xf32> -> tensor<1x3x4x4xf32>
// DIRECT-NEXT: func.return [[V0]], [[V1]] : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
func.func @pooling(%x: tensor<1x3x8x8xf32>) -> (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %four = arith.constant 4.0 : f32
  %window = tensor.empty() : tensor<2x2xf32>
  %e = tensor.empty() : tensor<1x3x4x4xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %0 = linalg.pooling_nchw_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x3x8x8xf32>, tensor<2x2xf32>) outs(%f : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %g = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %1 = linalg.pooling_nchw_sum {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %window : tensor<1x3x8x8xf32>, tensor<2x2xf32>) outs(%g : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  %s = tensor.splat %four : tensor<1x3x4x4xf32>
  %2 = linalg.div ins(%1, %s : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) outs(%e : tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  return %0, %2 : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
}
