"""Verification names the operation and its place, and never trusts a changed operation."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.dialects.parsing import parse_text
from tilewright.dialects.verification import Verified, verify_module
from tilewright.dialects.xdsl_api import (
    IndexType,
    IntegerAttr,
    ModuleOp,
    TensorType,
    bf16,
    f32,
    i64,
    tensor,
)
from tilewright.errors import TilewrightError

LOOP = """func.func @f(%a: tensor<4x4xbf16>) -> tensor<4x4xbf16> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%x = %a) -> (tensor<4x4xbf16>) {
    %y = npu_kernel.ukernel_generic "npu_uk_softmax"(%x) {axis = 1 : i64} : tensor<4x4xbf16> -> tensor<4x4xbf16>
    scf.yield %y : tensor<4x4xbf16>
  }
  return %r : tensor<4x4xbf16>
}"""


def only(module: ModuleOp, kind: str) -> Any:
    (found,) = [op for op in module.walk() if op.name == kind]
    return found


def test_an_unchanged_module_verifies_again() -> None:
    module, memory = parse_text(LOOP), Verified()
    verify_module(module, memory)
    verify_module(module, memory)
    assert len(memory) == sum(1 for _ in module.walk()) - 2


def test_a_changed_attribute_is_seen() -> None:
    module, memory = parse_text(LOOP, "loop.mlir"), Verified()
    verify_module(module, memory)
    only(module, "npu_kernel.ukernel_generic").attributes["axis"] = IntegerAttr(7, i64)
    with pytest.raises(TilewrightError, match="axis 7 is outside rank 2") as caught:
        verify_module(module, memory)
    assert str(caught.value.location) == "loop.mlir:6:10"


def test_a_changed_operand_type_is_seen() -> None:
    module, memory = parse_text(LOOP), Verified()
    verify_module(module, memory)
    loop = only(module, "scf.for")
    loop.body.block.args[1]._type = TensorType(bf16, [2, 2])
    with pytest.raises(TilewrightError):
        verify_module(module, memory)


def test_a_changed_terminator_is_seen_by_the_loop() -> None:
    module, memory = parse_text(LOOP), Verified()
    verify_module(module, memory)
    loop = only(module, "scf.for")
    other = tensor.EmptyOp([], TensorType(f32, [4, 4]))
    last = loop.body.block.last_op
    loop.body.block.insert_op_before(other, last)
    last.operands = [other.tensor]
    with pytest.raises(TilewrightError) as caught:
        verify_module(module, memory)
    assert caught.value.code == "TW1211"


def test_a_changed_block_argument_is_seen_by_the_loop() -> None:
    module, memory = parse_text(LOOP), Verified()
    verify_module(module, memory)
    loop = only(module, "scf.for")
    loop.body.block.insert_arg(IndexType(), 1)
    with pytest.raises(TilewrightError, match=r"scf\.for"):
        verify_module(module, memory)


def test_the_number_of_a_loop_is_one_of_those_around_it() -> None:
    text = """func.func @f(%a: tensor<4xindex>) -> tensor<4xindex> {{
  %0 = linalg.generic {{indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}} outs(%a : tensor<4xindex>) {{
  ^bb0(%x: index):
    %i = linalg.index {number} : index
    linalg.yield %i : index
  }} -> tensor<4xindex>
  return %0 : tensor<4xindex>
}}"""
    verify_module(parse_text(text.format(number=0)))
    with pytest.raises(TilewrightError, match="dimension 1 is not one of the 1 loops") as caught:
        verify_module(parse_text(text.format(number=1)))
    assert caught.value.location is not None and caught.value.location.line == 4
