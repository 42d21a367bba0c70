// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright translate --memory-map %s | filecheck %s --check-prefix=MAP

// What exporters write around and inside of models: opt and translate read what import reads.

// Constants of the torch dialect have the type that their name says.

// CHECK-LABEL: @constants
// CHECK-NEXT:    %0 = "torch.vtensor.literal"() {value = dense<1.000000e+00> : tensor<4x8xf32>} : () -> !torch.vtensor<[4,8],f32>
// CHECK-NEXT:    %1 = "torch.vtensor.literal"() {value = dense_resource<w> : tensor<4x8xf32>} : () -> !torch.vtensor<[4,8],f32>
// CHECK-NEXT:    %none = "torch.constant.none"() : () -> !torch.none
// CHECK-NEXT:    %int7 = "torch.constant.int"() {value = 7 : i64} : () -> !torch.int
// CHECK-NEXT:    %intm1 = "torch.constant.int"() {value = -1 : i64} : () -> !torch.int
// CHECK-NEXT:    %float = "torch.constant.float"() {value = 1.500000e+00 : f64} : () -> !torch.float
// CHECK-NEXT:    %true = "torch.constant.bool"() {value = true} : () -> !torch.bool
// CHECK-NEXT:    %str = "torch.constant.str"() {value = "none"} : () -> !torch.str
// CHECK-NEXT:    %cpu = "torch.constant.device"() {value = "cpu"} : () -> !torch.Device
// CHECK-NEXT:    %list = "torch.prim.ListConstruct"(%int7, %intm1) : (!torch.int, !torch.int) -> !torch.list<int>
// CHECK-NEXT:    %empty = "torch.prim.ListConstruct"() : () -> !torch.list<int>
func.func @constants() {
  %0 = torch.vtensor.literal(dense<1.0> : tensor<4x8xf32>) : !torch.vtensor<[4,8],f32>
  %1 = torch.vtensor.literal(dense_resource<w> : tensor<4x8xf32>) : !torch.vtensor<[4,8],f32>
  %none = torch.constant.none
  %int7 = torch.constant.int 7
  %intm1 = torch.constant.int -1
  %float = torch.constant.float 1.500000e+00
  %true = torch.constant.bool true
  %str = torch.constant.str "none"
  %cpu = torch.constant.device "cpu"
  %list = torch.prim.ListConstruct %int7, %intm1 : (!torch.int, !torch.int) -> !torch.list<int>
  %empty = torch.prim.ListConstruct  : () -> !torch.list<int>
  return
}

// Attention with its maps among the attributes, as IREE prints it, by name or in place.

// CHECK-LABEL: @attention
// CHECK:         iree_linalg_ext.attention <indexing_maps = [
// MAP:           "attention": []
#q = affine_map<(b, m, n, k, d) -> (b, m, k)>
#s = affine_map<(b, m, n, k, d) -> ()>
func.func @attention(%q: tensor<2x8x16xf32>, %k: tensor<2x10x16xf32>, %v: tensor<2x10x16xf32>) -> tensor<2x8x16xf32> {
  %s = arith.constant 0.25 : f32
  %e = tensor.empty() : tensor<2x8x16xf32>
  %0 = iree_linalg_ext.attention {indexing_maps = [#q, affine_map<(b, m, n, k, d) -> (b, n, k)>, affine_map<(b, m, n, k, d) -> (b, n, d)>, #s, affine_map<(b, m, n, k, d) -> (b, m, d)>]} ins(%q, %k, %v, %s : tensor<2x8x16xf32>, tensor<2x10x16xf32>, tensor<2x10x16xf32>, f32) outs(%e : tensor<2x8x16xf32>) {
  ^bb0(%x: f32):
    iree_linalg_ext.yield %x : f32
  } -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}

// Imports and exports with names, and values shared by functions.

// CHECK: "util.global"
// CHECK: "hal.tensor.import"(%arg0) {name = "input0"}
// CHECK: "hal.tensor.export"({{.*}}) {name = "output0"}
// MAP:   "main": []
util.global private @w = dense<1.0> : tensor<4x8xf32>
util.func public @main(%arg0: !hal.buffer_view) -> !hal.buffer_view {
  %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<4x8xf32>
  %w = util.global.load immutable @w : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %2 = linalg.add ins(%0, %w : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = hal.tensor.export %2 "output0" : tensor<4x8xf32> -> !hal.buffer_view
  util.return %3 : !hal.buffer_view
}
