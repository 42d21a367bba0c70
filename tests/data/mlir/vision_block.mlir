#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d2)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1) -> (d1)>
#map6 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map9 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c3_i64 = arith.constant 3 : i64
    %cst_1 = arith.constant 4.471500e-02 : f32
    %cst_2 = arith.constant 7.977240e-01 : f32
    %cst_3 = arith.constant 1.000000e+00 : f32
    %cst_4 = arith.constant 5.000000e-01 : f32
    %cst_5 = arith.constant dense_resource<fc2.bias> : tensor<768xf32>
    %cst_6 = arith.constant dense_resource<fc2.weight> : tensor<768x3072xf32>
    %cst_7 = arith.constant dense_resource<fc1.bias> : tensor<3072xf32>
    %cst_8 = arith.constant dense_resource<fc1.weight> : tensor<3072x768xf32>
    %cst_9 = arith.constant dense_resource<layer_norm2.bias> : tensor<768xf32>
    %cst_10 = arith.constant dense_resource<layer_norm2.weight> : tensor<768xf32>
    %cst_11 = arith.constant dense_resource<out_proj.bias> : tensor<768xf32>
    %cst_12 = arith.constant dense_resource<out_proj.weight> : tensor<768x768xf32>
    %cst_13 = arith.constant dense_resource<v_proj.bias> : tensor<768xf32>
    %cst_14 = arith.constant dense_resource<v_proj.weight> : tensor<768x768xf32>
    %cst_15 = arith.constant dense_resource<k_proj.bias> : tensor<768xf32>
    %cst_16 = arith.constant dense_resource<k_proj.weight> : tensor<768x768xf32>
    %cst_17 = arith.constant dense_resource<q_proj.bias> : tensor<768xf32>
    %cst_18 = arith.constant dense_resource<q_proj.weight> : tensor<768x768xf32>
    %cst_19 = arith.constant 9.9999999999999995E-7 : f64
    %cst_20 = arith.constant dense_resource<layer_norm1.bias> : tensor<768xf32>
    %cst_21 = arith.constant dense_resource<layer_norm1.weight> : tensor<768xf32>
    %cst_22 = arith.constant 7.680000e+02 : f32
    %0 = tensor.empty() : tensor<1x1024x1xf32>
    %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<1x1024x1xf32>) -> tensor<1x1024x1xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.addf %in, %out : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%2 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.divf %in, %cst_22 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %4 = tensor.empty() : tensor<1x1024x768xf32>
    %collapsed = tensor.collapse_shape %3 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %5 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %5 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.subf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %6 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%7 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.addf %in, %out : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.divf %in, %cst_22 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.truncf %cst_19 : f64 to f32
      %57 = arith.addf %in, %56 : f32
      linalg.yield %57 : f32
    } -> tensor<1x1024x1xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%10 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = math.rsqrt %in : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_23 = tensor.collapse_shape %11 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %12 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_23 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %12 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %cst_21 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14, %cst_20 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_24 = tensor.collapse_shape %15 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %16 = tensor.empty() : tensor<768x768xf32>
    %transposed = linalg.transpose ins(%cst_18 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %17 = tensor.empty() : tensor<1024x768xf32>
    %18 = linalg.fill ins(%cst_0 : f32) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %19 = linalg.matmul ins(%collapsed_24, %transposed : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %20 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%19, %cst_17 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x768xf32>
    %expanded = tensor.expand_shape %20 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_25 = linalg.transpose ins(%cst_16 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %21 = linalg.matmul ins(%collapsed_24, %transposed_25 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %22 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%21, %cst_15 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x768xf32>
    %expanded_26 = tensor.expand_shape %22 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_27 = linalg.transpose ins(%cst_14 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %23 = linalg.matmul ins(%collapsed_24, %transposed_27 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %24 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%23, %cst_13 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x768xf32>
    %expanded_28 = tensor.expand_shape %24 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %25 = tensor.empty() : tensor<1x12x1024x64xf32>
    %transposed_29 = linalg.transpose ins(%expanded : tensor<1x1024x12x64xf32>) outs(%25 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_30 = linalg.transpose ins(%expanded_26 : tensor<1x1024x12x64xf32>) outs(%25 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_31 = linalg.transpose ins(%expanded_28 : tensor<1x1024x12x64xf32>) outs(%25 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_32 = tensor.collapse_shape %transposed_29 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_33 = tensor.collapse_shape %transposed_30 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_34 = tensor.collapse_shape %transposed_31 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %26 = tensor.empty() : tensor<12x1024x64xf32>
    %27 = iree_linalg_ext.attention <indexing_maps = [#map6, #map7, #map8, #map9, #map10]> ins(%collapsed_32, %collapsed_33, %collapsed_34, %cst : tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, f32) outs(%26 : tensor<12x1024x64xf32>) {
    ^bb0(%arg1: f32):
      iree_linalg_ext.yield %arg1 : f32
    } -> tensor<12x1024x64xf32>
    %expanded_35 = tensor.expand_shape %27 [[0, 1], [2], [3]] output_shape [1, 12, 1024, 64] : tensor<12x1024x64xf32> into tensor<1x12x1024x64xf32>
    %28 = tensor.empty() : tensor<1x1024x12x64xf32>
    %transposed_36 = linalg.transpose ins(%expanded_35 : tensor<1x12x1024x64xf32>) outs(%28 : tensor<1x1024x12x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_37 = tensor.collapse_shape %transposed_36 [[0, 1], [2, 3]] : tensor<1x1024x12x64xf32> into tensor<1024x768xf32>
    %transposed_38 = linalg.transpose ins(%cst_12 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %29 = linalg.matmul ins(%collapsed_37, %transposed_38 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %30 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%29, %cst_11 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x768xf32>
    %expanded_39 = tensor.expand_shape %30 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %31 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_39 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %32 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%31 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.addf %in, %out : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %33 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%32 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.divf %in, %cst_22 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_40 = tensor.collapse_shape %33 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %34 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_40 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %35 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%31, %34 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.subf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %36 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%35, %35 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %37 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%36 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.addf %in, %out : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%37 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.divf %in, %cst_22 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %39 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = arith.truncf %cst_19 : f64 to f32
      %57 = arith.addf %in, %56 : f32
      linalg.yield %57 : f32
    } -> tensor<1x1024x1xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%39 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = math.rsqrt %in : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_41 = tensor.collapse_shape %40 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %41 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_41 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%35, %41 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%42, %cst_10 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.mulf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%43, %cst_9 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_42 = tensor.collapse_shape %44 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %45 = tensor.empty() : tensor<768x3072xf32>
    %transposed_43 = linalg.transpose ins(%cst_8 : tensor<3072x768xf32>) outs(%45 : tensor<768x3072xf32>) permutation = [1, 0] 
    %46 = tensor.empty() : tensor<1024x3072xf32>
    %47 = linalg.fill ins(%cst_0 : f32) outs(%46 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %48 = linalg.matmul ins(%collapsed_42, %transposed_43 : tensor<1024x768xf32>, tensor<768x3072xf32>) outs(%47 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %49 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%48, %cst_7 : tensor<1024x3072xf32>, tensor<3072xf32>) outs(%46 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x3072xf32>
    %expanded_44 = tensor.expand_shape %49 [[0, 1], [2]] output_shape [1, 1024, 3072] : tensor<1024x3072xf32> into tensor<1x1024x3072xf32>
    %50 = tensor.empty() : tensor<1x1024x3072xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_44 : tensor<1x1024x3072xf32>) outs(%50 : tensor<1x1024x3072xf32>) {
    ^bb0(%in: f32, %out: f32):
      %56 = math.fpowi %in, %c3_i64 : f32, i64
      %57 = arith.mulf %56, %cst_1 : f32
      %58 = arith.addf %in, %57 : f32
      %59 = arith.mulf %58, %cst_2 : f32
      %60 = math.tanh %59 : f32
      %61 = arith.addf %60, %cst_3 : f32
      %62 = arith.mulf %61, %cst_4 : f32
      %63 = arith.mulf %in, %62 : f32
      linalg.yield %63 : f32
    } -> tensor<1x1024x3072xf32>
    %collapsed_45 = tensor.collapse_shape %51 [[0, 1], [2]] : tensor<1x1024x3072xf32> into tensor<1024x3072xf32>
    %52 = tensor.empty() : tensor<3072x768xf32>
    %transposed_46 = linalg.transpose ins(%cst_6 : tensor<768x3072xf32>) outs(%52 : tensor<3072x768xf32>) permutation = [1, 0] 
    %53 = linalg.matmul ins(%collapsed_45, %transposed_46 : tensor<1024x3072xf32>, tensor<3072x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %54 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%53, %cst_5 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1024x768xf32>
    %expanded_47 = tensor.expand_shape %54 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%31, %expanded_47 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %56 = arith.addf %in, %in_48 : f32
      linalg.yield %56 : f32
    } -> tensor<1x1024x768xf32>
    return %55 : tensor<1x1024x768xf32>
  }
}

