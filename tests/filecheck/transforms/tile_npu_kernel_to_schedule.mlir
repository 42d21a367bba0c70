// RUN: tilewright opt --split-input-file %s -p tile-npu-kernel-to-schedule | filecheck %s
// RUN: tilewright opt --split-input-file %s -p tile-npu-kernel-to-schedule --print-generic | tilewright opt --split-input-file - | filecheck %s

// K = 64 is two tiles: the chain is first and last, inside loops over M and N.

// CHECK-LABEL: @matmul_two_k_tiles
// CHECK-DAG:     [[C0:%.*]] = arith.constant 0 : index
// CHECK-DAG:     [[C32:%.*]] = arith.constant 32 : index
// CHECK:         [[INIT:%.*]] = tensor.empty() : tensor<32x32xbf16>
// CHECK-NEXT:    [[M_LOOP:%.*]] = scf.for [[M:%.*]] = %c0 to %c32 step %c32 iter_args([[ACC0:%.*]] = %{{.*}}) -> (tensor<32x32xbf16>) {
// CHECK-NEXT:      [[N_LOOP:%.*]] = scf.for [[N:%.*]] = %c0 to %c32 step %c32 iter_args([[ACC1:%.*]] = %{{.*}}) -> (tensor<32x32xbf16>) {
// CHECK-NEXT:        tensor.extract_slice %lhs[%m, %c0] [32, 32] [1, 1] : tensor<32x64xf8E4M3FN> to tensor<32x32xf8E4M3FN>
// CHECK-NEXT:        tensor.extract_slice %rhs[%c0, %n] [32, 32] [1, 1] : tensor<64x32xf8E4M3FN> to tensor<32x32xf8E4M3FN>
// CHECK-NEXT:        npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%{{.*}}, %{{.*}}) : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN> -> tensor<32x32xbf16>
// CHECK-NEXT:        tensor.extract_slice %lhs[%m, %c32] [32, 32] [1, 1]
// CHECK-NEXT:        tensor.extract_slice %rhs[%c32, %n] [32, 32] [1, 1]
// CHECK-NEXT:        [[LAST:%.*]] = npu_schedule.ukernel_launch "npu_uk_matmul_acc_last"
// CHECK-NEXT:        [[INS:%.*]] = tensor.insert_slice %{{.*}} into %{{.*}}[%m, %n] [32, 32] [1, 1]
// CHECK-NEXT:        scf.yield %{{.*}} : tensor<32x32xbf16>
// CHECK:           scf.yield %{{.*}} : tensor<32x32xbf16>
func.func @matmul_two_k_tiles(
    %lhs: tensor<32x64xf8E4M3FN>,
    %rhs: tensor<64x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.matmul %lhs, %rhs
    : tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// K = 96 has one middle launch.

// CHECK-LABEL: @matmul_three_k_tiles
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             "npu_uk_matmul_acc_first"
// CHECK:             "npu_uk_matmul_acc_mid"
// CHECK-NOT:         "npu_uk_matmul_acc_mid"
// CHECK:             "npu_uk_matmul_acc_last"
func.func @matmul_three_k_tiles(%lhs: tensor<64x96xf8E4M3FN>, %rhs: tensor<96x32xf8E4M3FN>) -> tensor<64x32xbf16> {
  %0 = npu_kernel.matmul %lhs, %rhs : tensor<64x96xf8E4M3FN>, tensor<96x32xf8E4M3FN> -> tensor<64x32xbf16>
  return %0 : tensor<64x32xbf16>
}

// -----

// A matmul named by a symbol is tiled the same way.

// CHECK-LABEL: @matmul_symbol
// CHECK:         "npu_uk_matmul_acc_first"
// CHECK:         "npu_uk_matmul_acc_last"
func.func @matmul_symbol(%lhs: tensor<32x64xf8E4M3FN>, %rhs: tensor<64x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_matmul_f8E4M3FN_f8E4M3FN_bf16"(%lhs, %rhs) : tensor<32x64xf8E4M3FN>, tensor<64x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// Chains longer than the limit keep their ends and loop over the middle.

// CHECK-LABEL: @long_chain
// CHECK:         "npu_uk_matmul_acc_first"
// CHECK-NEXT:    scf.for %k = %c32 to %c480 step %c32 {
// CHECK:           "npu_uk_matmul_acc_mid"
// CHECK-NEXT:    }
// CHECK:         "npu_uk_matmul_acc_last"
func.func @long_chain(%lhs: tensor<32x512xf8E4M3FN>, %rhs: tensor<512x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.matmul %lhs, %rhs : tensor<32x512xf8E4M3FN>, tensor<512x32xf8E4M3FN> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// An initial value enters with the first launch; transposed operands are sliced the other way
// round and stay marked; a batch is a loop of its own.

// CHECK-LABEL: @initial_value
// CHECK:         scf.for %b = %c0 to %c4 step %c1
// CHECK:           tensor.extract_slice %rhs[%n, %c0] [32, 32] [1, 1] : tensor<32x64xbf16>
// CHECK:           tensor.extract_slice %init[%b, %m, %n] [1, 32, 32] [1, 1, 1] : tensor<4x32x32xbf16> to tensor<32x32xbf16>
// CHECK-NEXT:      "npu_uk_matmul_acc_first"(%{{.*}}, %{{.*}}, %{{.*}}) {transpose_rhs}
// CHECK:           "npu_uk_matmul_acc_last"(%{{.*}}, %{{.*}}) {transpose_rhs}
// CHECK:           tensor.insert_slice %{{.*}} into %{{.*}}[%b, %m, %n] [1, 32, 32] [1, 1, 1]
func.func @initial_value(%lhs: tensor<4x32x64xbf16>, %rhs: tensor<32x64xbf16>, %init: tensor<4x32x32xbf16>) -> tensor<4x32x32xbf16> {
  %0 = npu_kernel.matmul %lhs, %rhs acc(%init : tensor<4x32x32xbf16>) {transpose_rhs} : tensor<4x32x64xbf16>, tensor<32x64xbf16> -> tensor<4x32x32xbf16>
  return %0 : tensor<4x32x32xbf16>
}

// -----

// Sizes that are no multiple of the tile are padded with zeros and cut back.

// CHECK-LABEL: @ragged
// CHECK:         tensor.pad %lhs low[0, 0] high[24, 28]
// CHECK:         tensor.pad %rhs low[0, 0] high[28, 0]
// CHECK:         scf.for %m = %c0 to %c64 step %c32
// CHECK:           scf.for %n = %c0 to %c20 step %c20
// CHECK:         tensor.extract_slice %{{.*}}[0, 0] [40, 20] [1, 1] : tensor<64x20xbf16> to tensor<40x20xbf16>
func.func @ragged(%lhs: tensor<40x100xbf16>, %rhs: tensor<100x20xbf16>) -> tensor<40x20xbf16> {
  %0 = npu_kernel.matmul %lhs, %rhs : tensor<40x100xbf16>, tensor<100x20xbf16> -> tensor<40x20xbf16>
  return %0 : tensor<40x20xbf16>
}

// -----

// Attention over 64 keys: blocks of 32 queries, two tiles of keys, first and last.

// CHECK-LABEL: @attention_two_tiles
// CHECK:         scf.for %{{.*}} = %c0 to %c64 step %c32
// CHECK:           "npu_uk_attention_acc_first"
// CHECK-NOT:       "npu_uk_attention_acc_mid"
// CHECK:           [[OUT:%.*]] = npu_schedule.ukernel_launch "npu_uk_attention_acc_last"
// CHECK-NEXT:      tensor.insert_slice
func.func @attention_two_tiles(%q: tensor<64x64xbf16>, %k: tensor<64x64xbf16>, %v: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %v) : tensor<64x64xbf16>, tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}

// -----

// Batched attention over 96 keys: a loop over the batch, and a middle launch.

// CHECK-LABEL: @attention_batched
// CHECK:         scf.for %b = %c0 to %c12 step %c1
// CHECK:           scf.for %{{.*}} = %c0 to %c32 step %c32
// CHECK:             tensor.extract_slice %q[%b, %{{.*}}, 0] [1, 32, 64] [1, 1, 1] : tensor<12x32x64xbf16> to tensor<32x64xbf16>
// CHECK:             "npu_uk_attention_acc_first"
// CHECK:             "npu_uk_attention_acc_mid"
// CHECK:             "npu_uk_attention_acc_last"
func.func @attention_batched(%q: tensor<12x32x64xbf16>, %k: tensor<12x96x64xbf16>, %v: tensor<12x96x64xbf16>) -> tensor<12x32x64xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%q, %k, %v) : tensor<12x32x64xbf16>, tensor<12x96x64xbf16>, tensor<12x96x64xbf16> -> tensor<12x32x64xbf16>
  return %0 : tensor<12x32x64xbf16>
}

