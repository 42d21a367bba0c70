#map = affine_map<(d0, d1) -> (d0, d1)>
#map1 = affine_map<(d0, d1) -> (d1)>
#map2 = affine_map<(d0) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, 0)>
#map4 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d0, 0, d2)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map8 = affine_map<(d0, d1, d2) -> (d2)>
#map9 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#map10 = affine_map<(d0, d1, d2, d3) -> (d0, d1, 0, d3)>
#map11 = affine_map<(d0, d1, d2, d3) -> (d0, 0, d2, d3)>
#map12 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3, d4)>
#map13 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#map14 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#map15 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#map16 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d2)>
#map17 = affine_map<(d0, d1, d2, d3, d4) -> ()>
#map18 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#map19 = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @main(%arg0: tensor<1x50x32xf32>, %arg1: tensor<1xf32>, %arg2: tensor<1x113xi1>, %arg3: tensor<1x113x5x64xf32>, %arg4: tensor<1x113x5x64xf32>, %arg5: tensor<1x113x5x64xf32>, %arg6: tensor<1x113x5x64xf32>, %arg7: tensor<1x113x5x64xf32>, %arg8: tensor<1x113x5x64xf32>, %arg9: tensor<1x113x5x64xf32>, %arg10: tensor<1x113x5x64xf32>) -> tensor<1x50x32xf32> {
    %cst = arith.constant 1.250000e-01 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %c2_i64 = arith.constant 2 : i64
    %c0_i64 = arith.constant 0 : i64
    %cst_1 = arith.constant 0.000000e+00 : f64
    %cst_2 = arith.constant 1.000000e+00 : f64
    %cst_3 = arith.constant 1.000000e+00 : f32
    %cst_4 = arith.constant 0.0027855153203342618 : f64
    %cst_5 = arith.constant dense_resource<action_out_proj.bias> : tensor<32xf32>
    %cst_6 = arith.constant dense_resource<action_out_proj.weight> : tensor<32x720xf32>
    %cst_7 = arith.constant dense_resource<norm.weight> : tensor<720xf32>
    %cst_8 = arith.constant dense_resource<layers.3.mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_9 = arith.constant dense_resource<layers.3.mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_10 = arith.constant dense_resource<layers.3.mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_11 = arith.constant dense_resource<layers.3.post_attention_layernorm.weight> : tensor<720xf32>
    %cst_12 = arith.constant dense_resource<layers.3.o_proj.weight> : tensor<720x960xf32>
    %cst_13 = arith.constant dense_resource<layers.3.v_proj.weight> : tensor<320x320xf32>
    %cst_14 = arith.constant dense_resource<layers.3.k_proj.weight> : tensor<320x320xf32>
    %cst_15 = arith.constant dense_resource<layers.3.q_proj.weight> : tensor<960x720xf32>
    %cst_16 = arith.constant dense_resource<layers.3.input_layernorm.weight> : tensor<720xf32>
    %cst_17 = arith.constant dense_resource<layers.2.mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_18 = arith.constant dense_resource<layers.2.mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_19 = arith.constant dense_resource<layers.2.mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_20 = arith.constant dense_resource<layers.2.post_attention_layernorm.weight> : tensor<720xf32>
    %cst_21 = arith.constant dense_resource<layers.2.o_proj.weight> : tensor<720x960xf32>
    %cst_22 = arith.constant dense_resource<layers.2.v_proj.weight> : tensor<320x720xf32>
    %cst_23 = arith.constant dense_resource<layers.2.k_proj.weight> : tensor<320x720xf32>
    %cst_24 = arith.constant dense_resource<layers.2.q_proj.weight> : tensor<960x720xf32>
    %cst_25 = arith.constant dense_resource<layers.2.input_layernorm.weight> : tensor<720xf32>
    %cst_26 = arith.constant dense_resource<layers.1.mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_27 = arith.constant dense_resource<layers.1.mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_28 = arith.constant dense_resource<layers.1.mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_29 = arith.constant dense_resource<layers.1.post_attention_layernorm.weight> : tensor<720xf32>
    %cst_30 = arith.constant dense_resource<layers.1.o_proj.weight> : tensor<720x960xf32>
    %cst_31 = arith.constant dense_resource<layers.1.v_proj.weight> : tensor<320x320xf32>
    %cst_32 = arith.constant dense_resource<layers.1.k_proj.weight> : tensor<320x320xf32>
    %cst_33 = arith.constant dense_resource<layers.1.q_proj.weight> : tensor<960x720xf32>
    %cst_34 = arith.constant dense_resource<layers.1.input_layernorm.weight> : tensor<720xf32>
    %cst_35 = arith.constant dense_resource<layers.0.mlp.down_proj.weight> : tensor<720x2048xf32>
    %cst_36 = arith.constant dense_resource<layers.0.mlp.up_proj.weight> : tensor<2048x720xf32>
    %cst_37 = arith.constant dense_resource<layers.0.mlp.gate_proj.weight> : tensor<2048x720xf32>
    %cst_38 = arith.constant dense_resource<layers.0.post_attention_layernorm.weight> : tensor<720xf32>
    %cst_39 = arith.constant dense_resource<layers.0.o_proj.weight> : tensor<720x960xf32>
    %cst_40 = arith.constant dense_resource<layers.0.v_proj.weight> : tensor<320x720xf32>
    %cst_41 = arith.constant dense_resource<layers.0.k_proj.weight> : tensor<320x720xf32>
    %cst_42 = arith.constant dense_resource<layers.0.q_proj.weight> : tensor<960x720xf32>
    %cst_43 = arith.constant dense_resource<layers.0.input_layernorm.weight> : tensor<720xf32>
    %cst_44 = arith.constant 1.000000e-05 : f64
    %cst_45 = arith.constant dense_resource<time_mlp_out.bias> : tensor<720xf32>
    %cst_46 = arith.constant dense_resource<time_mlp_out.weight> : tensor<720x720xf32>
    %cst_47 = arith.constant dense_resource<time_mlp_in.bias> : tensor<720xf32>
    %cst_48 = arith.constant dense_resource<time_mlp_in.weight> : tensor<720x1440xf32>
    %cst_49 = arith.constant 6.2831853071795862 : f64
    %cst_50 = arith.constant 4.000000e-03 : f64
    %cst_51 = arith.constant 1.000000e+03 : f64
    %cst_52 = arith.constant dense_resource<action_in_proj.bias> : tensor<720xf32>
    %cst_53 = arith.constant dense_resource<action_in_proj.weight> : tensor<720x32xf32>
    %cst_54 = arith.constant 3.125000e-02 : f32
    %cst_55 = arith.constant 1.000000e+04 : f32
    %cst_56 = arith.constant 7.200000e+02 : f32
    %collapsed = tensor.collapse_shape %arg0 [[0, 1], [2]] : tensor<1x50x32xf32> into tensor<50x32xf32>
    %0 = tensor.empty() : tensor<32x720xf32>
    %transposed = linalg.transpose ins(%cst_53 : tensor<720x32xf32>) outs(%0 : tensor<32x720xf32>) permutation = [1, 0] 
    %1 = tensor.empty() : tensor<50x720xf32>
    %2 = linalg.fill ins(%cst_0 : f32) outs(%1 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %3 = linalg.matmul ins(%collapsed, %transposed : tensor<50x32xf32>, tensor<32x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %4 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%3, %cst_52 : tensor<50x720xf32>, tensor<720xf32>) outs(%1 : tensor<50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<50x720xf32>
    %expanded = tensor.expand_shape %4 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %5 = tensor.empty() : tensor<360xi64>
    %6 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%5 : tensor<360xi64>) {
    ^bb0(%out: i64):
      %251 = linalg.index 0 : index
      %252 = arith.index_cast %251 : index to i64
      linalg.yield %252 : i64
    } -> tensor<360xi64>
    %7 = tensor.empty() : tensor<360xf32>
    %8 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%6 : tensor<360xi64>) outs(%7 : tensor<360xf32>) {
    ^bb0(%in: i64, %out: f32):
      %251 = arith.sitofp %in : i64 to f32
      %252 = arith.truncf %cst_4 : f64 to f32
      %253 = arith.mulf %251, %252 : f32
      linalg.yield %253 : f32
    } -> tensor<360xf32>
    %9 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%8 : tensor<360xf32>) outs(%7 : tensor<360xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %cst_0 : f32
      linalg.yield %251 : f32
    } -> tensor<360xf32>
    %10 = tensor.empty() : tensor<360xf64>
    %11 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%9 : tensor<360xf32>) outs(%10 : tensor<360xf64>) {
    ^bb0(%in: f32, %out: f64):
      %251 = arith.extf %in : f32 to f64
      linalg.yield %251 : f64
    } -> tensor<360xf64>
    %12 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%11 : tensor<360xf64>) outs(%10 : tensor<360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = math.powf %cst_51, %in : f64
      linalg.yield %251 : f64
    } -> tensor<360xf64>
    %13 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%12 : tensor<360xf64>) outs(%10 : tensor<360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = arith.mulf %in, %cst_50 : f64
      linalg.yield %251 : f64
    } -> tensor<360xf64>
    %expanded_57 = tensor.expand_shape %arg1 [[0, 1]] output_shape [1, 1] : tensor<1xf32> into tensor<1x1xf32>
    %14 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%13 : tensor<360xf64>) outs(%10 : tensor<360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = arith.cmpf one, %in, %cst_1 : f64
      cf.assert %251, "unimplemented: tensor with zero element"
      %252 = arith.divf %cst_2, %in : f64
      linalg.yield %252 : f64
    } -> tensor<360xf64>
    %15 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%14 : tensor<360xf64>) outs(%10 : tensor<360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = arith.mulf %in, %cst_49 : f64
      linalg.yield %251 : f64
    } -> tensor<360xf64>
    %16 = tensor.empty() : tensor<1x360xf64>
    %17 = linalg.generic {indexing_maps = [#map3, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%expanded_57, %15 : tensor<1x1xf32>, tensor<360xf64>) outs(%16 : tensor<1x360xf64>) {
    ^bb0(%in: f32, %in_208: f64, %out: f64):
      %251 = arith.extf %in : f32 to f64
      %252 = arith.mulf %251, %in_208 : f64
      linalg.yield %252 : f64
    } -> tensor<1x360xf64>
    %18 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<1x360xf64>) outs(%16 : tensor<1x360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = math.sin %in : f64
      linalg.yield %251 : f64
    } -> tensor<1x360xf64>
    %19 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%17 : tensor<1x360xf64>) outs(%16 : tensor<1x360xf64>) {
    ^bb0(%in: f64, %out: f64):
      %251 = math.cos %in : f64
      linalg.yield %251 : f64
    } -> tensor<1x360xf64>
    %concat = tensor.concat dim(1) %18, %19 : (tensor<1x360xf64>, tensor<1x360xf64>) -> tensor<1x720xf64>
    %20 = tensor.empty() : tensor<1x720xf32>
    %21 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%concat : tensor<1x720xf64>) outs(%20 : tensor<1x720xf32>) {
    ^bb0(%in: f64, %out: f32):
      %251 = arith.truncf %in : f64 to f32
      linalg.yield %251 : f32
    } -> tensor<1x720xf32>
    %22 = tensor.empty() : tensor<1x50x720xf32>
    %23 = linalg.generic {indexing_maps = [#map4, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%21 : tensor<1x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x50x720xf32>
    %concat_58 = tensor.concat dim(2) %expanded, %23 : (tensor<1x50x720xf32>, tensor<1x50x720xf32>) -> tensor<1x50x1440xf32>
    %collapsed_59 = tensor.collapse_shape %concat_58 [[0, 1], [2]] : tensor<1x50x1440xf32> into tensor<50x1440xf32>
    %24 = tensor.empty() : tensor<1440x720xf32>
    %transposed_60 = linalg.transpose ins(%cst_48 : tensor<720x1440xf32>) outs(%24 : tensor<1440x720xf32>) permutation = [1, 0] 
    %25 = linalg.matmul ins(%collapsed_59, %transposed_60 : tensor<50x1440xf32>, tensor<1440x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %26 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%25, %cst_47 : tensor<50x720xf32>, tensor<720xf32>) outs(%1 : tensor<50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<50x720xf32>
    %expanded_61 = tensor.expand_shape %26 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %27 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_61 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.negf %in : f32
      %252 = math.exp %251 : f32
      %253 = arith.addf %252, %cst_3 : f32
      %254 = arith.divf %cst_3, %253 : f32
      linalg.yield %254 : f32
    } -> tensor<1x50x720xf32>
    %28 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%27, %expanded_61 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_62 = tensor.collapse_shape %28 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %29 = tensor.empty() : tensor<720x720xf32>
    %transposed_63 = linalg.transpose ins(%cst_46 : tensor<720x720xf32>) outs(%29 : tensor<720x720xf32>) permutation = [1, 0] 
    %30 = linalg.matmul ins(%collapsed_62, %transposed_63 : tensor<50x720xf32>, tensor<720x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %31 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%30, %cst_45 : tensor<50x720xf32>, tensor<720xf32>) outs(%1 : tensor<50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<50x720xf32>
    %expanded_64 = tensor.expand_shape %31 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %32 = tensor.empty() : tensor<1x50x113xi1>
    %33 = linalg.generic {indexing_maps = [#map4, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%arg2 : tensor<1x113xi1>) outs(%32 : tensor<1x50x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x50x113xi1>
    %34 = tensor.empty() : tensor<50xi64>
    %35 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%34 : tensor<50xi64>) {
    ^bb0(%out: i64):
      %251 = linalg.index 0 : index
      %252 = arith.index_cast %251 : index to i64
      linalg.yield %252 : i64
    } -> tensor<50xi64>
    %expanded_65 = tensor.expand_shape %35 [[0, 1]] output_shape [1, 50] : tensor<50xi64> into tensor<1x50xi64>
    %expanded_66 = tensor.expand_shape %35 [[0, 1, 2]] output_shape [1, 1, 50] : tensor<50xi64> into tensor<1x1x50xi64>
    %expanded_67 = tensor.expand_shape %35 [[0, 1, 2]] output_shape [1, 50, 1] : tensor<50xi64> into tensor<1x50x1xi64>
    %36 = tensor.empty() : tensor<1x50x50xi1>
    %37 = linalg.generic {indexing_maps = [#map6, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_66, %expanded_67 : tensor<1x1x50xi64>, tensor<1x50x1xi64>) outs(%36 : tensor<1x50x50xi1>) {
    ^bb0(%in: i64, %in_208: i64, %out: i1):
      %251 = arith.cmpi sle, %in, %in_208 : i64
      linalg.yield %251 : i1
    } -> tensor<1x50x50xi1>
    %concat_68 = tensor.concat dim(2) %33, %37 : (tensor<1x50x113xi1>, tensor<1x50x50xi1>) -> tensor<1x50x163xi1>
    %38 = tensor.empty() : tensor<32xf32>
    %39 = linalg.generic {indexing_maps = [#map2], iterator_types = ["parallel"]} outs(%38 : tensor<32xf32>) {
    ^bb0(%out: f32):
      %251 = linalg.index 0 : index
      %252 = arith.index_cast %251 : index to i64
      %253 = arith.sitofp %252 : i64 to f32
      %254 = arith.addf %253, %cst_0 : f32
      linalg.yield %254 : f32
    } -> tensor<32xf32>
    %40 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%39 : tensor<32xf32>) outs(%38 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.mulf %in, %cst_54 : f32
      linalg.yield %251 : f32
    } -> tensor<32xf32>
    %41 = linalg.generic {indexing_maps = [#map2, #map2], iterator_types = ["parallel"]} ins(%40 : tensor<32xf32>) outs(%38 : tensor<32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.powf %cst_55, %in : f32
      linalg.yield %251 : f32
    } -> tensor<32xf32>
    %42 = tensor.empty() : tensor<1x50x1xf32>
    %43 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_67 : tensor<1x50x1xi64>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: i64, %out: f32):
      %251 = arith.sitofp %in : i64 to f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %44 = tensor.empty() : tensor<1x50x32xf32>
    %45 = linalg.generic {indexing_maps = [#map7, #map8, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%43, %41 : tensor<1x50x1xf32>, tensor<32xf32>) outs(%44 : tensor<1x50x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.divf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x32xf32>
    %expanded_69 = tensor.expand_shape %45 [[0], [1], [2, 3]] output_shape [1, 50, 1, 32] : tensor<1x50x32xf32> into tensor<1x50x1x32xf32>
    %46 = tensor.empty() : tensor<1x50x1x32xf32>
    %47 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_69 : tensor<1x50x1x32xf32>) outs(%46 : tensor<1x50x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.cos %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1x32xf32>
    %48 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_69 : tensor<1x50x1x32xf32>) outs(%46 : tensor<1x50x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.sin %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1x32xf32>
    %49 = tensor.empty() : tensor<1x1xi64>
    %50 = linalg.fill ins(%c0_i64 : i64) outs(%49 : tensor<1x1xi64>) -> tensor<1x1xi64>
    %51 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["parallel", "reduction"]} ins(%arg2 : tensor<1x113xi1>) outs(%50 : tensor<1x1xi64>) {
    ^bb0(%in: i1, %out: i64):
      %251 = arith.extui %in : i1 to i64
      %252 = arith.addi %251, %out : i64
      linalg.yield %252 : i64
    } -> tensor<1x1xi64>
    %52 = tensor.empty() : tensor<1x50xi64>
    %53 = linalg.generic {indexing_maps = [#map, #map3, #map], iterator_types = ["parallel", "parallel"]} ins(%expanded_65, %51 : tensor<1x50xi64>, tensor<1x1xi64>) outs(%52 : tensor<1x50xi64>) {
    ^bb0(%in: i64, %in_208: i64, %out: i64):
      %251 = arith.addi %in, %in_208 : i64
      linalg.yield %251 : i64
    } -> tensor<1x50xi64>
    %expanded_70 = tensor.expand_shape %53 [[0], [1, 2]] output_shape [1, 50, 1] : tensor<1x50xi64> into tensor<1x50x1xi64>
    %54 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_70 : tensor<1x50x1xi64>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: i64, %out: f32):
      %251 = arith.sitofp %in : i64 to f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %55 = linalg.generic {indexing_maps = [#map7, #map8, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%54, %41 : tensor<1x50x1xf32>, tensor<32xf32>) outs(%44 : tensor<1x50x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.divf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x32xf32>
    %expanded_71 = tensor.expand_shape %55 [[0], [1], [2, 3]] output_shape [1, 50, 1, 32] : tensor<1x50x32xf32> into tensor<1x50x1x32xf32>
    %56 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_71 : tensor<1x50x1x32xf32>) outs(%46 : tensor<1x50x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.cos %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1x32xf32>
    %57 = linalg.generic {indexing_maps = [#map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_71 : tensor<1x50x1x32xf32>) outs(%46 : tensor<1x50x1x32xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.sin %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1x32xf32>
    %58 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_64 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %59 = linalg.fill ins(%cst_0 : f32) outs(%42 : tensor<1x50x1xf32>) -> tensor<1x50x1xf32>
    %60 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%58 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %61 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%60 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %62 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%61 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %63 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%62 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %64 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_64, %63 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %65 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_43, %64 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_72 = tensor.collapse_shape %65 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %66 = tensor.empty() : tensor<720x960xf32>
    %transposed_73 = linalg.transpose ins(%cst_42 : tensor<960x720xf32>) outs(%66 : tensor<720x960xf32>) permutation = [1, 0] 
    %67 = tensor.empty() : tensor<50x960xf32>
    %68 = linalg.fill ins(%cst_0 : f32) outs(%67 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %69 = linalg.matmul ins(%collapsed_72, %transposed_73 : tensor<50x720xf32>, tensor<720x960xf32>) outs(%68 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded_74 = tensor.expand_shape %69 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice = tensor.extract_slice %expanded_74[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_75 = tensor.extract_slice %expanded_74[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %70 = tensor.empty() : tensor<1x50x15x32xf32>
    %71 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %56 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %72 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_75, %57 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %73 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%71, %72 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %74 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_75, %56 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %75 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice, %57 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %76 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%74, %75 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %concat_76 = tensor.concat dim(3) %73, %76 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %77 = tensor.empty() : tensor<720x320xf32>
    %transposed_77 = linalg.transpose ins(%cst_41 : tensor<320x720xf32>) outs(%77 : tensor<720x320xf32>) permutation = [1, 0] 
    %78 = tensor.empty() : tensor<50x320xf32>
    %79 = linalg.fill ins(%cst_0 : f32) outs(%78 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %80 = linalg.matmul ins(%collapsed_72, %transposed_77 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%79 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_78 = tensor.expand_shape %80 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %extracted_slice_79 = tensor.extract_slice %expanded_78[0, 0, 0, 0] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %extracted_slice_80 = tensor.extract_slice %expanded_78[0, 0, 0, 32] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %81 = tensor.empty() : tensor<1x50x5x32xf32>
    %82 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_79, %56 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %83 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_80, %57 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %84 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%82, %83 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %85 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_80, %56 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %86 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_79, %57 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %87 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%85, %86 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %concat_81 = tensor.concat dim(3) %84, %87 : (tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) -> tensor<1x50x5x64xf32>
    %transposed_82 = linalg.transpose ins(%cst_40 : tensor<320x720xf32>) outs(%77 : tensor<720x320xf32>) permutation = [1, 0] 
    %88 = linalg.matmul ins(%collapsed_72, %transposed_82 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%79 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_83 = tensor.expand_shape %88 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %concat_84 = tensor.concat dim(1) %arg3, %concat_81 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %concat_85 = tensor.concat dim(1) %arg7, %expanded_83 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %expanded_86 = tensor.expand_shape %concat_68 [[0], [1, 2], [3]] output_shape [1, 1, 50, 163] : tensor<1x50x163xi1> into tensor<1x1x50x163xi1>
    %89 = tensor.empty() : tensor<1x15x50x64xf32>
    %transposed_87 = linalg.transpose ins(%concat_76 : tensor<1x50x15x64xf32>) outs(%89 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %90 = tensor.empty() : tensor<1x5x163x64xf32>
    %transposed_88 = linalg.transpose ins(%concat_84 : tensor<1x163x5x64xf32>) outs(%90 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_89 = linalg.transpose ins(%concat_85 : tensor<1x163x5x64xf32>) outs(%90 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %91 = tensor.empty() : tensor<1x15x50x163xi1>
    %92 = linalg.generic {indexing_maps = [#map11, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_86 : tensor<1x1x50x163xi1>) outs(%91 : tensor<1x15x50x163xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x50x163xi1>
    %93 = tensor.empty() : tensor<1x5x3x163x64xf32>
    %94 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_88 : tensor<1x5x163x64xf32>) outs(%93 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %95 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_89 : tensor<1x5x163x64xf32>) outs(%93 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %collapsed_90 = tensor.collapse_shape %transposed_87 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_91 = tensor.collapse_shape %94 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %collapsed_92 = tensor.collapse_shape %95 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %collapsed_93 = tensor.collapse_shape %92 [[0, 1], [2], [3]] : tensor<1x15x50x163xi1> into tensor<15x50x163xi1>
    %96 = tensor.empty() : tensor<15x50x64xf32>
    %97 = iree_linalg_ext.attention <indexing_maps = [#map14, #map15, #map16, #map17, #map18, #map19]> ins(%collapsed_90, %collapsed_91, %collapsed_92, %cst, %collapsed_93 : tensor<15x50x64xf32>, tensor<15x163x64xf32>, tensor<15x163x64xf32>, f32, tensor<15x50x163xi1>) outs(%96 : tensor<15x50x64xf32>) {
    ^bb0(%arg11: f32):
      iree_linalg_ext.yield %arg11 : f32
    } -> tensor<15x50x64xf32>
    %expanded_94 = tensor.expand_shape %97 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %98 = tensor.empty() : tensor<1x50x15x64xf32>
    %transposed_95 = linalg.transpose ins(%expanded_94 : tensor<1x15x50x64xf32>) outs(%98 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_96 = tensor.collapse_shape %transposed_95 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %99 = tensor.empty() : tensor<960x720xf32>
    %transposed_97 = linalg.transpose ins(%cst_39 : tensor<720x960xf32>) outs(%99 : tensor<960x720xf32>) permutation = [1, 0] 
    %100 = linalg.matmul ins(%collapsed_96, %transposed_97 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_98 = tensor.expand_shape %100 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %101 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_64, %expanded_98 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %102 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%101 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %103 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%102 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %104 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%103 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %105 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%104 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %106 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%105 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %107 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%101, %106 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %108 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_38, %107 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_99 = tensor.collapse_shape %108 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %109 = tensor.empty() : tensor<720x2048xf32>
    %transposed_100 = linalg.transpose ins(%cst_37 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %110 = tensor.empty() : tensor<50x2048xf32>
    %111 = linalg.fill ins(%cst_0 : f32) outs(%110 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %112 = linalg.matmul ins(%collapsed_99, %transposed_100 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_101 = tensor.expand_shape %112 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %113 = tensor.empty() : tensor<1x50x2048xf32>
    %114 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_101 : tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.negf %in : f32
      %252 = math.exp %251 : f32
      %253 = arith.addf %252, %cst_3 : f32
      %254 = arith.divf %cst_3, %253 : f32
      linalg.yield %254 : f32
    } -> tensor<1x50x2048xf32>
    %115 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%114, %expanded_101 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_102 = linalg.transpose ins(%cst_36 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %116 = linalg.matmul ins(%collapsed_99, %transposed_102 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_103 = tensor.expand_shape %116 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %117 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%115, %expanded_103 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_104 = tensor.collapse_shape %117 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %118 = tensor.empty() : tensor<2048x720xf32>
    %transposed_105 = linalg.transpose ins(%cst_35 : tensor<720x2048xf32>) outs(%118 : tensor<2048x720xf32>) permutation = [1, 0] 
    %119 = linalg.matmul ins(%collapsed_104, %transposed_105 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_106 = tensor.expand_shape %119 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %120 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%101, %expanded_106 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %121 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%120 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %122 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%121 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %123 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%122 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %124 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%123 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %125 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%124 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %126 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%120, %125 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %127 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_34, %126 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_107 = tensor.collapse_shape %127 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_108 = linalg.transpose ins(%cst_33 : tensor<960x720xf32>) outs(%66 : tensor<720x960xf32>) permutation = [1, 0] 
    %128 = linalg.matmul ins(%collapsed_107, %transposed_108 : tensor<50x720xf32>, tensor<720x960xf32>) outs(%68 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded_109 = tensor.expand_shape %128 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice_110 = tensor.extract_slice %expanded_109[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_111 = tensor.extract_slice %expanded_109[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %129 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_110, %47 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %130 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_111, %48 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %131 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%129, %130 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %132 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_111, %47 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %133 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_110, %48 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %134 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%132, %133 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %concat_112 = tensor.concat dim(3) %131, %134 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %collapsed_113 = tensor.collapse_shape %arg4 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %135 = tensor.empty() : tensor<320x320xf32>
    %transposed_114 = linalg.transpose ins(%cst_32 : tensor<320x320xf32>) outs(%135 : tensor<320x320xf32>) permutation = [1, 0] 
    %136 = tensor.empty() : tensor<113x320xf32>
    %137 = linalg.fill ins(%cst_0 : f32) outs(%136 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %138 = linalg.matmul ins(%collapsed_113, %transposed_114 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%137 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_115 = tensor.expand_shape %138 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %collapsed_116 = tensor.collapse_shape %arg8 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %transposed_117 = linalg.transpose ins(%cst_31 : tensor<320x320xf32>) outs(%135 : tensor<320x320xf32>) permutation = [1, 0] 
    %139 = linalg.matmul ins(%collapsed_116, %transposed_117 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%137 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_118 = tensor.expand_shape %139 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %expanded_119 = tensor.expand_shape %33 [[0], [1, 2], [3]] output_shape [1, 1, 50, 113] : tensor<1x50x113xi1> into tensor<1x1x50x113xi1>
    %transposed_120 = linalg.transpose ins(%concat_112 : tensor<1x50x15x64xf32>) outs(%89 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %140 = tensor.empty() : tensor<1x5x113x64xf32>
    %transposed_121 = linalg.transpose ins(%expanded_115 : tensor<1x113x5x64xf32>) outs(%140 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_122 = linalg.transpose ins(%expanded_118 : tensor<1x113x5x64xf32>) outs(%140 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %141 = tensor.empty() : tensor<1x15x50x113xi1>
    %142 = linalg.generic {indexing_maps = [#map11, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%expanded_119 : tensor<1x1x50x113xi1>) outs(%141 : tensor<1x15x50x113xi1>) {
    ^bb0(%in: i1, %out: i1):
      linalg.yield %in : i1
    } -> tensor<1x15x50x113xi1>
    %143 = tensor.empty() : tensor<1x5x3x113x64xf32>
    %144 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_121 : tensor<1x5x113x64xf32>) outs(%143 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %145 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_122 : tensor<1x5x113x64xf32>) outs(%143 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %collapsed_123 = tensor.collapse_shape %transposed_120 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_124 = tensor.collapse_shape %144 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_125 = tensor.collapse_shape %145 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_126 = tensor.collapse_shape %142 [[0, 1], [2], [3]] : tensor<1x15x50x113xi1> into tensor<15x50x113xi1>
    %146 = iree_linalg_ext.attention <indexing_maps = [#map14, #map15, #map16, #map17, #map18, #map19]> ins(%collapsed_123, %collapsed_124, %collapsed_125, %cst, %collapsed_126 : tensor<15x50x64xf32>, tensor<15x113x64xf32>, tensor<15x113x64xf32>, f32, tensor<15x50x113xi1>) outs(%96 : tensor<15x50x64xf32>) {
    ^bb0(%arg11: f32):
      iree_linalg_ext.yield %arg11 : f32
    } -> tensor<15x50x64xf32>
    %expanded_127 = tensor.expand_shape %146 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %transposed_128 = linalg.transpose ins(%expanded_127 : tensor<1x15x50x64xf32>) outs(%98 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_129 = tensor.collapse_shape %transposed_128 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %transposed_130 = linalg.transpose ins(%cst_30 : tensor<720x960xf32>) outs(%99 : tensor<960x720xf32>) permutation = [1, 0] 
    %147 = linalg.matmul ins(%collapsed_129, %transposed_130 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_131 = tensor.expand_shape %147 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %148 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%120, %expanded_131 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %149 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%148 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %150 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%149 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %151 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%150 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %152 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%151 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %153 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%152 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %154 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%148, %153 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %155 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_29, %154 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_132 = tensor.collapse_shape %155 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_133 = linalg.transpose ins(%cst_28 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %156 = linalg.matmul ins(%collapsed_132, %transposed_133 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_134 = tensor.expand_shape %156 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %157 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_134 : tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.negf %in : f32
      %252 = math.exp %251 : f32
      %253 = arith.addf %252, %cst_3 : f32
      %254 = arith.divf %cst_3, %253 : f32
      linalg.yield %254 : f32
    } -> tensor<1x50x2048xf32>
    %158 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%157, %expanded_134 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_135 = linalg.transpose ins(%cst_27 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %159 = linalg.matmul ins(%collapsed_132, %transposed_135 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_136 = tensor.expand_shape %159 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %160 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%158, %expanded_136 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_137 = tensor.collapse_shape %160 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %transposed_138 = linalg.transpose ins(%cst_26 : tensor<720x2048xf32>) outs(%118 : tensor<2048x720xf32>) permutation = [1, 0] 
    %161 = linalg.matmul ins(%collapsed_137, %transposed_138 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_139 = tensor.expand_shape %161 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %162 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%148, %expanded_139 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %163 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%162 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %164 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%163 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %165 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%164 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %166 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%165 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %167 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%166 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %168 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%162, %167 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %169 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_25, %168 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_140 = tensor.collapse_shape %169 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_141 = linalg.transpose ins(%cst_24 : tensor<960x720xf32>) outs(%66 : tensor<720x960xf32>) permutation = [1, 0] 
    %170 = linalg.matmul ins(%collapsed_140, %transposed_141 : tensor<50x720xf32>, tensor<720x960xf32>) outs(%68 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded_142 = tensor.expand_shape %170 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice_143 = tensor.extract_slice %expanded_142[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_144 = tensor.extract_slice %expanded_142[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %171 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_143, %56 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %172 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_144, %57 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %173 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%171, %172 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %174 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_144, %56 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %175 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_143, %57 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %176 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%174, %175 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %concat_145 = tensor.concat dim(3) %173, %176 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %transposed_146 = linalg.transpose ins(%cst_23 : tensor<320x720xf32>) outs(%77 : tensor<720x320xf32>) permutation = [1, 0] 
    %177 = linalg.matmul ins(%collapsed_140, %transposed_146 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%79 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_147 = tensor.expand_shape %177 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %extracted_slice_148 = tensor.extract_slice %expanded_147[0, 0, 0, 0] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %extracted_slice_149 = tensor.extract_slice %expanded_147[0, 0, 0, 32] [1, 50, 5, 32] [1, 1, 1, 1] : tensor<1x50x5x64xf32> to tensor<1x50x5x32xf32>
    %178 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_148, %56 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %179 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_149, %57 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %180 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%178, %179 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %181 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_149, %56 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %182 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_148, %57 : tensor<1x50x5x32xf32>, tensor<1x50x1x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %183 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%181, %182 : tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) outs(%81 : tensor<1x50x5x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x5x32xf32>
    %concat_150 = tensor.concat dim(3) %180, %183 : (tensor<1x50x5x32xf32>, tensor<1x50x5x32xf32>) -> tensor<1x50x5x64xf32>
    %transposed_151 = linalg.transpose ins(%cst_22 : tensor<320x720xf32>) outs(%77 : tensor<720x320xf32>) permutation = [1, 0] 
    %184 = linalg.matmul ins(%collapsed_140, %transposed_151 : tensor<50x720xf32>, tensor<720x320xf32>) outs(%79 : tensor<50x320xf32>) -> tensor<50x320xf32>
    %expanded_152 = tensor.expand_shape %184 [[0, 1], [2, 3]] output_shape [1, 50, 5, 64] : tensor<50x320xf32> into tensor<1x50x5x64xf32>
    %concat_153 = tensor.concat dim(1) %arg5, %concat_150 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %concat_154 = tensor.concat dim(1) %arg9, %expanded_152 : (tensor<1x113x5x64xf32>, tensor<1x50x5x64xf32>) -> tensor<1x163x5x64xf32>
    %transposed_155 = linalg.transpose ins(%concat_145 : tensor<1x50x15x64xf32>) outs(%89 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_156 = linalg.transpose ins(%concat_153 : tensor<1x163x5x64xf32>) outs(%90 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_157 = linalg.transpose ins(%concat_154 : tensor<1x163x5x64xf32>) outs(%90 : tensor<1x5x163x64xf32>) permutation = [0, 2, 1, 3] 
    %185 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_156 : tensor<1x5x163x64xf32>) outs(%93 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %186 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_157 : tensor<1x5x163x64xf32>) outs(%93 : tensor<1x5x3x163x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x163x64xf32>
    %collapsed_158 = tensor.collapse_shape %transposed_155 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_159 = tensor.collapse_shape %185 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %collapsed_160 = tensor.collapse_shape %186 [[0, 1, 2], [3], [4]] : tensor<1x5x3x163x64xf32> into tensor<15x163x64xf32>
    %187 = iree_linalg_ext.attention <indexing_maps = [#map14, #map15, #map16, #map17, #map18, #map19]> ins(%collapsed_158, %collapsed_159, %collapsed_160, %cst, %collapsed_93 : tensor<15x50x64xf32>, tensor<15x163x64xf32>, tensor<15x163x64xf32>, f32, tensor<15x50x163xi1>) outs(%96 : tensor<15x50x64xf32>) {
    ^bb0(%arg11: f32):
      iree_linalg_ext.yield %arg11 : f32
    } -> tensor<15x50x64xf32>
    %expanded_161 = tensor.expand_shape %187 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %transposed_162 = linalg.transpose ins(%expanded_161 : tensor<1x15x50x64xf32>) outs(%98 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_163 = tensor.collapse_shape %transposed_162 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %transposed_164 = linalg.transpose ins(%cst_21 : tensor<720x960xf32>) outs(%99 : tensor<960x720xf32>) permutation = [1, 0] 
    %188 = linalg.matmul ins(%collapsed_163, %transposed_164 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_165 = tensor.expand_shape %188 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %189 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%162, %expanded_165 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %190 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%189 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %191 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%190 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %192 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%191 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %193 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%192 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %194 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%193 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %195 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%189, %194 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %196 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_20, %195 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_166 = tensor.collapse_shape %196 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_167 = linalg.transpose ins(%cst_19 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %197 = linalg.matmul ins(%collapsed_166, %transposed_167 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_168 = tensor.expand_shape %197 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %198 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_168 : tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.negf %in : f32
      %252 = math.exp %251 : f32
      %253 = arith.addf %252, %cst_3 : f32
      %254 = arith.divf %cst_3, %253 : f32
      linalg.yield %254 : f32
    } -> tensor<1x50x2048xf32>
    %199 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%198, %expanded_168 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_169 = linalg.transpose ins(%cst_18 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %200 = linalg.matmul ins(%collapsed_166, %transposed_169 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_170 = tensor.expand_shape %200 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %201 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%199, %expanded_170 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_171 = tensor.collapse_shape %201 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %transposed_172 = linalg.transpose ins(%cst_17 : tensor<720x2048xf32>) outs(%118 : tensor<2048x720xf32>) permutation = [1, 0] 
    %202 = linalg.matmul ins(%collapsed_171, %transposed_172 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_173 = tensor.expand_shape %202 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %203 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%189, %expanded_173 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %204 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%203 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %205 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%204 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %206 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%205 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %207 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%206 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %208 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%207 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %209 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%203, %208 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %210 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_16, %209 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_174 = tensor.collapse_shape %210 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_175 = linalg.transpose ins(%cst_15 : tensor<960x720xf32>) outs(%66 : tensor<720x960xf32>) permutation = [1, 0] 
    %211 = linalg.matmul ins(%collapsed_174, %transposed_175 : tensor<50x720xf32>, tensor<720x960xf32>) outs(%68 : tensor<50x960xf32>) -> tensor<50x960xf32>
    %expanded_176 = tensor.expand_shape %211 [[0, 1], [2, 3]] output_shape [1, 50, 15, 64] : tensor<50x960xf32> into tensor<1x50x15x64xf32>
    %extracted_slice_177 = tensor.extract_slice %expanded_176[0, 0, 0, 0] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %extracted_slice_178 = tensor.extract_slice %expanded_176[0, 0, 0, 32] [1, 50, 15, 32] [1, 1, 1, 1] : tensor<1x50x15x64xf32> to tensor<1x50x15x32xf32>
    %212 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_177, %47 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %213 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_178, %48 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %214 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%212, %213 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.subf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %215 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_178, %47 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %216 = linalg.generic {indexing_maps = [#map9, #map10, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%extracted_slice_177, %48 : tensor<1x50x15x32xf32>, tensor<1x50x1x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %217 = linalg.generic {indexing_maps = [#map9, #map9, #map9], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%215, %216 : tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) outs(%70 : tensor<1x50x15x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x15x32xf32>
    %concat_179 = tensor.concat dim(3) %214, %217 : (tensor<1x50x15x32xf32>, tensor<1x50x15x32xf32>) -> tensor<1x50x15x64xf32>
    %collapsed_180 = tensor.collapse_shape %arg6 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %transposed_181 = linalg.transpose ins(%cst_14 : tensor<320x320xf32>) outs(%135 : tensor<320x320xf32>) permutation = [1, 0] 
    %218 = linalg.matmul ins(%collapsed_180, %transposed_181 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%137 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_182 = tensor.expand_shape %218 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %collapsed_183 = tensor.collapse_shape %arg10 [[0, 1], [2, 3]] : tensor<1x113x5x64xf32> into tensor<113x320xf32>
    %transposed_184 = linalg.transpose ins(%cst_13 : tensor<320x320xf32>) outs(%135 : tensor<320x320xf32>) permutation = [1, 0] 
    %219 = linalg.matmul ins(%collapsed_183, %transposed_184 : tensor<113x320xf32>, tensor<320x320xf32>) outs(%137 : tensor<113x320xf32>) -> tensor<113x320xf32>
    %expanded_185 = tensor.expand_shape %219 [[0, 1], [2, 3]] output_shape [1, 113, 5, 64] : tensor<113x320xf32> into tensor<1x113x5x64xf32>
    %transposed_186 = linalg.transpose ins(%concat_179 : tensor<1x50x15x64xf32>) outs(%89 : tensor<1x15x50x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_187 = linalg.transpose ins(%expanded_182 : tensor<1x113x5x64xf32>) outs(%140 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %transposed_188 = linalg.transpose ins(%expanded_185 : tensor<1x113x5x64xf32>) outs(%140 : tensor<1x5x113x64xf32>) permutation = [0, 2, 1, 3] 
    %220 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_187 : tensor<1x5x113x64xf32>) outs(%143 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %221 = linalg.generic {indexing_maps = [#map12, #map13], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%transposed_188 : tensor<1x5x113x64xf32>) outs(%143 : tensor<1x5x3x113x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x5x3x113x64xf32>
    %collapsed_189 = tensor.collapse_shape %transposed_186 [[0, 1], [2], [3]] : tensor<1x15x50x64xf32> into tensor<15x50x64xf32>
    %collapsed_190 = tensor.collapse_shape %220 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %collapsed_191 = tensor.collapse_shape %221 [[0, 1, 2], [3], [4]] : tensor<1x5x3x113x64xf32> into tensor<15x113x64xf32>
    %222 = iree_linalg_ext.attention <indexing_maps = [#map14, #map15, #map16, #map17, #map18, #map19]> ins(%collapsed_189, %collapsed_190, %collapsed_191, %cst, %collapsed_126 : tensor<15x50x64xf32>, tensor<15x113x64xf32>, tensor<15x113x64xf32>, f32, tensor<15x50x113xi1>) outs(%96 : tensor<15x50x64xf32>) {
    ^bb0(%arg11: f32):
      iree_linalg_ext.yield %arg11 : f32
    } -> tensor<15x50x64xf32>
    %expanded_192 = tensor.expand_shape %222 [[0, 1], [2], [3]] output_shape [1, 15, 50, 64] : tensor<15x50x64xf32> into tensor<1x15x50x64xf32>
    %transposed_193 = linalg.transpose ins(%expanded_192 : tensor<1x15x50x64xf32>) outs(%98 : tensor<1x50x15x64xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_194 = tensor.collapse_shape %transposed_193 [[0, 1], [2, 3]] : tensor<1x50x15x64xf32> into tensor<50x960xf32>
    %transposed_195 = linalg.transpose ins(%cst_12 : tensor<720x960xf32>) outs(%99 : tensor<960x720xf32>) permutation = [1, 0] 
    %223 = linalg.matmul ins(%collapsed_194, %transposed_195 : tensor<50x960xf32>, tensor<960x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_196 = tensor.expand_shape %223 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %224 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%203, %expanded_196 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %225 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%224 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %226 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%225 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %227 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%226 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %228 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%227 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %229 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%228 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %230 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%224, %229 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %231 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_11, %230 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_197 = tensor.collapse_shape %231 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %transposed_198 = linalg.transpose ins(%cst_10 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %232 = linalg.matmul ins(%collapsed_197, %transposed_198 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_199 = tensor.expand_shape %232 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %233 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded_199 : tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.negf %in : f32
      %252 = math.exp %251 : f32
      %253 = arith.addf %252, %cst_3 : f32
      %254 = arith.divf %cst_3, %253 : f32
      linalg.yield %254 : f32
    } -> tensor<1x50x2048xf32>
    %234 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%233, %expanded_199 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %transposed_200 = linalg.transpose ins(%cst_9 : tensor<2048x720xf32>) outs(%109 : tensor<720x2048xf32>) permutation = [1, 0] 
    %235 = linalg.matmul ins(%collapsed_197, %transposed_200 : tensor<50x720xf32>, tensor<720x2048xf32>) outs(%111 : tensor<50x2048xf32>) -> tensor<50x2048xf32>
    %expanded_201 = tensor.expand_shape %235 [[0, 1], [2]] output_shape [1, 50, 2048] : tensor<50x2048xf32> into tensor<1x50x2048xf32>
    %236 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%234, %expanded_201 : tensor<1x50x2048xf32>, tensor<1x50x2048xf32>) outs(%113 : tensor<1x50x2048xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x2048xf32>
    %collapsed_202 = tensor.collapse_shape %236 [[0, 1], [2]] : tensor<1x50x2048xf32> into tensor<50x2048xf32>
    %transposed_203 = linalg.transpose ins(%cst_8 : tensor<720x2048xf32>) outs(%118 : tensor<2048x720xf32>) permutation = [1, 0] 
    %237 = linalg.matmul ins(%collapsed_202, %transposed_203 : tensor<50x2048xf32>, tensor<2048x720xf32>) outs(%2 : tensor<50x720xf32>) -> tensor<50x720xf32>
    %expanded_204 = tensor.expand_shape %237 [[0, 1], [2]] output_shape [1, 50, 720] : tensor<50x720xf32> into tensor<1x50x720xf32>
    %238 = linalg.generic {indexing_maps = [#map5, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%224, %expanded_204 : tensor<1x50x720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %239 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%238 : tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.fpowi %in, %c2_i64 : f32, i64
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %240 = linalg.generic {indexing_maps = [#map5, #map7], iterator_types = ["parallel", "parallel", "reduction"]} ins(%239 : tensor<1x50x720xf32>) outs(%59 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.addf %in, %out : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %241 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%240 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.divf %in, %cst_56 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %242 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%241 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = arith.truncf %cst_44 : f64 to f32
      %252 = arith.addf %in, %251 : f32
      linalg.yield %252 : f32
    } -> tensor<1x50x1xf32>
    %243 = linalg.generic {indexing_maps = [#map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%242 : tensor<1x50x1xf32>) outs(%42 : tensor<1x50x1xf32>) {
    ^bb0(%in: f32, %out: f32):
      %251 = math.rsqrt %in : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x1xf32>
    %244 = linalg.generic {indexing_maps = [#map5, #map7, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%238, %243 : tensor<1x50x720xf32>, tensor<1x50x1xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %245 = linalg.generic {indexing_maps = [#map8, #map5, #map5], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_7, %244 : tensor<720xf32>, tensor<1x50x720xf32>) outs(%22 : tensor<1x50x720xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.mulf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<1x50x720xf32>
    %collapsed_205 = tensor.collapse_shape %245 [[0, 1], [2]] : tensor<1x50x720xf32> into tensor<50x720xf32>
    %246 = tensor.empty() : tensor<720x32xf32>
    %transposed_206 = linalg.transpose ins(%cst_6 : tensor<32x720xf32>) outs(%246 : tensor<720x32xf32>) permutation = [1, 0] 
    %247 = tensor.empty() : tensor<50x32xf32>
    %248 = linalg.fill ins(%cst_0 : f32) outs(%247 : tensor<50x32xf32>) -> tensor<50x32xf32>
    %249 = linalg.matmul ins(%collapsed_205, %transposed_206 : tensor<50x720xf32>, tensor<720x32xf32>) outs(%248 : tensor<50x32xf32>) -> tensor<50x32xf32>
    %250 = linalg.generic {indexing_maps = [#map, #map1, #map], iterator_types = ["parallel", "parallel"]} ins(%249, %cst_5 : tensor<50x32xf32>, tensor<32xf32>) outs(%247 : tensor<50x32xf32>) {
    ^bb0(%in: f32, %in_208: f32, %out: f32):
      %251 = arith.addf %in, %in_208 : f32
      linalg.yield %251 : f32
    } -> tensor<50x32xf32>
    %expanded_207 = tensor.expand_shape %250 [[0, 1], [2]] output_shape [1, 50, 32] : tensor<50x32xf32> into tensor<1x50x32xf32>
    return %expanded_207 : tensor<1x50x32xf32>
  }
}

