"""Weights beside the IR: which constants name them, and reading them."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.dialects.xdsl_api import (
    DenseResourceAttr,
    Operation,
    SSAValue,
    TensorType,
    arith,
)


def resource_name(op: Operation) -> str | None:
    """The weight a constant stands for."""
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseResourceAttr):
        return op.value.resource_handle.data
    return None


def weight_constant(name: str, kind: TensorType) -> arith.ConstantOp:
    """A constant that names a weight."""
    return arith.ConstantOp(DenseResourceAttr.from_params(name, kind), kind)


def weight_of(value: SSAValue) -> str | None:
    """The name of the weight a value is, if it is one."""
    return resource_name(value.owner) if isinstance(value.owner, Operation) else None


def named_weights(op: Operation) -> Iterator[str]:
    """The weights that an operation and everything in it name, in order, with repeats."""
    for inner in op.walk():
        name = resource_name(inner)
        if name is not None:
            yield name
