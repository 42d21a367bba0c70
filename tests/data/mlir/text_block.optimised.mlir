#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d1, d2, d0, d3)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d2, d3, d0, d4)>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map12 = affine_map<(d0, d1, d2, d3) -> (d3, d0, d2)>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map14 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map15 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
#map16 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map17 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#map18 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
#map19 = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
module {
  util.func public @main(%arg0: tensor<1x113x960xf32>, %arg1: tensor<1x113x1x32xf32>, %arg2: tensor<1x113x1x32xf32>, %arg3: tensor<1x113x113xi1>) -> tensor<1x113x960xf32> {
    %cst = arith.constant 9.600000e+02 : f32
    %cst_0 = arith.constant 9.99999974E-6 : f32
    %cst_1 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xf32>
    %cst_2 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xf32>
    %cst_3 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xf32>
    %cst_4 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xf32>
    %cst_5 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xf32>
    %cst_6 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xf32>
    %cst_7 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xf32>
    %cst_8 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xf32>
    %cst_9 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xf32>
    %cst_10 = arith.constant 1.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_11 = arith.constant 0.000000e+00 : f32
    %cst_12 = arith.constant 1.250000e-01 : f32
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x113x960xf32> into tensor<113x960xf32>
    %0 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<113x960xf32> -> tensor<113x960xf32>
    %1 = tensor.empty() : tensor<113x960xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %3 = tensor.empty() : tensor<113xf32>
    %4 = linalg.fill ins(%cst_11 : f32) outs(%3 : tensor<113xf32>) -> tensor<113xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<113x960xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %out : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.divf %in, %cst : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %cst_0 : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.rsqrt %in : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %8 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %10 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_1, %9 : tensor<960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %11 = linalg.fill ins(%cst_11 : f32) outs(%1 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %12 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_2 : tensor<113x960xf32>, tensor<960x960xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %expanded = tensor.expand_shape %12 [[0, 1], [2, 3]] output_shape [1, 113, 15, 64] : tensor<113x960xf32> into tensor<1x113x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %extracted_slice_13 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %collapsed_14 = tensor.collapse_shape %arg1 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %13 = iree_tensor_ext.compute_barrier.start %collapsed_14 : tensor<113x32xf32> -> tensor<113x32xf32>
    %14 = tensor.empty() : tensor<113x15x32xf32>
    %15 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %13 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %collapsed_15 = tensor.collapse_shape %arg2 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %16 = iree_tensor_ext.compute_barrier.start %collapsed_15 : tensor<113x32xf32> -> tensor<113x32xf32>
    %17 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %16 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %18 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%15, %17 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.subf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %19 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %13 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %20 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %16 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %21 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%19, %20 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%14 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.addf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x15x32xf32>
    %22 = tensor.empty() : tensor<1x113x15x64xf32>
    %inserted_slice = tensor.insert_slice %18 into %22[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %inserted_slice_16 = tensor.insert_slice %21 into %inserted_slice[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %23 = tensor.empty() : tensor<113x320xf32>
    %24 = linalg.fill ins(%cst_11 : f32) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %25 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_3 : tensor<113x960xf32>, tensor<320x960xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_17 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %extracted_slice_18 = tensor.extract_slice %expanded_17[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %extracted_slice_19 = tensor.extract_slice %expanded_17[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %26 = tensor.empty() : tensor<113x5x32xf32>
    %27 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_18, %13 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %28 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %16 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %29 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%27, %28 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.subf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %30 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %13 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %31 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_18, %16 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %32 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%30, %31 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%26 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.addf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x5x32xf32>
    %33 = tensor.empty() : tensor<1x113x5x64xf32>
    %inserted_slice_20 = tensor.insert_slice %29 into %33[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %inserted_slice_21 = tensor.insert_slice %32 into %inserted_slice_20[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %34 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_4 : tensor<113x960xf32>, tensor<320x960xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %35 = tensor.empty() : tensor<15x113x64xf32>
    %36 = tensor.empty() : tensor<15x1x113x64xf32>
    %37 = linalg.generic {indexing_maps = [#map8, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_16 : tensor<1x113x15x64xf32>) outs(%36 : tensor<15x1x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<15x1x113x64xf32>
    %collapsed_22 = tensor.collapse_shape %37 [[0], [1, 2], [3]] : tensor<15x1x113x64xf32> into tensor<15x113x64xf32>
    %expanded_23 = tensor.expand_shape %34 [[0], [1, 2]] output_shape [113, 5, 64] : tensor<113x320xf32> into tensor<113x5x64xf32>
    %collapsed_24 = tensor.collapse_shape %arg3 [[0, 1], [2]] : tensor<1x113x113xi1> into tensor<113x113xi1>
    %38 = iree_tensor_ext.compute_barrier.start %collapsed_24 : tensor<113x113xi1> -> tensor<113x113xi1>
    %39 = tensor.empty() : tensor<15x113x113xi1>
    %40 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38 : tensor<113x113xi1>) outs(%39 : tensor<15x113x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<15x113x113xi1>
    %41 = tensor.empty() : tensor<5x3x1x113x64xf32>
    %42 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_21 : tensor<1x113x5x64xf32>) outs(%41 : tensor<5x3x1x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<5x3x1x113x64xf32>
    %collapsed_25 = tensor.collapse_shape %42 [[0, 1], [2, 3], [4]] : tensor<5x3x1x113x64xf32> into tensor<15x113x64xf32>
    %43 = tensor.empty() : tensor<5x3x64x113xf32>
    %44 = linalg.generic {indexing_maps = [#map12, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_23 : tensor<113x5x64xf32>) outs(%43 : tensor<5x3x64x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<5x3x64x113xf32>
    %collapsed_26 = tensor.collapse_shape %44 [[0, 1], [2], [3]] : tensor<5x3x64x113xf32> into tensor<15x64x113xf32>
    %45 = iree_linalg_ext.attention <indexing_maps = [#map13, #map14, #map15, #map16, #map17, #map18]> ins(%collapsed_22, %collapsed_25, %collapsed_26, %cst_12, %40 : tensor<15x113x64xf32>, tensor<15x113x64xf32>, tensor<15x64x113xf32>, f32, tensor<15x113x113xi1>) outs(%35 : tensor<15x113x64xf32>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<15x113x64xf32>
    %46 = tensor.empty() : tensor<113x15x64xf32>
    %47 = linalg.generic {indexing_maps = [#map19, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%45 : tensor<15x113x64xf32>) outs(%46 : tensor<113x15x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<113x15x64xf32>
    %collapsed_27 = tensor.collapse_shape %47 [[0], [1, 2]] : tensor<113x15x64xf32> into tensor<113x960xf32>
    %48 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%collapsed_27, %cst_5 : tensor<113x960xf32>, tensor<960x960xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %49 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %48 : tensor<113x960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.addf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %50 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%49 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %51 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%50 : tensor<113x960xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %out : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %52 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%51 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.divf %in, %cst : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %53 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%52 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.addf %in, %cst_0 : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %54 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%53 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = math.rsqrt %in : f32
      linalg.yield %67 : f32
    } -> tensor<113xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%49, %54 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %56 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_6, %55 : tensor<960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %57 = tensor.empty() : tensor<113x2560xf32>
    %58 = linalg.fill ins(%cst_11 : f32) outs(%57 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %59 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%56, %cst_7 : tensor<113x960xf32>, tensor<2560x960xf32>) outs(%58 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%59 : tensor<113x2560xf32>) outs(%57 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %out: f32):
      %67 = arith.negf %in : f32
      %68 = math.exp %67 : f32
      %69 = arith.addf %68, %cst_10 : f32
      %70 = arith.divf %cst_10, %69 : f32
      linalg.yield %70 : f32
    } -> tensor<113x2560xf32>
    %61 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%60, %59 : tensor<113x2560xf32>, tensor<113x2560xf32>) outs(%57 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x2560xf32>
    %62 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%56, %cst_8 : tensor<113x960xf32>, tensor<2560x960xf32>) outs(%58 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%61, %62 : tensor<113x2560xf32>, tensor<113x2560xf32>) outs(%57 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.mulf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x2560xf32>
    %64 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%63, %cst_9 : tensor<113x2560xf32>, tensor<960x2560xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%49, %64 : tensor<113x960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_29: f32, %out: f32):
      %67 = arith.addf %in, %in_29 : f32
      linalg.yield %67 : f32
    } -> tensor<113x960xf32>
    %66 = iree_tensor_ext.compute_barrier.end %65 : tensor<113x960xf32> -> tensor<113x960xf32>
    %expanded_28 = tensor.expand_shape %66 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xf32> into tensor<1x113x960xf32>
    util.return %expanded_28 : tensor<1x113x960xf32>
  }
}

