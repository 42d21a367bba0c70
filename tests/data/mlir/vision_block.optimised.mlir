#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
#map9 = affine_map<(d0, d1, d2) -> (d2, d0, d1)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map12 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map14 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  util.func public @main(%arg0: tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32> {
    %cst = arith.constant 7.680000e+02 : f32
    %cst_0 = arith.constant dense_resource<layer_norm1.weight> : tensor<768xf32>
    %cst_1 = arith.constant dense_resource<layer_norm1.bias> : tensor<768xf32>
    %cst_2 = arith.constant 9.99999997E-7 : f32
    %cst_3 = arith.constant dense_resource<q_proj.weight> : tensor<768x768xf32>
    %cst_4 = arith.constant dense_resource<q_proj.bias> : tensor<768xf32>
    %cst_5 = arith.constant dense_resource<k_proj.weight> : tensor<768x768xf32>
    %cst_6 = arith.constant dense_resource<k_proj.bias> : tensor<768xf32>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<768x768xf32>
    %cst_8 = arith.constant dense_resource<v_proj.bias> : tensor<768xf32>
    %cst_9 = arith.constant dense_resource<out_proj.weight> : tensor<768x768xf32>
    %cst_10 = arith.constant dense_resource<out_proj.bias> : tensor<768xf32>
    %cst_11 = arith.constant dense_resource<layer_norm2.weight> : tensor<768xf32>
    %cst_12 = arith.constant dense_resource<layer_norm2.bias> : tensor<768xf32>
    %cst_13 = arith.constant dense_resource<fc1.weight> : tensor<3072x768xf32>
    %cst_14 = arith.constant dense_resource<fc1.bias> : tensor<3072xf32>
    %cst_15 = arith.constant dense_resource<fc2.weight> : tensor<768x3072xf32>
    %cst_16 = arith.constant dense_resource<fc2.bias> : tensor<768xf32>
    %cst_17 = arith.constant 5.000000e-01 : f32
    %cst_18 = arith.constant 1.000000e+00 : f32
    %cst_19 = arith.constant 7.977240e-01 : f32
    %cst_20 = arith.constant 4.471500e-02 : f32
    %c3_i64 = arith.constant 3 : i64
    %cst_21 = arith.constant 0.000000e+00 : f32
    %cst_22 = arith.constant 1.250000e-01 : f32
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %0 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<1024x768xf32> -> tensor<1024x768xf32>
    %1 = tensor.empty() : tensor<1024xf32>
    %2 = linalg.fill ins(%cst_21 : f32) outs(%1 : tensor<1024xf32>) -> tensor<1024xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<1024x768xf32>) outs(%2 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %out : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%3 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.divf %in, %cst : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %5 = tensor.empty() : tensor<1024x768xf32>
    %6 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<1024xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1024x768xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %6 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.subf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.mulf %in, %in : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%8 : tensor<1024x768xf32>) outs(%2 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %out : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %10 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.divf %in, %cst : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%10 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %cst_2 : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = math.rsqrt %in : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %13 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<1024xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1024x768xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%7, %13 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.mulf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%14, %cst_0 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.mulf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%15, %cst_1 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %17 = linalg.fill ins(%cst_21 : f32) outs(%5 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %18 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%16, %cst_3 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %expanded = tensor.expand_shape %18 [[0], [1, 2]] output_shape [1024, 12, 64] : tensor<1024x768xf32> into tensor<1024x12x64xf32>
    %expanded_23 = tensor.expand_shape %cst_4 [[0, 1]] output_shape [12, 64] : tensor<768xf32> into tensor<12x64xf32>
    %19 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%16, %cst_5 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %expanded_24 = tensor.expand_shape %19 [[0], [1, 2]] output_shape [1024, 12, 64] : tensor<1024x768xf32> into tensor<1024x12x64xf32>
    %expanded_25 = tensor.expand_shape %cst_6 [[0, 1]] output_shape [12, 64] : tensor<768xf32> into tensor<12x64xf32>
    %20 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%16, %cst_7 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %expanded_26 = tensor.expand_shape %20 [[0], [1, 2]] output_shape [1024, 12, 64] : tensor<1024x768xf32> into tensor<1024x12x64xf32>
    %expanded_27 = tensor.expand_shape %cst_8 [[0, 1]] output_shape [12, 64] : tensor<768xf32> into tensor<12x64xf32>
    %21 = tensor.empty() : tensor<12x1024x64xf32>
    %22 = tensor.empty() : tensor<1024x12x64xf32>
    %23 = linalg.generic {indexing_maps = [#map7, #map5, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %expanded_23 : tensor<1024x12x64xf32>, tensor<12x64xf32>) outs(%22 : tensor<1024x12x64xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x12x64xf32>
    %24 = linalg.generic {indexing_maps = [#map8, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%23 : tensor<1024x12x64xf32>) outs(%21 : tensor<12x1024x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<12x1024x64xf32>
    %25 = linalg.generic {indexing_maps = [#map7, #map5, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_24, %expanded_25 : tensor<1024x12x64xf32>, tensor<12x64xf32>) outs(%22 : tensor<1024x12x64xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x12x64xf32>
    %26 = linalg.generic {indexing_maps = [#map8, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%25 : tensor<1024x12x64xf32>) outs(%21 : tensor<12x1024x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<12x1024x64xf32>
    %27 = linalg.generic {indexing_maps = [#map7, #map5, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_26, %expanded_27 : tensor<1024x12x64xf32>, tensor<12x64xf32>) outs(%22 : tensor<1024x12x64xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x12x64xf32>
    %28 = tensor.empty() : tensor<12x64x1024xf32>
    %29 = linalg.generic {indexing_maps = [#map9, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%27 : tensor<1024x12x64xf32>) outs(%28 : tensor<12x64x1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<12x64x1024xf32>
    %30 = iree_linalg_ext.attention <indexing_maps = [#map10, #map11, #map12, #map13, #map14]> ins(%24, %26, %29, %cst_22 : tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, tensor<12x64x1024xf32>, f32) outs(%21 : tensor<12x1024x64xf32>) {
    ^bb0(%arg1: f32):
      iree_linalg_ext.yield %arg1 : f32
    } -> tensor<12x1024x64xf32>
    %31 = linalg.generic {indexing_maps = [#map8, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%30 : tensor<12x1024x64xf32>) outs(%22 : tensor<1024x12x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1024x12x64xf32>
    %collapsed_28 = tensor.collapse_shape %31 [[0], [1, 2]] : tensor<1024x12x64xf32> into tensor<1024x768xf32>
    %32 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%collapsed_28, %cst_9 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %33 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%32, %cst_10 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %34 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %33 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %35 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%34 : tensor<1024x768xf32>) outs(%2 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %out : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %36 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%35 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.divf %in, %cst : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %37 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%36 : tensor<1024xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1024x768xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%34, %37 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.subf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %39 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%38 : tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.mulf %in, %in : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%39 : tensor<1024x768xf32>) outs(%2 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %out : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %41 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%40 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.divf %in, %cst : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %42 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%41 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = arith.addf %in, %cst_2 : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %43 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%42 : tensor<1024xf32>) outs(%1 : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = math.rsqrt %in : f32
      linalg.yield %57 : f32
    } -> tensor<1024xf32>
    %44 = linalg.generic {indexing_maps = [#map1, #map], iterator_types = ["parallel", "parallel"]} ins(%43 : tensor<1024xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1024x768xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%38, %44 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.mulf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%45, %cst_11 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.mulf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%46, %cst_12 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %48 = tensor.empty() : tensor<1024x3072xf32>
    %49 = linalg.fill ins(%cst_21 : f32) outs(%48 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %50 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%47, %cst_13 : tensor<1024x768xf32>, tensor<3072x768xf32>) outs(%49 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%50, %cst_14 : tensor<1024x3072xf32>, tensor<3072xf32>) outs(%48 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x3072xf32>
    %52 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%51 : tensor<1024x3072xf32>) outs(%48 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %out: f32):
      %57 = math.fpowi %in, %c3_i64 : f32, i64
      %58 = arith.mulf %57, %cst_20 : f32
      %59 = arith.addf %in, %58 : f32
      %60 = arith.mulf %59, %cst_19 : f32
      %61 = math.tanh %60 : f32
      %62 = arith.addf %61, %cst_18 : f32
      %63 = arith.mulf %62, %cst_17 : f32
      %64 = arith.mulf %in, %63 : f32
      linalg.yield %64 : f32
    } -> tensor<1024x3072xf32>
    %53 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%52, %cst_15 : tensor<1024x3072xf32>, tensor<768x3072xf32>) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%53, %cst_16 : tensor<1024x768xf32>, tensor<768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%34, %54 : tensor<1024x768xf32>, tensor<1024x768xf32>) outs(%5 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_30: f32, %out: f32):
      %57 = arith.addf %in, %in_30 : f32
      linalg.yield %57 : f32
    } -> tensor<1024x768xf32>
    %56 = iree_tensor_ext.compute_barrier.end %55 : tensor<1024x768xf32> -> tensor<1024x768xf32>
    %expanded_29 = tensor.expand_shape %56 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    util.return %expanded_29 : tensor<1x1024x768xf32>
  }
}

