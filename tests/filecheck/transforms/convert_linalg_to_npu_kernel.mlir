// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s

#id2 = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
#turned = affine_map<(d0, d1) -> (d1, d0)>
#scalar = affine_map<(d0, d1) -> ()>
#keep = affine_map<(d0, d1) -> (d0, 0)>

// A matmul on a zero start needs no start; the transposed weight is read in place.
// CHECK-LABEL: func.func @matmul(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %x, %w : tensor<4x8xf32>, tensor<16x8xf32> -> tensor<4x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x16xf32>
func.func @matmul(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>) -> tensor<4x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x16xf32>
  %t = linalg.transpose ins(%w : tensor<16x8xf32>) outs(%e : tensor<8x16xf32>) permutation = [1, 0]
  %o = tensor.empty() : tensor<4x16xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x16xf32>) -> tensor<4x16xf32>
  %0 = linalg.matmul ins(%x, %t : tensor<4x8xf32>, tensor<8x16xf32>) outs(%f : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// A square weight needs the mark, shapes do not tell.
// CHECK-LABEL: func.func @square_weight(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %x, %w {transpose_rhs} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x8xf32>
func.func @square_weight(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %o = tensor.empty() : tensor<4x8xf32>
  %f = linalg.fill ins(%zero : f32) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
  %0 = linalg.matmul indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1)>] ins(%x, %w : tensor<4x8xf32>, tensor<8x8xf32>) outs(%f : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Any other start is kept; mixed precision keeps its types.
// CHECK-LABEL: func.func @start(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %x, %w acc(%init : tensor<4x16xf32>) : tensor<4x8xbf16>, tensor<8x16xbf16> -> tensor<4x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x16xf32>
func.func @start(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %init: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %0 = linalg.matmul ins(%x, %w : tensor<4x8xbf16>, tensor<8x16xbf16>) outs(%init : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}

// A matvec is a matmul with one column.
// CHECK-LABEL: func.func @matvec(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%v) : tensor<8xf32> -> tensor<1x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%init) : tensor<4xf32> -> tensor<4x1xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.matmul %a, [[V0]] acc([[V1]] : tensor<4x1xf32>) : tensor<4x8xf32>, tensor<1x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"([[V2]]) : tensor<4x1xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return [[V3]] : tensor<4xf32>
func.func @matvec(%a: tensor<4x8xf32>, %v: tensor<8xf32>, %init: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.matvec ins(%a, %v : tensor<4x8xf32>, tensor<8xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A generic contraction with a transposed left operand and the batch inside.
// CHECK-LABEL: func.func @contraction(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_transpose"(%a) {permutation = array<i64: 1, 2, 0>} : tensor<8x2x4xf32> -> tensor<2x4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V0]], %b acc(%init : tensor<2x4x16xf32>) : tensor<2x4x8xf32>, tensor<2x8x16xf32> -> tensor<2x4x16xf32>
// CHECK-NEXT: func.return [[V1]] : tensor<2x4x16xf32>
func.func @contraction(%a: tensor<8x2x4xf32>, %b: tensor<2x8x16xf32>, %init: tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (k, b, m)>, affine_map<(b, m, n, k) -> (b, k, n)>, affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : tensor<8x2x4xf32>, tensor<2x8x16xf32>) outs(%init : tensor<2x4x16xf32>) {
  ^bb0(%x: f32, %y: f32, %o: f32):
    %p = arith.mulf %x, %y : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x4x16xf32>
  return %0 : tensor<2x4x16xf32>
}

// Zero points other than 0 are subtracted first.
// CHECK-LABEL: func.func @quantised(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"(%a) : tensor<4x8xi8> -> tensor<4x8xi32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"([[V0]]) {scalar_rhs = 3 : i32} : tensor<4x8xi32> -> tensor<4x8xi32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.matmul [[V1]], %b : tensor<4x8xi32>, tensor<8x16xi8> -> tensor<4x16xi32>
// CHECK-NEXT: func.return [[V2]] : tensor<4x16xi32>
func.func @quantised(%a: tensor<4x8xi8>, %b: tensor<8x16xi8>) -> tensor<4x16xi32> {
  %zero = arith.constant 0 : i32
  %three = arith.constant 3 : i32
  %o = tensor.empty() : tensor<4x16xi32>
  %f = linalg.fill ins(%zero : i32) outs(%o : tensor<4x16xi32>) -> tensor<4x16xi32>
  %0 = linalg.quantized_matmul ins(%a, %b, %three, %zero : tensor<4x8xi8>, tensor<8x16xi8>, i32, i32) outs(%f : tensor<4x16xi32>) -> tensor<4x16xi32>
  return %0 : tensor<4x16xi32>
}

// Each op of a body is an intent of its own; operands are broadcast by maps, constants are attributes.
// CHECK-LABEL: func.func @body(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%x, %v) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4x8xbf16>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"([[V0]]) : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]]) {scalar_rhs = 2.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_compare"([[V2]]) {predicate = "gt", scalar_rhs = 2.000000e+00 : f32} : tensor<4x8xf32> -> tensor<4x8xi1>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_select"([[V3]], [[V2]], [[V1]]) : tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V4]] : tensor<4x8xf32>
func.func @body(%x: tensor<4x8xbf16>, %v: tensor<8xbf16>) -> tensor<4x8xf32> {
  %two = arith.constant 2.0 : f32
  %o = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id2, #column, #id2], iterator_types = ["parallel", "parallel"]} ins(%x, %v : tensor<4x8xbf16>, tensor<8xbf16>) outs(%o : tensor<4x8xf32>) {
  ^bb0(%a: bf16, %b: bf16, %out: f32):
    %1 = arith.addf %a, %b : bf16
    %2 = arith.extf %1 : bf16 to f32
    %3 = arith.mulf %2, %two : f32
    %4 = arith.cmpf ogt, %3, %two : f32
    %5 = arith.select %4, %3, %2 : f32
    linalg.yield %5 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// A scalar of the program is a tensor without dimensions.
// CHECK-LABEL: func.func @scalar(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = tensor.from_elements %s : tensor<f32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_div"(%x, [[V0]]) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>]} : tensor<4x8xf32>, tensor<f32> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V1]] : tensor<4x8xf32>
func.func @scalar(%x: tensor<4x8xf32>, %s: f32) -> tensor<4x8xf32> {
  %o = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id2, #scalar, #id2], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x8xf32>, f32) outs(%o : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %1 = arith.divf %a, %b : f32
    linalg.yield %1 : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Positions in a body are an iota; a causal mask is a comparison of two.
// CHECK-LABEL: func.func @causal(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<4xi64>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_iota"() {axis = 0 : i64} : () -> tensor<8xi64>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_compare"([[V0]], [[V1]]) {predicate = "ge", operand_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>]} : tensor<4xi64>, tensor<8xi64> -> tensor<4x8xi1>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_select"([[V2]]) {scalar_a = 0.000000e+00 : f32, scalar_b = 0xff800000 : f32} : tensor<4x8xi1> -> tensor<4x8xf32>
// CHECK-NEXT: func.return [[V3]] : tensor<4x8xf32>
func.func @causal() -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %o = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id2], iterator_types = ["parallel", "parallel"]} outs(%o : tensor<4x8xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    %s = arith.select %c, %zero, %low : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Whole-tensor arithmetic.
// CHECK-LABEL: func.func @tensors(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"(%x) {scalar_rhs = 5.000000e-01 : f32} : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"([[V0]]) : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: func.return [[V1]] : tensor<4x8xbf16>
func.func @tensors(%x: tensor<4x8xf32>) -> tensor<4x8xbf16> {
  %half = arith.constant dense<0.5> : tensor<4x8xf32>
  %0 = arith.mulf %x, %half : tensor<4x8xf32>
  %1 = arith.truncf %0 : tensor<4x8xf32> to tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}

// A sum over rows; over columns with the dimension kept; a maximum with a start that matters.
// CHECK-LABEL: func.func @reductions(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_sum"(%x) {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_exp"(%x) : tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_sum"([[V1]]) {axes = array<i64: 1>, keepdims} : tensor<4x8xf32> -> tensor<4x1xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_max"(%x, %init) {axes = array<i64: 0>} : tensor<4x8xf32>, tensor<8xf32> -> tensor<8xf32>
// CHECK-NEXT: func.return [[V0]], [[V2]], [[V3]] : tensor<4xf32>, tensor<4x1xf32>, tensor<8xf32>
func.func @reductions(%x: tensor<4x8xf32>, %init: tensor<8xf32>) -> (tensor<4xf32>, tensor<4x1xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %a = tensor.empty() : tensor<4xf32>
  %b = linalg.fill ins(%zero : f32) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  %0 = linalg.reduce { arith.addf } ins(%x : tensor<4x8xf32>) outs(%b : tensor<4xf32>) dimensions = [1]
  %c = tensor.empty() : tensor<4x1xf32>
  %d = linalg.fill ins(%zero : f32) outs(%c : tensor<4x1xf32>) -> tensor<4x1xf32>
  %1 = linalg.generic {indexing_maps = [#id2, #keep], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%d : tensor<4x1xf32>) {
  ^bb0(%e: f32, %out: f32):
    %s = math.exp %e : f32
    %r = arith.addf %out, %s : f32
    linalg.yield %r : f32
  } -> tensor<4x1xf32>
  %2 = linalg.reduce { arith.maximumf } ins(%x : tensor<4x8xf32>) outs(%init : tensor<8xf32>) dimensions = [0]
  return %0, %1, %2 : tensor<4xf32>, tensor<4x1xf32>, tensor<8xf32>
}

// A maximum with its position: the position is found on the host.
// CHECK-LABEL: func.func @position(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reduction_max"(%x) {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_argmax"(%x) {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4xi64>
// CHECK-NEXT: func.return [[V0]], [[V1]] : tensor<4xf32>, tensor<4xi64>
func.func @position(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi64>) {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0 : i64
  %a = tensor.empty() : tensor<4xf32>
  %b = tensor.empty() : tensor<4xi64>
  %fa = linalg.fill ins(%low : f32) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  %fb = linalg.fill ins(%zero : i64) outs(%b : tensor<4xi64>) -> tensor<4xi64>
  %0:2 = linalg.generic {indexing_maps = [#id2, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%fa, %fb : tensor<4xf32>, tensor<4xi64>) {
  ^bb0(%e: f32, %m: f32, %p: i64):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %n = arith.maximumf %e, %m : f32
    %c = arith.cmpf ogt, %e, %m : f32
    %s = arith.select %c, %j, %p : i64
    linalg.yield %n, %s : f32, i64
  } -> (tensor<4xf32>, tensor<4xi64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi64>
}

// Softmax keeps its axis.
// CHECK-LABEL: func.func @softmax(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 1 : i64} : tensor<2x4x8xbf16> -> tensor<2x4x8xbf16>
// CHECK-NEXT: func.return [[V0]] : tensor<2x4x8xbf16>
func.func @softmax(%x: tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16> {
  %o = tensor.empty() : tensor<2x4x8xbf16>
  %0 = linalg.softmax dimension(1) ins(%x : tensor<2x4x8xbf16>) outs(%o : tensor<2x4x8xbf16>) -> tensor<2x4x8xbf16>
  return %0 : tensor<2x4x8xbf16>
}

// Slices, pads, concats, reshapes, transposes, broadcasts; offsets computed at run time stay.
// CHECK-LABEL: func.func @movement(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0>, sizes = array<i64: 4, 4>, strides = array<i64: 1, 2>} : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_pad"(%x) {low = array<i64: 1, 0>, high = array<i64: 1, 1>, value = 0.000000e+00 : f32} : tensor<4x8xf32> -> tensor<6x9xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"(%x, %x) {axis = 0 : i64} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<8x8xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%x) : tensor<4x8xf32> -> tensor<32xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_transpose"(%x) {permutation = array<i64: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_cast"(%v) {operand_maps = [affine_map<(d0, d1) -> (d1)>]} : tensor<8xf32> -> tensor<3x8xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = tensor.extract_slice %x[%at, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
// CHECK-NEXT: func.return [[V0]], [[V1]], [[V2]], [[V3]], [[V4]], [[V5]], [[V6]] : tensor<4x4xf32>, tensor<6x9xf32>, tensor<8x8xf32>, tensor<32xf32>, tensor<8x4xf32>, tensor<3x8xf32>, tensor<1x8xf32>
func.func @movement(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %at: index) -> (tensor<4x4xf32>, tensor<6x9xf32>, tensor<8x8xf32>, tensor<32xf32>, tensor<8x4xf32>, tensor<3x8xf32>, tensor<1x8xf32>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.extract_slice %x[0, 0] [4, 4] [1, 2] : tensor<4x8xf32> to tensor<4x4xf32>
  %1 = tensor.pad %x low[1, 0] high[1, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<6x9xf32>
  %2 = tensor.concat dim(0) %x, %x : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %3 = tensor.collapse_shape %x [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %e = tensor.empty() : tensor<8x4xf32>
  %4 = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %f = tensor.empty() : tensor<3x8xf32>
  %5 = linalg.broadcast ins(%v : tensor<8xf32>) outs(%f : tensor<3x8xf32>) dimensions = [0]
  %6 = tensor.extract_slice %x[%at, 0] [1, 8] [1, 1] : tensor<4x8xf32> to tensor<1x8xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<4x4xf32>, tensor<6x9xf32>, tensor<8x8xf32>, tensor<32xf32>, tensor<8x4xf32>, tensor<3x8xf32>, tensor<1x8xf32>
}

// Parts inserted side by side into an empty tensor are a concat.
// CHECK-LABEL: func.func @inserted(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"(%a, %b) {axis = 1 : i64} : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x16xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<4x16xf32>
func.func @inserted(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x16xf32> {
  %e = tensor.empty() : tensor<4x16xf32>
  %0 = tensor.insert_slice %b into %e[0, 8] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x16xf32>
  %1 = tensor.insert_slice %a into %0[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> into tensor<4x16xf32>
  return %1 : tensor<4x16xf32>
}

// A lookup is the host's.
// CHECK-LABEL: func.func @lookup(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_embedding"(%table, %ids) {axis = 0 : i64} : tensor<100x8xf32>, tensor<3xi64> -> tensor<3x8xf32>
// CHECK-NEXT: func.return [[V0]] : tensor<3x8xf32>
func.func @lookup(%table: tensor<100x8xf32>, %ids: tensor<3xi64>) -> tensor<3x8xf32> {
  %o = tensor.empty() : tensor<3x8xf32>
  %0 = linalg.generic {indexing_maps = [#row, #id2], iterator_types = ["parallel", "parallel"]} ins(%ids : tensor<3xi64>) outs(%o : tensor<3x8xf32>) {
  ^bb0(%i: i64, %out: f32):
    %1 = arith.index_cast %i : i64 to index
    %2 = linalg.index 1 : index
    %3 = tensor.extract %table[%1, %2] : tensor<100x8xf32>
    linalg.yield %3 : f32
  } -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// Loops are kept, what is in them is converted.
// CHECK-LABEL: func.func @loop(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = arith.constant 0 : index
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = arith.constant 1 : index
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = arith.constant 4 : index
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = scf.for %i = [[V0]] to [[V2]] step [[V1]] iter_args(%acc = %x) -> (tensor<4x8xf32>) {
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%acc, %acc) : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
// CHECK-NEXT: scf.yield [[V4]] : tensor<4x8xf32>
// CHECK: func.return [[V3]] : tensor<4x8xf32>
func.func @loop(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %0 = scf.for %i = %c0 to %c4 step %c1 iter_args(%acc = %x) -> (tensor<4x8xf32>) {
    %o = tensor.empty() : tensor<4x8xf32>
    %1 = linalg.add ins(%acc, %acc : tensor<4x8xf32>, tensor<4x8xf32>) outs(%o : tensor<4x8xf32>) -> tensor<4x8xf32>
    scf.yield %1 : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// -----

// Signed remainders have a kernel, of whole numbers and of floats.
func.func @remainder(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %o = tensor.empty() : tensor<4xi32>
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<4xi32>, tensor<4xi32>) outs(%o : tensor<4xi32>) {
  ^bb0(%a: i32, %b: i32, %out: i32):
    %1 = arith.remsi %a, %b : i32
    linalg.yield %1 : i32
  } -> tensor<4xi32>
  return %0 : tensor<4xi32>
}
// CHECK-LABEL: func.func @remainder(
// CHECK-NEXT: npu_kernel.ukernel_generic "npu_uk_elementwise_rem"(%x, %y) : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
