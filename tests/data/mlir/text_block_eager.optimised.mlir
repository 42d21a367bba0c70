#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d3, d0, d2)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map10 = affine_map<(d0, d1, d2, d3) -> (d1, d2, d0, d3)>
#map11 = affine_map<(d0, d1, d2) -> ()>
#map12 = affine_map<(d0, d1, d2, d3) -> (d2, d0, d3)>
#map13 = affine_map<(d0, d1, d2) -> (d1, d0, d2)>
module {
  util.func public @main(%arg0: tensor<1x113x960xf32>, %arg1: tensor<1x113x1x32xf32>, %arg2: tensor<1x113x1x32xf32>, %arg3: tensor<1x113x113xi1>) -> tensor<1x113x960xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 9.600000e+02 : f32
    %cst_1 = arith.constant 9.99999974E-6 : f32
    %cst_2 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xf32>
    %cst_3 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xf32>
    %cst_4 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xf32>
    %cst_5 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xf32>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xf32>
    %cst_7 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xf32>
    %cst_8 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xf32>
    %cst_9 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xf32>
    %cst_10 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xf32>
    %cst_11 = arith.constant dense<-3.40282347E+38> : tensor<f32>
    %cst_12 = arith.constant 1.000000e+00 : f32
    %cst_13 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x113x960xf32> into tensor<113x960xf32>
    %0 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<113x960xf32> -> tensor<113x960xf32>
    %1 = tensor.empty() : tensor<113x960xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %3 = tensor.empty() : tensor<113xf32>
    %4 = linalg.fill ins(%cst_13 : f32) outs(%3 : tensor<113xf32>) -> tensor<113xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<113x960xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.addf %in, %out : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %6 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%5 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.divf %in, %cst_0 : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.addf %in, %cst_1 : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = math.rsqrt %in : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %8 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %10 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_2, %9 : tensor<960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %11 = linalg.fill ins(%cst_13 : f32) outs(%1 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %12 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_3 : tensor<113x960xf32>, tensor<960x960xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %expanded = tensor.expand_shape %12 [[0, 1], [2, 3]] output_shape [1, 113, 15, 64] : tensor<113x960xf32> into tensor<1x113x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %extracted_slice_14 = tensor.extract_slice %expanded[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %13 = tensor.empty() : tensor<1x113x15x64xf32>
    %collapsed_15 = tensor.collapse_shape %arg1 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %14 = iree_tensor_ext.compute_barrier.start %collapsed_15 : tensor<113x32xf32> -> tensor<113x32xf32>
    %15 = tensor.empty() : tensor<113x15x32xf32>
    %16 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %14 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %collapsed_16 = tensor.collapse_shape %arg2 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %17 = iree_tensor_ext.compute_barrier.start %collapsed_16 : tensor<113x32xf32> -> tensor<113x32xf32>
    %18 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_14, %17 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %19 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%16, %18 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.subf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %inserted_slice = tensor.insert_slice %19 into %13[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %20 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_14, %14 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %21 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %17 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %22 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%20, %21 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%15 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.addf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x15x32xf32>
    %inserted_slice_17 = tensor.insert_slice %22 into %inserted_slice[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %23 = tensor.empty() : tensor<113x320xf32>
    %24 = linalg.fill ins(%cst_13 : f32) outs(%23 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %25 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_4 : tensor<113x960xf32>, tensor<320x960xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_18 = tensor.expand_shape %25 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %extracted_slice_19 = tensor.extract_slice %expanded_18[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %extracted_slice_20 = tensor.extract_slice %expanded_18[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %26 = tensor.empty() : tensor<1x113x5x64xf32>
    %27 = tensor.empty() : tensor<113x5x32xf32>
    %28 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %14 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %29 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %17 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %30 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%28, %29 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.subf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %inserted_slice_21 = tensor.insert_slice %30 into %26[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %31 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %14 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %32 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_19, %17 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %33 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%31, %32 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%27 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.addf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x5x32xf32>
    %inserted_slice_22 = tensor.insert_slice %33 into %inserted_slice_21[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %34 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%10, %cst_5 : tensor<113x960xf32>, tensor<320x960xf32>) outs(%24 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %collapsed_23 = tensor.collapse_shape %inserted_slice_22 [[0, 1], [2], [3]] : tensor<1x113x5x64xf32> into tensor<113x5x64xf32>
    %expanded_24 = tensor.expand_shape %34 [[0], [1, 2]] output_shape [113, 5, 64] : tensor<113x320xf32> into tensor<113x5x64xf32>
    %35 = tensor.empty() : tensor<5x3x64x113xf32>
    %36 = linalg.generic {indexing_maps = [#map8, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%collapsed_23 : tensor<113x5x64xf32>) outs(%35 : tensor<5x3x64x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<5x3x64x113xf32>
    %collapsed_25 = tensor.collapse_shape %36 [[0, 1], [2], [3]] : tensor<5x3x64x113xf32> into tensor<15x64x113xf32>
    %37 = tensor.empty() : tensor<15x113x64xf32>
    %38 = tensor.empty() : tensor<15x1x113x64xf32>
    %39 = linalg.generic {indexing_maps = [#map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_17 : tensor<1x113x15x64xf32>) outs(%38 : tensor<15x1x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<15x1x113x64xf32>
    %collapsed_26 = tensor.collapse_shape %39 [[0], [1, 2], [3]] : tensor<15x1x113x64xf32> into tensor<15x113x64xf32>
    %40 = tensor.empty() : tensor<15x113x113xf32>
    %41 = linalg.fill ins(%cst_13 : f32) outs(%40 : tensor<15x113x113xf32>) -> tensor<15x113x113xf32>
    %42 = linalg.batch_matmul ins(%collapsed_26, %collapsed_25 : tensor<15x113x64xf32>, tensor<15x64x113xf32>) outs(%41 : tensor<15x113x113xf32>) -> tensor<15x113x113xf32>
    %43 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%42 : tensor<15x113x113xf32>) outs(%40 : tensor<15x113x113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.mulf %in, %cst : f32
      linalg.yield %72 : f32
    } -> tensor<15x113x113xf32>
    %collapsed_27 = tensor.collapse_shape %arg3 [[0, 1], [2]] : tensor<1x113x113xi1> into tensor<113x113xi1>
    %44 = iree_tensor_ext.compute_barrier.start %collapsed_27 : tensor<113x113xi1> -> tensor<113x113xi1>
    %45 = linalg.generic {indexing_maps = [#map5, #map7, #map11, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%44, %43, %cst_11 : tensor<113x113xi1>, tensor<15x113x113xf32>, tensor<f32>) outs(%40 : tensor<15x113x113xf32>) {
    ^bb0(%in: i1, %in_31: f32, %in_32: f32, %out: f32):
      %72 = arith.select %in, %in_31, %in_32 : f32
      linalg.yield %72 : f32
    } -> tensor<15x113x113xf32>
    %46 = linalg.softmax dimension(2) ins(%45 : tensor<15x113x113xf32>) outs(%40 : tensor<15x113x113xf32>) -> tensor<15x113x113xf32>
    %47 = tensor.empty() : tensor<5x3x113x64xf32>
    %48 = linalg.generic {indexing_maps = [#map12, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_24 : tensor<113x5x64xf32>) outs(%47 : tensor<5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<5x3x113x64xf32>
    %collapsed_28 = tensor.collapse_shape %48 [[0, 1], [2], [3]] : tensor<5x3x113x64xf32> into tensor<15x113x64xf32>
    %49 = linalg.fill ins(%cst_13 : f32) outs(%37 : tensor<15x113x64xf32>) -> tensor<15x113x64xf32>
    %50 = linalg.batch_matmul ins(%46, %collapsed_28 : tensor<15x113x113xf32>, tensor<15x113x64xf32>) outs(%49 : tensor<15x113x64xf32>) -> tensor<15x113x64xf32>
    %51 = tensor.empty() : tensor<113x15x64xf32>
    %52 = linalg.generic {indexing_maps = [#map13, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%50 : tensor<15x113x64xf32>) outs(%51 : tensor<113x15x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<113x15x64xf32>
    %collapsed_29 = tensor.collapse_shape %52 [[0], [1, 2]] : tensor<113x15x64xf32> into tensor<113x960xf32>
    %53 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%collapsed_29, %cst_6 : tensor<113x960xf32>, tensor<960x960xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %54 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %53 : tensor<113x960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.addf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %55 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%54 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %56 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%55 : tensor<113x960xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.addf %in, %out : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %57 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%56 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.divf %in, %cst_0 : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %58 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%57 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.addf %in, %cst_1 : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %59 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%58 : tensor<113xf32>) outs(%3 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = math.rsqrt %in : f32
      linalg.yield %72 : f32
    } -> tensor<113xf32>
    %60 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%54, %59 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %61 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_7, %60 : tensor<960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %62 = tensor.empty() : tensor<113x2560xf32>
    %63 = linalg.fill ins(%cst_13 : f32) outs(%62 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %64 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%61, %cst_8 : tensor<113x960xf32>, tensor<2560x960xf32>) outs(%63 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%64 : tensor<113x2560xf32>) outs(%62 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %out: f32):
      %72 = arith.negf %in : f32
      %73 = math.exp %72 : f32
      %74 = arith.addf %73, %cst_12 : f32
      %75 = arith.divf %cst_12, %74 : f32
      linalg.yield %75 : f32
    } -> tensor<113x2560xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%65, %64 : tensor<113x2560xf32>, tensor<113x2560xf32>) outs(%62 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x2560xf32>
    %67 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%61, %cst_9 : tensor<113x960xf32>, tensor<2560x960xf32>) outs(%63 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %68 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%66, %67 : tensor<113x2560xf32>, tensor<113x2560xf32>) outs(%62 : tensor<113x2560xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.mulf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x2560xf32>
    %69 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%68, %cst_10 : tensor<113x2560xf32>, tensor<960x2560xf32>) outs(%11 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %70 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%54, %69 : tensor<113x960xf32>, tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %72 = arith.addf %in, %in_31 : f32
      linalg.yield %72 : f32
    } -> tensor<113x960xf32>
    %71 = iree_tensor_ext.compute_barrier.end %70 : tensor<113x960xf32> -> tensor<113x960xf32>
    %expanded_30 = tensor.expand_shape %71 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xf32> into tensor<1x113x960xf32>
    util.return %expanded_30 : tensor<1x113x960xf32>
  }
}

