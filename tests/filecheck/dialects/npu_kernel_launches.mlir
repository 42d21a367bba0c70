// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s | tilewright opt | filecheck %s

// The last form of a model before code: kernels of the target on tensors as it stores them.

// CHECK: %x = npu_kernel.pack %given {tw.tensor = "x"} : tensor<50x64xf32> -> tensor<1x50x64xbf16>
// CHECK: npu_kernel.launch "quantise"(x = %x) {factor = 2.000000e+00 : f64, tw.largest = 7.500000e+00 : f64} : tensor<1x50x64xbf16> -> tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.5>>
// CHECK: npu_kernel.bitcast %{{.*}} -> tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.25>>
// CHECK: npu_kernel.launch "linear"(a = %c, w = %w) {out = "bf16", activation, depth = [1 : i64, 2 : i64], heads = false}
// CHECK-SAME: #npu_kernel.stored<"panels", arrangement = {kind = "filters", height = 3 : i64}>
// CHECK: npu_kernel.unpack %y : tensor<1x50x32xbf16> -> tensor<50x32xf32>
func.func @device_0(%given: tensor<50x64xf32>) -> tensor<50x32xf32> {
  %x = npu_kernel.pack %given {tw.tensor = "x"} : tensor<50x64xf32> -> tensor<1x50x64xbf16>
  %w = arith.constant dense_resource<w> : tensor<64x32xf8E4M3FN, #npu_kernel.stored<"panels", arrangement = {kind = "filters", height = 3}>>
  %q = npu_kernel.launch "quantise"(x = %x) {factor = 2.0 : f64, tw.largest = 7.5 : f64} : tensor<1x50x64xbf16> -> tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.5>>
  %c = npu_kernel.bitcast %q : tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.5>> -> tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.25>>
  %y = npu_kernel.launch "linear"(a = %c, w = %w) {out = "bf16", activation, depth = [1, 2], heads = false} : tensor<1x50x64xf8E4M3FN, #npu_kernel.stored<"tiles", scale = 0.25>>, tensor<64x32xf8E4M3FN, #npu_kernel.stored<"panels", arrangement = {kind = "filters", height = 3}>> -> tensor<1x50x32xbf16>
  %r = npu_kernel.unpack %y : tensor<1x50x32xbf16> -> tensor<50x32xf32>
  func.return %r : tensor<50x32xf32>
}

// Some kernels leave more than one result.

// CHECK: %p, %i = npu_kernel.launch "conv2d"(x = %x) also(out_image) {tw.tensors = ["image"]} : tensor<4x32xf8E4M3FN> -> tensor<1x32xf8E4M3FN>, tensor<4x32xf8E4M3FN>
// CHECK: npu_kernel.launch "join"(x0 = %p, x1 = %i)
func.func @device_1(%x: tensor<4x32xf8E4M3FN>) -> tensor<4x32xf8E4M3FN> {
  %p, %i = npu_kernel.launch "conv2d"(x = %x) also(out_image) {tw.tensors = ["image"]} : tensor<4x32xf8E4M3FN> -> tensor<1x32xf8E4M3FN>, tensor<4x32xf8E4M3FN>
  %y = npu_kernel.launch "join"(x0 = %p, x1 = %i) : tensor<1x32xf8E4M3FN>, tensor<4x32xf8E4M3FN> -> tensor<4x32xf8E4M3FN>
  func.return %y : tensor<4x32xf8E4M3FN>
}
