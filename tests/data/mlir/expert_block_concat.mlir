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
  func.func @main(%arg0: tensor<1x50x720xf32>, %arg1: tensor<1x50x1x32xf32>, %arg2: tensor<1x50x1x32xf32>, %arg3: tensor<1x50x163xi1>, %arg4: tensor<1x113x5x64xf32>, %arg5: tensor<1x113x5x64xf32>) -> tensor<1x50x720xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_3 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_4 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_5 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<720xf32>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<720x960xf32>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<320x720xf32>
    %cst_8 = arith.constant dense_resource<k_proj.weight> : tensor<320x720xf32>
    %cst_9 = arith.constant dense_resource<q_proj.weight> : tensor<960x720xf32>
    %cst_10 = arith.constant dense_resource<input_layernorm.weight> : tensor<720xf32>
    %cst_11 = arith.constant 1.000000e-05 : f64
    %cst_12 = arith.constant 7.200000e+02 : f32
    %0 = tensor.empty() : tensor<1x50x720xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %2 = tensor.empty() : tensor<1x50x1xf32>
    %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<1x50x1xf32>) -> tensor<1x50x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %out : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.divf %in, %cst_12 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.truncf %cst_11 : f64 to f32
      %68 = arith.addf %in, %67 : f32
      linalg.yield %68 : f32
    } -> tensor<1x50x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.rsqrt %in : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_10, %8 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
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
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15, %16 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.subf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg1 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %19 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%14 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.addf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x15x32xf32>
    %concat = tensor.concat dim(3) %17, %20 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %21 = tensor.empty() : tensor<720x320xf32>
    %transposed_14 = linalg.transpose ins(%cst_8 : tensor<320x720xf32>) outs(%21 : tensor<720x320xf32>) permutation = [1, 0] 
    %22 = tensor.empty() : tensor<50x320xf32>
    %23 = linalg.fill ins(%cst_0 : f32) outs(%22 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %24 = linalg.matmul ins(%collapsed, %transposed_14 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%23 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_15 = tensor.expand_shape %24 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %extracted_slice_16 = tensor.extract_slice %expanded_15[0, 0, 0, 0] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %extracted_slice_17 = tensor.extract_slice %expanded_15[0, 0, 0, 32] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %25 = tensor.empty() : tensor<1x50x5x32xf32>
    %26 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg1 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %27 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg2 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %28 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%26, %27 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.subf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %29 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg1 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %30 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg2 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %31 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29, %30 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%25 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.addf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x5x32xf32>
    %concat_18 = tensor.concat dim(3) %28, %31 : (tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) -> tensor<1x50x5x64xf32>
    %transposed_19 = linalg.transpose ins(%cst_7 : tensor<320x720xf32>) outs(%21 : tensor<720x320xf32>) permutation = [1, 0] 
    %32 = linalg.matmul ins(%collapsed, %transposed_19 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%23 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_20 = tensor.expand_shape %32 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %concat_21 = tensor.concat dim(1) %arg4, %concat_18 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %concat_22 = tensor.concat dim(1) %arg5, %expanded_20 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %expanded_23 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 50, 163] : tensor<1x50x163xi1> into tensor<1x1x50x163xi1>
    %33 = tensor.empty() : tensor<1x15x50x64xf32>
    %transposed_24 = linalg.transpose ins(%concat : tensor<1x50x15x64xf32>) outs(%33 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %34 = tensor.empty() : tensor<1x5x163x64xf32>
    %transposed_25 = linalg.transpose ins(%concat_21 : tensor<1x163x5x64xf32>) outs(%34 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_26 = linalg.transpose ins(%concat_22 : tensor<1x163x5x64xf32>) outs(%34 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %35 = tensor.empty() : tensor<1x15x50x163xi1>
    %36 = linalg.generic {indexing_maps = [#map5, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_23 : tensor<1x1x50x163xi1>) outs(%35 : tensor<1x15x50x163xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x50x163xi1>
    %37 = tensor.empty() : tensor<1x5x3x163x64xf32>
    %38 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_25 : tensor<1x5x163x64xf32>) outs(%37 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %39 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_26 : tensor<1x5x163x64xf32>) outs(%37 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %collapsed_27 = tensor.collapse_shape %transposed_24 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_28 = tensor.collapse_shape %38 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %collapsed_29 = tensor.collapse_shape %39 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %collapsed_30 = tensor.collapse_shape %36 [[0, 1], [2], [3]] : tensor<1x15x50x163xi1> into tensor<15x50x163xi1>
    %40 = tensor.empty() : tensor<15x50x64xf32>
    %41 = iree_linalg_ext.attention <indexing_maps = [#map8, #map9, #map10, #map11, #map12, #map13]> ins(%collapsed_27, %collapsed_28, %collapsed_29, %cst, %collapsed_30 : tensor<15x50x64xf32>, tensor<15x163x64xf32>, tensor<15x163x64xf32>, f32, tensor<15x50x163xi1>) outs(%40 : tensor<15x50x64xf32>) {
    ^bb0(%arg6: f32):
      iree_linalg_ext.yield %arg6 : f32
    } -> tensor<15x50x64xf32>
    %expanded_31 = tensor.expand_shape %41 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %42 = tensor.empty() : tensor<1x50x15x64xf32>
    %transposed_32 = linalg.transpose ins(%expanded_31 : tensor<1x15x50x64xf32>) outs(%42 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_33 = tensor.collapse_shape %transposed_32 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %43 = tensor.empty() : tensor<960x720xf32>
    %transposed_34 = linalg.transpose ins(%cst_6 : tensor<720x960xf32>) outs(%43 : tensor<960x720xf32>) permutation = [1, 0] 
    %44 = tensor.empty() : tensor<50x720xf32>
    %45 = linalg.fill ins(%cst_0 : f32) outs(%44 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %46 = linalg.matmul ins(%collapsed_33, %transposed_34 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%45 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_35 = tensor.expand_shape %46 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_35 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.addf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %48 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%47 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%48 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %out : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %50 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%49 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.divf %in, %cst_12 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%50 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.truncf %cst_11 : f64 to f32
      %68 = arith.addf %in, %67 : f32
      linalg.yield %68 : f32
    } -> tensor<1x50x1xf32>
    %52 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%51 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.rsqrt %in : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x1xf32>
    %53 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%47, %52 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %54 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_5, %53 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_36 = tensor.collapse_shape %54 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %55 = tensor.empty() : tensor<720x2048xf32>
    %transposed_37 = linalg.transpose ins(%cst_4 : tensor<2048x720xf32>) outs(%55 : tensor<720x2048xf32>) permutation = [1, 0] 
    %56 = tensor.empty() : tensor<50x2048xf32>
    %57 = linalg.fill ins(%cst_0 : f32) outs(%56 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %58 = linalg.matmul ins(%collapsed_36, %transposed_37 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%57 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_38 = tensor.expand_shape %58 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %59 = tensor.empty() : tensor<1x50x2048xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_38 : tensor<1x50x2048xf32>) outs(%59 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.negf %in : f32
      %68 = math.exp %67 : f32
      %69 = arith.addf %68, %cst_1 : f32
      %70 = arith.divf %cst_1, %69 : f32
      linalg.yield %70 : f32
    } -> tensor<1x50x2048xf32>
    %61 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60, %expanded_38 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%59 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_39 = linalg.transpose ins(%cst_3 : tensor<2048x720xf32>) outs(%55 : tensor<720x2048xf32>) permutation = [1, 0] 
    %62 = linalg.matmul ins(%collapsed_36, %transposed_39 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%57 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_40 = tensor.expand_shape %62 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61, %expanded_40 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%59 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.mulf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_41 = tensor.collapse_shape %63 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %64 = tensor.empty() : tensor<2048x720xf32>
    %transposed_42 = linalg.transpose ins(%cst_2 : tensor<720x2048xf32>) outs(%64 : tensor<2048x720xf32>) permutation = [1, 0] 
    %65 = linalg.matmul ins(%collapsed_41, %transposed_42 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%45 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_43 = tensor.expand_shape %65 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%47, %expanded_43 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %67 = arith.addf %in, %in_44 : f32
      linalg.yield %67 : f32
    } -> tensor<1x50x720xf32>
    return %66 : tensor<1x50x720xf32>
  }
}

