module @jit_cnn attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<6xf32> loc("weights['bn']['bias']"), %arg1: tensor<6xf32> loc("weights['bn']['running_mean']"), %arg2: tensor<6xf32> loc("weights['bn']['running_var']"), %arg3: tensor<6xf32> loc("weights['bn']['weight']"), %arg4: tensor<6xf32> loc("weights['conv1']['bias']"), %arg5: tensor<6x3x3x3xf32> loc("weights['conv1']['weight']"), %arg6: tensor<8xf32> loc("weights['conv2']['bias']"), %arg7: tensor<8x6x3x3xf32> loc("weights['conv2']['weight']"), %arg8: tensor<5xf32> loc("weights['fc']['bias']"), %arg9: tensor<5x8xf32> loc("weights['fc']['weight']"), %arg10: tensor<2x3x10x10xf32> loc("x")) -> (tensor<2x5xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.convolution(%arg10, %arg5) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x3x10x10xf32>, tensor<6x3x3x3xf32>) -> tensor<2x6x10x10xf32>
    %1 = stablehlo.broadcast_in_dim %arg4, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x10x10xf32>
    %4 = stablehlo.add %0, %3 : tensor<2x6x10x10xf32>
    %cst = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<6xf32>
    %6 = stablehlo.add %arg2, %5 : tensor<6xf32>
    %7 = stablehlo.rsqrt %6 : tensor<6xf32>
    %8 = stablehlo.multiply %arg3, %7 : tensor<6xf32>
    %9 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x10x10xf32>
    %12 = stablehlo.subtract %4, %11 : tensor<2x6x10x10xf32>
    %13 = stablehlo.broadcast_in_dim %8, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x10x10xf32>
    %16 = stablehlo.multiply %12, %15 : tensor<2x6x10x10xf32>
    %17 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<6xf32>) -> tensor<6x1x1xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [1, 2, 3] : (tensor<6x1x1xf32>) -> tensor<1x6x1x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<1x6x1x1xf32>) -> tensor<2x6x10x10xf32>
    %20 = stablehlo.add %16, %19 : tensor<2x6x10x10xf32>
    %21 = call @relu(%20) : (tensor<2x6x10x10xf32>) -> tensor<2x6x10x10xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<f32>
    %23 = "stablehlo.reduce_window"(%21, %22) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg11: tensor<f32>, %arg12: tensor<f32>):
      %38 = stablehlo.maximum %arg11, %arg12 : tensor<f32>
      stablehlo.return %38 : tensor<f32>
    }) : (tensor<2x6x10x10xf32>, tensor<f32>) -> tensor<2x6x5x5xf32>
    %24 = stablehlo.convolution(%23, %arg7) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<2x6x5x5xf32>, tensor<8x6x3x3xf32>) -> tensor<2x8x3x3xf32>
    %25 = stablehlo.broadcast_in_dim %arg6, dims = [0] : (tensor<8xf32>) -> tensor<8x1x1xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [1, 2, 3] : (tensor<8x1x1xf32>) -> tensor<1x8x1x1xf32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<2x8x3x3xf32>
    %28 = stablehlo.add %24, %27 : tensor<2x8x3x3xf32>
    %29 = call @relu_0(%28) : (tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %30 = stablehlo.reduce(%29 init: %cst_1) applies stablehlo.add across dimensions = [2, 3] : (tensor<2x8x3x3xf32>, tensor<f32>) -> tensor<2x8xf32>
    %cst_2 = stablehlo.constant dense<9.000000e+00> : tensor<f32>
    %31 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %32 = stablehlo.divide %30, %31 : tensor<2x8xf32>
    %33 = stablehlo.transpose %arg9, dims = [1, 0] : (tensor<5x8xf32>) -> tensor<8x5xf32>
    %34 = stablehlo.dot_general %32, %33, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x5xf32>) -> tensor<2x5xf32>
    %35 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<5xf32>) -> tensor<1x5xf32>
    %36 = stablehlo.broadcast_in_dim %35, dims = [0, 1] : (tensor<1x5xf32>) -> tensor<2x5xf32>
    %37 = stablehlo.add %34, %36 : tensor<2x5xf32>
    return %37 : tensor<2x5xf32>
  }
  func.func private @relu(%arg0: tensor<2x6x10x10xf32>) -> tensor<2x6x10x10xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x6x10x10xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x6x10x10xf32>
    return %1 : tensor<2x6x10x10xf32>
  }
  func.func private @relu_0(%arg0: tensor<2x8x3x3xf32>) -> tensor<2x8x3x3xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x8x3x3xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<2x8x3x3xf32>
    return %1 : tensor<2x8x3x3xf32>
  }
}
