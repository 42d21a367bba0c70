"""Writing down what the host has to compute (`host_graph`), from the captured model."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.xdsl_api import AffineDimExpr, SSAValue
from tilewright.model.capture import Graph, Node, dtype_of, shape_of
from tilewright.model.host_graph import (
    HAND_OVER,
    HostConstant,
    HostGraph,
    HostOperation,
    content_digest,
)


class Recorder:
    """Writes a graph down."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.result = HostGraph()
        self._names: dict[SSAValue, str] = {v: f"input {n}" for v, n in graph.inputs.items()}
        for number, node in enumerate(graph.nodes):
            self._names[node.result] = f"{number} {node.layer or node.family}"

    def name(self, value: SSAValue) -> str:
        """The name of a value; constants are written down when they are first used."""
        if value in self.graph.constants and value not in self._names:
            self._names[value] = f"constant {len(self.result.constants)}"
            self.result.constants[self._names[value]] = self._constant(value)
        return self._names[value]

    def _constant(self, value: SSAValue) -> HostConstant:
        shape, dtype = shape_of(value), dtype_of(value)
        content = self.graph.constants[value]
        handle = getattr(getattr(value.owner, "value", None), "resource_handle", None)
        if handle is not None:
            found = content_digest(content)
            return HostConstant(shape, dtype, weight=handle.data, digest=found)
        stored = np.ascontiguousarray(np.broadcast_to(content, shape))
        return HostConstant(shape, dtype, base64.b64encode(stored.tobytes()).decode())

    def operation(self, node: Node) -> None:
        """An operation of the model."""
        roles: dict[str, tuple[str, ...]] = {}
        for role, value in node.inputs.items():
            values = value if isinstance(value, list) else [value]
            roles[role] = tuple(self.name(v) for v in values)
        self.result.operations.append(
            HostOperation(
                node.layer or node.family,
                node.family,
                roles,
                self.name(node.result),
                shape_of(node.result),
                dtype_of(node.result),
                plain_attributes(node.call),
            )
        )

    def hand_over(
        self, value: SSAValue, name: str, shape: tuple[int, ...], attributes: dict[str, Any]
    ) -> str:
        """A value in the form in which the device takes it; the name it has there."""
        made = f"{name} for the device"
        operands = {"x": (self.name(value),)}
        self.result.operations.append(
            HostOperation(name, HAND_OVER, operands, made, shape, "f32", attributes)
        )
        return made


def plain_attributes(call: KernelCall) -> dict[str, Any]:
    """The attributes of a call as numbers, texts and lists."""
    found: dict[str, Any] = {}
    for spec in call.family.attributes:
        if spec.kind == "maps":
            found[spec.name] = [
                [e.position if isinstance(e, AffineDimExpr) else None for e in affine.results]
                for affine in call.operand_maps()
            ]
            continue
        value = {
            "unit": lambda name: call.flag(name) or None,
            "integers": call.integers,
            "string": call.string,
        }.get(spec.kind, call.value)(spec.name)
        if value is not None:
            found[spec.name] = list(value) if isinstance(value, tuple) else value
    return found
