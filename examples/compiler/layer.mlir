// y = x w + b: a matmul in fp8 with a bf16 result, and a residual added to it.
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @layer(%x: tensor<64x96xf8E4M3FN>, %w: tensor<96x32xf8E4M3FN>, %b: tensor<64x32xbf16>) -> tensor<64x32xbf16> {
  %zero = arith.constant 0.0 : bf16
  %empty = tensor.empty() : tensor<64x32xbf16>
  %start = linalg.fill ins(%zero : bf16) outs(%empty : tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %product = linalg.matmul ins(%x, %w : tensor<64x96xf8E4M3FN>, tensor<96x32xf8E4M3FN>) outs(%start : tensor<64x32xbf16>) -> tensor<64x32xbf16>
  %sum = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%product, %b : tensor<64x32xbf16>, tensor<64x32xbf16>) outs(%empty : tensor<64x32xbf16>) {
  ^bb0(%p: bf16, %q: bf16, %o: bf16):
    %s = arith.addf %p, %q : bf16
    linalg.yield %s : bf16
  } -> tensor<64x32xbf16>
  return %sum : tensor<64x32xbf16>
}
