#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d2)>
#map3 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map9 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map12 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x50x720xf32>, %arg1: tensor<1x50x1x32xf32>, %arg2: tensor<1x50x1x32xf32>, %arg3: tensor<1x50x113xi1>, %arg4: tensor<1x113x5x64xf32>, %arg5: tensor<1x113x5x64xf32>) -> tensor<1x50x720xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_3 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_4 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_5 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<720xf32>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<720x960xf32>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<320x320xf32>
    %cst_8 = arith.constant dense_resource<k_proj.weight> : tensor<320x320xf32>
    %cst_9 = arith.constant dense_resource<q_proj.weight> : tensor<960x720xf32>
    %cst_10 = arith.constant dense_resource<input_layernorm.weight> : tensor<720xf32>
    %cst_11 = arith.constant 1.000000e-05 : f64
    %cst_12 = arith.constant 7.200000e+02 : f32
    %0 = tensor.empty() : tensor<1x50x720xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %2 = tensor.empty() : tensor<1x50x1xf32>
    %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<1x50x1xf32>) -> tensor<1x50x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.addf %in, %out : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.divf %in, %cst_12 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.truncf %cst_11 : f64 to f32
      %61 = arith.addf %in, %60 : f32
      linalg.yield %61 : f32
    } -> tensor<1x50x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = math.rsqrt %in : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_10, %8 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %collapsed = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %10 = tensor.empty() : tensor<720x960xf32>
    %transposed = linalg.transpose ins(%cst_9 : tensor<960x720xf32>) outs(%10 : tensor<720x960xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<50x960xf32>
    %12 = linalg.fill ins(%cst_0 : f32) outs(%11 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %13 = linalg.matmul ins(%collapsed, %transposed : tensor<50x720xf32>, tensor<720x960xf32>) outs(%12 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded = tensor.expand_shape %13 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_13 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %14 = tensor.empty() : tensor<1x50x15x32xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg1 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15, %16 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.subf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg1 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %19 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.addf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x15x32xf32>
    %concat = tensor.concat dim(3) %17, %20 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %collapsed_14 = tensor.collapse_shape %arg4 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %21 = tensor.empty() : tensor<320x320xf32>
    %transposed_15 = linalg.transpose ins(%cst_8 : tensor<320x320xf32>) outs(%21 : tensor<320x320xf32>) permutation = [1, 0] 
    %22 = tensor.empty() : tensor<113x320xf32>
    %23 = linalg.fill ins(%cst_0 : f32) outs(%22 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %24 = linalg.matmul ins(%collapsed_14, %transposed_15 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_16 = tensor.expand_shape %24 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %collapsed_17 = tensor.collapse_shape %arg5 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %transposed_18 = linalg.transpose ins(%cst_7 : tensor<320x320xf32>) outs(%21 : tensor<320x320xf32>) permutation = [1, 0] 
    %25 = linalg.matmul ins(%collapsed_17, %transposed_18 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_19 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %expanded_20 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 50, 113] : tensor<1x50x113xi1> into tensor<1x1x50x113xi1>
    %26 = tensor.empty() : tensor<1x15x50x64xf32>
    %transposed_21 = linalg.transpose ins(%concat : tensor<1x50x15x64xf32>) outs(%26 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %27 = tensor.empty() : tensor<1x5x113x64xf32>
    %transposed_22 = linalg.transpose ins(%expanded_16 : tensor<1x113x5x64xf32>) outs(%27 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_23 = linalg.transpose ins(%expanded_19 : tensor<1x113x5x64xf32>) outs(%27 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %28 = tensor.empty() : tensor<1x15x50x113xi1>
    %29 = linalg.generic {indexing_maps = [#map5, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_20 : tensor<1x1x50x113xi1>) outs(%28 : tensor<1x15x50x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x50x113xi1>
    %30 = tensor.empty() : tensor<1x5x3x113x64xf32>
    %31 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_22 : tensor<1x5x113x64xf32>) outs(%30 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %32 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_23 : tensor<1x5x113x64xf32>) outs(%30 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %collapsed_24 = tensor.collapse_shape %transposed_21 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_25 = tensor.collapse_shape %31 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_26 = tensor.collapse_shape %32 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_27 = tensor.collapse_shape %29 [[0, 1], [2], [3]] : tensor<1x15x50x113xi1> into tensor<15x50x113xi1>
    %33 = tensor.empty() : tensor<15x50x64xf32>
    %34 = iree_linalg_ext.attention <indexing_maps = [#map8, #map9, #map10, #map11, #map12, #map13]> ins(%collapsed_24, %collapsed_25, %collapsed_26, %cst, %collapsed_27 : tensor<15x50x64xf32>, tensor<15x113x64xf32>, tensor<15x113x64xf32>, f32, tensor<15x50x113xi1>) outs(%33 : tensor<15x50x64xf32>) {
    ^bb0(%arg6: f32):
      iree_linalg_ext.yield %arg6 : f32
    } -> tensor<15x50x64xf32>
    %expanded_28 = tensor.expand_shape %34 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %35 = tensor.empty() : tensor<1x50x15x64xf32>
    %transposed_29 = linalg.transpose ins(%expanded_28 : tensor<1x15x50x64xf32>) outs(%35 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_30 = tensor.collapse_shape %transposed_29 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %36 = tensor.empty() : tensor<960x720xf32>
    %transposed_31 = linalg.transpose ins(%cst_6 : tensor<720x960xf32>) outs(%36 : tensor<960x720xf32>) permutation = [1, 0] 
    %37 = tensor.empty() : tensor<50x720xf32>
    %38 = linalg.fill ins(%cst_0 : f32) outs(%37 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %39 = linalg.matmul ins(%collapsed_30, %transposed_31 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%38 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_32 = tensor.expand_shape %39 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_32 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.addf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %41 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%41 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.addf %in, %out : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%42 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.divf %in, %cst_12 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%43 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.truncf %cst_11 : f64 to f32
      %61 = arith.addf %in, %60 : f32
      linalg.yield %61 : f32
    } -> tensor<1x50x1xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = math.rsqrt %in : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x1xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40, %45 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %47 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_5, %46 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_33 = tensor.collapse_shape %47 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %48 = tensor.empty() : tensor<720x2048xf32>
    %transposed_34 = linalg.transpose ins(%cst_4 : tensor<2048x720xf32>) outs(%48 : tensor<720x2048xf32>) permutation = [1, 0] 
    %49 = tensor.empty() : tensor<50x2048xf32>
    %50 = linalg.fill ins(%cst_0 : f32) outs(%49 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %51 = linalg.matmul ins(%collapsed_33, %transposed_34 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%50 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_35 = tensor.expand_shape %51 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %52 = tensor.empty() : tensor<1x50x2048xf32>
    %53 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_35 : tensor<1x50x2048xf32>) outs(%52 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %60 = arith.negf %in : f32
      %61 = math.exp %60 : f32
      %62 = arith.addf %61, %cst_1 : f32
      %63 = arith.divf %cst_1, %62 : f32
      linalg.yield %63 : f32
    } -> tensor<1x50x2048xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%53, %expanded_35 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%52 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_36 = linalg.transpose ins(%cst_3 : tensor<2048x720xf32>) outs(%48 : tensor<720x2048xf32>) permutation = [1, 0] 
    %55 = linalg.matmul ins(%collapsed_33, %transposed_36 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%50 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_37 = tensor.expand_shape %55 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %56 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%54, %expanded_37 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%52 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.mulf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_38 = tensor.collapse_shape %56 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %57 = tensor.empty() : tensor<2048x720xf32>
    %transposed_39 = linalg.transpose ins(%cst_2 : tensor<720x2048xf32>) outs(%57 : tensor<2048x720xf32>) permutation = [1, 0] 
    %58 = linalg.matmul ins(%collapsed_38, %transposed_39 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%38 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_40 = tensor.expand_shape %58 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %59 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40, %expanded_40 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_41: f32, %out: f32):
      %60 = arith.addf %in, %in_41 : f32
      linalg.yield %60 : f32
    } -> tensor<1x50x720xf32>
    return %59 : tensor<1x50x720xf32>
  }
}

