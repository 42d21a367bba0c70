#id2 = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#bt = affine_map<(d0, d1, d2) -> (d1, d2)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
#q = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d3)>
#k = affine_map<(d0, d1, d2, d3, d4) -> (d0, d4, d3)>
#vt = affine_map<(d0, d1, d2, d3, d4) -> (d0, d2, d4)>
#s = affine_map<(d0, d1, d2, d3, d4) -> ()>
#m = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d4)>
#o = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>
module {
  func.func @contractions(%a: tensor<4x8xbf16>, %b: tensor<8x16xbf16>, %bt: tensor<16x8xbf16>, %i: tensor<4x16xf32>, %a3: tensor<2x4x8xf32>, %b3: tensor<2x8x16xf32>, %c3: tensor<2x4x16xf32>, %v: tensor<8xbf16>, %c1: tensor<4xf32>, %a8: tensor<4x8xi8>, %b8: tensor<8x16xi8>, %c32: tensor<4x16xi32>, %z: i32, %f8: tensor<4x8xf8E4M3FN>, %g8: tensor<8x16xf8E4M3FN>) {
    %0 = linalg.matmul ins(%a, %b : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%i : tensor<4x16xf32>) -> tensor<4x16xf32>
    %1 = linalg.matmul indexing_maps = [#a, #bt, #c] ins(%a, %bt : tensor<4x8xbf16>, tensor<16x8xbf16>) outs(%i : tensor<4x16xf32>) -> tensor<4x16xf32>
    %2 = linalg.batch_matmul ins(%a3, %b3 : tensor<2x4x8xf32>, tensor<2x8x16xf32>) outs(%c3 : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
    %3 = linalg.matvec ins(%a, %v : tensor<4x8xbf16>, tensor<8xbf16>) outs(%c1 : tensor<4xf32>) -> tensor<4xf32>
    %4 = linalg.matmul ins(%a8, %b8 : tensor<4x8xi8>, tensor<8x16xi8>) outs(%c32 : tensor<4x16xi32>) -> tensor<4x16xi32>
    %5 = linalg.quantized_matmul ins(%a8, %b8, %z, %z : tensor<4x8xi8>, tensor<8x16xi8>, i32, i32) outs(%c32 : tensor<4x16xi32>) -> tensor<4x16xi32>
    %6 = linalg.matmul ins(%f8, %g8 : tensor<4x8xf8E4M3FN>, tensor<8x16xf8E4M3FN>) outs(%i : tensor<4x16xf32>) -> tensor<4x16xf32>
    %7 = linalg.contract indexing_maps = [#a, #bt, #c] ins(%a, %bt : tensor<4x8xbf16>, tensor<16x8xbf16>) outs(%i : tensor<4x16xf32>) -> tensor<4x16xf32>
    return
  }
  func.func @elementwise(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %n: tensor<4x8xi32>, %p: tensor<4x8xi1>, %r: tensor<4xf32>) {
    %0 = linalg.add ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %1 = linalg.div ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %2 = linalg.exp ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %3 = linalg.add ins(%n, %n : tensor<4x8xi32>, tensor<4x8xi32>) outs(%n : tensor<4x8xi32>) -> tensor<4x8xi32>
    %4 = linalg.reciprocal ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = linalg.select ins(%p, %x, %y : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = linalg.max ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %8 = linalg.elementwise kind=#linalg.elementwise_kind<max_signed> ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %9 = linalg.elementwise <sub> indexing_maps = [#id2, #row, #id2] ins(%x, %r : tensor<4x8xf32>, tensor<4xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %7 = linalg.erf ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    return
  }
  func.func @dimensions(%x: tensor<4x8xf32>, %r: tensor<4xf32>, %t: tensor<8x4xf32>, %k: tensor<4x8x3xf32>) {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = linalg.fill ins(%cst : f32) outs(%r : tensor<4xf32>) -> tensor<4xf32>
    %1 = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4xf32>) dimensions = [1]
    %2 = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4xf32>) dimensions = [1]
      (%in: f32, %init: f32) {
        %9 = arith.mulf %in, %in : f32
        %10 = arith.addf %init, %9 : f32
        linalg.yield %10 : f32
      }
    %3 = linalg.map { arith.addf } ins(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : tensor<4x8xf32>)
    %4 = linalg.map ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>)
      (%in: f32, %init: f32) {
        %9 = math.exp %in : f32
        %10 = arith.negf %9 : f32
        linalg.yield %10 : f32
      }
    %5 = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%t : tensor<8x4xf32>) permutation = [1, 0]
    %6 = linalg.broadcast ins(%x : tensor<4x8xf32>) outs(%k : tensor<4x8x3xf32>) dimensions = [2]
    %7 = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>
    %8:2 = linalg.generic {indexing_maps = [#id2, #id2, #id2], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%x, %x : tensor<4x8xf32>, tensor<4x8xf32>) {
    ^bb0(%in: f32, %out: f32, %out_1: f32):
      linalg.yield %in, %in : f32, f32
    } -> (tensor<4x8xf32>, tensor<4x8xf32>)
    return
  }
  func.func @windows(%x: tensor<1x3x8x8xi8>, %w: tensor<6x3x2x2xi8>, %c: tensor<1x6x4x4xi32>, %y: tensor<1x8x8x3xbf16>, %h: tensor<2x2x3x6xbf16>, %d: tensor<1x7x7x6xf32>, %k: tensor<2x2xf32>, %p: tensor<1x4x4x3xbf16>) {
    %0 = linalg.conv_2d_nchw_fchw {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%x, %w : tensor<1x3x8x8xi8>, tensor<6x3x2x2xi8>) outs(%c : tensor<1x6x4x4xi32>) -> tensor<1x6x4x4xi32>
    %1 = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%y, %h : tensor<1x8x8x3xbf16>, tensor<2x2x3x6xbf16>) outs(%d : tensor<1x7x7x6xf32>) -> tensor<1x7x7x6xf32>
    %2 = linalg.pooling_nhwc_max {dilations = dense<1> : tensor<2xi64>, strides = dense<2> : tensor<2xi64>} ins(%y, %k : tensor<1x8x8x3xbf16>, tensor<2x2xf32>) outs(%p : tensor<1x4x4x3xbf16>) -> tensor<1x4x4x3xbf16>
    return
  }
  func.func @attention(%q: tensor<4x8x16xbf16>, %k: tensor<4x32x16xbf16>, %vt: tensor<4x16x32xbf16>, %scale: f32, %mask: tensor<4x8x32xi1>, %init: tensor<4x8x16xbf16>) -> tensor<4x8x16xbf16> {
    %0 = iree_linalg_ext.attention <indexing_maps = [#q, #k, #vt, #s, #m, #o]> ins(%q, %k, %vt, %scale, %mask : tensor<4x8x16xbf16>, tensor<4x32x16xbf16>, tensor<4x16x32xbf16>, f32, tensor<4x8x32xi1>) outs(%init : tensor<4x8x16xbf16>) {
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
    } -> tensor<4x8x16xbf16>
    return %0 : tensor<4x8x16xbf16>
  }
}
