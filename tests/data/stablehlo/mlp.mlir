module @jit_mlp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<24xf32> loc("weights['fc1']['bias']"), %arg1: tensor<24x16xf32> loc("weights['fc1']['weight']"), %arg2: tensor<8xf32> loc("weights['fc2']['bias']"), %arg3: tensor<8x24xf32> loc("weights['fc2']['weight']"), %arg4: tensor<5x16xf32> loc("x")) -> (tensor<5x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<24x16xf32>) -> tensor<16x24xf32>
    %1 = stablehlo.dot_general %arg4, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x16xf32>, tensor<16x24xf32>) -> tensor<5x24xf32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<24xf32>) -> tensor<1x24xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1] : (tensor<1x24xf32>) -> tensor<5x24xf32>
    %4 = stablehlo.add %1, %3 : tensor<5x24xf32>
    %5 = stablehlo.multiply %4, %4 : tensor<5x24xf32>
    %6 = stablehlo.multiply %5, %4 : tensor<5x24xf32>
    %cst = stablehlo.constant dense<4.471500e-02> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5x24xf32>
    %8 = stablehlo.multiply %7, %6 : tensor<5x24xf32>
    %9 = stablehlo.add %4, %8 : tensor<5x24xf32>
    %cst_0 = stablehlo.constant dense<0.797884583> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<5x24xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<5x24xf32>
    %12 = stablehlo.tanh %11 : tensor<5x24xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<5x24xf32>
    %14 = stablehlo.add %13, %12 : tensor<5x24xf32>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %15 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<5x24xf32>
    %16 = stablehlo.multiply %15, %14 : tensor<5x24xf32>
    %17 = stablehlo.multiply %4, %16 : tensor<5x24xf32>
    %18 = stablehlo.transpose %arg3, dims = [1, 0] : (tensor<8x24xf32>) -> tensor<24x8xf32>
    %19 = stablehlo.dot_general %17, %18, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<5x24xf32>, tensor<24x8xf32>) -> tensor<5x8xf32>
    %20 = stablehlo.broadcast_in_dim %arg2, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1] : (tensor<1x8xf32>) -> tensor<5x8xf32>
    %22 = stablehlo.add %19, %21 : tensor<5x8xf32>
    return %22 : tensor<5x8xf32>
  }
}
