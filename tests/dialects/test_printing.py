"""Our printer writes slices itself: the text is what xDSL's own printer makes of their format."""

from __future__ import annotations

import io

import pytest

from tilewright.dialects.parsing import parse_text
from tilewright.dialects.printing import print_module
from tilewright.dialects.xdsl_api import Operation, Printer, StringAttr, tensor

TEXT = """
func.func @f(%x : tensor<4x64x96xbf16>, %y : tensor<64xf32>, %i : index, %j : index)
    -> (tensor<32x32xbf16>, tensor<64xf32>) {
  %a = tensor.extract_slice %x[0, %i, %j] [1, 32, 32] [1, 1, 1]
    : tensor<4x64x96xbf16> to tensor<32x32xbf16>
  %b = tensor.extract_slice %x[%i, 0, 0] [1, %j, 32] [1, 1, %i]
    : tensor<4x64x96xbf16> to tensor<?x32xbf16>
  %c = tensor.insert_slice %a into %x[%i, 0, 32] [1, 32, 32] [1, 1, 1]
    : tensor<32x32xbf16> into tensor<4x64x96xbf16>
  %d = tensor.extract_slice %c[3, 32, 64] [1, 32, 32] [1, 1, 1]
    : tensor<4x64x96xbf16> to tensor<32x32xbf16>
  %e = tensor.extract_slice %y[16] [32] [1] : tensor<64xf32> to tensor<32xf32>
  %g = tensor.insert_slice %e into %y[%i] [32] [1] : tensor<32xf32> into tensor<64xf32>
  func.return %d, %g : tensor<32x32xbf16>, tensor<64xf32>
}
"""


def slices(module: Operation) -> list[Operation]:
    return [
        op for op in module.walk() if isinstance(op, tensor.ExtractSliceOp | tensor.InsertSliceOp)
    ]


@pytest.mark.parametrize("noted", [False, True])
@pytest.mark.parametrize("generic", [False, True])
def test_slices_look_as_their_format_says(noted: bool, generic: bool) -> None:
    module = parse_text(TEXT)
    if noted:
        for op in slices(module):
            op.attributes["why"] = StringAttr("a note")
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    text = print_module(module, generic=generic)
    assert text == stream.getvalue() + "\n"
    assert len(slices(module)) == 6 and text.count("a note") == 6 * noted
    assert print_module(parse_text(text), generic=generic) == text
