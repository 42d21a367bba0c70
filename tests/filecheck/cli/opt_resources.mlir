// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s
// RUN: tilewright opt %s -p canonicalize | filecheck %s --check-prefix=USED

// Weights written below a module come back with the result, under names that may be strings.

// CHECK:      dense_resource<"block-0 weight"> : tensor<2xf32>
// CHECK:      dense_resource<unused.bias> : tensor<1xf32>
// CHECK:      {-#
// CHECK-NEXT:   dialect_resources: {
// CHECK-NEXT:     builtin: {
// CHECK-NEXT:       "block-0 weight": "0x040000000000803F00000040",
// CHECK-NEXT:       unused.bias: "0x040000000000803F"
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: #-}

// What nobody names any more is left out.

// USED:     "block-0 weight": "0x040000000000803F00000040"
// USED-NOT: unused.bias
func.func @main() -> tensor<2xf32> {
  %w = arith.constant dense_resource<"block-0 weight"> : tensor<2xf32>
  %u = arith.constant dense_resource<unused.bias> : tensor<1xf32>
  return %w : tensor<2xf32>
}

{-#
  dialect_resources: {
    builtin: {
      "block-0 weight": "0x040000000000803F00000040",
      unused.bias: "0x040000000000803F"
    }
  }
#-}
