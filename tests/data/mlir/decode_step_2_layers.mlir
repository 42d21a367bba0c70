#map = affine_map<(d0, d1, d2) -> (d0, d1)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map4 = affine_map<(d0, d1, d2) -> (d2)>
#map5 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map6 = affine_map<(d0) -> (0)>
#map7 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>
#map8 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, 0)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>
#map10 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map11 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map12 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map14 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map15 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map16 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#map17 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x1xi64>, %arg1: tensor<1xi64>, %arg2: tensor<2x1x256x3x64xf32>, %arg3: tensor<2x1x256x3x64xf32>) -> (tensor<1x1x49152xf32>, tensor<2x1x256x3x64xf32>, tensor<2x1x256x3x64xf32>) {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %c0_i64 = arith.constant 0 : i64
    %c49152 = arith.constant 49152 : index
    %cst_1 = arith.constant 1.000000e+00 : f32
    %cst_2 = arith.constant dense_resource<embed_tokens.weight_1> : tensor<49152x576xf32>
    %cst_3 = arith.constant dense_resource<norm.weight> : tensor<576xf32>
    %cst_4 = arith.constant dense_resource<layers.1.mlp.down_proj.weight> : tensor<576x1536xf32>
    %cst_5 = arith.constant dense_resource<layers.1.mlp.up_proj.weight> : tensor<1536x576xf32>
    %cst_6 = arith.constant dense_resource<layers.1.mlp.gate_proj.weight> : tensor<1536x576xf32>
    %cst_7 = arith.constant dense_resource<layers.1.post_attention_layernorm.weight> : tensor<576xf32>
    %cst_8 = arith.constant dense_resource<layers.1.o_proj.weight> : tensor<576x576xf32>
    %cst_9 = arith.constant dense_resource<layers.1.v_proj.weight> : tensor<192x576xf32>
    %cst_10 = arith.constant dense_resource<layers.1.k_proj.weight> : tensor<192x576xf32>
    %cst_11 = arith.constant dense_resource<layers.1.q_proj.weight> : tensor<576x576xf32>
    %cst_12 = arith.constant dense_resource<layers.1.input_layernorm.weight> : tensor<576xf32>
    %cst_13 = arith.constant dense_resource<layers.0.mlp.down_proj.weight> : tensor<576x1536xf32>
    %cst_14 = arith.constant dense_resource<layers.0.mlp.up_proj.weight> : tensor<1536x576xf32>
    %cst_15 = arith.constant dense_resource<layers.0.mlp.gate_proj.weight> : tensor<1536x576xf32>
    %cst_16 = arith.constant dense_resource<layers.0.post_attention_layernorm.weight> : tensor<576xf32>
    %cst_17 = arith.constant dense_resource<layers.0.o_proj.weight> : tensor<576x576xf32>
    %cst_18 = arith.constant dense_resource<layers.0.v_proj.weight> : tensor<192x576xf32>
    %cst_19 = arith.constant dense_resource<layers.0.k_proj.weight> : tensor<192x576xf32>
    %cst_20 = arith.constant dense_resource<layers.0.q_proj.weight> : tensor<576x576xf32>
    %cst_21 = arith.constant dense_resource<layers.0.input_layernorm.weight> : tensor<576xf32>
    %cst_22 = arith.constant 1.000000e-05 : f64
    %cst_23 = arith.constant dense_resource<embed_tokens.weight> : tensor<49152x576xf32>
    %cst_24 = arith.constant 3.125000e-02 : f32
    %cst_25 = arith.constant 1.000000e+05 : f32
    %cst_26 = arith.constant 5.760000e+02 : f32
    %0 = tensor.empty() : tensor<1x1x576xf32>
    %1 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg0 : tensor<1x1xi64>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: i64, %out: f32):
      %130 = arith.index_cast %in : i64 to index
      %131 = linalg.index 2 : index
      %132 = arith.cmpi slt, %130, %c49152 : index
      cf.assert %132, "index must be smaller than dim size"
      %133 = arith.cmpi sge, %in, %c0_i64 : i64
      cf.assert %133, "index must be larger or equal to 0"
      %extracted = tensor.extract %cst_23[%130, %131] : tensor<49152x576xf32>
      linalg.yield %extracted : f32
    } -> tensor<1x1x576xf32>
    %2 = tensor.empty() : tensor<32xf32>
    %3 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%2 : tensor<32xf32>) {
    ^bb0(%out: f32):
      %130 = linalg.index 0 : index
      %131 = arith.index_cast %130 : index to i64
      %132 = arith.sitofp %131 : i64 to f32
      %133 = arith.addf %132, %cst_0 : f32
      linalg.yield %133 : f32
    } -> tensor<32xf32>
    %4 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%3 : tensor<32xf32>) outs(%2 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.mulf %in, %cst_24 : f32
      linalg.yield %130 : f32
    } -> tensor<32xf32>
    %5 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%4 : tensor<32xf32>) outs(%2 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.powf %cst_25, %in : f32
      linalg.yield %130 : f32
    } -> tensor<32xf32>
    %expanded = tensor.expand_shape %arg1 [[0, 1, 2]] output_shape [1, 1, 1] : tensor<1xi64> into tensor<1x1x1xi64>
    %6 = tensor.empty() : tensor<1x1x1xf32>
    %7 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded : tensor<1x1x1xi64>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: i64, %out: f32):
      %130 = arith.sitofp %in : i64 to f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %8 = tensor.empty() : tensor<1x1x32xf32>
    %9 = linalg.generic {indexing_maps = [#map3, #map4, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%7, %5 : tensor<1x1x1xf32>, tensor<32xf32>) outs(%8 : tensor<1x1x32xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.divf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x32xf32>
    %expanded_27 = tensor.expand_shape %9 [[0], [1], [2, 3]] output_shape [1, 1, 1, 32] : tensor<1x1x32xf32> into tensor<1x1x1x32xf32>
    %10 = tensor.empty() : tensor<1x1x1x32xf32>
    %11 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_27 : tensor<1x1x1x32xf32>) outs(%10 : tensor<1x1x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.cos %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1x32xf32>
    %12 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_27 : tensor<1x1x1x32xf32>) outs(%10 : tensor<1x1x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.sin %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1x32xf32>
    %13 = tensor.empty() : tensor<256xi64>
    %14 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%13 : tensor<256xi64>) {
    ^bb0(%out: i64):
      %130 = linalg.index 0 : index
      %131 = arith.index_cast %130 : index to i64
      linalg.yield %131 : i64
    } -> tensor<256xi64>
    %15 = tensor.empty() : tensor<256xi1>
    %16 = linalg.generic {indexing_maps = [#map2, #map6, #map2], iterator_types = ["parallel"]} ins(%14, %arg1 : tensor<256xi64>, tensor<1xi64>) outs(%15 : tensor<256xi1>) {
    ^bb0(%in: i64, %in_110: i64, %out: i1):
      %130 = arith.cmpi eq, %in, %in_110 : i64
      linalg.yield %130 : i1
    } -> tensor<256xi1>
    %expanded_28 = tensor.expand_shape %16 [[0, 1, 2, 3]] output_shape [1, 256, 1, 1] : tensor<256xi1> into tensor<1x256x1x1xi1>
    %17 = linalg.generic {indexing_maps = [#map2, #map6, #map2], iterator_types = ["parallel"]} ins(%14, %arg1 : tensor<256xi64>, tensor<1xi64>) outs(%15 : tensor<256xi1>) {
    ^bb0(%in: i64, %in_110: i64, %out: i1):
      %130 = arith.cmpi sle, %in, %in_110 : i64
      linalg.yield %130 : i1
    } -> tensor<256xi1>
    %18 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1 : tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %19 = linalg.fill ins(%cst_0 : f32) outs(%6 : tensor<1x1x1xf32>) -> tensor<1x1x1xf32>
    %20 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%18 : tensor<1x1x576xf32>) outs(%19 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.addf %in, %out : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %21 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%20 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.divf %in, %cst_26 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %22 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%21 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.truncf %cst_22 : f64 to f32
      %131 = arith.addf %in, %130 : f32
      linalg.yield %131 : f32
    } -> tensor<1x1x1xf32>
    %23 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%22 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.rsqrt %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %24 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %23 : tensor<1x1x576xf32>, tensor<1x1x1xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %25 = linalg.generic {indexing_maps = [#map4, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_21, %24 : tensor<576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %collapsed = tensor.collapse_shape %25 [[0], [1, 2]] : tensor<1x1x576xf32> into tensor<1x576xf32>
    %26 = tensor.empty() : tensor<576x576xf32>
    %transposed = linalg.transpose ins(%cst_20 : tensor<576x576xf32>) outs(%26 : tensor<576x576xf32>) permutation = [1, 0] 
    %27 = tensor.empty() : tensor<1x576xf32>
    %28 = linalg.fill ins(%cst_0 : f32) outs(%27 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %29 = linalg.matmul ins(%collapsed, %transposed : tensor<1x576xf32>, tensor<576x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_29 = tensor.expand_shape %29 [[0], [1, 2, 3]] output_shape [1, 1, 9, 64] : tensor<1x576xf32> into tensor<1x1x9x64xf32>
    %extracted_slice = tensor.extract_slice %expanded_29[0, 0, 0, 0] [1, 1, 9, 32] [1, 1, 1, 1] : tensor<1x1x9x64xf32> to tensor<1x1x9x32xf32>
    %extracted_slice_30 = tensor.extract_slice %expanded_29[0, 0, 0, 32] [1, 1, 9, 32] [1, 1, 1, 1] : tensor<1x1x9x64xf32> to tensor<1x1x9x32xf32>
    %concat = tensor.concat dim(3) %11, %11 : (tensor<1x1x1x32xf32>, tensor<1x1x1x32xf32>) -> tensor<1x1x1x64xf32>
    %30 = tensor.empty() : tensor<1x1x9x64xf32>
    %31 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_29, %concat : tensor<1x1x9x64xf32>, tensor<1x1x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %32 = tensor.empty() : tensor<1x1x9x32xf32>
    %33 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_30 : tensor<1x1x9x32xf32>) outs(%32 : tensor<1x1x9x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x32xf32>
    %concat_31 = tensor.concat dim(3) %33, %extracted_slice : (tensor<1x1x9x32xf32>, tensor<1x1x9x32xf32>) -> tensor<1x1x9x64xf32>
    %concat_32 = tensor.concat dim(3) %12, %12 : (tensor<1x1x1x32xf32>, tensor<1x1x1x32xf32>) -> tensor<1x1x1x64xf32>
    %34 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_31, %concat_32 : tensor<1x1x9x64xf32>, tensor<1x1x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %35 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%31, %34 : tensor<1x1x9x64xf32>, tensor<1x1x9x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %36 = tensor.empty() : tensor<576x192xf32>
    %transposed_33 = linalg.transpose ins(%cst_19 : tensor<192x576xf32>) outs(%36 : tensor<576x192xf32>) permutation = [1, 0] 
    %37 = tensor.empty() : tensor<1x192xf32>
    %38 = linalg.fill ins(%cst_0 : f32) outs(%37 : tensor<1x192xf32>) -> tensor<1x192xf32>
    %39 = linalg.matmul ins(%collapsed, %transposed_33 : tensor<1x576xf32>, tensor<576x192xf32>) outs(%38 : tensor<1x192xf32>) -> tensor<1x192xf32>
    %expanded_34 = tensor.expand_shape %39 [[0], [1, 2, 3]] output_shape [1, 1, 3, 64] : tensor<1x192xf32> into tensor<1x1x3x64xf32>
    %extracted_slice_35 = tensor.extract_slice %expanded_34[0, 0, 0, 0] [1, 1, 3, 32] [1, 1, 1, 1] : tensor<1x1x3x64xf32> to tensor<1x1x3x32xf32>
    %extracted_slice_36 = tensor.extract_slice %expanded_34[0, 0, 0, 32] [1, 1, 3, 32] [1, 1, 1, 1] : tensor<1x1x3x64xf32> to tensor<1x1x3x32xf32>
    %40 = tensor.empty() : tensor<1x1x3x64xf32>
    %41 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_34, %concat : tensor<1x1x3x64xf32>, tensor<1x1x1x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %42 = tensor.empty() : tensor<1x1x3x32xf32>
    %43 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_36 : tensor<1x1x3x32xf32>) outs(%42 : tensor<1x1x3x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x32xf32>
    %concat_37 = tensor.concat dim(3) %43, %extracted_slice_35 : (tensor<1x1x3x32xf32>, tensor<1x1x3x32xf32>) -> tensor<1x1x3x64xf32>
    %44 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_37, %concat_32 : tensor<1x1x3x64xf32>, tensor<1x1x1x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %45 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%41, %44 : tensor<1x1x3x64xf32>, tensor<1x1x3x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %transposed_38 = linalg.transpose ins(%cst_18 : tensor<192x576xf32>) outs(%36 : tensor<576x192xf32>) permutation = [1, 0] 
    %46 = linalg.matmul ins(%collapsed, %transposed_38 : tensor<1x576xf32>, tensor<576x192xf32>) outs(%38 : tensor<1x192xf32>) -> tensor<1x192xf32>
    %expanded_39 = tensor.expand_shape %46 [[0], [1, 2, 3]] output_shape [1, 1, 3, 64] : tensor<1x192xf32> into tensor<1x1x3x64xf32>
    %extracted_slice_40 = tensor.extract_slice %arg2[0, 0, 0, 0, 0] [1, 1, 256, 3, 64] [1, 1, 1, 1, 1] : tensor<2x1x256x3x64xf32> to tensor<1x1x256x3x64xf32>
    %collapsed_41 = tensor.collapse_shape %extracted_slice_40 [[0, 1], [2], [3], [4]] : tensor<1x1x256x3x64xf32> into tensor<1x256x3x64xf32>
    %47 = tensor.empty() : tensor<1x256x3x64xf32>
    %48 = linalg.generic {indexing_maps = [#map8, #map9, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_28, %45, %collapsed_41 : tensor<1x256x1x1xi1>, tensor<1x1x3x64xf32>, tensor<1x256x3x64xf32>) outs(%47 : tensor<1x256x3x64xf32>) {
    ^bb0(%in: i1, %in_110: f32, %in_111: f32, %out: f32):
      %130 = arith.select %in, %in_110, %in_111 : f32
      linalg.yield %130 : f32
    } -> tensor<1x256x3x64xf32>
    %extracted_slice_42 = tensor.extract_slice %arg3[0, 0, 0, 0, 0] [1, 1, 256, 3, 64] [1, 1, 1, 1, 1] : tensor<2x1x256x3x64xf32> to tensor<1x1x256x3x64xf32>
    %collapsed_43 = tensor.collapse_shape %extracted_slice_42 [[0, 1], [2], [3], [4]] : tensor<1x1x256x3x64xf32> into tensor<1x256x3x64xf32>
    %49 = linalg.generic {indexing_maps = [#map8, #map9, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_28, %expanded_39, %collapsed_43 : tensor<1x256x1x1xi1>, tensor<1x1x3x64xf32>, tensor<1x256x3x64xf32>) outs(%47 : tensor<1x256x3x64xf32>) {
    ^bb0(%in: i1, %in_110: f32, %in_111: f32, %out: f32):
      %130 = arith.select %in, %in_110, %in_111 : f32
      linalg.yield %130 : f32
    } -> tensor<1x256x3x64xf32>
    %expanded_44 = tensor.expand_shape %17 [[0, 1, 2, 3]] output_shape [1, 1, 1, 256] : tensor<256xi1> into tensor<1x1x1x256xi1>
    %50 = tensor.empty() : tensor<1x9x1x64xf32>
    %transposed_45 = linalg.transpose ins(%35 : tensor<1x1x9x64xf32>) outs(%50 : tensor<1x9x1x64xf32>) permutation = [0, 2, 1, 3] 
    %51 = tensor.empty() : tensor<1x3x256x64xf32>
    %transposed_46 = linalg.transpose ins(%48 : tensor<1x256x3x64xf32>) outs(%51 : tensor<1x3x256x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_47 = linalg.transpose ins(%49 : tensor<1x256x3x64xf32>) outs(%51 : tensor<1x3x256x64xf32>) permutation = [0, 2, 1, 3] 
    %52 = tensor.empty() : tensor<1x9x1x256xi1>
    %53 = linalg.generic {indexing_maps = [#map9, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_44 : tensor<1x1x1x256xi1>) outs(%52 : tensor<1x9x1x256xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x9x1x256xi1>
    %54 = tensor.empty() : tensor<1x3x3x256x64xf32>
    %55 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_46 : tensor<1x3x256x64xf32>) outs(%54 : tensor<1x3x3x256x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x256x64xf32>
    %56 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_47 : tensor<1x3x256x64xf32>) outs(%54 : tensor<1x3x3x256x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x256x64xf32>
    %collapsed_48 = tensor.collapse_shape %transposed_45 [[0, 1], [2], [3]] : tensor<1x9x1x64xf32> into tensor<9x1x64xf32>
    %collapsed_49 = tensor.collapse_shape %55 [[0, 1, 2], [3], [4]] : tensor<1x3x3x256x64xf32> into tensor<9x256x64xf32>
    %collapsed_50 = tensor.collapse_shape %56 [[0, 1, 2], [3], [4]] : tensor<1x3x3x256x64xf32> into tensor<9x256x64xf32>
    %collapsed_51 = tensor.collapse_shape %53 [[0, 1], [2], [3]] : tensor<1x9x1x256xi1> into tensor<9x1x256xi1>
    %57 = tensor.empty() : tensor<9x1x64xf32>
    %58 = iree_linalg_ext.attention <indexing_maps = [#map12, #map13, #map14, #map15, #map16, #map17]> ins(%collapsed_48, %collapsed_49, %collapsed_50, %cst, %collapsed_51 : tensor<9x1x64xf32>, tensor<9x256x64xf32>, tensor<9x256x64xf32>, f32, tensor<9x1x256xi1>) outs(%57 : tensor<9x1x64xf32>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<9x1x64xf32>
    %expanded_52 = tensor.expand_shape %58 [[0, 1], [2], [3]] output_shape [1, 9, 1, 64] : tensor<9x1x64xf32> into tensor<1x9x1x64xf32>
    %transposed_53 = linalg.transpose ins(%expanded_52 : tensor<1x9x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_54 = tensor.collapse_shape %transposed_53 [[0], [1, 2, 3]] : tensor<1x1x9x64xf32> into tensor<1x576xf32>
    %transposed_55 = linalg.transpose ins(%cst_17 : tensor<576x576xf32>) outs(%26 : tensor<576x576xf32>) permutation = [1, 0] 
    %59 = linalg.matmul ins(%collapsed_54, %transposed_55 : tensor<1x576xf32>, tensor<576x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_56 = tensor.expand_shape %59 [[0], [1, 2]] output_shape [1, 1, 576] : tensor<1x576xf32> into tensor<1x1x576xf32>
    %60 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%1, %expanded_56 : tensor<1x1x576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %61 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60 : tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %62 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%61 : tensor<1x1x576xf32>) outs(%19 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.addf %in, %out : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %63 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.divf %in, %cst_26 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %64 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%63 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.truncf %cst_22 : f64 to f32
      %131 = arith.addf %in, %130 : f32
      linalg.yield %131 : f32
    } -> tensor<1x1x1xf32>
    %65 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%64 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.rsqrt %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %66 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60, %65 : tensor<1x1x576xf32>, tensor<1x1x1xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %67 = linalg.generic {indexing_maps = [#map4, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_16, %66 : tensor<576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %collapsed_57 = tensor.collapse_shape %67 [[0], [1, 2]] : tensor<1x1x576xf32> into tensor<1x576xf32>
    %68 = tensor.empty() : tensor<576x1536xf32>
    %transposed_58 = linalg.transpose ins(%cst_15 : tensor<1536x576xf32>) outs(%68 : tensor<576x1536xf32>) permutation = [1, 0] 
    %69 = tensor.empty() : tensor<1x1536xf32>
    %70 = linalg.fill ins(%cst_0 : f32) outs(%69 : tensor<1x1536xf32>) -> tensor<1x1536xf32>
    %71 = linalg.matmul ins(%collapsed_57, %transposed_58 : tensor<1x576xf32>, tensor<576x1536xf32>) outs(%70 : tensor<1x1536xf32>) -> tensor<1x1536xf32>
    %expanded_59 = tensor.expand_shape %71 [[0], [1, 2]] output_shape [1, 1, 1536] : tensor<1x1536xf32> into tensor<1x1x1536xf32>
    %72 = tensor.empty() : tensor<1x1x1536xf32>
    %73 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_59 : tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      %131 = math.exp %130 : f32
      %132 = arith.addf %131, %cst_1 : f32
      %133 = arith.divf %cst_1, %132 : f32
      linalg.yield %133 : f32
    } -> tensor<1x1x1536xf32>
    %74 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%73, %expanded_59 : tensor<1x1x1536xf32>, tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1536xf32>
    %transposed_60 = linalg.transpose ins(%cst_14 : tensor<1536x576xf32>) outs(%68 : tensor<576x1536xf32>) permutation = [1, 0] 
    %75 = linalg.matmul ins(%collapsed_57, %transposed_60 : tensor<1x576xf32>, tensor<576x1536xf32>) outs(%70 : tensor<1x1536xf32>) -> tensor<1x1536xf32>
    %expanded_61 = tensor.expand_shape %75 [[0], [1, 2]] output_shape [1, 1, 1536] : tensor<1x1536xf32> into tensor<1x1x1536xf32>
    %76 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%74, %expanded_61 : tensor<1x1x1536xf32>, tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1536xf32>
    %collapsed_62 = tensor.collapse_shape %76 [[0], [1, 2]] : tensor<1x1x1536xf32> into tensor<1x1536xf32>
    %77 = tensor.empty() : tensor<1536x576xf32>
    %transposed_63 = linalg.transpose ins(%cst_13 : tensor<576x1536xf32>) outs(%77 : tensor<1536x576xf32>) permutation = [1, 0] 
    %78 = linalg.matmul ins(%collapsed_62, %transposed_63 : tensor<1x1536xf32>, tensor<1536x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_64 = tensor.expand_shape %78 [[0], [1, 2]] output_shape [1, 1, 576] : tensor<1x576xf32> into tensor<1x1x576xf32>
    %79 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60, %expanded_64 : tensor<1x1x576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %80 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%79 : tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %81 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%80 : tensor<1x1x576xf32>) outs(%19 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.addf %in, %out : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %82 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%81 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.divf %in, %cst_26 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %83 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%82 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.truncf %cst_22 : f64 to f32
      %131 = arith.addf %in, %130 : f32
      linalg.yield %131 : f32
    } -> tensor<1x1x1xf32>
    %84 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%83 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.rsqrt %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %85 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%79, %84 : tensor<1x1x576xf32>, tensor<1x1x1xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %86 = linalg.generic {indexing_maps = [#map4, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_12, %85 : tensor<576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %collapsed_65 = tensor.collapse_shape %86 [[0], [1, 2]] : tensor<1x1x576xf32> into tensor<1x576xf32>
    %transposed_66 = linalg.transpose ins(%cst_11 : tensor<576x576xf32>) outs(%26 : tensor<576x576xf32>) permutation = [1, 0] 
    %87 = linalg.matmul ins(%collapsed_65, %transposed_66 : tensor<1x576xf32>, tensor<576x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_67 = tensor.expand_shape %87 [[0], [1, 2, 3]] output_shape [1, 1, 9, 64] : tensor<1x576xf32> into tensor<1x1x9x64xf32>
    %extracted_slice_68 = tensor.extract_slice %expanded_67[0, 0, 0, 0] [1, 1, 9, 32] [1, 1, 1, 1] : tensor<1x1x9x64xf32> to tensor<1x1x9x32xf32>
    %extracted_slice_69 = tensor.extract_slice %expanded_67[0, 0, 0, 32] [1, 1, 9, 32] [1, 1, 1, 1] : tensor<1x1x9x64xf32> to tensor<1x1x9x32xf32>
    %88 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_67, %concat : tensor<1x1x9x64xf32>, tensor<1x1x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %89 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_69 : tensor<1x1x9x32xf32>) outs(%32 : tensor<1x1x9x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x32xf32>
    %concat_70 = tensor.concat dim(3) %89, %extracted_slice_68 : (tensor<1x1x9x32xf32>, tensor<1x1x9x32xf32>) -> tensor<1x1x9x64xf32>
    %90 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_70, %concat_32 : tensor<1x1x9x64xf32>, tensor<1x1x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %91 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%88, %90 : tensor<1x1x9x64xf32>, tensor<1x1x9x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x9x64xf32>
    %transposed_71 = linalg.transpose ins(%cst_10 : tensor<192x576xf32>) outs(%36 : tensor<576x192xf32>) permutation = [1, 0] 
    %92 = linalg.matmul ins(%collapsed_65, %transposed_71 : tensor<1x576xf32>, tensor<576x192xf32>) outs(%38 : tensor<1x192xf32>) -> tensor<1x192xf32>
    %expanded_72 = tensor.expand_shape %92 [[0], [1, 2, 3]] output_shape [1, 1, 3, 64] : tensor<1x192xf32> into tensor<1x1x3x64xf32>
    %extracted_slice_73 = tensor.extract_slice %expanded_72[0, 0, 0, 0] [1, 1, 3, 32] [1, 1, 1, 1] : tensor<1x1x3x64xf32> to tensor<1x1x3x32xf32>
    %extracted_slice_74 = tensor.extract_slice %expanded_72[0, 0, 0, 32] [1, 1, 3, 32] [1, 1, 1, 1] : tensor<1x1x3x64xf32> to tensor<1x1x3x32xf32>
    %93 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_72, %concat : tensor<1x1x3x64xf32>, tensor<1x1x1x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %94 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_74 : tensor<1x1x3x32xf32>) outs(%42 : tensor<1x1x3x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x32xf32>
    %concat_75 = tensor.concat dim(3) %94, %extracted_slice_73 : (tensor<1x1x3x32xf32>, tensor<1x1x3x32xf32>) -> tensor<1x1x3x64xf32>
    %95 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%concat_75, %concat_32 : tensor<1x1x3x64xf32>, tensor<1x1x1x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %96 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%93, %95 : tensor<1x1x3x64xf32>, tensor<1x1x3x64xf32>) outs(%40 : tensor<1x1x3x64xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x3x64xf32>
    %transposed_76 = linalg.transpose ins(%cst_9 : tensor<192x576xf32>) outs(%36 : tensor<576x192xf32>) permutation = [1, 0] 
    %97 = linalg.matmul ins(%collapsed_65, %transposed_76 : tensor<1x576xf32>, tensor<576x192xf32>) outs(%38 : tensor<1x192xf32>) -> tensor<1x192xf32>
    %expanded_77 = tensor.expand_shape %97 [[0], [1, 2, 3]] output_shape [1, 1, 3, 64] : tensor<1x192xf32> into tensor<1x1x3x64xf32>
    %extracted_slice_78 = tensor.extract_slice %arg2[1, 0, 0, 0, 0] [1, 1, 256, 3, 64] [1, 1, 1, 1, 1] : tensor<2x1x256x3x64xf32> to tensor<1x1x256x3x64xf32>
    %collapsed_79 = tensor.collapse_shape %extracted_slice_78 [[0, 1], [2], [3], [4]] : tensor<1x1x256x3x64xf32> into tensor<1x256x3x64xf32>
    %98 = linalg.generic {indexing_maps = [#map8, #map9, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_28, %96, %collapsed_79 : tensor<1x256x1x1xi1>, tensor<1x1x3x64xf32>, tensor<1x256x3x64xf32>) outs(%47 : tensor<1x256x3x64xf32>) {
    ^bb0(%in: i1, %in_110: f32, %in_111: f32, %out: f32):
      %130 = arith.select %in, %in_110, %in_111 : f32
      linalg.yield %130 : f32
    } -> tensor<1x256x3x64xf32>
    %extracted_slice_80 = tensor.extract_slice %arg3[1, 0, 0, 0, 0] [1, 1, 256, 3, 64] [1, 1, 1, 1, 1] : tensor<2x1x256x3x64xf32> to tensor<1x1x256x3x64xf32>
    %collapsed_81 = tensor.collapse_shape %extracted_slice_80 [[0, 1], [2], [3], [4]] : tensor<1x1x256x3x64xf32> into tensor<1x256x3x64xf32>
    %99 = linalg.generic {indexing_maps = [#map8, #map9, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_28, %expanded_77, %collapsed_81 : tensor<1x256x1x1xi1>, tensor<1x1x3x64xf32>, tensor<1x256x3x64xf32>) outs(%47 : tensor<1x256x3x64xf32>) {
    ^bb0(%in: i1, %in_110: f32, %in_111: f32, %out: f32):
      %130 = arith.select %in, %in_110, %in_111 : f32
      linalg.yield %130 : f32
    } -> tensor<1x256x3x64xf32>
    %transposed_82 = linalg.transpose ins(%91 : tensor<1x1x9x64xf32>) outs(%50 : tensor<1x9x1x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_83 = linalg.transpose ins(%98 : tensor<1x256x3x64xf32>) outs(%51 : tensor<1x3x256x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_84 = linalg.transpose ins(%99 : tensor<1x256x3x64xf32>) outs(%51 : tensor<1x3x256x64xf32>) permutation = [0, 2, 1, 3] 
    %100 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_83 : tensor<1x3x256x64xf32>) outs(%54 : tensor<1x3x3x256x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x256x64xf32>
    %101 = linalg.generic {indexing_maps = [#map10, #map11], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_84 : tensor<1x3x256x64xf32>) outs(%54 : tensor<1x3x3x256x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x3x3x256x64xf32>
    %collapsed_85 = tensor.collapse_shape %transposed_82 [[0, 1], [2], [3]] : tensor<1x9x1x64xf32> into tensor<9x1x64xf32>
    %collapsed_86 = tensor.collapse_shape %100 [[0, 1, 2], [3], [4]] : tensor<1x3x3x256x64xf32> into tensor<9x256x64xf32>
    %collapsed_87 = tensor.collapse_shape %101 [[0, 1, 2], [3], [4]] : tensor<1x3x3x256x64xf32> into tensor<9x256x64xf32>
    %102 = iree_linalg_ext.attention <indexing_maps = [#map12, #map13, #map14, #map15, #map16, #map17]> ins(%collapsed_85, %collapsed_86, %collapsed_87, %cst, %collapsed_51 : tensor<9x1x64xf32>, tensor<9x256x64xf32>, tensor<9x256x64xf32>, f32, tensor<9x1x256xi1>) outs(%57 : tensor<9x1x64xf32>) {
    ^bb0(%arg4: f32):
      iree_linalg_ext.yield %arg4 : f32
    } -> tensor<9x1x64xf32>
    %expanded_88 = tensor.expand_shape %102 [[0, 1], [2], [3]] output_shape [1, 9, 1, 64] : tensor<9x1x64xf32> into tensor<1x9x1x64xf32>
    %transposed_89 = linalg.transpose ins(%expanded_88 : tensor<1x9x1x64xf32>) outs(%30 : tensor<1x1x9x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_90 = tensor.collapse_shape %transposed_89 [[0], [1, 2, 3]] : tensor<1x1x9x64xf32> into tensor<1x576xf32>
    %transposed_91 = linalg.transpose ins(%cst_8 : tensor<576x576xf32>) outs(%26 : tensor<576x576xf32>) permutation = [1, 0] 
    %103 = linalg.matmul ins(%collapsed_90, %transposed_91 : tensor<1x576xf32>, tensor<576x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_92 = tensor.expand_shape %103 [[0], [1, 2]] output_shape [1, 1, 576] : tensor<1x576xf32> into tensor<1x1x576xf32>
    %104 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%79, %expanded_92 : tensor<1x1x576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %105 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104 : tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %106 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%105 : tensor<1x1x576xf32>) outs(%19 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.addf %in, %out : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %107 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%106 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.divf %in, %cst_26 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %108 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%107 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.truncf %cst_22 : f64 to f32
      %131 = arith.addf %in, %130 : f32
      linalg.yield %131 : f32
    } -> tensor<1x1x1xf32>
    %109 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%108 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.rsqrt %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %110 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104, %109 : tensor<1x1x576xf32>, tensor<1x1x1xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %111 = linalg.generic {indexing_maps = [#map4, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_7, %110 : tensor<576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %collapsed_93 = tensor.collapse_shape %111 [[0], [1, 2]] : tensor<1x1x576xf32> into tensor<1x576xf32>
    %transposed_94 = linalg.transpose ins(%cst_6 : tensor<1536x576xf32>) outs(%68 : tensor<576x1536xf32>) permutation = [1, 0] 
    %112 = linalg.matmul ins(%collapsed_93, %transposed_94 : tensor<1x576xf32>, tensor<576x1536xf32>) outs(%70 : tensor<1x1536xf32>) -> tensor<1x1536xf32>
    %expanded_95 = tensor.expand_shape %112 [[0], [1, 2]] output_shape [1, 1, 1536] : tensor<1x1536xf32> into tensor<1x1x1536xf32>
    %113 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_95 : tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.negf %in : f32
      %131 = math.exp %130 : f32
      %132 = arith.addf %131, %cst_1 : f32
      %133 = arith.divf %cst_1, %132 : f32
      linalg.yield %133 : f32
    } -> tensor<1x1x1536xf32>
    %114 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%113, %expanded_95 : tensor<1x1x1536xf32>, tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1536xf32>
    %transposed_96 = linalg.transpose ins(%cst_5 : tensor<1536x576xf32>) outs(%68 : tensor<576x1536xf32>) permutation = [1, 0] 
    %115 = linalg.matmul ins(%collapsed_93, %transposed_96 : tensor<1x576xf32>, tensor<576x1536xf32>) outs(%70 : tensor<1x1536xf32>) -> tensor<1x1536xf32>
    %expanded_97 = tensor.expand_shape %115 [[0], [1, 2]] output_shape [1, 1, 1536] : tensor<1x1536xf32> into tensor<1x1x1536xf32>
    %116 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%114, %expanded_97 : tensor<1x1x1536xf32>, tensor<1x1x1536xf32>) outs(%72 : tensor<1x1x1536xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1536xf32>
    %collapsed_98 = tensor.collapse_shape %116 [[0], [1, 2]] : tensor<1x1x1536xf32> into tensor<1x1536xf32>
    %transposed_99 = linalg.transpose ins(%cst_4 : tensor<576x1536xf32>) outs(%77 : tensor<1536x576xf32>) permutation = [1, 0] 
    %117 = linalg.matmul ins(%collapsed_98, %transposed_99 : tensor<1x1536xf32>, tensor<1536x576xf32>) outs(%28 : tensor<1x576xf32>) -> tensor<1x576xf32>
    %expanded_100 = tensor.expand_shape %117 [[0], [1, 2]] output_shape [1, 1, 576] : tensor<1x576xf32> into tensor<1x1x576xf32>
    %118 = linalg.generic {indexing_maps = [#map1, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104, %expanded_100 : tensor<1x1x576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.addf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %119 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%118 : tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %120 = linalg.generic {indexing_maps = [#map1, #map3], iterator_types = ["parallel", "parallel", "reduction"]} ins(%119 : tensor<1x1x576xf32>) outs(%19 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.addf %in, %out : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %121 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%120 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.divf %in, %cst_26 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %122 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%121 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = arith.truncf %cst_22 : f64 to f32
      %131 = arith.addf %in, %130 : f32
      linalg.yield %131 : f32
    } -> tensor<1x1x1xf32>
    %123 = linalg.generic {indexing_maps = [#map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%122 : tensor<1x1x1xf32>) outs(%6 : tensor<1x1x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %130 = math.rsqrt %in : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x1xf32>
    %124 = linalg.generic {indexing_maps = [#map1, #map3, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%118, %123 : tensor<1x1x576xf32>, tensor<1x1x1xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %125 = linalg.generic {indexing_maps = [#map4, #map1, #map1], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_3, %124 : tensor<576xf32>, tensor<1x1x576xf32>) outs(%0 : tensor<1x1x576xf32>) {
    ^bb0(%in: f32, %in_110: f32, %out: f32):
      %130 = arith.mulf %in, %in_110 : f32
      linalg.yield %130 : f32
    } -> tensor<1x1x576xf32>
    %collapsed_101 = tensor.collapse_shape %125 [[0], [1, 2]] : tensor<1x1x576xf32> into tensor<1x576xf32>
    %126 = tensor.empty() : tensor<576x49152xf32>
    %transposed_102 = linalg.transpose ins(%cst_2 : tensor<49152x576xf32>) outs(%126 : tensor<576x49152xf32>) permutation = [1, 0] 
    %127 = tensor.empty() : tensor<1x49152xf32>
    %128 = linalg.fill ins(%cst_0 : f32) outs(%127 : tensor<1x49152xf32>) -> tensor<1x49152xf32>
    %129 = linalg.matmul ins(%collapsed_101, %transposed_102 : tensor<1x576xf32>, tensor<576x49152xf32>) outs(%128 : tensor<1x49152xf32>) -> tensor<1x49152xf32>
    %expanded_103 = tensor.expand_shape %129 [[0], [1, 2]] output_shape [1, 1, 49152] : tensor<1x49152xf32> into tensor<1x1x49152xf32>
    %expanded_104 = tensor.expand_shape %48 [[0, 1], [2], [3], [4]] output_shape [1, 1, 256, 3, 64] : tensor<1x256x3x64xf32> into tensor<1x1x256x3x64xf32>
    %expanded_105 = tensor.expand_shape %98 [[0, 1], [2], [3], [4]] output_shape [1, 1, 256, 3, 64] : tensor<1x256x3x64xf32> into tensor<1x1x256x3x64xf32>
    %concat_106 = tensor.concat dim(0) %expanded_104, %expanded_105 : (tensor<1x1x256x3x64xf32>, tensor<1x1x256x3x64xf32>) -> tensor<2x1x256x3x64xf32>
    %expanded_107 = tensor.expand_shape %49 [[0, 1], [2], [3], [4]] output_shape [1, 1, 256, 3, 64] : tensor<1x256x3x64xf32> into tensor<1x1x256x3x64xf32>
    %expanded_108 = tensor.expand_shape %99 [[0, 1], [2], [3], [4]] output_shape [1, 1, 256, 3, 64] : tensor<1x256x3x64xf32> into tensor<1x1x256x3x64xf32>
    %concat_109 = tensor.concat dim(0) %expanded_107, %expanded_108 : (tensor<1x1x256x3x64xf32>, tensor<1x1x256x3x64xf32>) -> tensor<2x1x256x3x64xf32>
    return %expanded_103, %concat_106, %concat_109 : tensor<1x1x49152xf32>, tensor<2x1x256x3x64xf32>, tensor<2x1x256x3x64xf32>
  }
}

