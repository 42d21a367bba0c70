"""arith and math ops on whole tensors: element-wise intents with the same rows as bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tilewright.dialects.intents import Lane, Literal
from tilewright.dialects.xdsl_api import Attribute, Operation, SSAValue, TensorType
from tilewright.transforms.linalg_to_kernel.bodies import look_through
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    index_free,
    literal_of,
)
from tilewright.transforms.linalg_to_kernel.scalar_ops import Value, convert_scalar_op


class _ScalarView:
    """A tensor op as `convert_scalar_op` sees it: the same name, on elements."""

    def __init__(self, op: Operation, element: Attribute) -> None:
        self.name = op.name
        self.properties = op.properties
        self.attributes = op.attributes
        self.results = [_Typed(element)]


class _Typed:
    def __init__(self, type_: Attribute) -> None:
        self.type = type_


def convert_tensor_arithmetic(emitter: Emitter, op: Operation) -> None:
    """before: arith.addf %a, %b : tensor<4xf32>; after: ukernel "npu_uk_elementwise_add"(%a, %b)"""
    type_ = op.results[0].type
    if len(op.results) != 1 or not isinstance(type_, TensorType):
        raise Unmapped("TW1221", "it does not return one tensor", "use linalg")
    check_element(type_.element_type)
    shape = type_.get_shape()
    extents = dict(enumerate(shape))
    operands: list[Value] = [_operand(emitter, operand, extents) for operand in op.operands]

    def apply(
        family: str, values: Sequence[Value], element: Attribute, attributes: dict[str, Attribute]
    ) -> Value:
        check_element(element)
        return emitter.elementwise(
            family, values, index_free(element), extents, attributes, range(len(shape))
        )

    view = _ScalarView(op, type_.element_type)
    value = convert_scalar_op(cast(Operation, view), operands, apply)
    if isinstance(value, Literal):
        emitter.values[op.results[0]] = emitter.fill(value.value, shape)
    else:
        emitter.values[op.results[0]] = emitter.broadcast(value, range(len(shape)), extents)


def _operand(emitter: Emitter, operand: SSAValue, extents: dict[int, int]) -> Value:
    constant = literal_of(operand)
    if constant is not None:
        return constant
    value = emitter.value(operand)
    if not isinstance(operand.type, TensorType):
        return Lane(emitter.scalar_tensor(value), ())
    check_element(operand.type.element_type)
    rank = len(operand.type.get_shape())
    return look_through(Lane(value, tuple(range(rank))), extents)