// -----

// Keys that only fill a tile are masked out by the last launch; scale and mask travel along;
// heads in groups share keys and values.

// CHECK-LABEL: @attention_ragged
// CHECK:         tensor.pad %k low[0, 0, 0] high[0, 14, 0]
// CHECK:         tensor.pad %mask low[0, 0] high[0, 14]
// CHECK:         [[HEAD:%.*]] = arith.divui %b, %c2 : index
// CHECK:         tensor.extract_slice %{{.*}}[%{{.*}}, %c0, 0] [1, 32, 16] [1, 1, 1] : tensor<2x64x16xbf16>
// CHECK:         "npu_uk_attention_acc_first"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f32, mask_kind = "bool"}
// CHECK:         "npu_uk_attention_acc_last"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {scale = 5.000000e-01 : f32, mask_kind = "bool", valid_keys = 18 : i64}
func.func @attention_ragged(%q: tensor<4x32x16xbf16>, %k: tensor<2x50x16xbf16>, %v: tensor<2x50x16xbf16>, %mask: tensor<32x50xi1>) -> tensor<4x32x16xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_attention"(%q, %k, %v, %mask) {scale = 0.5 : f32, mask_kind = "bool", kv_group = 2 : i64} : tensor<4x32x16xbf16>, tensor<2x50x16xbf16>, tensor<2x50x16xbf16>, tensor<32x50xi1> -> tensor<4x32x16xbf16>
  return %0 : tensor<4x32x16xbf16>
}

