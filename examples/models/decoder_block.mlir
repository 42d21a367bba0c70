module @jit_llama attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<32x40xf32> loc("weights['down']['weight']"), %arg1: tensor<40x32xf32> loc("weights['gate']['weight']"), %arg2: tensor<16x32xf32> loc("weights['k']['weight']"), %arg3: tensor<32xf32> loc("weights['norm1']['weight']"), %arg4: tensor<32xf32> loc("weights['norm2']['weight']"), %arg5: tensor<32x32xf32> loc("weights['o']['weight']"), %arg6: tensor<32x32xf32> loc("weights['q']['weight']"), %arg7: tensor<40x32xf32> loc("weights['up']['weight']"), %arg8: tensor<16x32xf32> loc("weights['v']['weight']"), %arg9: tensor<1x7x32xf32> loc("x")) -> (tensor<1x7x32xf32> {jax.result_info = "result"}) {
    %0 = chlo.square %arg9 : tensor<1x7x32xf32> -> tensor<1x7x32xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x7x32xf32>, tensor<f32>) -> tensor<1x7xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x7xf32>) -> tensor<1x7x1xf32>
    %cst_0 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x7x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<1x7x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x7x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x7x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<1x7x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x7x1xf32>) -> tensor<1x7x32xf32>
    %9 = stablehlo.multiply %arg9, %8 : tensor<1x7x32xf32>
    %10 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<1x7x32xf32>
    %12 = stablehlo.multiply %9, %11 : tensor<1x7x32xf32>
    %13 = stablehlo.transpose %arg6, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %14 = stablehlo.dot_general %12, %13, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x32xf32>) -> tensor<1x7x32xf32>
    %15 = stablehlo.reshape %14 : (tensor<1x7x32xf32>) -> tensor<1x7x4x8xf32>
    %16 = stablehlo.iota dim = 0 : tensor<7xi32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [0] : (tensor<7xi32>) -> tensor<7x1xi32>
    %18 = stablehlo.iota dim = 0 : tensor<4xi32>
    %19 = stablehlo.negate %18 : tensor<4xi32>
    %20 = stablehlo.convert %19 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_2 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %22 = stablehlo.divide %20, %21 : tensor<4xf32>
    %cst_3 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %23 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %24 = stablehlo.power %23, %22 : tensor<4xf32>
    %25 = stablehlo.convert %17 : (tensor<7x1xi32>) -> tensor<7x1xf32>
    %26 = stablehlo.broadcast_in_dim %24, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %27 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<7x1xf32>) -> tensor<7x4xf32>
    %28 = stablehlo.broadcast_in_dim %26, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<7x4xf32>
    %29 = stablehlo.multiply %27, %28 : tensor<7x4xf32>
    %30 = stablehlo.cosine %29 : tensor<7x4xf32>
    %31 = stablehlo.broadcast_in_dim %30, dims = [1, 3] : (tensor<7x4xf32>) -> tensor<1x7x1x4xf32>
    %32 = stablehlo.sine %29 : tensor<7x4xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [1, 3] : (tensor<7x4xf32>) -> tensor<1x7x1x4xf32>
    %34 = stablehlo.slice %15 [0:1, 0:7, 0:4, 0:4] : (tensor<1x7x4x8xf32>) -> tensor<1x7x4x4xf32>
    %35 = stablehlo.slice %15 [0:1, 0:7, 0:4, 4:8] : (tensor<1x7x4x8xf32>) -> tensor<1x7x4x4xf32>
    %36 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x4x4xf32>
    %37 = stablehlo.multiply %34, %36 : tensor<1x7x4x4xf32>
    %38 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x4x4xf32>
    %39 = stablehlo.multiply %35, %38 : tensor<1x7x4x4xf32>
    %40 = stablehlo.subtract %37, %39 : tensor<1x7x4x4xf32>
    %41 = stablehlo.broadcast_in_dim %31, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x4x4xf32>
    %42 = stablehlo.multiply %35, %41 : tensor<1x7x4x4xf32>
    %43 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x4x4xf32>
    %44 = stablehlo.multiply %34, %43 : tensor<1x7x4x4xf32>
    %45 = stablehlo.add %42, %44 : tensor<1x7x4x4xf32>
    %46 = stablehlo.concatenate %40, %45, dim = 3 : (tensor<1x7x4x4xf32>, tensor<1x7x4x4xf32>) -> tensor<1x7x4x8xf32>
    %47 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %48 = stablehlo.dot_general %12, %47, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x16xf32>) -> tensor<1x7x16xf32>
    %49 = stablehlo.reshape %48 : (tensor<1x7x16xf32>) -> tensor<1x7x2x8xf32>
    %50 = stablehlo.iota dim = 0 : tensor<7xi32>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0] : (tensor<7xi32>) -> tensor<7x1xi32>
    %52 = stablehlo.iota dim = 0 : tensor<4xi32>
    %53 = stablehlo.negate %52 : tensor<4xi32>
    %54 = stablehlo.convert %53 : (tensor<4xi32>) -> tensor<4xf32>
    %cst_4 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %56 = stablehlo.divide %54, %55 : tensor<4xf32>
    %cst_5 = stablehlo.constant dense<1.000000e+04> : tensor<f32>
    %57 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %58 = stablehlo.power %57, %56 : tensor<4xf32>
    %59 = stablehlo.convert %51 : (tensor<7x1xi32>) -> tensor<7x1xf32>
    %60 = stablehlo.broadcast_in_dim %58, dims = [1] : (tensor<4xf32>) -> tensor<1x4xf32>
    %61 = stablehlo.broadcast_in_dim %59, dims = [0, 1] : (tensor<7x1xf32>) -> tensor<7x4xf32>
    %62 = stablehlo.broadcast_in_dim %60, dims = [0, 1] : (tensor<1x4xf32>) -> tensor<7x4xf32>
    %63 = stablehlo.multiply %61, %62 : tensor<7x4xf32>
    %64 = stablehlo.cosine %63 : tensor<7x4xf32>
    %65 = stablehlo.broadcast_in_dim %64, dims = [1, 3] : (tensor<7x4xf32>) -> tensor<1x7x1x4xf32>
    %66 = stablehlo.sine %63 : tensor<7x4xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [1, 3] : (tensor<7x4xf32>) -> tensor<1x7x1x4xf32>
    %68 = stablehlo.slice %49 [0:1, 0:7, 0:2, 0:4] : (tensor<1x7x2x8xf32>) -> tensor<1x7x2x4xf32>
    %69 = stablehlo.slice %49 [0:1, 0:7, 0:2, 4:8] : (tensor<1x7x2x8xf32>) -> tensor<1x7x2x4xf32>
    %70 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x2x4xf32>
    %71 = stablehlo.multiply %68, %70 : tensor<1x7x2x4xf32>
    %72 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x2x4xf32>
    %73 = stablehlo.multiply %69, %72 : tensor<1x7x2x4xf32>
    %74 = stablehlo.subtract %71, %73 : tensor<1x7x2x4xf32>
    %75 = stablehlo.broadcast_in_dim %65, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x2x4xf32>
    %76 = stablehlo.multiply %69, %75 : tensor<1x7x2x4xf32>
    %77 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<1x7x1x4xf32>) -> tensor<1x7x2x4xf32>
    %78 = stablehlo.multiply %68, %77 : tensor<1x7x2x4xf32>
    %79 = stablehlo.add %76, %78 : tensor<1x7x2x4xf32>
    %80 = stablehlo.concatenate %74, %79, dim = 3 : (tensor<1x7x2x4xf32>, tensor<1x7x2x4xf32>) -> tensor<1x7x2x8xf32>
    %81 = stablehlo.transpose %arg8, dims = [1, 0] : (tensor<16x32xf32>) -> tensor<32x16xf32>
    %82 = stablehlo.dot_general %12, %81, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x16xf32>) -> tensor<1x7x16xf32>
    %83 = stablehlo.reshape %82 : (tensor<1x7x16xf32>) -> tensor<1x7x2x8xf32>
    %84 = stablehlo.reshape %46 : (tensor<1x7x4x8xf32>) -> tensor<1x7x2x2x8xf32>
    %85 = stablehlo.dot_general %84, %80, batching_dims = [0, 2] x [0, 2], contracting_dims = [4] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x7x2x2x8xf32>, tensor<1x7x2x8xf32>) -> tensor<1x2x7x2x7xf32>
    %cst_6 = stablehlo.constant dense<0.353553385> : tensor<f32>
    %86 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x2x7x2x7xf32>
    %87 = stablehlo.multiply %85, %86 : tensor<1x2x7x2x7xf32>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %88 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i1>) -> tensor<1x2x7x7xi1>
    %c_7 = stablehlo.constant dense<true> : tensor<i1>
    %89 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i1>) -> tensor<7x7xi1>
    %90 = call @tril(%89) : (tensor<7x7xi1>) -> tensor<7x7xi1>
    %91 = stablehlo.broadcast_in_dim %90, dims = [2, 3] : (tensor<7x7xi1>) -> tensor<1x1x7x7xi1>
    %92 = stablehlo.broadcast_in_dim %91, dims = [0, 1, 2, 3] : (tensor<1x1x7x7xi1>) -> tensor<1x2x7x7xi1>
    %93 = stablehlo.and %88, %92 : tensor<1x2x7x7xi1>
    %cst_8 = stablehlo.constant dense<-2.38197633E+38> : tensor<f32>
    %94 = call @_where(%93, %87, %cst_8) : (tensor<1x2x7x7xi1>, tensor<1x2x7x2x7xf32>, tensor<f32>) -> tensor<2x1x2x7x7xf32>
    %cst_9 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %95 = stablehlo.reduce(%94 init: %cst_9) applies stablehlo.maximum across dimensions = [4] : (tensor<2x1x2x7x7xf32>, tensor<f32>) -> tensor<2x1x2x7xf32>
    %cst_10 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %96 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<2x1x2x7xf32>
    %97 = stablehlo.maximum %96, %95 : tensor<2x1x2x7xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2, 3] : (tensor<2x1x2x7xf32>) -> tensor<2x1x2x7x1xf32>
    %99 = stablehlo.broadcast_in_dim %98, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x7x1xf32>) -> tensor<2x1x2x7x7xf32>
    %100 = stablehlo.subtract %94, %99 : tensor<2x1x2x7x7xf32>
    %101 = stablehlo.exponential %100 : tensor<2x1x2x7x7xf32>
    %cst_11 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %102 = stablehlo.reduce(%101 init: %cst_11) applies stablehlo.add across dimensions = [4] : (tensor<2x1x2x7x7xf32>, tensor<f32>) -> tensor<2x1x2x7xf32>
    %103 = stablehlo.broadcast_in_dim %102, dims = [0, 1, 2, 3] : (tensor<2x1x2x7xf32>) -> tensor<2x1x2x7x1xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2, 3, 4] : (tensor<2x1x2x7x1xf32>) -> tensor<2x1x2x7x7xf32>
    %105 = stablehlo.divide %101, %104 : tensor<2x1x2x7x7xf32>
    %106 = stablehlo.dot_general %83, %105, batching_dims = [0, 2] x [1, 2], contracting_dims = [1] x [4], precision = [DEFAULT, DEFAULT] : (tensor<1x7x2x8xf32>, tensor<2x1x2x7x7xf32>) -> tensor<1x2x8x2x7xf32>
    %107 = stablehlo.transpose %106, dims = [3, 0, 4, 1, 2] : (tensor<1x2x8x2x7xf32>) -> tensor<2x1x7x2x8xf32>
    %108 = stablehlo.transpose %107, dims = [1, 2, 3, 0, 4] : (tensor<2x1x7x2x8xf32>) -> tensor<1x7x2x2x8xf32>
    %109 = stablehlo.reshape %108 : (tensor<1x7x2x2x8xf32>) -> tensor<1x7x4x8xf32>
    %110 = stablehlo.reshape %109 : (tensor<1x7x4x8xf32>) -> tensor<1x7x32xf32>
    %111 = stablehlo.transpose %arg5, dims = [1, 0] : (tensor<32x32xf32>) -> tensor<32x32xf32>
    %112 = stablehlo.dot_general %110, %111, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x32xf32>) -> tensor<1x7x32xf32>
    %113 = stablehlo.add %arg9, %112 : tensor<1x7x32xf32>
    %114 = chlo.square %113 : tensor<1x7x32xf32> -> tensor<1x7x32xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %115 = stablehlo.reduce(%114 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<1x7x32xf32>, tensor<f32>) -> tensor<1x7xf32>
    %116 = stablehlo.broadcast_in_dim %115, dims = [0, 1] : (tensor<1x7xf32>) -> tensor<1x7x1xf32>
    %cst_13 = stablehlo.constant dense<3.200000e+01> : tensor<f32>
    %117 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x7x1xf32>
    %118 = stablehlo.divide %116, %117 : tensor<1x7x1xf32>
    %cst_14 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %119 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x7x1xf32>
    %120 = stablehlo.add %118, %119 : tensor<1x7x1xf32>
    %121 = stablehlo.rsqrt %120 : tensor<1x7x1xf32>
    %122 = stablehlo.broadcast_in_dim %121, dims = [0, 1, 2] : (tensor<1x7x1xf32>) -> tensor<1x7x32xf32>
    %123 = stablehlo.multiply %113, %122 : tensor<1x7x32xf32>
    %124 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<32xf32>) -> tensor<1x1x32xf32>
    %125 = stablehlo.broadcast_in_dim %124, dims = [0, 1, 2] : (tensor<1x1x32xf32>) -> tensor<1x7x32xf32>
    %126 = stablehlo.multiply %123, %125 : tensor<1x7x32xf32>
    %127 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<40x32xf32>) -> tensor<32x40xf32>
    %128 = stablehlo.dot_general %126, %127, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x40xf32>) -> tensor<1x7x40xf32>
    %129 = call @silu(%128) : (tensor<1x7x40xf32>) -> tensor<1x7x40xf32>
    %130 = stablehlo.transpose %arg7, dims = [1, 0] : (tensor<40x32xf32>) -> tensor<32x40xf32>
    %131 = stablehlo.dot_general %126, %130, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x32xf32>, tensor<32x40xf32>) -> tensor<1x7x40xf32>
    %132 = stablehlo.multiply %129, %131 : tensor<1x7x40xf32>
    %133 = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<32x40xf32>) -> tensor<40x32xf32>
    %134 = stablehlo.dot_general %132, %133, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x7x40xf32>, tensor<40x32xf32>) -> tensor<1x7x32xf32>
    %135 = stablehlo.add %113, %134 : tensor<1x7x32xf32>
    return %135 : tensor<1x7x32xf32>
  }
  func.func private @tril(%arg0: tensor<7x7xi1>) -> tensor<7x7xi1> {
    %0 = stablehlo.iota dim = 0 : tensor<7x7xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<7x7xi32>
    %2 = stablehlo.add %0, %1 : tensor<7x7xi32>
    %3 = stablehlo.iota dim = 1 : tensor<7x7xi32>
    %4 = stablehlo.compare GE, %2, %3, SIGNED : (tensor<7x7xi32>, tensor<7x7xi32>) -> tensor<7x7xi1>
    %c_0 = stablehlo.constant dense<false> : tensor<i1>
    %5 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i1>) -> tensor<7x7xi1>
    %6 = stablehlo.select %4, %arg0, %5 : tensor<7x7xi1>, tensor<7x7xi1>
    return %6 : tensor<7x7xi1>
  }
  func.func private @_where(%arg0: tensor<1x2x7x7xi1>, %arg1: tensor<1x2x7x2x7xf32>, %arg2: tensor<f32>) -> tensor<2x1x2x7x7xf32> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<1x2x7x7xf32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [1, 2, 3, 4] : (tensor<1x2x7x7xi1>) -> tensor<2x1x2x7x7xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [1, 2, 3, 4] : (tensor<1x2x7x7xf32>) -> tensor<2x1x2x7x7xf32>
    %3 = stablehlo.transpose %arg1, dims = [3, 0, 1, 2, 4] : (tensor<1x2x7x2x7xf32>) -> tensor<2x1x2x7x7xf32>
    %4 = stablehlo.select %1, %3, %2 : tensor<2x1x2x7x7xi1>, tensor<2x1x2x7x7xf32>
    return %4 : tensor<2x1x2x7x7xf32>
  }
  func.func private @silu(%arg0: tensor<1x7x40xf32>) -> tensor<1x7x40xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x7x40xf32>
    %1 = stablehlo.exponential %0 : tensor<1x7x40xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x7x40xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x7x40xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x7x40xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x7x40xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x7x40xf32>
    return %6 : tensor<1x7x40xf32>
  }
}
