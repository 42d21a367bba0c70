#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d0)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d1)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d1, d2, d0, d3)>
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
  util.func public @main(%arg0: tensor<1x113x960xbf16>, %arg1: tensor<1x113x1x32xf32>, %arg2: tensor<1x113x1x32xf32>, %arg3: tensor<1x113x113xi1>) -> tensor<1x113x960xbf16> {
    %cst = arith.constant 9.600000e+02 : f32
    %cst_0 = arith.constant 9.99999974E-6 : f32
    %cst_1 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xbf16>
    %cst_2 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xbf16>
    %cst_3 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xbf16>
    %cst_4 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xbf16>
    %cst_5 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xbf16>
    %cst_6 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xbf16>
    %cst_7 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xbf16>
    %cst_8 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xbf16>
    %cst_9 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xbf16>
    %cst_10 = arith.constant 1.000000e+00 : bf16
    %cst_11 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_12 = arith.constant 1.250000e-01 : f32
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x113x960xbf16> into tensor<113x960xbf16>
    %0 = iree_tensor_ext.compute_barrier.start %collapsed : tensor<113x960xbf16> -> tensor<113x960xbf16>
    %1 = tensor.empty() : tensor<113x960xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<113x960xbf16>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %90 = arith.extf %in : bf16 to f32
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %4 = tensor.empty() : tensor<113xf32>
    %5 = linalg.fill ins(%cst_11 : f32) outs(%4 : tensor<113xf32>) -> tensor<113xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%3 : tensor<113x960xf32>) outs(%5 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.addf %in, %out : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %7 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.divf %in, %cst : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%7 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.addf %in, %cst_0 : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = math.rsqrt %in : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%2, %9 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %11 = tensor.empty() : tensor<113x960xbf16>
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<113x960xf32>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %13 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_1, %12 : tensor<960xbf16>, tensor<113x960xbf16>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.mulf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %14 = linalg.fill ins(%cst_11 : f32) outs(%1 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %15 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%13, %cst_2 : tensor<113x960xbf16>, tensor<960x960xbf16>) outs(%14 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%15 : tensor<113x960xf32>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %expanded = tensor.expand_shape %16 [[0], [1, 2]] output_shape [113, 15, 64] : tensor<113x960xbf16> into tensor<113x15x64xbf16>
    %17 = tensor.empty() : tensor<113x15x64xf32>
    %18 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<113x15x64xbf16>) outs(%17 : tensor<113x15x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %90 = arith.extf %in : bf16 to f32
      linalg.yield %90 : f32
    } -> tensor<113x15x64xf32>
    %expanded_13 = tensor.expand_shape %18 [[0, 1], [2], [3]] output_shape [1, 113, 15, 64] : tensor<113x15x64xf32> into tensor<1x113x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded_13[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %extracted_slice_14 = tensor.extract_slice %expanded_13[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<113x15x32xf32>
    %collapsed_15 = tensor.collapse_shape %arg1 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %19 = iree_tensor_ext.compute_barrier.start %collapsed_15 : tensor<113x32xf32> -> tensor<113x32xf32>
    %20 = tensor.empty() : tensor<113x15x32xf32>
    %21 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %19 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %collapsed_16 = tensor.collapse_shape %arg2 [[0, 1, 2], [3]] : tensor<1x113x1x32xf32> into tensor<113x32xf32>
    %22 = iree_tensor_ext.compute_barrier.start %collapsed_16 : tensor<113x32xf32> -> tensor<113x32xf32>
    %23 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_14, %22 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %24 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%21, %23 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.subf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %25 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_14, %19 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %26 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice, %22 : tensor<113x15x32xf32>, tensor<113x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %27 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%25, %26 : tensor<113x15x32xf32>, tensor<113x15x32xf32>) outs(%20 : tensor<113x15x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.addf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x15x32xf32>
    %28 = tensor.empty() : tensor<1x113x15x64xf32>
    %inserted_slice = tensor.insert_slice %24 into %28[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %inserted_slice_17 = tensor.insert_slice %27 into %inserted_slice[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<113x15x32xf32> into tensor<1x113x15x64xf32>
    %29 = tensor.empty() : tensor<113x15x64xbf16>
    %30 = tensor.empty() : tensor<113x320xf32>
    %31 = linalg.fill ins(%cst_11 : f32) outs(%30 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %32 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%13, %cst_3 : tensor<113x960xbf16>, tensor<320x960xbf16>) outs(%31 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %33 = tensor.empty() : tensor<113x320xbf16>
    %34 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%32 : tensor<113x320xf32>) outs(%33 : tensor<113x320xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x320xbf16>
    %expanded_18 = tensor.expand_shape %34 [[0], [1, 2]] output_shape [113, 5, 64] : tensor<113x320xbf16> into tensor<113x5x64xbf16>
    %35 = tensor.empty() : tensor<113x5x64xf32>
    %36 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_18 : tensor<113x5x64xbf16>) outs(%35 : tensor<113x5x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %90 = arith.extf %in : bf16 to f32
      linalg.yield %90 : f32
    } -> tensor<113x5x64xf32>
    %expanded_19 = tensor.expand_shape %36 [[0, 1], [2], [3]] output_shape [1, 113, 5, 64] : tensor<113x5x64xf32> into tensor<1x113x5x64xf32>
    %extracted_slice_20 = tensor.extract_slice %expanded_19[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %extracted_slice_21 = tensor.extract_slice %expanded_19[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<113x5x32xf32>
    %37 = tensor.empty() : tensor<113x5x32xf32>
    %38 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %19 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %39 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_21, %22 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %40 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38, %39 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.subf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %41 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_21, %19 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %42 = linalg.generic {indexing_maps = [#map7, #map4, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%extracted_slice_20, %22 : tensor<113x5x32xf32>, tensor<113x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %43 = linalg.generic {indexing_maps = [#map7, #map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%41, %42 : tensor<113x5x32xf32>, tensor<113x5x32xf32>) outs(%37 : tensor<113x5x32xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.addf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x5x32xf32>
    %44 = tensor.empty() : tensor<1x113x5x64xf32>
    %inserted_slice_22 = tensor.insert_slice %40 into %44[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %inserted_slice_23 = tensor.insert_slice %43 into %inserted_slice_22[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<113x5x32xf32> into tensor<1x113x5x64xf32>
    %45 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%13, %cst_4 : tensor<113x960xbf16>, tensor<320x960xbf16>) outs(%31 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_24 = tensor.expand_shape %45 [[0], [1, 2]] output_shape [113, 5, 64] : tensor<113x320xf32> into tensor<113x5x64xf32>
    %46 = tensor.empty() : tensor<15x113x64xbf16>
    %47 = tensor.empty() : tensor<1x113x15x64xbf16>
    %48 = linalg.generic {indexing_maps = [#map8, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_17 : tensor<1x113x15x64xf32>) outs(%47 : tensor<1x113x15x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<1x113x15x64xbf16>
    %49 = tensor.empty() : tensor<15x1x113x64xbf16>
    %50 = linalg.generic {indexing_maps = [#map9, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%48 : tensor<1x113x15x64xbf16>) outs(%49 : tensor<15x1x113x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<15x1x113x64xbf16>
    %collapsed_25 = tensor.collapse_shape %50 [[0], [1, 2], [3]] : tensor<15x1x113x64xbf16> into tensor<15x113x64xbf16>
    %51 = tensor.empty() : tensor<1x113x5x64xbf16>
    %52 = linalg.generic {indexing_maps = [#map8, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%inserted_slice_23 : tensor<1x113x5x64xf32>) outs(%51 : tensor<1x113x5x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<1x113x5x64xbf16>
    %53 = tensor.empty() : tensor<113x5x64xbf16>
    %54 = linalg.generic {indexing_maps = [#map7, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_24 : tensor<113x5x64xf32>) outs(%53 : tensor<113x5x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x5x64xbf16>
    %collapsed_26 = tensor.collapse_shape %arg3 [[0, 1], [2]] : tensor<1x113x113xi1> into tensor<113x113xi1>
    %55 = iree_tensor_ext.compute_barrier.start %collapsed_26 : tensor<113x113xi1> -> tensor<113x113xi1>
    %56 = tensor.empty() : tensor<15x113x113xi1>
    %57 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%55 : tensor<113x113xi1>) outs(%56 : tensor<15x113x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<15x113x113xi1>
    %58 = tensor.empty() : tensor<5x3x1x113x64xbf16>
    %59 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%52 : tensor<1x113x5x64xbf16>) outs(%58 : tensor<5x3x1x113x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<5x3x1x113x64xbf16>
    %collapsed_27 = tensor.collapse_shape %59 [[0, 1], [2, 3], [4]] : tensor<5x3x1x113x64xbf16> into tensor<15x113x64xbf16>
    %60 = tensor.empty() : tensor<5x3x64x113xbf16>
    %61 = linalg.generic {indexing_maps = [#map12, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%54 : tensor<113x5x64xbf16>) outs(%60 : tensor<5x3x64x113xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<5x3x64x113xbf16>
    %collapsed_28 = tensor.collapse_shape %61 [[0, 1], [2], [3]] : tensor<5x3x64x113xbf16> into tensor<15x64x113xbf16>
    %62 = iree_linalg_ext.attention <indexing_maps = [#map13, #map14, #map15, #map16, #map17, #map18]> ins(%collapsed_25, %collapsed_27, %collapsed_28, %cst_12, %57 : tensor<15x113x64xbf16>, tensor<15x113x64xbf16>, tensor<15x64x113xbf16>, f32, tensor<15x113x113xi1>) outs(%46 : tensor<15x113x64xbf16>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<15x113x64xbf16>
    %63 = linalg.generic {indexing_maps = [#map19, #map7], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62 : tensor<15x113x64xbf16>) outs(%29 : tensor<113x15x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<113x15x64xbf16>
    %collapsed_29 = tensor.collapse_shape %63 [[0], [1, 2]] : tensor<113x15x64xbf16> into tensor<113x960xbf16>
    %64 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%collapsed_29, %cst_5 : tensor<113x960xbf16>, tensor<960x960xbf16>) outs(%14 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%64 : tensor<113x960xf32>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %66 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%0, %65 : tensor<113x960xbf16>, tensor<113x960xbf16>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.addf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %67 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%66 : tensor<113x960xbf16>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %90 = arith.extf %in : bf16 to f32
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %68 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%67 : tensor<113x960xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %69 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "reduction"]} ins(%68 : tensor<113x960xf32>) outs(%5 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.addf %in, %out : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %70 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%69 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.divf %in, %cst : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %71 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%70 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = arith.addf %in, %cst_0 : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %72 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%71 : tensor<113xf32>) outs(%4 : tensor<113xf32>) {
    ^bb0(%in: f32, %out: f32):
      %90 = math.rsqrt %in : f32
      linalg.yield %90 : f32
    } -> tensor<113xf32>
    %73 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%67, %72 : tensor<113x960xf32>, tensor<113xf32>) outs(%1 : tensor<113x960xf32>) {
    ^bb0(%in: f32, %in_31: f32, %out: f32):
      %90 = arith.mulf %in, %in_31 : f32
      linalg.yield %90 : f32
    } -> tensor<113x960xf32>
    %74 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%73 : tensor<113x960xf32>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %75 = linalg.generic {indexing_maps = [#map3, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%cst_6, %74 : tensor<960xbf16>, tensor<113x960xbf16>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.mulf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %76 = tensor.empty() : tensor<113x2560xf32>
    %77 = linalg.fill ins(%cst_11 : f32) outs(%76 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %78 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%75, %cst_7 : tensor<113x960xbf16>, tensor<2560x960xbf16>) outs(%77 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %79 = tensor.empty() : tensor<113x2560xbf16>
    %80 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%78 : tensor<113x2560xf32>) outs(%79 : tensor<113x2560xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x2560xbf16>
    %81 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%80 : tensor<113x2560xbf16>) outs(%79 : tensor<113x2560xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %90 = arith.negf %in : bf16
      %91 = math.exp %90 : bf16
      %92 = arith.addf %91, %cst_10 : bf16
      %93 = arith.divf %cst_10, %92 : bf16
      linalg.yield %93 : bf16
    } -> tensor<113x2560xbf16>
    %82 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%81, %80 : tensor<113x2560xbf16>, tensor<113x2560xbf16>) outs(%79 : tensor<113x2560xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.mulf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x2560xbf16>
    %83 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%75, %cst_8 : tensor<113x960xbf16>, tensor<2560x960xbf16>) outs(%77 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %84 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%83 : tensor<113x2560xf32>) outs(%79 : tensor<113x2560xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x2560xbf16>
    %85 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%82, %84 : tensor<113x2560xbf16>, tensor<113x2560xbf16>) outs(%79 : tensor<113x2560xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.mulf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x2560xbf16>
    %86 = linalg.matmul indexing_maps = [#map4, #map5, #map6] ins(%85, %cst_9 : tensor<113x2560xbf16>, tensor<960x2560xbf16>) outs(%14 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %87 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%86 : tensor<113x960xf32>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %90 = arith.truncf %in : f32 to bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %88 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%66, %87 : tensor<113x960xbf16>, tensor<113x960xbf16>) outs(%11 : tensor<113x960xbf16>) {
    ^bb0(%in: bf16, %in_31: bf16, %out: bf16):
      %90 = arith.addf %in, %in_31 : bf16
      linalg.yield %90 : bf16
    } -> tensor<113x960xbf16>
    %89 = iree_tensor_ext.compute_barrier.end %88 : tensor<113x960xbf16> -> tensor<113x960xbf16>
    %expanded_30 = tensor.expand_shape %89 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xbf16> into tensor<1x113x960xbf16>
    util.return %expanded_30 : tensor<1x113x960xbf16>
  }
}

