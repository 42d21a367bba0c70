// RUN: rm -f %t && not tilewright opt %s -p canonicalize -o %t 2>&1 | filecheck %s
// RUN: not ls %t
// RUN: not tilewright opt %s -p "canonicalise" 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not tilewright opt %s -p "tile-npu-kernel-to-schedule{tiles=3}" 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not tilewright opt %s -p "tile-npu-kernel-to-schedule{unroll-limit=many}" 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not tilewright opt %s -p "canonicalize,,cse" 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not tilewright opt %s --pipeline atlass 2>&1 | filecheck %s --check-prefix=PIPELINE
// RUN: not tilewright opt missing.mlir 2>&1 | filecheck %s --check-prefix=FILE

// An error names the place; the output file is not made.
// CHECK: TW1202 {{.*}}opt_bad_input.mlir:22:8  "npu_uk_elementwise_add": takes 2 operands (lhs, rhs), got 1

// PASS: TW1301 there is no pass canonicalise
// PASS-NEXT: hint: did you mean canonicalize?
// OPTION: TW1302 pass tile-npu-kernel-to-schedule has no option tiles
// OPTION-NEXT: hint: its options are: tile, kernel-manifest, unroll-limit, pad-small
// VALUE: TW1303 option unroll-limit of tile-npu-kernel-to-schedule cannot be "many"
// TEXT: TW1304 cannot read the pipeline
// PIPELINE: TW1301 there is no pipeline atlass
// FILE: TW0010 missing.mlir cannot read the file: No such file or directory
func.func @f(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}
