"""linalg and attention in both written forms, and what their verifiers refuse."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest

from tilewright.dialects.linalg_ext import Linalg, StructuredOp
from tilewright.dialects.parsing import parse_file, parse_text, verify_module
from tilewright.dialects.xdsl_api import Printer
from tilewright.errors import TilewrightError

FORMS = Path(__file__).parent / "linalg_forms.mlir"
ARITH = Path(__file__).parent / "arith_forms.mlir"


def printed(module, generic: bool) -> str:
    stream = io.StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("path", [FORMS, ARITH], ids=["linalg", "arith"])
def test_every_form_comes_back_as_it_was_printed(path: Path, generic: bool) -> None:
    module = parse_file(str(path))
    verify_module(module)
    again = parse_text(printed(module, generic))
    verify_module(again)
    for other in (False, True):
        assert printed(again, other) == printed(module, other)


def test_the_forms_cover_most_of_the_dialect() -> None:
    text = FORMS.read_text()
    names = {op.name for op in Linalg.operations}
    assert sum(name in text for name in names) >= 25


def test_bodies_of_named_ops_convert_their_operands() -> None:
    module = parse_text(
        "func.func @f(%a: tensor<4x8xi8>, %b: tensor<8x2xi8>, %c: tensor<4x2xi32>) {"
        "  %0 = linalg.matmul ins(%a, %b : tensor<4x8xi8>, tensor<8x2xi8>)"
        "    outs(%c : tensor<4x2xi32>) -> tensor<4x2xi32> return }"
    )
    matmul = next(op for op in module.walk() if isinstance(op, StructuredOp))
    names = [op.name for op in matmul.body.block.ops]
    assert names == ["arith.extsi", "arith.extsi", "arith.muli", "arith.addi", "linalg.yield"]
    assert matmul.iterators == ("parallel", "parallel", "reduction")


BAD = {
    "linalg.generic needs indexing_maps": "%0 = linalg.generic {iterator_types = []} "
    "outs(%x : tensor<4x8xf32>) { ^bb0(%a: f32): linalg.yield %a : f32 } -> tensor<4x8xf32>",
    "unknown iterator type": "%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], "
    'iterator_types = ["sideways"]} outs(%v : tensor<8xf32>) { ^bb0(%a: f32): '
    "linalg.yield %a : f32 } -> tensor<8xf32>",
    "does not reorder 2 dimensions": "%0 = linalg.transpose ins(%x : tensor<4x8xf32>) "
    "outs(%x : tensor<4x8xf32>) permutation = [0, 0]",
    "do not name dimensions of the input": "%0 = linalg.reduce { arith.addf } "
    "ins(%x : tensor<4x8xf32>) outs(%v : tensor<8xf32>) dimensions = [3]",
    "dimension 2 is not one of the input's 2": "%0 = linalg.softmax dimension(2) "
    "ins(%x : tensor<4x8xf32>) outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>",
    "expected the result type": "%0 = linalg.exp ins(%x : tensor<4x8xf32>) "
    "outs(%x : tensor<4x8xf32>) -> tensor<8x4xf32>",
    "unknown kind": "%0 = linalg.elementwise <sideways> ins(%x : tensor<4x8xf32>) "
    "outs(%x : tensor<4x8xf32>) -> tensor<4x8xf32>",
    "no meaning on i32": "%0 = linalg.exp ins(%n : tensor<8xi32>) outs(%n : tensor<8xi32>) "
    "-> tensor<8xi32>",
    "sideways is no comparison": "%0 = arith.cmpf sideways, %x, %x : tensor<4x8xf32>",
    "selects by tensor<8xi1>": '%0 = "arith.select"(%p, %x, %x) : '
    "(tensor<8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>",
    "whose shape differs": "%0 = arith.fptosi %x : tensor<4x8xf32> to tensor<8xi32>",
    "which is not wider": "%0 = arith.extsi %n : tensor<8xi32> to tensor<8xi8>",
    "compares tensor<8xi32>": '%0 = "arith.cmpi"(%n, %n) <{predicate = 2 : i64}> : '
    "(tensor<8xi32>, tensor<8xi32>) -> i1",
    "expected q, k, v, scale": "%0 = iree_linalg_ext.attention <indexing_maps = [affine_map<(d0) "
    "-> (d0)>]> ins(%v : tensor<8xf32>) outs(%v : tensor<8xf32>) { ^bb0(%s: f32): "
    "iree_linalg_ext.yield %s : f32 } -> tensor<8xf32>",
}


@pytest.mark.parametrize("message", BAD)
def test_bad_ops_are_one_error_with_a_place(message: str) -> None:
    text = (
        "func.func @f(%x: tensor<4x8xf32>, %v: tensor<8xf32>, %n: tensor<8xi32>, %p: tensor<8xi1>) {\n"
        f"{BAD[message]}\n return }}"
    )
    with pytest.raises(TilewrightError) as caught:
        verify_module(parse_text(text, "bad.mlir"))
    assert message in caught.value.message
    assert caught.value.location is not None
    assert caught.value.location.file == "bad.mlir"
    assert caught.value.location.line in (2, 3)


def test_hexadecimal_elements_of_dense_are_bit_patterns() -> None:
    module = parse_text(
        "func.func @f() { %0 = arith.constant dense<0xFF800000> : tensor<2xf32>\n"
        "%1 = arith.constant dense<[0x7FC0, 1.0]> : tensor<2xbf16> return }"
    )
    first, second = (op.value for op in module.walk() if op.name == "arith.constant")  # type: ignore[attr-defined]
    assert first.get_values() == (-math.inf, -math.inf)
    assert math.isnan(second.get_values()[0]) and second.get_values()[1] == 1.0
    again = parse_text(printed(module, False))
    assert printed(again, False) == printed(module, False)


def test_a_bit_pattern_that_is_too_wide_is_an_error() -> None:
    with pytest.raises(TilewrightError, match="more bits than bf16"):
        parse_text("func.func @f() { %0 = arith.constant dense<0xFF800000> : tensor<bf16> return }")
