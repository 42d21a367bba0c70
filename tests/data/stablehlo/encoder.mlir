module @jit_encoder attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<48xf32> loc("weights['fc1']['bias']"), %arg1: tensor<48x32xf32> loc("weights['fc1']['weight']"), %arg2: tensor<32xf32> loc("weights['fc2']['bias']"), %arg3: tensor<32x48xf32> loc("weights['fc2']['weight']"), %arg4: tensor<32xf32> loc("weights['k']['bias']"), %arg5: tensor<32x32xf32> loc("weights['k']['weight']"), %arg6: tensor<32xf32> loc("weights['norm1']['bias']"), %arg7: tensor<32xf32> loc("weights['norm1']['weight']"), %arg8: tensor<32xf32> loc("weights['norm2']['bias']"), %arg9: tensor<32xf32> loc("weights['norm2']['weight']"), %arg10: tensor<32xf32> loc("weights['o']['bias']"), %arg11: tensor<32x32xf32> loc("weights['o']['weight']"), %arg12: tensor<32xf32> loc("weights['q']['bias']"), %arg13: tensor<32x32xf32> loc("weights['q']['weight']"), %arg14: tensor<32xf32> loc("weights['v']['bias']"), %arg15: tensor<32x32xf32> loc("weights['v']['weight']"), %arg16: tensor<2x6x32xf32> loc("x")) -> (tensor<2x6x32xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg13, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %1 = stablehlo.dot_general %arg16, %0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %2 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %4 = stablehlo.add %1, %3 : tensor<2x6x32xf32>
    %5 = stablehlo.reshape %4 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    %6 = stablehlo.transpose %arg5, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %7 = stablehlo.dot_general %arg16, %6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %8 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %10 = stablehlo.add %7, %9 : tensor<2x6x32xf32>
    %11 = stablehlo.reshape %10 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    %12 = stablehlo.transpose %arg15, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %13 = stablehlo.dot_general %arg16, %12, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %14 = stablehlo.broadcast_in_dim %arg14, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %15 = stablehlo.broadcast_in_dim %14, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %16 = stablehlo.add %13, %15 : tensor<2x6x32xf32>
    %17 = stablehlo.reshape %16 : (tensor<2x6x32xf32>) -> tensor<2x6x4x8xf32>
    %18 = stablehlo.reshape %5 : (tensor<2x6x4x8xf32>) -> tensor<2x6x4x1x8xf32>
    %19 = stablehlo.dot_general %18, %11, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x1x8xf32>, tensor<2x6x4x8xf32>) -> tensor<2x4x6x1x6xf32>
    %cst = stablehlo.constant dense<0.353553385> : tensor<f32>
    %20 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x6x1x6xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<2x4x6x1x6xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_0) applies stablehlo.maximum across dimensions = [4] : (tensor<2x4x6x1x6xf32>, tensor<f32>) -> tensor<2x4x6x1xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x6x1xf32>
    %24 = stablehlo.maximum %23, %22 : tensor<2x4x6x1xf32>
    %25 = stablehlo.transpose %24, dims = [3, 0, 1, 2] : (tensor<2x4x6x1xf32>) -> tensor<1x2x4x6xf32>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1, 2, 3] : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6x1xf32>
    %27 = stablehlo.transpose %21, dims = [3, 0, 1, 2, 4] : (tensor<2x4x6x1x6xf32>) -> tensor<1x2x4x6x6xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x6x1xf32>) -> tensor<1x2x4x6x6xf32>
    %29 = stablehlo.subtract %27, %28 : tensor<1x2x4x6x6xf32>
    %30 = stablehlo.exponential %29 : tensor<1x2x4x6x6xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%30 init: %cst_2) applies stablehlo.add across dimensions = [4] : (tensor<1x2x4x6x6xf32>, tensor<f32>) -> tensor<1x2x4x6xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x2x4x6xf32>) -> tensor<1x2x4x6x1xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2, 3, 4] : (tensor<1x2x4x6x1xf32>) -> tensor<1x2x4x6x6xf32>
    %34 = stablehlo.divide %30, %33 : tensor<1x2x4x6x6xf32>
    %35 = stablehlo.dot_general %17, %34, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<2x6x4x8xf32>, tensor<1x2x4x6x6xf32>) -> tensor<2x4x8x1x6xf32>
    %36 = stablehlo.transpose %35, dims = [3, 0, 4, 1, 2] : (tensor<2x4x8x1x6xf32>) -> tensor<1x2x6x4x8xf32>
    %37 = stablehlo.transpose %36, dims = [1, 2, 3, 0, 4] : (tensor<1x2x6x4x8xf32>) -> tensor<2x6x4x1x8xf32>
    %38 = stablehlo.reshape %37 : (tensor<2x6x4x1x8xf32>) -> tensor<2x6x4x8xf32>
    %39 = stablehlo.reshape %38 : (tensor<2x6x4x8xf32>) -> tensor<2x6x32xf32>
    %40 = stablehlo.transpose %arg11, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %41 = stablehlo.dot_general %39, %40, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x32xf32>, tensor<32x32xf32>) -> tensor<2x6x32xf32>
    %42 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %44 = stablehlo.add %41, %43 : tensor<2x6x32xf32>
    %45 = stablehlo.add %arg16, %44 : tensor<2x6x32xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %46 = stablehlo.reduce(%45 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<2x6x32xf32>, tensor<f32>) -> tensor<2x6xf32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_4 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %48 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %49 = stablehlo.divide %47, %48 : tensor<2x6x1xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %50 = call @_var(%45, %c) : (tensor<2x6x32xf32>, tensor<i32>) -> tensor<2x6x1xf32>
    %51 = stablehlo.broadcast_in_dim %49, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x32xf32>
    %52 = stablehlo.subtract %45, %51 : tensor<2x6x32xf32>
    %cst_5 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %54 = stablehlo.add %50, %53 : tensor<2x6x1xf32>
    %55 = stablehlo.sqrt %54 : tensor<2x6x1xf32>
    %56 = stablehlo.broadcast_in_dim %55, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x32xf32>
    %57 = stablehlo.divide %52, %56 : tensor<2x6x32xf32>
    %58 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %60 = stablehlo.multiply %57, %59 : tensor<2x6x32xf32>
    %61 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %63 = stablehlo.add %60, %62 : tensor<2x6x32xf32>
    %64 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<48x32xf32>) -> tensor<32x48xf32>
    %65 = stablehlo.dot_general %63, %64, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x32xf32>, tensor<32x48xf32>) -> tensor<2x6x48xf32>
    %66 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<48xf32>) -> tensor<1x1x48xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x1x48xf32>) -> tensor<2x6x48xf32>
    %68 = stablehlo.add %65, %67 : tensor<2x6x48xf32>
    %cst_6 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %69 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<2x6x48xf32>
    %70 = stablehlo.multiply %69, %68 : tensor<2x6x48xf32>
    %71 = stablehlo.negate %68 : tensor<2x6x48xf32>
    %cst_7 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %72 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<2x6x48xf32>
    %73 = stablehlo.multiply %71, %72 : tensor<2x6x48xf32>
    %74 = chlo.erfc %73 : tensor<2x6x48xf32> -> tensor<2x6x48xf32>
    %75 = stablehlo.multiply %70, %74 : tensor<2x6x48xf32>
    %76 = stablehlo.transpose %arg3, dims = [1, 0] : (tensor<32x48xf32>) -> tensor<48x32xf32>
    %77 = stablehlo.dot_general %75, %76, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x6x48xf32>, tensor<48x32xf32>) -> tensor<2x6x32xf32>
    %78 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %80 = stablehlo.add %77, %79 : tensor<2x6x32xf32>
    %81 = stablehlo.add %63, %80 : tensor<2x6x32xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.reduce(%81 init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x6x32xf32>, tensor<f32>) -> tensor<2x6xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_9 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %85 = stablehlo.divide %83, %84 : tensor<2x6x1xf32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %86 = call @_var(%81, %c_10) : (tensor<2x6x32xf32>, tensor<i32>) -> tensor<2x6x1xf32>
    %87 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x32xf32>
    %88 = stablehlo.subtract %81, %87 : tensor<2x6x32xf32>
    %cst_11 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %89 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %90 = stablehlo.add %86, %89 : tensor<2x6x1xf32>
    %91 = stablehlo.sqrt %90 : tensor<2x6x1xf32>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x32xf32>
    %93 = stablehlo.divide %88, %92 : tensor<2x6x32xf32>
    %94 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %95 = stablehlo.broadcast_in_dim %94, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %96 = stablehlo.multiply %93, %95 : tensor<2x6x32xf32>
    %97 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<2x6x32xf32>
    %99 = stablehlo.add %96, %98 : tensor<2x6x32xf32>
    return %99 : tensor<2x6x32xf32>
  }
  func.func private @_var(%arg0: tensor<2x6x32xf32>, %arg1: tensor<i32>) -> tensor<2x6x1xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<2x6x32xf32>, tensor<f32>) -> tensor<2x6xf32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %3 = stablehlo.divide %1, %2 : tensor<2x6x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x6x1xf32>) -> tensor<2x6x32xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x6x32xf32>
    %6 = chlo.square %5 : tensor<2x6x32xf32> -> tensor<2x6x32xf32>
    %7 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %cst_1 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %8 = stablehlo.subtract %cst_1, %7 : tensor<f32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %9 = stablehlo.reduce(%6 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x6x32xf32>, tensor<f32>) -> tensor<2x6xf32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %12 = stablehlo.divide %10, %11 : tensor<2x6x1xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %13 = stablehlo.compare GT, %8, %cst_3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = call @_where(%13, %12, %cst_4) : (tensor<i1>, tensor<2x6x1xf32>, tensor<f32>) -> tensor<2x6x1xf32>
    return %14 : tensor<2x6x1xf32>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<2x6x1xf32>, %arg2: tensor<f32>) -> tensor<2x6x1xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x6x1xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x6x1xf32>
    return %2 : tensor<2x6x1xf32>
  }
}
