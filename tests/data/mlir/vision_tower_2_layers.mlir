#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2) -> (d2)>
#map5 = affine_map<(d0, d1) -> (d0, d1)>
#map6 = affine_map<(d0, d1) -> (d1)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map9 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x3x512x512xf32>) -> tensor<1x64x960xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c3_i64 = arith.constant 3 : i64
    %cst_1 = arith.constant 4.471500e-02 : f32
    %cst_2 = arith.constant 7.977240e-01 : f32
    %cst_3 = arith.constant 1.000000e+00 : f32
    %cst_4 = arith.constant 5.000000e-01 : f32
    %cst_5 = arith.constant dense_resource<connector.weight> : tensor<960x12288xf32>
    %cst_6 = arith.constant dense_resource<post_layernorm.bias> : tensor<768xf32>
    %cst_7 = arith.constant dense_resource<post_layernorm.weight> : tensor<768xf32>
    %cst_8 = arith.constant dense_resource<layers.1.fc2.bias> : tensor<768xf32>
    %cst_9 = arith.constant dense_resource<layers.1.fc2.weight> : tensor<768x3072xf32>
    %cst_10 = arith.constant dense_resource<layers.1.fc1.bias> : tensor<3072xf32>
    %cst_11 = arith.constant dense_resource<layers.1.fc1.weight> : tensor<3072x768xf32>
    %cst_12 = arith.constant dense_resource<layers.1.layer_norm2.bias> : tensor<768xf32>
    %cst_13 = arith.constant dense_resource<layers.1.layer_norm2.weight> : tensor<768xf32>
    %cst_14 = arith.constant dense_resource<layers.1.out_proj.bias> : tensor<768xf32>
    %cst_15 = arith.constant dense_resource<layers.1.out_proj.weight> : tensor<768x768xf32>
    %cst_16 = arith.constant dense_resource<layers.1.v_proj.bias> : tensor<768xf32>
    %cst_17 = arith.constant dense_resource<layers.1.v_proj.weight> : tensor<768x768xf32>
    %cst_18 = arith.constant dense_resource<layers.1.k_proj.bias> : tensor<768xf32>
    %cst_19 = arith.constant dense_resource<layers.1.k_proj.weight> : tensor<768x768xf32>
    %cst_20 = arith.constant dense_resource<layers.1.q_proj.bias> : tensor<768xf32>
    %cst_21 = arith.constant dense_resource<layers.1.q_proj.weight> : tensor<768x768xf32>
    %cst_22 = arith.constant dense_resource<layers.1.layer_norm1.bias> : tensor<768xf32>
    %cst_23 = arith.constant dense_resource<layers.1.layer_norm1.weight> : tensor<768xf32>
    %cst_24 = arith.constant dense_resource<layers.0.fc2.bias> : tensor<768xf32>
    %cst_25 = arith.constant dense_resource<layers.0.fc2.weight> : tensor<768x3072xf32>
    %cst_26 = arith.constant dense_resource<layers.0.fc1.bias> : tensor<3072xf32>
    %cst_27 = arith.constant dense_resource<layers.0.fc1.weight> : tensor<3072x768xf32>
    %cst_28 = arith.constant dense_resource<layers.0.layer_norm2.bias> : tensor<768xf32>
    %cst_29 = arith.constant dense_resource<layers.0.layer_norm2.weight> : tensor<768xf32>
    %cst_30 = arith.constant dense_resource<layers.0.out_proj.bias> : tensor<768xf32>
    %cst_31 = arith.constant dense_resource<layers.0.out_proj.weight> : tensor<768x768xf32>
    %cst_32 = arith.constant dense_resource<layers.0.v_proj.bias> : tensor<768xf32>
    %cst_33 = arith.constant dense_resource<layers.0.v_proj.weight> : tensor<768x768xf32>
    %cst_34 = arith.constant dense_resource<layers.0.k_proj.bias> : tensor<768xf32>
    %cst_35 = arith.constant dense_resource<layers.0.k_proj.weight> : tensor<768x768xf32>
    %cst_36 = arith.constant dense_resource<layers.0.q_proj.bias> : tensor<768xf32>
    %cst_37 = arith.constant dense_resource<layers.0.q_proj.weight> : tensor<768x768xf32>
    %cst_38 = arith.constant 9.9999999999999995E-7 : f64
    %cst_39 = arith.constant dense_resource<layers.0.layer_norm1.bias> : tensor<768xf32>
    %cst_40 = arith.constant dense_resource<layers.0.layer_norm1.weight> : tensor<768xf32>
    %cst_41 = arith.constant dense_resource<position_embedding> : tensor<1024x768xf32>
    %cst_42 = arith.constant dense_resource<patch_embedding.weight> : tensor<768x3x16x16xf32>
    %cst_43 = arith.constant dense_resource<patch_embedding.bias> : tensor<768xf32>
    %cst_44 = arith.constant 7.680000e+02 : f32
    %0 = tensor.empty() : tensor<1x768x32x32xf32>
    %broadcasted = linalg.broadcast ins(%cst_43 : tensor<768xf32>) outs(%0 : tensor<1x768x32x32xf32>) dimensions = [0, 2, 3] 
    %1 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : vector<2xi64>, strides = dense<16> : vector<2xi64>} ins(%arg0, %cst_42 : tensor<1x3x512x512xf32>, tensor<768x3x16x16xf32>) outs(%broadcasted : tensor<1x768x32x32xf32>) -> tensor<1x768x32x32xf32>
    %collapsed = tensor.collapse_shape %1 [[0], [1], [2, 3]] : tensor<1x768x32x32xf32> into tensor<1x768x1024xf32>
    %2 = tensor.empty() : tensor<1x1024x768xf32>
    %transposed = linalg.transpose ins(%collapsed : tensor<1x768x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) permutation = [0, 2, 1] 
    %3 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%transposed, %cst_41 : tensor<1x1024x768xf32>, tensor<1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %4 = tensor.empty() : tensor<1x1024x1xf32>
    %5 = linalg.fill ins(%cst_0 : f32) outs(%4 : tensor<1x1024x1xf32>) -> tensor<1x1024x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%3 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_45 = tensor.collapse_shape %7 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_45 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3, %8 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.subf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9, %9 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%10 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%12 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.truncf %cst_38 : f64 to f32
      %120 = arith.addf %in, %119 : f32
      linalg.yield %120 : f32
    } -> tensor<1x1024x1xf32>
    %14 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.rsqrt %in : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_46 = tensor.collapse_shape %14 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_46 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9, %15 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%16, %cst_40 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %18 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%17, %cst_39 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_47 = tensor.collapse_shape %18 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %19 = tensor.empty() : tensor<768x768xf32>
    %transposed_48 = linalg.transpose ins(%cst_37 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %20 = tensor.empty() : tensor<1024x768xf32>
    %21 = linalg.fill ins(%cst_0 : f32) outs(%20 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %22 = linalg.matmul ins(%collapsed_47, %transposed_48 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %23 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%22, %cst_36 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded = tensor.expand_shape %23 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_49 = linalg.transpose ins(%cst_35 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %24 = linalg.matmul ins(%collapsed_47, %transposed_49 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %25 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%24, %cst_34 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_50 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_51 = linalg.transpose ins(%cst_33 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %26 = linalg.matmul ins(%collapsed_47, %transposed_51 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %27 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%26, %cst_32 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_52 = tensor.expand_shape %27 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %28 = tensor.empty() : tensor<1x12x1024x64xf32>
    %transposed_53 = linalg.transpose ins(%expanded : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_54 = linalg.transpose ins(%expanded_50 : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_55 = linalg.transpose ins(%expanded_52 : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_56 = tensor.collapse_shape %transposed_53 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_57 = tensor.collapse_shape %transposed_54 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_58 = tensor.collapse_shape %transposed_55 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %29 = tensor.empty() : tensor<12x1024x64xf32>
    %30 = iree_linalg_ext.attention <indexing_maps = [#map7, #map8, #map9, #map10, #map11]> ins(%collapsed_56, %collapsed_57, %collapsed_58, %cst : tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, f32) outs(%29 : tensor<12x1024x64xf32>) {
    ^bb0(%arg1: f32):
      iree_linalg_ext.yield %arg1 : f32
    } -> tensor<12x1024x64xf32>
    %expanded_59 = tensor.expand_shape %30 [[0, 1], [2], [3]] output_shape [1, 12, 1024, 64] : tensor<12x1024x64xf32> into tensor<1x12x1024x64xf32>
    %31 = tensor.empty() : tensor<1x1024x12x64xf32>
    %transposed_60 = linalg.transpose ins(%expanded_59 : tensor<1x12x1024x64xf32>) outs(%31 : tensor<1x1024x12x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_61 = tensor.collapse_shape %transposed_60 [[0, 1], [2, 3]] : tensor<1x1024x12x64xf32> into tensor<1024x768xf32>
    %transposed_62 = linalg.transpose ins(%cst_31 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %32 = linalg.matmul ins(%collapsed_61, %transposed_62 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %33 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%32, %cst_30 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_63 = tensor.expand_shape %33 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %34 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%3, %expanded_63 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %35 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%34 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %36 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%35 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_64 = tensor.collapse_shape %36 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %37 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_64 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %38 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34, %37 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.subf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %39 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38, %38 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %40 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%39 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %41 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%40 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %42 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%41 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.truncf %cst_38 : f64 to f32
      %120 = arith.addf %in, %119 : f32
      linalg.yield %120 : f32
    } -> tensor<1x1024x1xf32>
    %43 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%42 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.rsqrt %in : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_65 = tensor.collapse_shape %43 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %44 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_65 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38, %44 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %46 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%45, %cst_29 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %47 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%46, %cst_28 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_66 = tensor.collapse_shape %47 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %48 = tensor.empty() : tensor<768x3072xf32>
    %transposed_67 = linalg.transpose ins(%cst_27 : tensor<3072x768xf32>) outs(%48 : tensor<768x3072xf32>) permutation = [1, 0] 
    %49 = tensor.empty() : tensor<1024x3072xf32>
    %50 = linalg.fill ins(%cst_0 : f32) outs(%49 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %51 = linalg.matmul ins(%collapsed_66, %transposed_67 : tensor<1024x768xf32>, tensor<768x3072xf32>) outs(%50 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %52 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%51, %cst_26 : tensor<1024x3072xf32>, tensor<3072xf32>) outs(%49 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x3072xf32>
    %expanded_68 = tensor.expand_shape %52 [[0, 1], [2]] output_shape [1, 1024, 3072] : tensor<1024x3072xf32> into tensor<1x1024x3072xf32>
    %53 = tensor.empty() : tensor<1x1024x3072xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_68 : tensor<1x1024x3072xf32>) outs(%53 : tensor<1x1024x3072xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.fpowi %in, %c3_i64 : f32, i64
      %120 = arith.mulf %119, %cst_1 : f32
      %121 = arith.addf %in, %120 : f32
      %122 = arith.mulf %121, %cst_2 : f32
      %123 = math.tanh %122 : f32
      %124 = arith.addf %123, %cst_3 : f32
      %125 = arith.mulf %124, %cst_4 : f32
      %126 = arith.mulf %in, %125 : f32
      linalg.yield %126 : f32
    } -> tensor<1x1024x3072xf32>
    %collapsed_69 = tensor.collapse_shape %54 [[0, 1], [2]] : tensor<1x1024x3072xf32> into tensor<1024x3072xf32>
    %55 = tensor.empty() : tensor<3072x768xf32>
    %transposed_70 = linalg.transpose ins(%cst_25 : tensor<768x3072xf32>) outs(%55 : tensor<3072x768xf32>) permutation = [1, 0] 
    %56 = linalg.matmul ins(%collapsed_69, %transposed_70 : tensor<1024x3072xf32>, tensor<3072x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %57 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%56, %cst_24 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_71 = tensor.expand_shape %57 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %58 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%34, %expanded_71 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %59 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%58 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%59 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_72 = tensor.collapse_shape %60 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %61 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_72 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%58, %61 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.subf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62, %62 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %64 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%63 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%64 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%65 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.truncf %cst_38 : f64 to f32
      %120 = arith.addf %in, %119 : f32
      linalg.yield %120 : f32
    } -> tensor<1x1024x1xf32>
    %67 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%66 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.rsqrt %in : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_73 = tensor.collapse_shape %67 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %68 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_73 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %69 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62, %68 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %70 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%69, %cst_23 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %71 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%70, %cst_22 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_74 = tensor.collapse_shape %71 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %transposed_75 = linalg.transpose ins(%cst_21 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %72 = linalg.matmul ins(%collapsed_74, %transposed_75 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %73 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%72, %cst_20 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_76 = tensor.expand_shape %73 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_77 = linalg.transpose ins(%cst_19 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %74 = linalg.matmul ins(%collapsed_74, %transposed_77 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %75 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%74, %cst_18 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_78 = tensor.expand_shape %75 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_79 = linalg.transpose ins(%cst_17 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %76 = linalg.matmul ins(%collapsed_74, %transposed_79 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %77 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%76, %cst_16 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_80 = tensor.expand_shape %77 [[0, 1], [2, 3]] output_shape [1, 1024, 12, 64] : tensor<1024x768xf32> into tensor<1x1024x12x64xf32>
    %transposed_81 = linalg.transpose ins(%expanded_76 : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_82 = linalg.transpose ins(%expanded_78 : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_83 = linalg.transpose ins(%expanded_80 : tensor<1x1024x12x64xf32>) outs(%28 : tensor<1x12x1024x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_84 = tensor.collapse_shape %transposed_81 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_85 = tensor.collapse_shape %transposed_82 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %collapsed_86 = tensor.collapse_shape %transposed_83 [[0, 1], [2], [3]] : tensor<1x12x1024x64xf32> into tensor<12x1024x64xf32>
    %78 = iree_linalg_ext.attention <indexing_maps = [#map7, #map8, #map9, #map10, #map11]> ins(%collapsed_84, %collapsed_85, %collapsed_86, %cst : tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, tensor<12x1024x64xf32>, f32) outs(%29 : tensor<12x1024x64xf32>) {
    ^bb0(%arg1: f32):
      iree_linalg_ext.yield %arg1 : f32
    } -> tensor<12x1024x64xf32>
    %expanded_87 = tensor.expand_shape %78 [[0, 1], [2], [3]] output_shape [1, 12, 1024, 64] : tensor<12x1024x64xf32> into tensor<1x12x1024x64xf32>
    %transposed_88 = linalg.transpose ins(%expanded_87 : tensor<1x12x1024x64xf32>) outs(%31 : tensor<1x1024x12x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_89 = tensor.collapse_shape %transposed_88 [[0, 1], [2, 3]] : tensor<1x1024x12x64xf32> into tensor<1024x768xf32>
    %transposed_90 = linalg.transpose ins(%cst_15 : tensor<768x768xf32>) outs(%19 : tensor<768x768xf32>) permutation = [1, 0] 
    %79 = linalg.matmul ins(%collapsed_89, %transposed_90 : tensor<1024x768xf32>, tensor<768x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %80 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%79, %cst_14 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_91 = tensor.expand_shape %80 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %81 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%58, %expanded_91 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %82 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%81 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %83 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%82 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_92 = tensor.collapse_shape %83 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %84 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_92 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %85 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%81, %84 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.subf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %86 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%85, %85 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %87 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%86 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %88 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%87 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %89 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%88 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.truncf %cst_38 : f64 to f32
      %120 = arith.addf %in, %119 : f32
      linalg.yield %120 : f32
    } -> tensor<1x1024x1xf32>
    %90 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%89 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.rsqrt %in : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_93 = tensor.collapse_shape %90 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %91 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_93 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %92 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%85, %91 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %93 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%92, %cst_13 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %94 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%93, %cst_12 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_94 = tensor.collapse_shape %94 [[0, 1], [2]] : tensor<1x1024x768xf32> into tensor<1024x768xf32>
    %transposed_95 = linalg.transpose ins(%cst_11 : tensor<3072x768xf32>) outs(%48 : tensor<768x3072xf32>) permutation = [1, 0] 
    %95 = linalg.matmul ins(%collapsed_94, %transposed_95 : tensor<1024x768xf32>, tensor<768x3072xf32>) outs(%50 : tensor<1024x3072xf32>) -> tensor<1024x3072xf32>
    %96 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%95, %cst_10 : tensor<1024x3072xf32>, tensor<3072xf32>) outs(%49 : tensor<1024x3072xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x3072xf32>
    %expanded_96 = tensor.expand_shape %96 [[0, 1], [2]] output_shape [1, 1024, 3072] : tensor<1024x3072xf32> into tensor<1x1024x3072xf32>
    %97 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_96 : tensor<1x1024x3072xf32>) outs(%53 : tensor<1x1024x3072xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.fpowi %in, %c3_i64 : f32, i64
      %120 = arith.mulf %119, %cst_1 : f32
      %121 = arith.addf %in, %120 : f32
      %122 = arith.mulf %121, %cst_2 : f32
      %123 = math.tanh %122 : f32
      %124 = arith.addf %123, %cst_3 : f32
      %125 = arith.mulf %124, %cst_4 : f32
      %126 = arith.mulf %in, %125 : f32
      linalg.yield %126 : f32
    } -> tensor<1x1024x3072xf32>
    %collapsed_97 = tensor.collapse_shape %97 [[0, 1], [2]] : tensor<1x1024x3072xf32> into tensor<1024x3072xf32>
    %transposed_98 = linalg.transpose ins(%cst_9 : tensor<768x3072xf32>) outs(%55 : tensor<3072x768xf32>) permutation = [1, 0] 
    %98 = linalg.matmul ins(%collapsed_97, %transposed_98 : tensor<1024x3072xf32>, tensor<3072x768xf32>) outs(%21 : tensor<1024x768xf32>) -> tensor<1024x768xf32>
    %99 = linalg.generic {indexing_maps = [#map5, #map6, #map5], iterator_types = ["parallel", "parallel"]} ins(%98, %cst_8 : tensor<1024x768xf32>, tensor<768xf32>) outs(%20 : tensor<1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1024x768xf32>
    %expanded_99 = tensor.expand_shape %99 [[0, 1], [2]] output_shape [1, 1024, 768] : tensor<1024x768xf32> into tensor<1x1024x768xf32>
    %100 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%81, %expanded_99 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %101 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%100 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %102 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%101 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_100 = tensor.collapse_shape %102 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %103 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_100 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %104 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%100, %103 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.subf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %105 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104, %104 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %106 = linalg.generic {indexing_maps = [#map, #map2], iterator_types = ["parallel", "parallel", "reduction"]} ins(%105 : tensor<1x1024x768xf32>) outs(%5 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.addf %in, %out : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %107 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%106 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.divf %in, %cst_44 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %108 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%107 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = arith.truncf %cst_38 : f64 to f32
      %120 = arith.addf %in, %119 : f32
      linalg.yield %120 : f32
    } -> tensor<1x1024x1xf32>
    %109 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%108 : tensor<1x1024x1xf32>) outs(%4 : tensor<1x1024x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %119 = math.rsqrt %in : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x1xf32>
    %collapsed_101 = tensor.collapse_shape %109 [[0], [1, 2]] : tensor<1x1024x1xf32> into tensor<1x1024xf32>
    %110 = linalg.generic {indexing_maps = [#map3, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%collapsed_101 : tensor<1x1024xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1024x768xf32>
    %111 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104, %110 : tensor<1x1024x768xf32>, tensor<1x1024x768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %112 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%111, %cst_7 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.mulf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %113 = linalg.generic {indexing_maps = [#map, #map4, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%112, %cst_6 : tensor<1x1024x768xf32>, tensor<768xf32>) outs(%2 : tensor<1x1024x768xf32>) {
    ^bb0(%in: f32, %in_108: f32, %out: f32):
      %119 = arith.addf %in, %in_108 : f32
      linalg.yield %119 : f32
    } -> tensor<1x1024x768xf32>
    %collapsed_102 = tensor.collapse_shape %113 [[0], [1, 2]] : tensor<1x1024x768xf32> into tensor<1x786432xf32>
    %expanded_103 = tensor.expand_shape %collapsed_102 [[0], [1, 2, 3, 4]] output_shape [1, 8, 4, 8, 3072] : tensor<1x786432xf32> into tensor<1x8x4x8x3072xf32>
    %114 = tensor.empty() : tensor<1x8x8x4x3072xf32>
    %transposed_104 = linalg.transpose ins(%expanded_103 : tensor<1x8x4x8x3072xf32>) outs(%114 : tensor<1x8x8x4x3072xf32>) permutation = [0, 1, 3, 2, 4] 
    %collapsed_105 = tensor.collapse_shape %transposed_104 [[0, 1, 2], [3, 4]] : tensor<1x8x8x4x3072xf32> into tensor<64x12288xf32>
    %115 = tensor.empty() : tensor<12288x960xf32>
    %transposed_106 = linalg.transpose ins(%cst_5 : tensor<960x12288xf32>) outs(%115 : tensor<12288x960xf32>) permutation = [1, 0] 
    %116 = tensor.empty() : tensor<64x960xf32>
    %117 = linalg.fill ins(%cst_0 : f32) outs(%116 : tensor<64x960xf32>) -> tensor<64x960xf32>
    %118 = linalg.matmul ins(%collapsed_105, %transposed_106 : tensor<64x12288xf32>, tensor<12288x960xf32>) outs(%117 : tensor<64x960xf32>) -> tensor<64x960xf32>
    %expanded_107 = tensor.expand_shape %118 [[0, 1], [2]] output_shape [1, 64, 960] : tensor<64x960xf32> into tensor<1x64x960xf32>
    return %expanded_107 : tensor<1x64x960xf32>
  }
}

