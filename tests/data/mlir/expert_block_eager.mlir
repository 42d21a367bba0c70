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
  func.func @main(%arg0: tensor<1x50x720xf32>, %arg1: tensor<1x50x1x32xf32>, %arg2: tensor<1x50x1x32xf32>, %arg3: tensor<1x50x113xi1>, %arg4: tensor<1x113x5x64xf32>, %arg5: tensor<1x113x5x64xf32>) -> tensor<1x50x720xf32> {
    %c2_i64 = arith.constant 2 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst = arith.constant 0.000000e+00 : f32
    %cst_0 = arith.constant 0xFF800000 : f32
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_3 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_4 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_5 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_6 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<720xf32>
    %cst_7 = arith.constant dense_resource<o_proj.weight> : tensor<720x960xf32>
    %cst_8 = arith.constant dense_resource<v_proj.weight> : tensor<320x320xf32>
    %cst_9 = arith.constant dense_resource<k_proj.weight> : tensor<320x320xf32>
    %cst_10 = arith.constant dense_resource<q_proj.weight> : tensor<960x720xf32>
    %cst_11 = arith.constant dense_resource<input_layernorm.weight> : tensor<720xf32>
    %cst_12 = arith.constant 1.000000e-05 : f64
    %cst_13 = arith.constant 7.200000e+02 : f32
    %cst_14 = arith.constant 1.250000e-01 : f32
    %0 = tensor.empty() : tensor<1x50x720xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %2 = tensor.empty() : tensor<1x50x1xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<1x50x1xf32>) -> tensor<1x50x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.addf %in, %out : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.divf %in, %cst_13 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.truncf %cst_12 : f64 to f32
      %78 = arith.addf %in, %77 : f32
      linalg.yield %78 : f32
    } -> tensor<1x50x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = math.rsqrt %in : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_11, %8 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %collapsed = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %10 = tensor.empty() : tensor<720x960xf32>
    %transposed = linalg.transpose ins(%cst_10 : tensor<960x720xf32>) outs(%10 : tensor<720x960xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<50x960xf32>
    %12 = linalg.fill ins(%cst : f32) outs(%11 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %13 = linalg.matmul ins(%collapsed, %transposed : tensor<50x720xf32>, tensor<720x960xf32>) outs(%12 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded = tensor.expand_shape %13 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_15 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %14 = tensor.empty() : tensor<1x50x15x64xf32>
    %15 = tensor.empty() : tensor<1x50x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg1 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_15, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%16, %17 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.subf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %inserted_slice = tensor.insert_slice %18 into %14[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x32xf32> into tensor<1x50x15x64xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_15, %arg1 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %21 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%19, %20 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%15 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.addf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x15x32xf32>
    %inserted_slice_16 = tensor.insert_slice %21 into %inserted_slice[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x32xf32> into tensor<1x50x15x64xf32>
    %collapsed_17 = tensor.collapse_shape %arg4 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %22 = tensor.empty() : tensor<320x320xf32>
    %transposed_18 = linalg.transpose ins(%cst_9 : tensor<320x320xf32>) outs(%22 : tensor<320x320xf32>) permutation = [1, 0] 
    %23 = tensor.empty() : tensor<113x320xf32>
    %24 = linalg.fill ins(%cst : f32) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %25 = linalg.matmul ins(%collapsed_17, %transposed_18 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %collapsed_19 = tensor.collapse_shape %arg5 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %transposed_20 = linalg.transpose ins(%cst_8 : tensor<320x320xf32>) outs(%22 : tensor<320x320xf32>) permutation = [1, 0] 
    %26 = linalg.matmul ins(%collapsed_19, %transposed_20 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %27 = tensor.empty() : tensor<1x113x5x3x64xf32>
    %expanded_21 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %28 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded_21 : tensor<1x113x5x64xf32>) outs(%27 : tensor<1x113x5x3x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x113x5x3x64xf32>
    %collapsed_22 = tensor.collapse_shape %28 [[0], [1], [2, 3], [4]] : tensor<1x113x5x3x64xf32> into tensor<1x113x15x64xf32>
    %expanded_23 = tensor.expand_shape %26 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %29 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%expanded_23 : tensor<1x113x5x64xf32>) outs(%27 : tensor<1x113x5x3x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x113x5x3x64xf32>
    %collapsed_24 = tensor.collapse_shape %29 [[0], [1], [2, 3], [4]] : tensor<1x113x5x3x64xf32> into tensor<1x113x15x64xf32>
    %30 = tensor.empty() : tensor<1x15x64x113xf32>
    %transposed_25 = linalg.transpose ins(%collapsed_22 : tensor<1x113x15x64xf32>) outs(%30 : tensor<1x15x64x113xf32>) permutation = [0, 2, 3, 1] 
    %31 = tensor.empty() : tensor<1x15x50x64xf32>
    %transposed_26 = linalg.transpose ins(%inserted_slice_16 : tensor<1x50x15x64xf32>) outs(%31 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_27 = tensor.collapse_shape %transposed_26 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_28 = tensor.collapse_shape %transposed_25 [[0, 1], [2], [3]] : tensor<1x15x64x113xf32> into tensor<15x64x113xf32>
    %32 = tensor.empty() : tensor<15x50x113xf32>
    %33 = linalg.fill ins(%cst : f32) outs(%32 : tensor<15x50x113xf32>) -> tensor<15x50x113xf32>
    %34 = linalg.batch_matmul ins(%collapsed_27, %collapsed_28 : tensor<15x50x64xf32>, tensor<15x64x113xf32>) outs(%33 : tensor<15x50x113xf32>) -> tensor<15x50x113xf32>
    %expanded_29 = tensor.expand_shape %34 [[0, 1], [2], [3]] output_shape [1, 15, 50, 113] : tensor<15x50x113xf32> into tensor<1x15x50x113xf32>
    %35 = tensor.empty() : tensor<1x15x50x113xf32>
    %36 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_29 : tensor<1x15x50x113xf32>) outs(%35 : tensor<1x15x50x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.mulf %in, %cst_14 : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x113xf32>
    %expanded_30 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 50, 113] : tensor<1x50x113xi1> into tensor<1x1x50x113xi1>
    %37 = linalg.generic {indexing_maps = [#map7, #map3, #map8, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_30, %36, %cst_2 : tensor<1x1x50x113xi1>, tensor<1x15x50x113xf32>, tensor<f32>) outs(%35 : tensor<1x15x50x113xf32>) {
    ^bb0(%in: i1, %in_48: f32, %in_49: f32, %out: f32):
      %77 = arith.select %in, %in_48, %in_49 : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x113xf32>
    %38 = tensor.empty() : tensor<1x15x50xi64>
    %39 = linalg.fill ins(%c0_i64 : i64) outs(%38 : tensor<1x15x50xi64>) -> tensor<1x15x50xi64>
    %40 = tensor.empty() : tensor<1x15x50xf32>
    %41 = linalg.fill ins(%cst_0 : f32) outs(%40 : tensor<1x15x50xf32>) -> tensor<1x15x50xf32>
    %42:2 = linalg.generic {indexing_maps = [#map3, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%37 : tensor<1x15x50x113xf32>) outs(%41, %39 : tensor<1x15x50xf32>, tensor<1x15x50xi64>) {
    ^bb0(%in: f32, %out: f32, %out_48: i64):
      %77 = linalg.index 3 : index
      %78 = arith.index_cast %77 : index to i64
      %79 = arith.maximumf %in, %out : f32
      %80 = arith.cmpf ogt, %in, %out : f32
      %81 = arith.select %80, %78, %out_48 : i64
      linalg.yield %79, %81 : f32, i64
    } -> (tensor<1x15x50xf32>, tensor<1x15x50xi64>)
    %expanded_31 = tensor.expand_shape %42#0 [[0], [1], [2, 3]] output_shape [1, 15, 50, 1] : tensor<1x15x50xf32> into tensor<1x15x50x1xf32>
    %43 = linalg.generic {indexing_maps = [#map3, #map10, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%37, %expanded_31 : tensor<1x15x50x113xf32>, tensor<1x15x50x1xf32>) outs(%35 : tensor<1x15x50x113xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.subf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x113xf32>
    %44 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%43 : tensor<1x15x50x113xf32>) outs(%35 : tensor<1x15x50x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = math.exp %in : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x113xf32>
    %45 = tensor.empty() : tensor<1x15x50x1xf32>
    %46 = linalg.fill ins(%cst : f32) outs(%45 : tensor<1x15x50x1xf32>) -> tensor<1x15x50x1xf32>
    %47 = linalg.generic {indexing_maps = [#map3, #map10], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%44 : tensor<1x15x50x113xf32>) outs(%46 : tensor<1x15x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.addf %in, %out : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x1xf32>
    %48 = linalg.generic {indexing_maps = [#map3, #map10, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%44, %47 : tensor<1x15x50x113xf32>, tensor<1x15x50x1xf32>) outs(%35 : tensor<1x15x50x113xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.divf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x15x50x113xf32>
    %49 = tensor.empty() : tensor<1x15x113x64xf32>
    %transposed_32 = linalg.transpose ins(%collapsed_24 : tensor<1x113x15x64xf32>) outs(%49 : tensor<1x15x113x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_33 = tensor.collapse_shape %48 [[0, 1], [2], [3]] : tensor<1x15x50x113xf32> into tensor<15x50x113xf32>
    %collapsed_34 = tensor.collapse_shape %transposed_32 [[0, 1], [2], [3]] : tensor<1x15x113x64xf32> into tensor<15x113x64xf32>
    %50 = tensor.empty() : tensor<15x50x64xf32>
    %51 = linalg.fill ins(%cst : f32) outs(%50 : tensor<15x50x64xf32>) -> tensor<15x50x64xf32>
    %52 = linalg.batch_matmul ins(%collapsed_33, %collapsed_34 : tensor<15x50x113xf32>, tensor<15x113x64xf32>) outs(%51 : tensor<15x50x64xf32>) -> tensor<15x50x64xf32>
    %expanded_35 = tensor.expand_shape %52 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %transposed_36 = linalg.transpose ins(%expanded_35 : tensor<1x15x50x64xf32>) outs(%14 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_37 = tensor.collapse_shape %transposed_36 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %53 = tensor.empty() : tensor<960x720xf32>
    %transposed_38 = linalg.transpose ins(%cst_7 : tensor<720x960xf32>) outs(%53 : tensor<960x720xf32>) permutation = [1, 0] 
    %54 = tensor.empty() : tensor<50x720xf32>
    %55 = linalg.fill ins(%cst : f32) outs(%54 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %56 = linalg.matmul ins(%collapsed_37, %transposed_38 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%55 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_39 = tensor.expand_shape %56 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %57 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_39 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.addf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %58 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%57 : tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %59 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%58 : tensor<1x50x720xf32>) outs(%3 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.addf %in, %out : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%59 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.divf %in, %cst_13 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %61 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.truncf %cst_12 : f64 to f32
      %78 = arith.addf %in, %77 : f32
      linalg.yield %78 : f32
    } -> tensor<1x50x1xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61 : tensor<1x50x1xf32>) outs(%2 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = math.rsqrt %in : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x1xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%57, %62 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %64 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_6, %63 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_40 = tensor.collapse_shape %64 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %65 = tensor.empty() : tensor<720x2048xf32>
    %transposed_41 = linalg.transpose ins(%cst_5 : tensor<2048x720xf32>) outs(%65 : tensor<720x2048xf32>) permutation = [1, 0] 
    %66 = tensor.empty() : tensor<50x2048xf32>
    %67 = linalg.fill ins(%cst : f32) outs(%66 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %68 = linalg.matmul ins(%collapsed_40, %transposed_41 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%67 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_42 = tensor.expand_shape %68 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %69 = tensor.empty() : tensor<1x50x2048xf32>
    %70 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_42 : tensor<1x50x2048xf32>) outs(%69 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %77 = arith.negf %in : f32
      %78 = math.exp %77 : f32
      %79 = arith.addf %78, %cst_1 : f32
      %80 = arith.divf %cst_1, %79 : f32
      linalg.yield %80 : f32
    } -> tensor<1x50x2048xf32>
    %71 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%70, %expanded_42 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%69 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_43 = linalg.transpose ins(%cst_4 : tensor<2048x720xf32>) outs(%65 : tensor<720x2048xf32>) permutation = [1, 0] 
    %72 = linalg.matmul ins(%collapsed_40, %transposed_43 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%67 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_44 = tensor.expand_shape %72 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %73 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%71, %expanded_44 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%69 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.mulf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_45 = tensor.collapse_shape %73 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %74 = tensor.empty() : tensor<2048x720xf32>
    %transposed_46 = linalg.transpose ins(%cst_3 : tensor<720x2048xf32>) outs(%74 : tensor<2048x720xf32>) permutation = [1, 0] 
    %75 = linalg.matmul ins(%collapsed_45, %transposed_46 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%55 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_47 = tensor.expand_shape %75 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %76 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%57, %expanded_47 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%0 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_48: f32, %out: f32):
      %77 = arith.addf %in, %in_48 : f32
      linalg.yield %77 : f32
    } -> tensor<1x50x720xf32>
    return %76 : tensor<1x50x720xf32>
  }
}

