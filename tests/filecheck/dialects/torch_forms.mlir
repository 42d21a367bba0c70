// RUN: tilewright opt %s | filecheck %s
// RUN: tilewright opt %s --print-generic | tilewright opt - | filecheck %s
// RUN: not tilewright opt %s -p convert-linalg-to-npu-kernel 2>&1 | filecheck %s --check-prefix=REFUSED

// A block scale decoded by an exported torch graph: read, and printed in generic form.

// CHECK-LABEL: @decode
// CHECK-NEXT:    %0 = "torch.prims.convert_element_type"(%scale, %type) : (!torch.vtensor<[768,24],ui8>, !torch.int) -> !torch.vtensor<[768,24],si32>
// CHECK-NEXT:    %1 = "torch.operator"(%0, %shift) {name = "torch.aten.bitwise_left_shift.Tensor_Scalar"} : (!torch.vtensor<[768,24],si32>, !torch.int) -> !torch.vtensor<[768,24],si32>
// CHECK-NEXT:    %2 = "torch.aten.view.dtype"(%1, %type) : (!torch.vtensor<[768,24],si32>, !torch.int) -> !torch.vtensor<[768,24],f32>
// CHECK-NEXT:    %3 = "torch.aten.clamp"(%2, %low, %none) : (!torch.vtensor<[768,24],f32>, !torch.float, !torch.none) -> !torch.vtensor<[768,24],f32>
// CHECK-NEXT:    %4 = "torch.aten.where.self"(%given, %3, %2) : (!torch.vtensor<[768,24],i1>, !torch.vtensor<[768,24],f32>, !torch.vtensor<[768,24],f32>) -> !torch.vtensor<[768,24],f32>

// REFUSED: TW12{{[0-9]+}} {{.*}}:{{[0-9]+}}:8 {{.*}}torch.prims.convert_element_type
// REFUSED: hint:
func.func @decode(%scale: !torch.vtensor<[768,24],ui8>, %type: !torch.int, %shift: !torch.int, %low: !torch.float, %none: !torch.none, %given: !torch.vtensor<[768,24],i1>) -> !torch.vtensor<[768,24],f32> {
  %0 = torch.prims.convert_element_type %scale, %type
    : !torch.vtensor<[768,24],ui8>, !torch.int -> !torch.vtensor<[768,24],si32>
  %1 = torch.operator "torch.aten.bitwise_left_shift.Tensor_Scalar"(%0, %shift)
    : (!torch.vtensor<[768,24],si32>, !torch.int) -> !torch.vtensor<[768,24],si32>
  %2 = torch.aten.view.dtype %1, %type
    : !torch.vtensor<[768,24],si32>, !torch.int -> !torch.vtensor<[768,24],f32>
  %3 = torch.aten.clamp %2, %low, %none
    : !torch.vtensor<[768,24],f32>, !torch.float, !torch.none -> !torch.vtensor<[768,24],f32>
  %4 = torch.aten.where.self %given, %3, %2
    : !torch.vtensor<[768,24],i1>, !torch.vtensor<[768,24],f32>, !torch.vtensor<[768,24],f32>
    -> !torch.vtensor<[768,24],f32>
  return %4 : !torch.vtensor<[768,24],f32>
}
