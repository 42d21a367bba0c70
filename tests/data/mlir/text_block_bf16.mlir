#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1, d2) -> (d2)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>
#map6 = affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>
#map7 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map8 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map9 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map12 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#map14 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x113x960xbf16>, %arg1: tensor<1x113x1x32xf32>, %arg2: tensor<1x113x1x32xf32>, %arg3: tensor<1x113x113xi1>) -> tensor<1x113x960xbf16> {
    %cst = arith.constant 1.250000e-01 : f32
    %c2_i64 = arith.constant 2 : i64
    %cst_0 = arith.constant 0.000000e+00 : f32
    %cst_1 = arith.constant 1.000000e+00 : bf16
    %cst_2 = arith.constant dense_resource<mlp.down_proj.weight> : tensor<960x2560xbf16>
    %cst_3 = arith.constant dense_resource<mlp.up_proj.weight> : tensor<2560x960xbf16>
    %cst_4 = arith.constant dense_resource<mlp.gate_proj.weight> : tensor<2560x960xbf16>
    %cst_5 = arith.constant dense_resource<post_attention_layernorm.weight> : tensor<960xbf16>
    %cst_6 = arith.constant dense_resource<o_proj.weight> : tensor<960x960xbf16>
    %cst_7 = arith.constant dense_resource<v_proj.weight> : tensor<320x960xbf16>
    %cst_8 = arith.constant dense_resource<k_proj.weight> : tensor<320x960xbf16>
    %cst_9 = arith.constant dense_resource<q_proj.weight> : tensor<960x960xbf16>
    %cst_10 = arith.constant dense_resource<input_layernorm.weight> : tensor<960xbf16>
    %cst_11 = arith.constant 1.000000e-05 : f64
    %cst_12 = arith.constant 9.600000e+02 : f32
    %0 = tensor.empty() : tensor<1x113x960xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x113x960xbf16>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %86 = arith.extf %in : bf16 to f32
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %3 = tensor.empty() : tensor<1x113x1xf32>
    %4 = linalg.fill ins(%cst_0 : f32) outs(%3 : tensor<1x113x1xf32>) -> tensor<1x113x1xf32>
    %5 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%2 : tensor<1x113x960xf32>) outs(%4 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.addf %in, %out : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%5 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.divf %in, %cst_12 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %7 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%6 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.truncf %cst_11 : f64 to f32
      %87 = arith.addf %in, %86 : f32
      linalg.yield %87 : f32
    } -> tensor<1x113x1xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%7 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = math.rsqrt %in : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %9 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %8 : tensor<1x113x960xf32>, tensor<1x113x1xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %10 = tensor.empty() : tensor<1x113x960xbf16>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<1x113x960xf32>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    %12 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_10, %11 : tensor<960xbf16>, tensor<1x113x960xbf16>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.mulf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    %collapsed = tensor.collapse_shape %12 [[0, 1], [2]] : tensor<1x113x960xbf16> into tensor<113x960xbf16>
    %13 = tensor.empty() : tensor<960x960xbf16>
    %transposed = linalg.transpose ins(%cst_9 : tensor<960x960xbf16>) outs(%13 : tensor<960x960xbf16>) permutation = [1, 0] 
    %14 = tensor.empty() : tensor<113x960xf32>
    %15 = linalg.fill ins(%cst_0 : f32) outs(%14 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %16 = linalg.matmul ins(%collapsed, %transposed : tensor<113x960xbf16>, tensor<960x960xbf16>) outs(%15 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %17 = tensor.empty() : tensor<113x960xbf16>
    %18 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%16 : tensor<113x960xf32>) outs(%17 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x960xbf16>
    %expanded = tensor.expand_shape %18 [[0, 1], [2, 3]] output_shape [1, 113, 15, 64] : tensor<113x960xbf16> into tensor<1x113x15x64xbf16>
    %19 = tensor.empty() : tensor<1x113x15x64xf32>
    %20 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded : tensor<1x113x15x64xbf16>) outs(%19 : tensor<1x113x15x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %86 = arith.extf %in : bf16 to f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x64xf32>
    %extracted_slice = tensor.extract_slice %20[0, 0, 0, 0] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<1x113x15x32xf32>
    %extracted_slice_13 = tensor.extract_slice %20[0, 0, 0, 32] [1, 113, 15, 32] [1, 1, 1, 1] : tensor<1x113x15x64xf32> to tensor<1x113x15x32xf32>
    %21 = tensor.empty() : tensor<1x113x15x32xf32>
    %22 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg1 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %23 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg2 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %24 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%22, %23 : tensor<1x113x15x32xf32>, tensor<1x113x15x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.subf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %25 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_13, %arg1 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %26 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %arg2 : tensor<1x113x15x32xf32>, tensor<1x113x1x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %27 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%25, %26 : tensor<1x113x15x32xf32>, tensor<1x113x15x32xf32>) outs(%21 : tensor<1x113x15x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.addf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x15x32xf32>
    %concat = tensor.concat dim(3) %24, %27 : (tensor<1x113x15x32xf32>, tensor<1x113x15x32xf32>) -> tensor<1x113x15x64xf32>
    %28 = tensor.empty() : tensor<1x113x15x64xbf16>
    %29 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat : tensor<1x113x15x64xf32>) outs(%28 : tensor<1x113x15x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x15x64xbf16>
    %30 = tensor.empty() : tensor<960x320xbf16>
    %transposed_14 = linalg.transpose ins(%cst_8 : tensor<320x960xbf16>) outs(%30 : tensor<960x320xbf16>) permutation = [1, 0] 
    %31 = tensor.empty() : tensor<113x320xf32>
    %32 = linalg.fill ins(%cst_0 : f32) outs(%31 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %33 = linalg.matmul ins(%collapsed, %transposed_14 : tensor<113x960xbf16>, tensor<960x320xbf16>) outs(%32 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %34 = tensor.empty() : tensor<113x320xbf16>
    %35 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%33 : tensor<113x320xf32>) outs(%34 : tensor<113x320xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x320xbf16>
    %expanded_15 = tensor.expand_shape %35 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xbf16> into tensor<1x113x5x64xbf16>
    %36 = tensor.empty() : tensor<1x113x5x64xf32>
    %37 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_15 : tensor<1x113x5x64xbf16>) outs(%36 : tensor<1x113x5x64xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %86 = arith.extf %in : bf16 to f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x64xf32>
    %extracted_slice_16 = tensor.extract_slice %37[0, 0, 0, 0] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<1x113x5x32xf32>
    %extracted_slice_17 = tensor.extract_slice %37[0, 0, 0, 32] [1, 113, 5, 32] [1, 1, 1, 1] : tensor<1x113x5x64xf32> to tensor<1x113x5x32xf32>
    %38 = tensor.empty() : tensor<1x113x5x32xf32>
    %39 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg1 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %40 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg2 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %41 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%39, %40 : tensor<1x113x5x32xf32>, tensor<1x113x5x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.subf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %42 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_17, %arg1 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %43 = linalg.generic {indexing_maps = [#map4, #map5, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_16, %arg2 : tensor<1x113x5x32xf32>, tensor<1x113x1x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %44 = linalg.generic {indexing_maps = [#map4, #map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%42, %43 : tensor<1x113x5x32xf32>, tensor<1x113x5x32xf32>) outs(%38 : tensor<1x113x5x32xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.addf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x5x32xf32>
    %concat_18 = tensor.concat dim(3) %41, %44 : (tensor<1x113x5x32xf32>, tensor<1x113x5x32xf32>) -> tensor<1x113x5x64xf32>
    %45 = tensor.empty() : tensor<1x113x5x64xbf16>
    %46 = linalg.generic {indexing_maps = [#map4, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_18 : tensor<1x113x5x64xf32>) outs(%45 : tensor<1x113x5x64xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x5x64xbf16>
    %transposed_19 = linalg.transpose ins(%cst_7 : tensor<320x960xbf16>) outs(%30 : tensor<960x320xbf16>) permutation = [1, 0] 
    %47 = linalg.matmul ins(%collapsed, %transposed_19 : tensor<113x960xbf16>, tensor<960x320xbf16>) outs(%32 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %48 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%47 : tensor<113x320xf32>) outs(%34 : tensor<113x320xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x320xbf16>
    %expanded_20 = tensor.expand_shape %48 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xbf16> into tensor<1x113x5x64xbf16>
    %expanded_21 = tensor.expand_shape %arg3 [[0], [1, 2], [3]] output_shape [1, 1, 113, 113] : tensor<1x113x113xi1> into tensor<1x1x113x113xi1>
    %49 = tensor.empty() : tensor<1x15x113x64xbf16>
    %transposed_22 = linalg.transpose ins(%29 : tensor<1x113x15x64xbf16>) outs(%49 : tensor<1x15x113x64xbf16>) permutation = [0, 2, 1, 3] 
    %50 = tensor.empty() : tensor<1x5x113x64xbf16>
    %transposed_23 = linalg.transpose ins(%46 : tensor<1x113x5x64xbf16>) outs(%50 : tensor<1x5x113x64xbf16>) permutation = [0, 2, 1, 3] 
    %transposed_24 = linalg.transpose ins(%expanded_20 : tensor<1x113x5x64xbf16>) outs(%50 : tensor<1x5x113x64xbf16>) permutation = [0, 2, 1, 3] 
    %51 = tensor.empty() : tensor<1x15x113x113xi1>
    %52 = linalg.generic {indexing_maps = [#map6, #map4], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_21 : tensor<1x1x113x113xi1>) outs(%51 : tensor<1x15x113x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x113x113xi1>
    %53 = tensor.empty() : tensor<1x5x3x113x64xbf16>
    %54 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_23 : tensor<1x5x113x64xbf16>) outs(%53 : tensor<1x5x3x113x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<1x5x3x113x64xbf16>
    %55 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_24 : tensor<1x5x113x64xbf16>) outs(%53 : tensor<1x5x3x113x64xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      linalg.yield %in : bf16
    } -> tensor<1x5x3x113x64xbf16>
    %collapsed_25 = tensor.collapse_shape %transposed_22 [[0, 1], [2], [3]] : tensor<1x15x113x64xbf16> into tensor<15x113x64xbf16>
    %collapsed_26 = tensor.collapse_shape %54 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xbf16> into tensor<15x113x64xbf16>
    %collapsed_27 = tensor.collapse_shape %55 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xbf16> into tensor<15x113x64xbf16>
    %collapsed_28 = tensor.collapse_shape %52 [[0, 1], [2], [3]] : tensor<1x15x113x113xi1> into tensor<15x113x113xi1>
    %56 = tensor.empty() : tensor<15x113x64xbf16>
    %57 = iree_linalg_ext.attention <indexing_maps = [#map9, #map10, #map11, #map12, #map13, #map14]> ins(%collapsed_25, %collapsed_26, %collapsed_27, %cst, %collapsed_28 : tensor<15x113x64xbf16>, tensor<15x113x64xbf16>, tensor<15x113x64xbf16>, f32, tensor<15x113x113xi1>) outs(%56 : tensor<15x113x64xbf16>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<15x113x64xbf16>
    %expanded_29 = tensor.expand_shape %57 [[0, 1], [2], [3]] output_shape [1, 15, 113, 64] : tensor<15x113x64xbf16> into tensor<1x15x113x64xbf16>
    %transposed_30 = linalg.transpose ins(%expanded_29 : tensor<1x15x113x64xbf16>) outs(%28 : tensor<1x113x15x64xbf16>) permutation = [0, 2, 1, 3] 
    %collapsed_31 = tensor.collapse_shape %transposed_30 [[0, 1], [2, 3]] : tensor<1x113x15x64xbf16> into tensor<113x960xbf16>
    %transposed_32 = linalg.transpose ins(%cst_6 : tensor<960x960xbf16>) outs(%13 : tensor<960x960xbf16>) permutation = [1, 0] 
    %58 = linalg.matmul ins(%collapsed_31, %transposed_32 : tensor<113x960xbf16>, tensor<960x960xbf16>) outs(%15 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %59 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%58 : tensor<113x960xf32>) outs(%17 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x960xbf16>
    %expanded_33 = tensor.expand_shape %59 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xbf16> into tensor<1x113x960xbf16>
    %60 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0, %expanded_33 : tensor<1x113x960xbf16>, tensor<1x113x960xbf16>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.addf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    %61 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60 : tensor<1x113x960xbf16>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %86 = arith.extf %in : bf16 to f32
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %62 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61 : tensor<1x113x960xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %63 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "reduction"]} ins(%62 : tensor<1x113x960xf32>) outs(%4 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.addf %in, %out : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %64 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%63 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.divf %in, %cst_12 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %65 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%64 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = arith.truncf %cst_11 : f64 to f32
      %87 = arith.addf %in, %86 : f32
      linalg.yield %87 : f32
    } -> tensor<1x113x1xf32>
    %66 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%65 : tensor<1x113x1xf32>) outs(%3 : tensor<1x113x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %86 = math.rsqrt %in : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x1xf32>
    %67 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61, %66 : tensor<1x113x960xf32>, tensor<1x113x1xf32>) outs(%0 : tensor<1x113x960xf32>) {
    ^bb0(%in: f32, %in_42: f32, %out: f32):
      %86 = arith.mulf %in, %in_42 : f32
      linalg.yield %86 : f32
    } -> tensor<1x113x960xf32>
    %68 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%67 : tensor<1x113x960xf32>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    %69 = linalg.generic {indexing_maps = [#map2, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_5, %68 : tensor<960xbf16>, tensor<1x113x960xbf16>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.mulf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    %collapsed_34 = tensor.collapse_shape %69 [[0, 1], [2]] : tensor<1x113x960xbf16> into tensor<113x960xbf16>
    %70 = tensor.empty() : tensor<960x2560xbf16>
    %transposed_35 = linalg.transpose ins(%cst_4 : tensor<2560x960xbf16>) outs(%70 : tensor<960x2560xbf16>) permutation = [1, 0] 
    %71 = tensor.empty() : tensor<113x2560xf32>
    %72 = linalg.fill ins(%cst_0 : f32) outs(%71 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %73 = linalg.matmul ins(%collapsed_34, %transposed_35 : tensor<113x960xbf16>, tensor<960x2560xbf16>) outs(%72 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %74 = tensor.empty() : tensor<113x2560xbf16>
    %75 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%73 : tensor<113x2560xf32>) outs(%74 : tensor<113x2560xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x2560xbf16>
    %expanded_36 = tensor.expand_shape %75 [[0, 1], [2]] output_shape [1, 113, 2560] : tensor<113x2560xbf16> into tensor<1x113x2560xbf16>
    %76 = tensor.empty() : tensor<1x113x2560xbf16>
    %77 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_36 : tensor<1x113x2560xbf16>) outs(%76 : tensor<1x113x2560xbf16>) {
    ^bb0(%in: bf16, %out: bf16):
      %86 = arith.negf %in : bf16
      %87 = math.exp %86 : bf16
      %88 = arith.addf %87, %cst_1 : bf16
      %89 = arith.divf %cst_1, %88 : bf16
      linalg.yield %89 : bf16
    } -> tensor<1x113x2560xbf16>
    %78 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%77, %expanded_36 : tensor<1x113x2560xbf16>, tensor<1x113x2560xbf16>) outs(%76 : tensor<1x113x2560xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.mulf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x2560xbf16>
    %transposed_37 = linalg.transpose ins(%cst_3 : tensor<2560x960xbf16>) outs(%70 : tensor<960x2560xbf16>) permutation = [1, 0] 
    %79 = linalg.matmul ins(%collapsed_34, %transposed_37 : tensor<113x960xbf16>, tensor<960x2560xbf16>) outs(%72 : tensor<113x2560xf32>) -> tensor<113x2560xf32>
    %80 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%79 : tensor<113x2560xf32>) outs(%74 : tensor<113x2560xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x2560xbf16>
    %expanded_38 = tensor.expand_shape %80 [[0, 1], [2]] output_shape [1, 113, 2560] : tensor<113x2560xbf16> into tensor<1x113x2560xbf16>
    %81 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%78, %expanded_38 : tensor<1x113x2560xbf16>, tensor<1x113x2560xbf16>) outs(%76 : tensor<1x113x2560xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.mulf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x2560xbf16>
    %collapsed_39 = tensor.collapse_shape %81 [[0, 1], [2]] : tensor<1x113x2560xbf16> into tensor<113x2560xbf16>
    %82 = tensor.empty() : tensor<2560x960xbf16>
    %transposed_40 = linalg.transpose ins(%cst_2 : tensor<960x2560xbf16>) outs(%82 : tensor<2560x960xbf16>) permutation = [1, 0] 
    %83 = linalg.matmul ins(%collapsed_39, %transposed_40 : tensor<113x2560xbf16>, tensor<2560x960xbf16>) outs(%15 : tensor<113x960xf32>) -> tensor<113x960xf32>
    %84 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%83 : tensor<113x960xf32>) outs(%17 : tensor<113x960xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %86 = arith.truncf %in : f32 to bf16
      linalg.yield %86 : bf16
    } -> tensor<113x960xbf16>
    %expanded_41 = tensor.expand_shape %84 [[0, 1], [2]] output_shape [1, 113, 960] : tensor<113x960xbf16> into tensor<1x113x960xbf16>
    %85 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60, %expanded_41 : tensor<1x113x960xbf16>, tensor<1x113x960xbf16>) outs(%10 : tensor<1x113x960xbf16>) {
    ^bb0(%in: bf16, %in_42: bf16, %out: bf16):
      %86 = arith.addf %in, %in_42 : bf16
      linalg.yield %86 : bf16
    } -> tensor<1x113x960xbf16>
    return %85 : tensor<1x113x960xbf16>
  }
}