// -----

// Causal attention gets its triangle as a mask.

// CHECK-LABEL: @attention_causal
// CHECK:         [[ROWS:%.*]] = npu_schedule.ukernel_launch "npu_uk_iota"()
// CHECK:         [[SEEN:%.*]] = npu_schedule.ukernel_launch "npu_uk_compare"
// CHECK-SAME:      predicate = "ge"
// CHECK-NOT:     causal
// CHECK:         "npu_uk_attention_acc_first"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {mask_kind = "bool"}
func.func @attention_causal(%q: tensor<64x16xbf16>, %k: tensor<64x16xbf16>, %v: tensor<64x16xbf16>) -> tensor<64x16xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_attention"(%q, %k, %v) {causal} : tensor<64x16xbf16>, tensor<64x16xbf16>, tensor<64x16xbf16> -> tensor<64x16xbf16>
  return %0 : tensor<64x16xbf16>
}

// -----

// A 64x64 addition is four launches on 32x32 tiles.

// CHECK-LABEL: @add_64x64
// CHECK:         [[INIT:%.*]] = tensor.empty() : tensor<64x64xbf16>
// CHECK-NEXT:    scf.for %i = %c0 to %c64 step %c32 iter_args(%{{.*}} = %{{.*}}) -> (tensor<64x64xbf16>) {
// CHECK-NEXT:      scf.for %j = %c0 to %c64 step %c32 iter_args(%{{.*}} = %{{.*}}) -> (tensor<64x64xbf16>) {
// CHECK-NEXT:        tensor.extract_slice %a[%i, %j] [32, 32] [1, 1] : tensor<64x64xbf16> to tensor<32x32xbf16>
// CHECK-NEXT:        tensor.extract_slice %b[%i, %j] [32, 32] [1, 1] : tensor<64x64xbf16> to tensor<32x32xbf16>
// CHECK-NEXT:        npu_schedule.ukernel_launch "npu_uk_elementwise_add"(%{{.*}}, %{{.*}}) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
// CHECK-NEXT:        tensor.insert_slice %{{.*}} into %{{.*}}[%i, %j] [32, 32] [1, 1] : tensor<32x32xbf16> into tensor<64x64xbf16>
// CHECK-NEXT:        scf.yield %{{.*}} : tensor<64x64xbf16>
// CHECK-NEXT:      }
// CHECK-NEXT:      scf.yield %{{.*}} : tensor<64x64xbf16>
func.func @add_64x64(%a: tensor<64x64xbf16>, %b: tensor<64x64xbf16>) -> tensor<64x64xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) : tensor<64x64xbf16>, tensor<64x64xbf16> -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}

// -----

// A broadcast operand is sliced along the dimensions it has.

// CHECK-LABEL: @broadcast
// CHECK:         tensor.extract_slice %bias[%j] [32] [1] : tensor<64xbf16> to tensor<32xbf16>
// CHECK:         "npu_uk_elementwise_add"(%{{.*}}, %{{.*}}) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]}
func.func @broadcast(%a: tensor<64x64xbf16>, %bias: tensor<64xbf16>) -> tensor<64x64xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %bias) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<64x64xbf16>, tensor<64xbf16> -> tensor<64x64xbf16>
  return %0 : tensor<64x64xbf16>
}

// -----

// Rows of a softmax stay whole; leading dimensions are merged.

// CHECK-LABEL: @softmax_rows
// CHECK:         "npu_uk_reshape"(%x) : tensor<2x40x291xbf16> -> tensor<80x291xbf16>
// CHECK:         scf.for %i = %c0 to %c96 step %c32
// CHECK:           "npu_uk_softmax"(%{{.*}}) {axis = 1 : i64} : tensor<32x291xbf16> -> tensor<32x291xbf16>
// CHECK:         "npu_uk_reshape"(%{{.*}}) : tensor<80x291xbf16> -> tensor<2x40x291xbf16>
func.func @softmax_rows(%x: tensor<2x40x291xbf16>) -> tensor<2x40x291xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 2 : i64} : tensor<2x40x291xbf16> -> tensor<2x40x291xbf16>
  return %0 : tensor<2x40x291xbf16>
}

// -----

// A kernel that is one tile already is left for the next pass.

// CHECK-LABEL: @one_tile
// CHECK-NEXT:    npu_kernel.matmul %a, %b
// CHECK-NEXT:    npu_kernel.ukernel_generic "npu_uk_elementwise_add"
func.func @one_tile(%a: tensor<32x32xbf16>, %b: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.matmul %a, %b : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %1 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%0, %b) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %1 : tensor<32x32xbf16>
}
