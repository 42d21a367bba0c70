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
  func.func @main(%arg0: tensor<1x241x960xf32>, %arg1: tensor<1x241x1x32xf32>, %arg2: tensor<1x241x1x32xf32>, %arg3: tensor<1x241x241xi1>) -> tensor<1x241x960xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xf32>
    %cst_3 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xf32>
    %cst_4 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xf32>
    %cst_5 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xf32>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xf32>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xf32>
    %cst_8 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xf32>
    %cst_9 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xf32>
    %cst_10 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xf32>
    %cst_11 = arith.constant 1.000000e-05 : f64
    %cst_12 = arith.constant 9.600000e+02 : f32
    %0 = tensor.empty() : tensor<1x241x960xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %2 = tensor.empty() : tensor<1x241x1xf32>
    %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<1x241x1xf32>) -> tensor<1x241x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x241x960xf32>) outs(%3 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.addf %in, %out : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.divf %in, %cst_12 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.truncf %cst_11 : f64 to f32
      %65 = arith.addf %in, %64 : f32
      linalg.yield %65 : f32
    } -> tensor<1x241x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = math.rsqrt %in : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x241x960xf32>, tensor<1x241x1xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_10, %8 : tensor<960xf32>, tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %collapsed = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x241x960xf32> into tensor<241x960xf32>
    %10 = tensor.empty() : tensor<960x960xf32>
    %transposed = linalg.transpose ins(%cst_9 : tensor<960x960xf32>) outs(%10 : tensor<960x960xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<241x960xf32>
    %12 = linalg.fill ins(%cst_0 : f32) outs(%11 : tensor<241x960xf32>) -> tensor<241x960xf32>
    %13 = linalg.matmul ins(%collapsed, %transposed : tensor<241x960xf32>, tensor<960x960xf32>) outs(%12 : tensor<241x960xf32>) -> tensor<241x960xf32>
    %expanded = tensor.expand_shape %13 [[0, 1], [2, 3]] output_shape [1, 241, 15, 64] : tensor<241x960xf32> into tensor<1x241x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 241, 15, 32] [1, 1, 1, 1] : tensor<1x241x15x64xf32> to tensor<1x241x15x32xf32>
    %extracted_slice_13 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 241, 15, 32] [1, 1, 1, 1] : tensor<1x241x15x64xf32> to tensor<1x241x15x32xf32>
    %14 = tensor.empty() : tensor<1x241x15x32xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg1 : tensor<1x241x15x32xf32>, tensor<1x241x1x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg2 : tensor<1x241x15x32xf32>, tensor<1x241x1x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15, %16 : tensor<1x241x15x32xf32>, tensor<1x241x15x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.subf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg1 : tensor<1x241x15x32xf32>, tensor<1x241x1x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x241x15x32xf32>, tensor<1x241x1x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%18, %19 : tensor<1x241x15x32xf32>, tensor<1x241x15x32xf32>) outs(%14 : tensor<1x241x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.addf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x15x32xf32>
    %concat = tensor.concat dim(3) %17, %20 : (tensor<1x241x15x32xf32>, tensor<1x241x15x32xf32>) -> tensor<1x241x15x64xf32>
    %21 = tensor.empty() : tensor<960x320xf32>
    %transposed_14 = linalg.transpose ins(%cst_8 : tensor<320x960xf32>) outs(%21 : tensor<960x320xf32>) permutation = [1, 0] 
    %22 = tensor.empty() : tensor<241x320xf32>
    %23 = linalg.fill ins(%cst_0 : f32) outs(%22 : tensor<241x320xf32>) -> tensor<241x320xf32>
    %24 = linalg.matmul ins(%collapsed, %transposed_14 : tensor<241x960xf32>, tensor<960x320xf32>) outs(%23 : tensor<241x320xf32>) -> tensor<241x320xf32>
    %expanded_15 = tensor.expand_shape %24 [[0, 1], [2, 3]] output_shape [1, 241, 5, 64] : tensor<241x320xf32> into tensor<1x241x5x64xf32>
    %extracted_slice_16 = tensor.extract_slice %expanded_15[0, 0, 0, 0] [1, 241, 5, 32] [1, 1, 1, 1] : tensor<1x241x5x64xf32> to tensor<1x241x5x32xf32>
    %extracted_slice_17 = tensor.extract_slice %expanded_15[0, 0, 0, 32] [1, 241, 5, 32] [1, 1, 1, 1] : tensor<1x241x5x64xf32> to tensor<1x241x5x32xf32>
    %25 = tensor.empty() : tensor<1x241x5x32xf32>
    %26 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg1 : tensor<1x241x5x32xf32>, tensor<1x241x1x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %27 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg2 : tensor<1x241x5x32xf32>, tensor<1x241x1x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %28 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%26, %27 : tensor<1x241x5x32xf32>, tensor<1x241x5x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.subf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %29 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg1 : tensor<1x241x5x32xf32>, tensor<1x241x1x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %30 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg2 : tensor<1x241x5x32xf32>, tensor<1x241x1x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %31 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%29, %30 : tensor<1x241x5x32xf32>, tensor<1x241x5x32xf32>) outs(%25 : tensor<1x241x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.addf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x5x32xf32>
    %concat_18 = tensor.concat dim(3) %28, %31 : (tensor<1x241x5x32xf32>, tensor<1x241x5x32xf32>) -> tensor<1x241x5x64xf32>
    %transposed_19 = linalg.transpose ins(%cst_7 : tensor<320x960xf32>) outs(%21 : tensor<960x320xf32>) permutation = [1, 0] 
    %32 = linalg.matmul ins(%collapsed, %transposed_19 : tensor<241x960xf32>, tensor<960x320xf32>) outs(%23 : tensor<241x320xf32>) -> tensor<241x320xf32>
    %expanded_20 = tensor.expand_shape %32 [[0, 1], [2, 3]] output_shape [1, 241, 5, 64] : tensor<241x320xf32> into tensor<1x241x5x64xf32>
    %expanded_21 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 241, 241] : tensor<1x241x241xi1> into tensor<1x1x241x241xi1>
    %33 = tensor.empty() : tensor<1x15x241x64xf32>
    %transposed_22 = linalg.transpose ins(%concat : tensor<1x241x15x64xf32>) outs(%33 : tensor<1x15x241x64xf32>) permutation = [0, 2, 1, 3] 
    %34 = tensor.empty() : tensor<1x5x241x64xf32>
    %transposed_23 = linalg.transpose ins(%concat_18 : tensor<1x241x5x64xf32>) outs(%34 : tensor<1x5x241x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_24 = linalg.transpose ins(%expanded_20 : tensor<1x241x5x64xf32>) outs(%34 : tensor<1x5x241x64xf32>) permutation = [0, 2, 1, 3] 
    %35 = tensor.empty() : tensor<1x15x241x241xi1>
    %36 = linalg.generic {indexing_maps = [#map5, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_21 : tensor<1x1x241x241xi1>) outs(%35 : tensor<1x15x241x241xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x241x241xi1>
    %37 = tensor.empty() : tensor<1x5x3x241x64xf32>
    %38 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_23 : tensor<1x5x241x64xf32>) outs(%37 : tensor<1x5x3x241x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x241x64xf32>
    %39 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_24 : tensor<1x5x241x64xf32>) outs(%37 : tensor<1x5x3x241x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x241x64xf32>
    %collapsed_25 = tensor.collapse_shape %transposed_22 [[0, 1], [2], [3]] : tensor<1x15x241x64xf32> into tensor<15x241x64xf32>
    %collapsed_26 = tensor.collapse_shape %38 [[0, 1, 2], [3], [4]] : tensor<1x5x3x241x64xf32> into tensor<15x241x64xf32>
    %collapsed_27 = tensor.collapse_shape %39 [[0, 1, 2], [3], [4]] : tensor<1x5x3x241x64xf32> into tensor<15x241x64xf32>
    %collapsed_28 = tensor.collapse_shape %36 [[0, 1], [2], [3]] : tensor<1x15x241x241xi1> into tensor<15x241x241xi1>
    %40 = tensor.empty() : tensor<15x241x64xf32>
    %41 = iree_linalg_ext.attention <indexing_maps = [#map8, #map9, #map10, #map11, #map12, #map13]> ins(%collapsed_25, %collapsed_26, %collapsed_27, %cst, %collapsed_28 : tensor<15x241x64xf32>, tensor<15x241x64xf32>, tensor<15x241x64xf32>, f32, tensor<15x241x241xi1>) outs(%40 : tensor<15x241x64xf32>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<15x241x64xf32>
    %expanded_29 = tensor.expand_shape %41 [[0, 1], [2], [3]] output_shape [1, 15, 241, 64] : tensor<15x241x64xf32> into tensor<1x15x241x64xf32>
    %42 = tensor.empty() : tensor<1x241x15x64xf32>
    %transposed_30 = linalg.transpose ins(%expanded_29 : tensor<1x15x241x64xf32>) outs(%42 : tensor<1x241x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_31 = tensor.collapse_shape %transposed_30 [[0, 1], [2, 3]] : tensor<1x241x15x64xf32> into tensor<241x960xf32>
    %transposed_32 = linalg.transpose ins(%cst_6 : tensor<960x960xf32>) outs(%10 : tensor<960x960xf32>) permutation = [1, 0] 
    %43 = linalg.matmul ins(%collapsed_31, %transposed_32 : tensor<241x960xf32>, tensor<960x960xf32>) outs(%12 : tensor<241x960xf32>) -> tensor<241x960xf32>
    %expanded_33 = tensor.expand_shape %43 [[0, 1], [2]] output_shape [1, 241, 960] : tensor<241x960xf32> into tensor<1x241x960xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_33 : tensor<1x241x960xf32>, tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.addf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44 : tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%45 : tensor<1x241x960xf32>) outs(%3 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.addf %in, %out : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%46 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.divf %in, %cst_12 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %48 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%47 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.truncf %cst_11 : f64 to f32
      %65 = arith.addf %in, %64 : f32
      linalg.yield %65 : f32
    } -> tensor<1x241x1xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%48 : tensor<1x241x1xf32>) outs(%2 : tensor<1x241x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = math.rsqrt %in : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x1xf32>
    %50 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44, %49 : tensor<1x241x960xf32>, tensor<1x241x1xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %51 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_5, %50 : tensor<960xf32>, tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    %collapsed_34 = tensor.collapse_shape %51 [[0, 1], [2]] : tensor<1x241x960xf32> into tensor<241x960xf32>
    %52 = tensor.empty() : tensor<960x2560xf32>
    %transposed_35 = linalg.transpose ins(%cst_4 : tensor<2560x960xf32>) outs(%52 : tensor<960x2560xf32>) permutation = [1, 0] 
    %53 = tensor.empty() : tensor<241x2560xf32>
    %54 = linalg.fill ins(%cst_0 : f32) outs(%53 : tensor<241x2560xf32>) -> tensor<241x2560xf32>
    %55 = linalg.matmul ins(%collapsed_34, %transposed_35 : tensor<241x960xf32>, tensor<960x2560xf32>) outs(%54 : tensor<241x2560xf32>) -> tensor<241x2560xf32>
    %expanded_36 = tensor.expand_shape %55 [[0, 1], [2]] output_shape [1, 241, 2560] : tensor<241x2560xf32> into tensor<1x241x2560xf32>
    %56 = tensor.empty() : tensor<1x241x2560xf32>
    %57 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_36 : tensor<1x241x2560xf32>) outs(%56 : tensor<1x241x2560xf32>) {
    ^bb0(%in: f32, %out: f32):
      %64 = arith.negf %in : f32
      %65 = math.exp %64 : f32
      %66 = arith.addf %65, %cst_1 : f32
      %67 = arith.divf %cst_1, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<1x241x2560xf32>
    %58 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%57, %expanded_36 : tensor<1x241x2560xf32>, tensor<1x241x2560xf32>) outs(%56 : tensor<1x241x2560xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x2560xf32>
    %transposed_37 = linalg.transpose ins(%cst_3 : tensor<2560x960xf32>) outs(%52 : tensor<960x2560xf32>) permutation = [1, 0] 
    %59 = linalg.matmul ins(%collapsed_34, %transposed_37 : tensor<241x960xf32>, tensor<960x2560xf32>) outs(%54 : tensor<241x2560xf32>) -> tensor<241x2560xf32>
    %expanded_38 = tensor.expand_shape %59 [[0, 1], [2]] output_shape [1, 241, 2560] : tensor<241x2560xf32> into tensor<1x241x2560xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%58, %expanded_38 : tensor<1x241x2560xf32>, tensor<1x241x2560xf32>) outs(%56 : tensor<1x241x2560xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.mulf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x2560xf32>
    %collapsed_39 = tensor.collapse_shape %60 [[0, 1], [2]] : tensor<1x241x2560xf32> into tensor<241x2560xf32>
    %61 = tensor.empty() : tensor<2560x960xf32>
    %transposed_40 = linalg.transpose ins(%cst_2 : tensor<960x2560xf32>) outs(%61 : tensor<2560x960xf32>) permutation = [1, 0] 
    %62 = linalg.matmul ins(%collapsed_39, %transposed_40 : tensor<241x2560xf32>, tensor<2560x960xf32>) outs(%12 : tensor<241x960xf32>) -> tensor<241x960xf32>
    %expanded_41 = tensor.expand_shape %62 [[0, 1], [2]] output_shape [1, 241, 960] : tensor<241x960xf32> into tensor<1x241x960xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44, %expanded_41 : tensor<1x241x960xf32>, tensor<1x241x960xf32>) outs(%0 : tensor<1x241x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %64 = arith.addf %in, %in_42 : f32
      linalg.yield %64 : f32
    } -> tensor<1x241x960xf32>
    return %63 : tensor<1x241x960xf32>
  }
}

