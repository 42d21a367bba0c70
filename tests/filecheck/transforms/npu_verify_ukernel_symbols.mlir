// RUN: tilewright opt %s --split-input-file --verify-diagnostics -p npu-verify-ukernel-symbols
// RUN: tilewright opt %s --split-input-file -p "npu-verify-ukernel-symbols{strict=false}" 2>&1 | filecheck %s --check-prefix=LENIENT

// A misspelt family is an error with a suggestion; lenient checking warns and goes on.
// LENIENT: warning TW1312 {{.*}}:10:8 npu_schedule.ukernel_launch: no kernel family has the symbol "npu_uk_sofmax"
// LENIENT-NEXT: hint: did you mean npu_uk_softmax?

func.func @misspelt(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1312 npu_schedule.ukernel_launch: no kernel family has the symbol "npu_uk_sofmax"}}
  %0 = npu_schedule.ukernel_launch "npu_uk_sofmax"(%a) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// A prefix is not enough: what follows a family must be element types.

func.func @prefix(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{no kernel family has the symbol "npu_uk_matmul_acc"}}
  %0 = npu_kernel.ukernel_generic "npu_uk_matmul_acc"(%a, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// Element types in the symbol are those of the tensors.

func.func @types(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  // expected-error @+1 {{TW1313}}
  %0 = npu_kernel.ukernel_generic "npu_uk_matmul_f8E4M3FN_f8E4M3FN_bf16"(%a, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}

// -----

// Known symbols pass unchanged.

func.func @known(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_gemma_attention_bf16_bf16"(%a, %a, %a) : tensor<32x32xbf16>, tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_matmul_acc_first"(%0, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %0 : tensor<32x32xbf16>
}
