// RUN: tilewright opt %s -p "canonicalize,cse" --print-ir-after canonicalize 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: tilewright opt %s -p "canonicalize,cse" --print-ir-before-all 2>&1 | filecheck %s --check-prefix=ALL
// RUN: tilewright opt %s -p "builtin.module(canonicalize, cse)" --time-passes 2>&1 | filecheck %s --check-prefix=TIME
// RUN: rm -rf %t && tilewright opt %s -p "canonicalize,tile-npu-kernel-to-schedule{tile=16,16 unroll-limit=4}" --dump-phases %t -o %t.out && ls %t | filecheck %s --check-prefix=PHASES
// RUN: filecheck %s --check-prefix=FILE < %t.out
// RUN: tilewright opt --list-passes | filecheck %s --check-prefix=LIST

// AFTER:     // -----// IR after canonicalize //----- //
// AFTER-NEXT: builtin.module
// AFTER-NOT: IR after cse

// ALL: IR before canonicalize
// ALL: IR before cse

// TIME: time by step
// TIME: parse
// TIME: canonicalize
// TIME: verify after canonicalize
// TIME: total

// PHASES:      00-input.mlir
// PHASES-NEXT: 01-canonicalize.mlir
// PHASES-NEXT: 02-tile-npu-kernel-to-schedule.mlir

// FILE: scf.for %i = %c0 to %c32 step %c16

// LIST: tile-npu-kernel-to-schedule
// LIST: unroll-limit=8
// LIST: pipelines
// LIST: atlas
func.func @f(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_silu"(%a) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}
