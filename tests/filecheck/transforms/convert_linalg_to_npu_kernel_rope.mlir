// RUN: tilewright opt %s -p convert-linalg-to-npu-kernel | filecheck %s

#id3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#table = affine_map<(d0, d1, d2) -> (d0, d2)>

// Two halves of x, turned, one concat.
// CHECK-LABEL: func.func @split_half(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%cos) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%sin) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_rope"(%x, [[V0]], [[V1]]) {style = "split_half", axis = 2 : i64} : tensor<7x3x8xf32>, tensor<7x1x4xf32>, tensor<7x1x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V2]] : tensor<7x3x8xf32>
func.func @split_half(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %as = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bc, %as : tensor<7x3x4xf32>
  %r = tensor.concat dim(2) %first, %last : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// The halves written into an empty tensor.
// CHECK-LABEL: func.func @assigned(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%cos) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%sin) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_rope"(%x, [[V0]], [[V1]]) {style = "split_half", axis = 2 : i64} : tensor<7x3x8xf32>, tensor<7x1x4xf32>, tensor<7x1x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V2]] : tensor<7x3x8xf32>
func.func @assigned(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %as = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bc, %as : tensor<7x3x4xf32>
  %empty = tensor.empty() : tensor<7x3x8xf32>
  %h = tensor.insert_slice %first into %empty[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x4xf32> into tensor<7x3x8xf32>
  %r = tensor.insert_slice %last into %h[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x4xf32> into tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// Even and odd elements, put side by side again.
// CHECK-LABEL: func.func @interleaved(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%cos) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%sin) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_rope"(%x, [[V0]], [[V1]]) {style = "interleaved", axis = 2 : i64} : tensor<7x3x8xf32>, tensor<7x1x4xf32>, tensor<7x1x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V2]] : tensor<7x3x8xf32>
func.func @interleaved(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 2] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 1] [7, 3, 4] [1, 1, 2] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %as = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bc, %as : tensor<7x3x4xf32>
  %f = tensor.expand_shape %first [[0], [1], [2, 3]] output_shape [7, 3, 4, 1] : tensor<7x3x4xf32> into tensor<7x3x4x1xf32>
  %l = tensor.expand_shape %last [[0], [1], [2, 3]] output_shape [7, 3, 4, 1] : tensor<7x3x4xf32> into tensor<7x3x4x1xf32>
  %pairs = tensor.concat dim(3) %f, %l : (tensor<7x3x4x1xf32>, tensor<7x3x4x1xf32>) -> tensor<7x3x4x2xf32>
  %r = tensor.collapse_shape %pairs [[0], [1], [2, 3]] : tensor<7x3x4x2xf32> into tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// x times cosines plus the turned x times sines, tables repeated for both halves.
// CHECK-LABEL: func.func @whole_tables(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%cos) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_reshape"(%sin) : tensor<7x4xf32> -> tensor<7x1x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_rope"(%x, [[V0]], [[V1]]) {style = "split_half", axis = 2 : i64} : tensor<7x3x8xf32>, tensor<7x1x4xf32>, tensor<7x1x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V2]] : tensor<7x3x8xf32>
func.func @whole_tables(%x: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x8xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %n = arith.negf %b : tensor<7x3x4xf32>
  %turned = tensor.concat dim(2) %n, %a : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  %c = tensor.concat dim(1) %cos, %cos : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x8xf32>
  %s = tensor.concat dim(1) %sin, %sin : (tensor<7x4xf32>, tensor<7x4xf32>) -> tensor<7x8xf32>
  %0 = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%x, %c : tensor<7x3x8xf32>, tensor<7x8xf32>) outs(%e : tensor<7x3x8xf32>) -> tensor<7x3x8xf32>
  %1 = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%turned, %s : tensor<7x3x8xf32>, tensor<7x8xf32>) outs(%e : tensor<7x3x8xf32>) -> tensor<7x3x8xf32>
  %2 = arith.addf %0, %1 : tensor<7x3x8xf32>
  return %2 : tensor<7x3x8xf32>
}

// The signs exchanged: another rotation, which has no name.
// CHECK-LABEL: func.func @wrong_sign(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V2]], [[V3]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"([[V4]], [[V5]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V8:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"([[V6]], [[V7]]) {axis = 2 : i64} : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V8]] : tensor<7x3x8xf32>
func.func @wrong_sign(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %as = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.addf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.subf %bc, %as : tensor<7x3x4xf32>
  %r = tensor.concat dim(2) %first, %last : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// Sine from another table in the second half only looks like a rotation.
// CHECK-LABEL: func.func @other_sine(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %other) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"([[V2]], [[V3]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V4]], [[V5]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V8:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"([[V6]], [[V7]]) {axis = 2 : i64} : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V8]] : tensor<7x3x8xf32>
func.func @other_sine(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %at = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %other : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bc, %at : tensor<7x3x4xf32>
  %r = tensor.concat dim(2) %first, %last : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// Halves of two tensors only look like a rotation.
// CHECK-LABEL: func.func @other_source(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%y) {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"([[V2]], [[V3]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V4]], [[V5]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V8:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"([[V6]], [[V7]]) {axis = 2 : i64} : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V8]] : tensor<7x3x8xf32>
func.func @other_source(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %y[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bc = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %as = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bc, %as : tensor<7x3x4xf32>
  %r = tensor.concat dim(2) %first, %last : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

// Cosine and sine exchanged in the second half.
// CHECK-LABEL: func.func @swapped(
// CHECK-NEXT: [[V0:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V1:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_slice"(%x) {offsets = array<i64: 0, 0, 4>, sizes = array<i64: 7, 3, 4>} : tensor<7x3x8xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V2:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V3:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V4:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V1]], %sin) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V5:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_mul"([[V0]], %cos) {operand_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d2)>]} : tensor<7x3x4xf32>, tensor<7x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V6:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_sub"([[V2]], [[V3]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V7:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_elementwise_add"([[V4]], [[V5]]) : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x4xf32>
// CHECK-NEXT: [[V8:%[a-zA-Z0-9_]+]] = npu_kernel.ukernel_generic "npu_uk_concat"([[V6]], [[V7]]) {axis = 2 : i64} : tensor<7x3x4xf32>, tensor<7x3x4xf32> -> tensor<7x3x8xf32>
// CHECK-NEXT: func.return [[V8]] : tensor<7x3x8xf32>
func.func @swapped(%x: tensor<7x3x8xf32>, %y: tensor<7x3x8xf32>, %cos: tensor<7x4xf32>, %sin: tensor<7x4xf32>, %other: tensor<7x4xf32>) -> tensor<7x3x8xf32> {
  %e = tensor.empty() : tensor<7x3x4xf32>
  %a = tensor.extract_slice %x[0, 0, 0] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %b = tensor.extract_slice %x[0, 0, 4] [7, 3, 4] [1, 1, 1] : tensor<7x3x8xf32> to tensor<7x3x4xf32>
  %ac = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %bs2 = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%b, %sin : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %ac2 = linalg.elementwise <mul> indexing_maps = [#id3, #table, #id3] ins(%a, %cos : tensor<7x3x4xf32>, tensor<7x4xf32>) outs(%e : tensor<7x3x4xf32>) -> tensor<7x3x4xf32>
  %first = arith.subf %ac, %bs : tensor<7x3x4xf32>
  %last = arith.addf %bs2, %ac2 : tensor<7x3x4xf32>
  %r = tensor.concat dim(2) %first, %last : (tensor<7x3x4xf32>, tensor<7x3x4xf32>) -> tensor<7x3x8xf32>
  return %r : tensor<7x3x8xf32>
}

