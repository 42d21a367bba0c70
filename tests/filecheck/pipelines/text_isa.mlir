// RUN: tilewright opt %s --pipeline atlas-abstract | tilewright translate --mlir-to-npu-text-isa - | filecheck %s --check-prefix=ABSTRACT
// RUN: tilewright opt %s --pipeline atlas-v0-native | tilewright translate --mlir-to-npu-text-isa - | filecheck %s --check-prefix=NATIVE
// RUN: tilewright opt %s --pipeline atlas-v0-native | tilewright translate --mlir-to-npu-text-isa - -o %t.txt && tilewright sim --machine python --profile atlas-v0 %t.txt | filecheck %s --check-prefix=RUNS

// From linalg to text: the abstract stream with planned addresses, and the real one, which runs
// on the simulator.

// ABSTRACT:      # matmul
// ABSTRACT-NEXT: dma.load rd=0, base=0, size=1024, flag=0
// ABSTRACT-NEXT: dma.wait flag=0
// ABSTRACT-NEXT: dma.load.mxu0 rd=1, base={{[0-9]+}}, size=1024, flag={{[0-9]+}}
// ABSTRACT-NEXT: dma.wait flag={{[0-9]+}}
// ABSTRACT-NEXT: matmul.mxu0 rd=2, rs1=0, rs2=1
// ABSTRACT-NEXT: dma.store rs1=2, base={{[0-9]+}}, size=2048, flag={{[0-9]+}}

// NATIVE:      # matmul
// NATIVE:      dma.load.ch<N> rd=
// NATIVE:      vmatmul.mxu{{[01]}} vd=
// NATIVE:      dma.store.ch<N> rd=

// RUNS: ran to its end: 149 cycles
func.func @matmul(%a: tensor<32x32xf8E4M3FN>, %b: tensor<32x32xf8E4M3FN>) -> tensor<32x32xbf16> {
  %z = arith.constant 0.0 : bf16
  %e = tensor.empty() : tensor<32x32xbf16>
  %f = linalg.fill ins(%z : bf16) outs(%e : tensor<32x32xbf16>) -> tensor<32x32xbf16>
  %0 = linalg.matmul ins(%a, %b : tensor<32x32xf8E4M3FN>, tensor<32x32xf8E4M3FN>) outs(%f : tensor<32x32xbf16>) -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}
