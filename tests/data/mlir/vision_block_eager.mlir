#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map3 = affine_map<(d0, d1, d2) -> (d2)>
#map4 = affine_map<(d0, d1) -> (d0, d1)>
#map5 = affine_map<(d0, d1) -> (d1)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, 0)>
module {
  func.func @main(%arg0: tensor<1x1024x768xf32>) -> tensor<1x1024x768xf32> {
    %cst = arith.constant 0.000000e+00 : f32
    %c0_i64 = arith.constant 0 : i64
    %cst_0 = arith.constant 0xFF800000 : f32
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
    %cst_23 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<1x1024x1xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<1x1024x1xf32>) -> tensor<1x1024x1xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%arg0 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.addf %in, %out : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%2 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.divf %in, %cst_22 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %4 = tensor.empty() : tensor<1x1024x768xf32>
    %collapsed = tensor.collapse_shape %3 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %5 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %5 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.subf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %6 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%7 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.addf %in, %out : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%8 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.divf %in, %cst_22 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.truncf %cst_19 : f64 to f32
      %75 = arith.addf %in, %74 : f32
      linalg.yield %75 : f32
    } -> tensor<1x1024x1xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%10 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = math.rsqrt %in : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_24 = tensor.collapse_shape %11 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %12 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_24 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6, %12 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %cst_21 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%14, %cst_20 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_25 = tensor.collapse_shape %15 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %16 = tensor.empty() : tensor<768x768xf32>
    %transposed = linalg.transpose ins(%cst_18 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %17 = tensor.empty() : tensor<1024x768xf32>
    %18 = linalg.fill ins(%cst : f32) outs(%17 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %19 = linalg.matmul ins(%collapsed_25, %transposed : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %20 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%19, %cst_17 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x768xf32>
    %expanded = tensor.expand_shape %20 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_26 = linalg.transpose ins(%cst_16 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %21 = linalg.matmul ins(%collapsed_25, %transposed_26 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %22 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%21, %cst_15 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x768xf32>
    %transposed_27 = linalg.transpose ins(%cst_14 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %23 = linalg.matmul ins(%collapsed_25, %transposed_27 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %24 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%23, %cst_13 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x768xf32>
    %expanded_28 = tensor.expand_shape %22 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %expanded_29 = tensor.expand_shape %24 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %25 = tensor.empty() : tensor<1x12x1024x64xf32>
    %transposed_30 = linalg.transpose ins(%expanded : tensor<1x1024x12x64xf32>) outs(%25 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %26 = tensor.empty() : tensor<1x12x64x1024xf32>
    %transposed_31 = linalg.transpose ins(%expanded_28 : tensor<1x1024x12x64xf32>) outs(%26 : tensor<1x12x64x1024xf32>) permutation = [0, 2, 3, 1] 
    %collapsed_32 = tensor.collapse_shape %transposed_30 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_33 = tensor.collapse_shape %transposed_31 [[0, 1], [2], [3]] : tensor<1x12x64x1024xf32> into tensor<12x64x1024xf32>
    %27 = tensor.empty() : tensor<12x1024x1024xf32>
    %28 = linalg.fill ins(%cst : f32) outs(%27 : tensor<12x1024x1024xf32>) -> tensor<12x1024x1024xf32>
    %29 = linalg.batch_matmul ins(%collapsed_32, %collapsed_33 : tensor<12x1024x64xf32>, tensor<12x64x1024xf32>) outs(%28 : tensor<12x1024x1024xf32>) -> tensor<12x1024x1024xf32>
    %expanded_34 = tensor.expand_shape %29 [[0, 1], [2], [3]] output_shape [1, 12, 1024, 1024] : tensor<12x1024x1024xf32> into tensor<1x12x1024x1024xf32>
    %30 = tensor.empty() : tensor<1x12x1024x1024xf32>
    %31 = linalg.generic {indexing_maps = [#map6, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_34 : tensor<1x12x1024x1024xf32>) outs(%30 : tensor<1x12x1024x1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.mulf %in, %cst_23 : f32
      linalg.yield %74 : f32
    } -> tensor<1x12x1024x1024xf32>
    %32 = tensor.empty() : tensor<1x12x1024xi64>
    %33 = linalg.fill ins(%c0_i64 : i64) outs(%32 : tensor<1x12x1024xi64>) -> tensor<1x12x1024xi64>
    %34 = tensor.empty() : tensor<1x12x1024xf32>
    %35 = linalg.fill ins(%cst_0 : f32) outs(%34 : tensor<1x12x1024xf32>) -> tensor<1x12x1024xf32>
    %36:2 = linalg.generic {indexing_maps = [#map6, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%31 : tensor<1x12x1024x1024xf32>) outs(%35, %33 : tensor<1x12x1024xf32>, tensor<1x12x1024xi64>) {
    ^bb0(%in: f32, %out: f32, %out_52: i64):
      %74 = linalg.index 3 : index
      %75 = arith.index_cast %74 : index to i64
      %76 = arith.maximumf %in, %out : f32
      %77 = arith.cmpf ogt, %in, %out : f32
      %78 = arith.select %77, %75, %out_52 : i64
      linalg.yield %76, %78 : f32, i64
    } -> (tensor<1x12x1024xf32>, tensor<1x12x1024xi64>)
    %expanded_35 = tensor.expand_shape %36#0 [[0], [1], [2, 3]] output_shape [1, 12, 1024, 1] : tensor<1x12x1024xf32> into tensor<1x12x1024x1xf32>
    %37 = linalg.generic {indexing_maps = [#map6, #map8, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %expanded_35 : tensor<1x12x1024x1024xf32>, tensor<1x12x1024x1xf32>) outs(%30 : tensor<1x12x1024x1024xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.subf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x12x1024x1024xf32>
    %38 = linalg.generic {indexing_maps = [#map6, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%37 : tensor<1x12x1024x1024xf32>) outs(%30 : tensor<1x12x1024x1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = math.exp %in : f32
      linalg.yield %74 : f32
    } -> tensor<1x12x1024x1024xf32>
    %39 = tensor.empty() : tensor<1x12x1024x1xf32>
    %40 = linalg.fill ins(%cst : f32) outs(%39 : tensor<1x12x1024x1xf32>) -> tensor<1x12x1024x1xf32>
    %41 = linalg.generic {indexing_maps = [#map6, #map8], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%38 : tensor<1x12x1024x1024xf32>) outs(%40 : tensor<1x12x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.addf %in, %out : f32
      linalg.yield %74 : f32
    } -> tensor<1x12x1024x1xf32>
    %42 = linalg.generic {indexing_maps = [#map6, #map8, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%38, %41 : tensor<1x12x1024x1024xf32>, tensor<1x12x1024x1xf32>) outs(%30 : tensor<1x12x1024x1024xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.divf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x12x1024x1024xf32>
    %transposed_36 = linalg.transpose ins(%expanded_29 : tensor<1x1024x12x64xf32>) outs(%25 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_37 = tensor.collapse_shape %42 [[0, 1], [2], [3]] : tensor<1x12x1024x1024xf32> into tensor<12x1024x1024xf32>
    %collapsed_38 = tensor.collapse_shape %transposed_36 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %43 = tensor.empty() : tensor<12x1024x64xf32>
    %44 = linalg.fill ins(%cst : f32) outs(%43 : tensor<12x1024x64xf32>) -> tensor<12x1024x64xf32>
    %45 = linalg.batch_matmul ins(%collapsed_37, %collapsed_38 : tensor<12x1024x1024xf32>, tensor<12x1024x64xf32>) outs(%44 : tensor<12x1024x64xf32>) -> tensor<12x1024x64xf32>
    %expanded_39 = tensor.expand_shape %45 [[0, 1], [2], [3]] output_shape [1, 12, 1024, 64] : tensor<12x1024x64xf32> into tensor<1x12x1024x64xf32>
    %46 = tensor.empty() : tensor<1x1024x12x64xf32>
    %transposed_40 = linalg.transpose ins(%expanded_39 : tensor<1x12x1024x64xf32>) outs(%46 : tensor<1x1024x12x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_41 = tensor.collapse_shape %transposed_40 [[0, 1], [2, 3]] : tensor<1x1024x12x64xf32> into tensor<1024x768xf32>
    %transposed_42 = linalg.transpose ins(%cst_12 : tensor<768x768xf32>) outs(%16 : tensor<768x768xf32>) permutation = [1, 0] 
    %47 = linalg.matmul ins(%collapsed_41, %transposed_42 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %48 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%47, %cst_11 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x768xf32>
    %expanded_43 = tensor.expand_shape %48 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_43 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %50 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%49 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.addf %in, %out : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%50 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.divf %in, %cst_22 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_44 = tensor.collapse_shape %51 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %52 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_44 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %53 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%49, %52 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.subf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%53, %53 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%54 : tensor<1x1024x768xf32>) outs(%1 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.addf %in, %out : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %56 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%55 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.divf %in, %cst_22 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %57 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%56 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = arith.truncf %cst_19 : f64 to f32
      %75 = arith.addf %in, %74 : f32
      linalg.yield %75 : f32
    } -> tensor<1x1024x1xf32>
    %58 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%57 : tensor<1x1024x1xf32>) outs(%0 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = math.rsqrt %in : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_45 = tensor.collapse_shape %58 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %59 = linalg.generic {indexing_maps = [#map2, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_45 : tensor<1x1024xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%53, %59 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %61 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60, %cst_10 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.mulf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61, %cst_9 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_46 = tensor.collapse_shape %62 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %63 = tensor.empty() : tensor<768x3072xf32>
    %transposed_47 = linalg.transpose ins(%cst_8 : tensor<3072x768xf32>) outs(%63 : tensor<768x3072xf32>) permutation = [1, 0] 
    %64 = tensor.empty() : tensor<1024x3072xf32>
    %65 = linalg.fill ins(%cst : f32) outs(%64 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %66 = linalg.matmul ins(%collapsed_46, %transposed_47 : tensor<1024x768xf32>, tensor<768x3072xf32>) outs(%65 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %67 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%66, %cst_7 : tensor<1024x3072xf32>, tensor<3072xf32>) outs(%64 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x3072xf32>
    %expanded_48 = tensor.expand_shape %67 [[0, 1], [2]] output_shape [1, 1024, 3072] : tensor<1024x3072xf32> into tensor<1x1024x3072xf32>
    %68 = tensor.empty() : tensor<1x1024x3072xf32>
    %69 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_48 : tensor<1x1024x3072xf32>) outs(%68 : tensor<1x1024x3072xf32>) {
    ^bb0(%in: f32, %out: f32):
      %74 = math.fpowi %in, %c3_i64 : f32, i64
      %75 = arith.mulf %74, %cst_1 : f32
      %76 = arith.addf %in, %75 : f32
      %77 = arith.mulf %76, %cst_2 : f32
      %78 = math.tanh %77 : f32
      %79 = arith.addf %78, %cst_3 : f32
      %80 = arith.mulf %79, %cst_4 : f32
      %81 = arith.mulf %in, %80 : f32
      linalg.yield %81 : f32
    } -> tensor<1x1024x3072xf32>
    %collapsed_49 = tensor.collapse_shape %69 [[0, 1], [2]] : tensor<1x1024x3072xf32> into tensor<1024x3072xf32>
    %70 = tensor.empty() : tensor<3072x768xf32>
    %transposed_50 = linalg.transpose ins(%cst_6 : tensor<768x3072xf32>) outs(%70 : tensor<3072x768xf32>) permutation = [1, 0] 
    %71 = linalg.matmul ins(%collapsed_49, %transposed_50 : tensor<1024x3072xf32>, tensor<3072x768xf32>) outs(%18 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %72 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel"]} ins(%71, %cst_5 : tensor<1024x768xf32>, tensor<768xf32>) outs(%17 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1024x768xf32>
    %expanded_51 = tensor.expand_shape %72 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %73 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%49, %expanded_51 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%4 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_52: f32, %out: f32):
      %74 = arith.addf %in, %in_52 : f32
      linalg.yield %74 : f32
    } -> tensor<1x1024x768xf32>
    return %73 : tensor<1x1024x768xf32>
  }
}

