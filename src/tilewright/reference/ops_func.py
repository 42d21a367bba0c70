"""Calls between functions, and wrappers that leave values as they are."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tilewright.reference.program import Builder, Evaluate, operation
from tilewright.reference.scalar_ops import attribute_of


@operation("func.call", "util.call")
def call(op: Operation, builder: Builder) -> Evaluate:
    callee = attribute_of(op, "callee").root_reference.data
    several = len(op.results) != 1

    def evaluate(*arguments: Any) -> Any:
        results = builder.call(callee, arguments, op)
        return results if several else results[0]

    return evaluate


@operation(
    "hal.tensor.import",
    "hal.tensor.export",
    "iree_tensor_ext.compute_barrier.start",
    "iree_tensor_ext.compute_barrier.end",
    "flow.tensor.transfer",
    "util.optimization_barrier",
    "builtin.unrealized_conversion_cast",
)
def identity(op: Operation, builder: Builder) -> Evaluate:
    return lambda value, *_: value
