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
  func.func @main(%arg0: tensor<1x64x576xf32>, %arg1: tensor<1x64x1x32xf32>, %arg2: tensor<1x64x1x32xf32>, %arg3: tensor<1x64x64xi1>) -> tensor<1x64x576xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<576x1536xf32>
    %cst_3 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<1536x576xf32>
    %cst_4 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<1536x576xf32>
    %cst_5 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<576xf32>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<576x576xf32>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<192x576xf32>
    %cst_8 = arith.constant dense_resource<k_proj.weight> : tensor<192x576xf32>
    %cst_9 = arith.constant dense_resource<q_proj.weight> : tensor<576x576xf32>
    %cst_10 = arith.constant dense_resource<input_layernorm.weight> : tensor<576xf32>
    %cst_11 = arith.constant 1.000000e-05 : f64
    %cst_12 = arith.constant 5.760000e+02 : f32
    %0 = tensor.empty() : tensor<1x64x576xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %2 = tensor.empty() : tensor<1x64x1xf32>
    %3 = linalg.fill ins(%cst_0 : f32) outs(%2 : tensor<1x64x1xf32>) -> tensor<1x64x1xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%1 : tensor<1x64x576xf32>) outs(%3 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.addf %in, %out : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%4 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.divf %in, %cst_12 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.truncf %cst_11 : f64 to f32
      %62 = arith.addf %in, %61 : f32
      linalg.yield %62 : f32
    } -> tensor<1x64x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = math.rsqrt %in : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %7 : tensor<1x64x576xf32>, tensor<1x64x1xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_10, %8 : tensor<576xf32>, tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %collapsed = tensor.collapse_shape %9 [[0, 1], [2]] : tensor<1x64x576xf32> into tensor<64x576xf32>
    %10 = tensor.empty() : tensor<576x576xf32>
    %transposed = linalg.transpose ins(%cst_9 : tensor<576x576xf32>) outs(%10 : tensor<576x576xf32>) permutation = [1, 0] 
    %11 = tensor.empty() : tensor<64x576xf32>
    %12 = linalg.fill ins(%cst_0 : f32) outs(%11 : tensor<64x576xf32>) -> tensor<64x576xf32>
    %13 = linalg.matmul ins(%collapsed, %transposed : tensor<64x576xf32>, tensor<576x576xf32>) outs(%12 : tensor<64x576xf32>) -> tensor<64x576xf32>
    %expanded = tensor.expand_shape %13 [[0, 1], [2, 3]] output_shape [1, 64, 9, 64] : tensor<64x576xf32> into tensor<1x64x9x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 64, 9, 32] [1, 1, 1, 1] : tensor<1x64x9x64xf32> to tensor<1x64x9x32xf32>
    %extracted_slice_13 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 64, 9, 32] [1, 1, 1, 1] : tensor<1x64x9x64xf32> to tensor<1x64x9x32xf32>
    %concat = tensor.concat dim(3) %arg1, %arg1 : (tensor<1x64x1x32xf32>, tensor<1x64x1x32xf32>) -> tensor<1x64x1x64xf32>
    %14 = tensor.empty() : tensor<1x64x9x64xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded, %concat : tensor<1x64x9x64xf32>, tensor<1x64x1x64xf32>) outs(%14 : tensor<1x64x9x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x9x64xf32>
    %16 = tensor.empty() : tensor<1x64x9x32xf32>
    %17 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13 : tensor<1x64x9x32xf32>) outs(%16 : tensor<1x64x9x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.negf %in : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x9x32xf32>
    %concat_14 = tensor.concat dim(3) %17, %extracted_slice : (tensor<1x64x9x32xf32>, tensor<1x64x9x32xf32>) -> tensor<1x64x9x64xf32>
    %concat_15 = tensor.concat dim(3) %arg2, %arg2 : (tensor<1x64x1x32xf32>, tensor<1x64x1x32xf32>) -> tensor<1x64x1x64xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_14, %concat_15 : tensor<1x64x9x64xf32>, tensor<1x64x1x64xf32>) outs(%14 : tensor<1x64x9x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x9x64xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%15, %18 : tensor<1x64x9x64xf32>, tensor<1x64x9x64xf32>) outs(%14 : tensor<1x64x9x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.addf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x9x64xf32>
    %20 = tensor.empty() : tensor<576x192xf32>
    %transposed_16 = linalg.transpose ins(%cst_8 : tensor<192x576xf32>) outs(%20 : tensor<576x192xf32>) permutation = [1, 0] 
    %21 = tensor.empty() : tensor<64x192xf32>
    %22 = linalg.fill ins(%cst_0 : f32) outs(%21 : tensor<64x192xf32>) -> tensor<64x192xf32>
    %23 = linalg.matmul ins(%collapsed, %transposed_16 : tensor<64x576xf32>, tensor<576x192xf32>) outs(%22 : tensor<64x192xf32>) -> tensor<64x192xf32>
    %expanded_17 = tensor.expand_shape %23 [[0, 1], [2, 3]] output_shape [1, 64, 3, 64] : tensor<64x192xf32> into tensor<1x64x3x64xf32>
    %extracted_slice_18 = tensor.extract_slice %expanded_17[0, 0, 0, 0] [1, 64, 3, 32] [1, 1, 1, 1] : tensor<1x64x3x64xf32> to tensor<1x64x3x32xf32>
    %extracted_slice_19 = tensor.extract_slice %expanded_17[0, 0, 0, 32] [1, 64, 3, 32] [1, 1, 1, 1] : tensor<1x64x3x64xf32> to tensor<1x64x3x32xf32>
    %24 = tensor.empty() : tensor<1x64x3x64xf32>
    %25 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_17, %concat : tensor<1x64x3x64xf32>, tensor<1x64x1x64xf32>) outs(%24 : tensor<1x64x3x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x3x64xf32>
    %26 = tensor.empty() : tensor<1x64x3x32xf32>
    %27 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_19 : tensor<1x64x3x32xf32>) outs(%26 : tensor<1x64x3x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.negf %in : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x3x32xf32>
    %concat_20 = tensor.concat dim(3) %27, %extracted_slice_18 : (tensor<1x64x3x32xf32>, tensor<1x64x3x32xf32>) -> tensor<1x64x3x64xf32>
    %28 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_20, %concat_15 : tensor<1x64x3x64xf32>, tensor<1x64x1x64xf32>) outs(%24 : tensor<1x64x3x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x3x64xf32>
    %29 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%25, %28 : tensor<1x64x3x64xf32>, tensor<1x64x3x64xf32>) outs(%24 : tensor<1x64x3x64xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.addf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x3x64xf32>
    %transposed_21 = linalg.transpose ins(%cst_7 : tensor<192x576xf32>) outs(%20 : tensor<576x192xf32>) permutation = [1, 0] 
    %30 = linalg.matmul ins(%collapsed, %transposed_21 : tensor<64x576xf32>, tensor<576x192xf32>) outs(%22 : tensor<64x192xf32>) -> tensor<64x192xf32>
    %expanded_22 = tensor.expand_shape %30 [[0, 1], [2, 3]] output_shape [1, 64, 3, 64] : tensor<64x192xf32> into tensor<1x64x3x64xf32>
    %expanded_23 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 64, 64] : tensor<1x64x64xi1> into tensor<1x1x64x64xi1>
    %31 = tensor.empty() : tensor<1x9x64x64xf32>
    %transposed_24 = linalg.transpose ins(%19 : tensor<1x64x9x64xf32>) outs(%31 : tensor<1x9x64x64xf32>) permutation = [0, 2, 1, 3] 
    %32 = tensor.empty() : tensor<1x3x64x64xf32>
    %transposed_25 = linalg.transpose ins(%29 : tensor<1x64x3x64xf32>) outs(%32 : tensor<1x3x64x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_26 = linalg.transpose ins(%expanded_22 : tensor<1x64x3x64xf32>) outs(%32 : tensor<1x3x64x64xf32>) permutation = [0, 2, 1, 3] 
    %33 = tensor.empty() : tensor<1x9x64x64xi1>
    %34 = linalg.generic {indexing_maps = [#map5, #map3], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_23 : tensor<1x1x64x64xi1>) outs(%33 : tensor<1x9x64x64xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x9x64x64xi1>
    %35 = tensor.empty() : tensor<1x3x3x64x64xf32>
    %36 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_25 : tensor<1x3x64x64xf32>) outs(%35 : tensor<1x3x3x64x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x64x64xf32>
    %37 = linalg.generic {indexing_maps = [#map6, #map7], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_26 : tensor<1x3x64x64xf32>) outs(%35 : tensor<1x3x3x64x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x64x64xf32>
    %collapsed_27 = tensor.collapse_shape %transposed_24 [[0, 1], [2], [3]] : tensor<1x9x64x64xf32> into tensor<9x64x64xf32>
    %collapsed_28 = tensor.collapse_shape %36 [[0, 1, 2], [3], [4]] : tensor<1x3x3x64x64xf32> into tensor<9x64x64xf32>
    %collapsed_29 = tensor.collapse_shape %37 [[0, 1, 2], [3], [4]] : tensor<1x3x3x64x64xf32> into tensor<9x64x64xf32>
    %collapsed_30 = tensor.collapse_shape %34 [[0, 1], [2], [3]] : tensor<1x9x64x64xi1> into tensor<9x64x64xi1>
    %38 = tensor.empty() : tensor<9x64x64xf32>
    %39 = iree_linalg_ext.attention <indexing_maps = [#map8, #map9, #map10, #map11, #map12, #map13]> ins(%collapsed_27, %collapsed_28, %collapsed_29, %cst, %collapsed_30 : tensor<9x64x64xf32>, tensor<9x64x64xf32>, tensor<9x64x64xf32>, f32, tensor<9x64x64xi1>) outs(%38 : tensor<9x64x64xf32>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<9x64x64xf32>
    %expanded_31 = tensor.expand_shape %39 [[0, 1], [2], [3]] output_shape [1, 9, 64, 64] : tensor<9x64x64xf32> into tensor<1x9x64x64xf32>
    %transposed_32 = linalg.transpose ins(%expanded_31 : tensor<1x9x64x64xf32>) outs(%14 : tensor<1x64x9x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_33 = tensor.collapse_shape %transposed_32 [[0, 1], [2, 3]] : tensor<1x64x9x64xf32> into tensor<64x576xf32>
    %transposed_34 = linalg.transpose ins(%cst_6 : tensor<576x576xf32>) outs(%10 : tensor<576x576xf32>) permutation = [1, 0] 
    %40 = linalg.matmul ins(%collapsed_33, %transposed_34 : tensor<64x576xf32>, tensor<576x576xf32>) outs(%12 : tensor<64x576xf32>) -> tensor<64x576xf32>
    %expanded_35 = tensor.expand_shape %40 [[0, 1], [2]] output_shape [1, 64, 576] : tensor<64x576xf32> into tensor<1x64x576xf32>
    %41 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_35 : tensor<1x64x576xf32>, tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.addf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%41 : tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%42 : tensor<1x64x576xf32>) outs(%3 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.addf %in, %out : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %44 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%43 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.divf %in, %cst_12 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.truncf %cst_11 : f64 to f32
      %62 = arith.addf %in, %61 : f32
      linalg.yield %62 : f32
    } -> tensor<1x64x1xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%45 : tensor<1x64x1xf32>) outs(%2 : tensor<1x64x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = math.rsqrt %in : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%41, %46 : tensor<1x64x576xf32>, tensor<1x64x1xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %48 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_5, %47 : tensor<576xf32>, tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    %collapsed_36 = tensor.collapse_shape %48 [[0, 1], [2]] : tensor<1x64x576xf32> into tensor<64x576xf32>
    %49 = tensor.empty() : tensor<576x1536xf32>
    %transposed_37 = linalg.transpose ins(%cst_4 : tensor<1536x576xf32>) outs(%49 : tensor<576x1536xf32>) permutation = [1, 0] 
    %50 = tensor.empty() : tensor<64x1536xf32>
    %51 = linalg.fill ins(%cst_0 : f32) outs(%50 : tensor<64x1536xf32>) -> tensor<64x1536xf32>
    %52 = linalg.matmul ins(%collapsed_36, %transposed_37 : tensor<64x576xf32>, tensor<576x1536xf32>) outs(%51 : tensor<64x1536xf32>) -> tensor<64x1536xf32>
    %expanded_38 = tensor.expand_shape %52 [[0, 1], [2]] output_shape [1, 64, 1536] : tensor<64x1536xf32> into tensor<1x64x1536xf32>
    %53 = tensor.empty() : tensor<1x64x1536xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_38 : tensor<1x64x1536xf32>) outs(%53 : tensor<1x64x1536xf32>) {
    ^bb0(%in: f32, %out: f32):
      %61 = arith.negf %in : f32
      %62 = math.exp %61 : f32
      %63 = arith.addf %62, %cst_1 : f32
      %64 = arith.divf %cst_1, %63 : f32
      linalg.yield %64 : f32
    } -> tensor<1x64x1536xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%54, %expanded_38 : tensor<1x64x1536xf32>, tensor<1x64x1536xf32>) outs(%53 : tensor<1x64x1536xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1536xf32>
    %transposed_39 = linalg.transpose ins(%cst_3 : tensor<1536x576xf32>) outs(%49 : tensor<576x1536xf32>) permutation = [1, 0] 
    %56 = linalg.matmul ins(%collapsed_36, %transposed_39 : tensor<64x576xf32>, tensor<576x1536xf32>) outs(%51 : tensor<64x1536xf32>) -> tensor<64x1536xf32>
    %expanded_40 = tensor.expand_shape %56 [[0, 1], [2]] output_shape [1, 64, 1536] : tensor<64x1536xf32> into tensor<1x64x1536xf32>
    %57 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%55, %expanded_40 : tensor<1x64x1536xf32>, tensor<1x64x1536xf32>) outs(%53 : tensor<1x64x1536xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.mulf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x1536xf32>
    %collapsed_41 = tensor.collapse_shape %57 [[0, 1], [2]] : tensor<1x64x1536xf32> into tensor<64x1536xf32>
    %58 = tensor.empty() : tensor<1536x576xf32>
    %transposed_42 = linalg.transpose ins(%cst_2 : tensor<576x1536xf32>) outs(%58 : tensor<1536x576xf32>) permutation = [1, 0] 
    %59 = linalg.matmul ins(%collapsed_41, %transposed_42 : tensor<64x1536xf32>, tensor<1536x576xf32>) outs(%12 : tensor<64x576xf32>) -> tensor<64x576xf32>
    %expanded_43 = tensor.expand_shape %59 [[0, 1], [2]] output_shape [1, 64, 576] : tensor<64x576xf32> into tensor<1x64x576xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%41, %expanded_43 : tensor<1x64x576xf32>, tensor<1x64x576xf32>) outs(%0 : tensor<1x64x576xf32>) {
    ^bb0(%in: f32, %in_44: f32, %out: f32):
      %61 = arith.addf %in, %in_44 : f32
      linalg.yield %61 : f32
    } -> tensor<1x64x576xf32>
    return %60 : tensor<1x64x576xf32>
  }
}

