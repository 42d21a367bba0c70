#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>
#map5 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d4)>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>
#map8 = affine_map<(d0, d1, d2, d3) -> ()>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map10 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
module {
  func.func @main(%arg0: tensor<1x113x960xf32>, %arg1: tensor<1x113x1x32xf32>, %arg2: tensor<1x113x1x32xf32>, %arg3: tensor<1x113x113xi1>) -> tensor<1x113x960xf32> {
    %c2_i64 = arith.constant 2 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_3 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xf32>
    %cst_4 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xf32>
    %cst_5 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xf32>
    %cst_6 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xf32>
    %cst_7 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xf32>
    %cst_8 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xf32>
    %cst_9 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xf32>
    %cst_10 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xf32>
    %cst_11 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xf32>
    %cst_12 = arith.constant 1.000000e-05 : f64
    %cst_13 = arith.constant 9.600000e+02 : f32
    %cst_14 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<1x113x960xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %2 = tensor.empty() : tensor<1x113x1xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<1x113x1xf32>) -> tensor<1x113x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x113x960xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.addf %in, %out : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.divf %in, %cst_13 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.truncf %cst_12 : f64 to f32
      %82 = arith.addf %in, %81 : f32
      linalg.yield %82 : f32
    } -> tensor<1x113x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = math.rsqrt %in : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x113x960xf32>, tensor<1x113x1xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_11, %8 : tensor<960xf32>, tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %collapsed = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x113x960xf32> into tensor<113x960xf32>
    %10 = tensor.empty() : tensor<960x960xf32>
    %transposed = linalg.transpose ins(%cst_10 : tensor<960x960xf32>) outs(%10 : tensor<960x960xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<113x960xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %13 = linalg.matmul ins(%collapsed, %transposed : tensor<113x960xf32>, tensor<960x960xf32>) outs(%12 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %expanded = tensor.expand_shape %13 [[0, 1], [2, 3]] output_shape [1, 113, 15, 64] : tensor<113x960xf32> into tensor<1x113x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<1x113x15x32xf32>
    %extracted_slice_15 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<1x113x15x32xf32>
    %14 = tensor.empty() : tensor<1x113x15x64xf32>
    %15 = tensor.empty() : tensor<1x113x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg1 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_15, %arg2 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%16, %17 : tensor<1x113x15x32xf32>, tensor<1x113x15x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.subf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %inserted_slice = tensor.insert_slice %18 into %14[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x32xf32> into tensor<1x113x15x64xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_15, %arg1 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %21 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %20 : tensor<1x113x15x32xf32>, tensor<1x113x15x32xf32>) outs(%15 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.addf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x15x32xf32>
    %inserted_slice_16 = tensor.insert_slice %21 into %inserted_slice[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x32xf32> into tensor<1x113x15x64xf32>
    %22 = tensor.empty() : tensor<960x320xf32>
    %transposed_17 = linalg.transpose ins(%cst_9 : tensor<320x960xf32>) outs(%22 : tensor<960x320xf32>) permutation = [1, 0] 
    %23 = tensor.empty() : tensor<113x320xf32>
    %24 = linalg.fill ins(%cst : f32) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %25 = linalg.matmul ins(%collapsed, %transposed_17 : tensor<113x960xf32>, tensor<960x320xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_18 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %extracted_slice_19 = tensor.extract_slice %expanded_18[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<1x113x5x32xf32>
    %extracted_slice_20 = tensor.extract_slice %expanded_18[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<1x113x5x32xf32>
    %26 = tensor.empty() : tensor<1x113x5x64xf32>
    %27 = tensor.empty() : tensor<1x113x5x32xf32>
    %28 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %arg1 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %29 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %arg2 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %30 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%28, %29 : tensor<1x113x5x32xf32>, tensor<1x113x5x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.subf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %inserted_slice_21 = tensor.insert_slice %30 into %26[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x32xf32> into tensor<1x113x5x64xf32>
    %31 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %arg1 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %32 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %arg2 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %33 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %32 : tensor<1x113x5x32xf32>, tensor<1x113x5x32xf32>) outs(%27 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.addf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x5x32xf32>
    %inserted_slice_22 = tensor.insert_slice %33 into %inserted_slice_21[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x32xf32> into tensor<1x113x5x64xf32>
    %transposed_23 = linalg.transpose ins(%cst_8 : tensor<320x960xf32>) outs(%22 : tensor<960x320xf32>) permutation = [1, 0] 
    %34 = linalg.matmul ins(%collapsed, %transposed_23 : tensor<113x960xf32>, tensor<960x320xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %35 = tensor.empty() : tensor<1x113x5x3x64xf32>
    %36 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_22 : tensor<1x113x5x64xf32>) outs(%35 : tensor<1x113x5x3x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x113x5x3x64xf32>
    %collapsed_24 = tensor.collapse_shape %36 [[0], [1], [2, 3], [4]] : tensor<1x113x5x3x64xf32> into tensor<1x113x15x64xf32>
    %expanded_25 = tensor.expand_shape %34 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %37 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded_25 : tensor<1x113x5x64xf32>) outs(%35 : tensor<1x113x5x3x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x113x5x3x64xf32>
    %collapsed_26 = tensor.collapse_shape %37 [[0], [1], [2, 3], [4]] : tensor<1x113x5x3x64xf32> into tensor<1x113x15x64xf32>
    %38 = tensor.empty() : tensor<1x15x64x113xf32>
    %transposed_27 = linalg.transpose ins(%collapsed_24 : tensor<1x113x15x64xf32>) outs(%38 : tensor<1x15x64x113xf32>) permutation = [0, 2, 3, 1] 
    %39 = tensor.empty() : tensor<1x15x113x64xf32>
    %transposed_28 = linalg.transpose ins(%inserted_slice_16 : tensor<1x113x15x64xf32>) outs(%39 : tensor<1x15x113x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_29 = tensor.collapse_shape %transposed_28 [[0, 1], [2], [3]] : tensor<1x15x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_30 = tensor.collapse_shape %transposed_27 [[0, 1], [2], [3]] : tensor<1x15x64x113xf32> into tensor<15x64x113xf32>
    %40 = tensor.empty() : tensor<15x113x113xf32>
    %41 = linalg.fill ins(%cst : f32) outs(%40 : tensor<15x113x113xf32>) -> tensor<15x113x113xf32>
    %42 = linalg.batch_matmul ins(%collapsed_29, %collapsed_30 : tensor<15x113x64xf32>, tensor<15x64x113xf32>) outs(%41 : tensor<15x113x113xf32>) -> tensor<15x113x113xf32>
    %expanded_31 = tensor.expand_shape %42 [[0, 1], [2], [3]] output_shape [1, 15, 113, 113] : tensor<15x113x113xf32> into tensor<1x15x113x113xf32>
    %43 = tensor.empty() : tensor<1x15x113x113xf32>
    %44 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_31 : tensor<1x15x113x113xf32>) outs(%43 : tensor<1x15x113x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.mulf %in, %cst_14 : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x113xf32>
    %expanded_32 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 113, 113] : tensor<1x113x113xi1> into tensor<1x1x113x113xi1>
    %45 = linalg.generic {indexing_maps = [#map7, #map3, #map8, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_32, %44, %cst_2 : tensor<1x1x113x113xi1>, tensor<1x15x113x113xf32>, tensor<f32>) outs(%43 : tensor<1x15x113x113xf32>) {
    ^bb0(%in: i1, %in_50: f32, %in_51: f32, %out: f32):
      %81 = arith.select %in, %in_50, %in_51 : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x113xf32>
    %46 = tensor.empty() : tensor<1x15x113xi64>
    %47 = linalg.fill ins(%c0_i64 : i64) outs(%46 : tensor<1x15x113xi64>) -> tensor<1x15x113xi64>
    %48 = tensor.empty() : tensor<1x15x113xf32>
    %49 = linalg.fill ins(%cst_0 : f32) outs(%48 : tensor<1x15x113xf32>) -> tensor<1x15x113xf32>
    %50:2 = linalg.generic {indexing_maps = [#map3, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%45 : tensor<1x15x113x113xf32>) outs(%49, %47 : tensor<1x15x113xf32>, tensor<1x15x113xi64>) {
    ^bb0(%in: f32, %out: f32, %out_50: i64):
      %81 = linalg.index 3 : index
      %82 = arith.index_cast %81 : index to i64
      %83 = arith.maximumf %in, %out : f32
      %84 = arith.cmpf ogt, %in, %out : f32
      %85 = arith.select %84, %82, %out_50 : i64
      linalg.yield %83, %85 : f32, i64
    } -> (tensor<1x15x113xf32>, tensor<1x15x113xi64>)
    %expanded_33 = tensor.expand_shape %50#0 [[0], [1], [2, 3]] output_shape [1, 15, 113, 1] : tensor<1x15x113xf32> into tensor<1x15x113x1xf32>
    %51 = linalg.generic {indexing_maps = [#map3, #map10, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%45, %expanded_33 : tensor<1x15x113x113xf32>, tensor<1x15x113x1xf32>) outs(%43 : tensor<1x15x113x113xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.subf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x113xf32>
    %52 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%51 : tensor<1x15x113x113xf32>) outs(%43 : tensor<1x15x113x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = math.exp %in : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x113xf32>
    %53 = tensor.empty() : tensor<1x15x113x1xf32>
    %54 = linalg.fill ins(%cst : f32) outs(%53 : tensor<1x15x113x1xf32>) -> tensor<1x15x113x1xf32>
    %55 = linalg.generic {indexing_maps = [#map3, #map10], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%52 : tensor<1x15x113x113xf32>) outs(%54 : tensor<1x15x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.addf %in, %out : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x1xf32>
    %56 = linalg.generic {indexing_maps = [#map3, #map10, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%52, %55 : tensor<1x15x113x113xf32>, tensor<1x15x113x1xf32>) outs(%43 : tensor<1x15x113x113xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.divf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x15x113x113xf32>
    %transposed_34 = linalg.transpose ins(%collapsed_26 : tensor<1x113x15x64xf32>) outs(%39 : tensor<1x15x113x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_35 = tensor.collapse_shape %56 [[0, 1], [2], [3]] : tensor<1x15x113x113xf32> into tensor<15x113x113xf32>
    %collapsed_36 = tensor.collapse_shape %transposed_34 [[0, 1], [2], [3]] : tensor<1x15x113x64xf32> into tensor<15x113x64xf32>
    %57 = tensor.empty() : tensor<15x113x64xf32>
    %58 = linalg.fill ins(%cst : f32) outs(%57 : tensor<15x113x64xf32>) -> tensor<15x113x64xf32>
    %59 = linalg.batch_matmul ins(%collapsed_35, %collapsed_36 : tensor<15x113x113xf32>, tensor<15x113x64xf32>) outs(%58 : tensor<15x113x64xf32>) -> tensor<15x113x64xf32>
    %expanded_37 = tensor.expand_shape %59 [[0, 1], [2], [3]] output_shape [1, 15, 113, 64] : tensor<15x113x64xf32> into tensor<1x15x113x64xf32>
    %transposed_38 = linalg.transpose ins(%expanded_37 : tensor<1x15x113x64xf32>) outs(%14 : tensor<1x113x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_39 = tensor.collapse_shape %transposed_38 [[0, 1], [2, 3]] : tensor<1x113x15x64xf32> into tensor<113x960xf32>
    %transposed_40 = linalg.transpose ins(%cst_7 : tensor<960x960xf32>) outs(%10 : tensor<960x960xf32>) permutation = [1, 0] 
    %60 = linalg.matmul ins(%collapsed_39, %transposed_40 : tensor<113x960xf32>, tensor<960x960xf32>) outs(%12 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %expanded_41 = tensor.expand_shape %60 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xf32> into tensor<1x113x960xf32>
    %61 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_41 : tensor<1x113x960xf32>, tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.addf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61 : tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%62 : tensor<1x113x960xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.addf %in, %out : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %64 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%63 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.divf %in, %cst_13 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%64 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.truncf %cst_12 : f64 to f32
      %82 = arith.addf %in, %81 : f32
      linalg.yield %82 : f32
    } -> tensor<1x113x1xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%65 : tensor<1x113x1xf32>) outs(%2 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = math.rsqrt %in : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x1xf32>
    %67 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61, %66 : tensor<1x113x960xf32>, tensor<1x113x1xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %68 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_6, %67 : tensor<960xf32>, tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    %collapsed_42 = tensor.collapse_shape %68 [[0, 1], [2]] : tensor<1x113x960xf32> into tensor<113x960xf32>
    %69 = tensor.empty() : tensor<960x2560xf32>
    %transposed_43 = linalg.transpose ins(%cst_5 : tensor<2560x960xf32>) outs(%69 : tensor<960x2560xf32>) permutation = [1, 0] 
    %70 = tensor.empty() : tensor<113x2560xf32>
    %71 = linalg.fill ins(%cst : f32) outs(%70 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %72 = linalg.matmul ins(%collapsed_42, %transposed_43 : tensor<113x960xf32>, tensor<960x2560xf32>) outs(%71 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %expanded_44 = tensor.expand_shape %72 [[0, 1], [2]] output_shape [1, 113, 2560] : tensor<113x2560xf32> into tensor<1x113x2560xf32>
    %73 = tensor.empty() : tensor<1x113x2560xf32>
    %74 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_44 : tensor<1x113x2560xf32>) outs(%73 : tensor<1x113x2560xf32>) {
    ^bb0(%in: f32, %out: f32):
      %81 = arith.negf %in : f32
      %82 = math.exp %81 : f32
      %83 = arith.addf %82, %cst_1 : f32
      %84 = arith.divf %cst_1, %83 : f32
      linalg.yield %84 : f32
    } -> tensor<1x113x2560xf32>
    %75 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%74, %expanded_44 : tensor<1x113x2560xf32>, tensor<1x113x2560xf32>) outs(%73 : tensor<1x113x2560xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x2560xf32>
    %transposed_45 = linalg.transpose ins(%cst_4 : tensor<2560x960xf32>) outs(%69 : tensor<960x2560xf32>) permutation = [1, 0] 
    %76 = linalg.matmul ins(%collapsed_42, %transposed_45 : tensor<113x960xf32>, tensor<960x2560xf32>) outs(%71 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %expanded_46 = tensor.expand_shape %76 [[0, 1], [2]] output_shape [1, 113, 2560] : tensor<113x2560xf32> into tensor<1x113x2560xf32>
    %77 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%75, %expanded_46 : tensor<1x113x2560xf32>, tensor<1x113x2560xf32>) outs(%73 : tensor<1x113x2560xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.mulf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x2560xf32>
    %collapsed_47 = tensor.collapse_shape %77 [[0, 1], [2]] : tensor<1x113x2560xf32> into tensor<113x2560xf32>
    %78 = tensor.empty() : tensor<2560x960xf32>
    %transposed_48 = linalg.transpose ins(%cst_3 : tensor<960x2560xf32>) outs(%78 : tensor<2560x960xf32>) permutation = [1, 0] 
    %79 = linalg.matmul ins(%collapsed_47, %transposed_48 : tensor<113x2560xf32>, tensor<2560x960xf32>) outs(%12 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %expanded_49 = tensor.expand_shape %79 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xf32> into tensor<1x113x960xf32>
    %80 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61, %expanded_49 : tensor<1x113x960xf32>, tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_50: f32, %out: f32):
      %81 = arith.addf %in, %in_50 : f32
      linalg.yield %81 : f32
    } -> tensor<1x113x960xf32>
    return %80 : tensor<1x113x960xf32>
  }
}

