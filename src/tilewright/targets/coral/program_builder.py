"""Makes the nodes of a Coral program for one kernel call after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir.affine import AffineConstantExpr

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import AffineDimExpr, SSAValue
from tilewright.errors import Location
from tilewright.model.capture import Graph, dtype_of, shape_of
from tilewright.model.capture import Node as KernelNode
from tilewright.targets.coral.program import (
    DTYPES,
    Access,
    Node,
    Shape,
    Value,
    check_dtype,
    refuse,
)


class Builder:
    """The program so far, and the call that is being converted."""

    def __init__(self, graph: Graph, source: str) -> None:
        self.graph = graph
        self.source = source
        self.values: dict[SSAValue, Value] = {}
        self.nodes: list[Node] = []
        self.count = 0
        self.current: KernelNode | None = None

    @property
    def node(self) -> KernelNode:
        assert self.current is not None
        return self.current

    @property
    def call(self) -> KernelCall:
        return self.node.call

    @property
    def result(self) -> tuple[Shape, str]:
        """Shape and element type of the call's result."""
        return shape_of(self.node.result), dtype_of(self.node.result)

    # Making values and nodes

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}_{self.count}"

    def declare(self, value: SSAValue, name: str, what: str, place: Location) -> Value:
        check_dtype(dtype_of(value), what, place)
        made = Value(name, shape_of(value), dtype_of(value))
        if 0 in made.shape:
            raise refuse(f"{what} has no elements", place)
        self.values[value] = made
        return made

    def emit(
        self,
        kind: str,
        inputs: list[Value],
        shape: Shape,
        dtype: str,
        accesses: list[Access] | None = None,
        **attributes: Any,
    ) -> Value:
        if 0 in shape:
            raise self.fail("its result has no elements")
        output = Value(self.fresh("value"), tuple(shape), dtype)
        place = self.current.location if self.current else None
        self.nodes.append(Node(kind, inputs, output, attributes, accesses or [], place))
        return output

    def fail(self, why: str, hint: str | None = None) -> Exception:
        return refuse(f"{self.node.family}: {why}", self.node.location, hint)

    def operand(self, name: str) -> Value:
        return self.values[self.node.inputs[name]]

    def maps(self) -> dict[str, Access]:
        """How the call's operands are indexed, where it says so."""
        if "operand_maps" not in self.call.attributes:
            return {}
        found: dict[str, Access] = {}
        for role, affine in zip(self.call.role_names(), self.call.operand_maps(), strict=True):
            access: list[int | None] = []
            for expression in affine.results:
                if isinstance(expression, AffineDimExpr):
                    access.append(expression.position)
                elif isinstance(expression, AffineConstantExpr) and expression.value == 0:
                    access.append(None)
                else:
                    raise self.fail(f"operand {role} is indexed by {expression}")
            found[role] = tuple(access)
        return found

    def constant(self, array: np.ndarray, dtype: str) -> Value:
        data = np.asarray(array).astype(DTYPES[dtype])
        return Value(self.fresh("constant"), data.shape, dtype, data)

    def transposed(self, value: Value, permutation: tuple[int, ...]) -> Value:
        if value.data is not None:
            return self.constant(value.data.transpose(permutation), value.dtype)
        shape = tuple(value.shape[p] for p in permutation)
        return self.emit("transpose", [value], shape, value.dtype, permutation=permutation)

    def reshaped(self, value: Value, shape: Shape) -> Value:
        if value.shape == tuple(shape):
            return value
        if value.data is not None:
            return self.constant(value.data.reshape(shape), value.dtype)
        return self.emit("reshape", [value], shape, value.dtype)
