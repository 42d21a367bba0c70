// RUN: tilewright opt %s -p "quantise-model{floats=f16}" | filecheck %s
// RUN: tilewright opt %s -p "quantise-model{floats=f16}" | tilewright opt - | filecheck %s
// RUN: tilewright opt %s -p "quantise-model{result=codes codes=true tables=true symmetric=false arithmetic=fixed method=divide}" | filecheck %s --check-prefix=WHOLE
// RUN: tilewright opt %s -p "quantise-model{weights=ternary activations=row}" | filecheck %s --check-prefix=ROW
// RUN: tilewright opt %s -p "quantise-model{floats=f16},partition-model,fuse-epilogues" | filecheck %s --check-prefix=FUSED

// The host hands codes over; the product is exact in i32; factors are data.
// CHECK-LABEL: func.func @main(%x: tensor<2x2xf32>) -> tensor<2x3xf32>
// CHECK:      "npu_uk_quantise"(%x) {method = "multiply", tw.layer = "x", tw.host = "handed over as 8-bit codes of [[S:[0-9.]+]]"} : tensor<2x2xf32> -> tensor<2x2xi8, #npu_kernel.scale<[[S]]>>
// CHECK:      npu_kernel.matmul {{.*}} : tensor<2x2xi8, #npu_kernel.scale<[[S]]>>, tensor<2x3xi8, #npu_kernel.channel_scale<axis = 1>> -> tensor<2x3xi32>
// CHECK:      "npu_uk_elementwise_add"({{.*}} : tensor<2x3xi32>, tensor<3xi32> -> tensor<2x3xi32>
// CHECK:      "npu_uk_rescale"({{.*}} : tensor<2x3xi32>, tensor<3xf32> -> tensor<2x3xf16>
// CHECK:      "npu_uk_silu"({{.*}} : tensor<2x3xf16> -> tensor<2x3xf16>
// CHECK:      "npu_uk_cast"({{.*}}tw.host = "taken back as f32"} : tensor<2x3xf16> -> tensor<2x3xf32>

// Codes throughout: a multiplier and a shift in place of a factor, a table in place of a function.
// WHOLE:      "npu_uk_quantise"(%x) {method = "divide"{{.*}} -> tensor<2x2xi8, #npu_kernel.scale<{{[0-9.]+}}, zero = {{-?[0-9]+}}>>
// WHOLE:      "npu_uk_rescale_fixed"({{.*}} : tensor<2x3xi32>, tensor<3xi32>, tensor<3xi16> -> tensor<2x3xi8, #npu_kernel.scale<
// WHOLE:      "npu_uk_table"({{.*}} : tensor<2x3xi8, {{.*}}>, tensor<256xi8> -> tensor<2x3xi8
// WHOLE:      "npu_uk_dequantise"({{.*}}tw.host = "taken back as f32"}

// A scale for each row, computed when it runs; ternary weights.
// ROW:        [[F:%.+]] = npu_kernel.ukernel_generic "npu_uk_absmax_factor"(%x) {{.*}} -> tensor<2x1xf32>
// ROW:        "npu_uk_quantise"(%x, [[F]])
// ROW:        npu_kernel.matmul {{.*}} : tensor<2x2xi8>, tensor<2x3xi2, #npu_kernel.scale<{{.*}} -> tensor<2x3xi32>
// ROW:        "npu_uk_elementwise_div"({{.*}}, [[F]])

// FUSED:      npu_kernel.fused "npu_uk_matmul"({{.*}} -> tensor<2x3xi32> epilogue [elementwise_add(_, {{.*}} -> tensor<2x3xi32>, rescale(_, {{.*}} -> tensor<2x3xf16>, silu(_) -> tensor<2x3xf16>]
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x3xf32> {
  %w = arith.constant dense<[[1.0, -2.0, 0.5], [0.25, 3.0, -0.125]]> : tensor<2x3xf32>
  %b = arith.constant dense<[0.5, -0.25, 1.0]> : tensor<3xf32>
  %a = npu_kernel.matmul %x, %w : tensor<2x2xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %c = npu_kernel.ukernel_generic "npu_uk_elementwise_add"(%a, %b) {operand_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]} : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %y = npu_kernel.ukernel_generic "npu_uk_silu"(%c) : tensor<2x3xf32> -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
