// RUN: tilewright opt %s --verify-diagnostics -p "npu-verify-ukernel-symbols{kernel-manifest=atlas-v0}"

// With a manifest a launch needs a kernel there; a whole-tensor kernel does not.

func.func @missing(%a: tensor<32x32xbf16>) -> tensor<32x32xbf16> {
  %0 = npu_kernel.ukernel_generic "npu_uk_elementwise_erf"(%a) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  %1 = npu_schedule.ukernel_launch "npu_uk_elementwise_add_bf16"(%0, %a) : tensor<32x32xbf16>, tensor<32x32xbf16> -> tensor<32x32xbf16>
  // expected-error @+1 {{TW1314 npu_schedule.ukernel_launch: the kernel manifest has no kernel for "npu_uk_elementwise_erf"}}
  %2 = npu_schedule.ukernel_launch "npu_uk_elementwise_erf"(%1) : tensor<32x32xbf16> -> tensor<32x32xbf16>
  return %2 : tensor<32x32xbf16>
}
