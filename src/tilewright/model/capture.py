"""A model's function as a graph of kernel families: who computes what from what, who uses it."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr

from tilewright.dialects.kernel_call import KernelCall
from tilewright.dialects.locations import location_of
from tilewright.dialects.npu_kernel import MatmulOp
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    ModuleOp,
    Operation,
    SSAValue,
    TensorType,
    arith,
    func,
)
from tilewright.errors import Location, TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.io.deferred import Deferred
from tilewright.reference.ops_npu_kernel import contraction_call, symbol_call
from tilewright.reference.scalar_ops import constant_array

Shape = tuple[int, ...]


@dataclass(eq=False)
class Node:
    """One operation on whole tensors."""

    op: Operation
    call: KernelCall
    inputs: dict[str, Any]  # role -> value, a list of values for roles that repeat
    layer: str  # the model's name for it, if any

    @property
    def family(self) -> str:
        return self.call.family.name

    @property
    def result(self) -> SSAValue:
        return self.op.results[0]

    @property
    def operands(self) -> list[SSAValue]:
        return list(self.op.operands)

    @property
    def location(self) -> Location | None:
        return location_of(self.op)

    def reads(self, index: int = 0) -> list[int] | None:
        """Which dimensions of the result an operand has, without those of size 1; it is repeated
        along the others. None if they are in another order."""
        if isinstance(self.op, MatmulOp):
            return None
        shape, read = shape_of(self.operands[index]), self.call.operand_maps()[index].results
        if len(read) != len(shape):
            return None
        dims = [
            expression.position
            for expression, size in zip(read, shape, strict=True)
            if size != 1 and isinstance(expression, AffineDimExpr)
        ]
        return dims if all(a < b for a, b in pairwise(dims)) else None

    def reads_plainly(self, index: int = 0) -> bool:
        """Whether an operand of an element-wise operation is read element by element."""
        wide = [d for d, size in enumerate(shape_of(self.result)) if size != 1]
        return self.reads(index) == wide

    def __repr__(self) -> str:
        return f"<{self.family} {self.layer}>"


class Constants(UserDict[SSAValue, np.ndarray]):
    """Arrays by value. Those that are read only when asked for are kept for a while: rules look at
    the same weights several times."""

    KEPT = 96 << 20  # bytes

    def __init__(self, arrays: Mapping[SSAValue, np.ndarray] | None = None) -> None:
        self._kept: dict[SSAValue, np.ndarray] = {}
        super().__init__(arrays)

    def __getitem__(self, value: SSAValue) -> np.ndarray:
        found = self.data[value]
        if not isinstance(found, Deferred):
            return found
        array = self._kept.pop(value, None)
        if array is None:
            array = np.asarray(found)
        self._kept[value] = array  # the last one that was asked for comes last
        while len(self._kept) > 1 and sum(a.nbytes for a in self._kept.values()) > self.KEPT:
            del self._kept[next(iter(self._kept))]
        return array

    def get(self, key: SSAValue, default: Any = None) -> Any:
        return self[key] if key in self.data else default

    def forget(self) -> None:
        """Let go of what can be read again."""
        self._kept.clear()


@dataclass(eq=False)
class Graph:
    """Nodes in program order; constants are values with known content."""

    module: ModuleOp
    inputs: dict[SSAValue, str]  # with the names of their ports
    outputs: list[tuple[str, SSAValue]]
    nodes: list[Node]
    constants: Constants
    definition: dict[SSAValue, Node] = field(default_factory=dict)
    users: dict[SSAValue, list[Node]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.nodes:
            self.definition[node.result] = node
            for value in dict.fromkeys(node.operands):
                self.users.setdefault(value, []).append(node)

    def used_once(self, value: SSAValue) -> bool:
        """Whether a single operand of a single node is all that reads the value."""
        outputs = sum(value is result for _, result in self.outputs)
        reads = sum(node.operands.count(value) for node in self.users.get(value, ()))
        return outputs + reads == 1

    def known(self, value: SSAValue) -> np.ndarray | None:
        """What a value is before the model runs: a constant's content, or one number repeated."""
        node = self.definition.get(value)
        if node is None or node.family != "fill" or node.operands:
            return self.constants.get(value)
        return np.broadcast_to(np.asarray(node.call.value("value")), shape_of(value))

    def node_of(self, value: SSAValue, *families: str) -> Node | None:
        """The node that makes the value, if it is of one of the families."""
        node = self.definition.get(value)
        return node if node is not None and (not families or node.family in families) else None


def shape_of(value: SSAValue) -> Shape:
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())


def dtype_of(value: SSAValue) -> str:
    assert isinstance(value.type, TensorType)
    return str(value.type.element_type)


def capture(model: Imported, contents: bool = True) -> Graph:
    """The graph of a model's function; without contents, constants are known but not what is in
    them."""
    functions = [op for op in model.module.ops if isinstance(op, func.FuncOp)]
    main = next((f for f in functions if f.sym_name.data == "main"), functions[0])
    block = main.body.block
    inputs: dict[SSAValue, str] = {
        value: spec.name for value, spec in zip(block.args, model.inputs, strict=True)
    }
    nodes: list[Node] = []
    constants = Constants()
    outputs: list[tuple[str, SSAValue]] = []
    for op in block.ops:
        if isinstance(op, arith.ConstantOp):
            nothing = np.empty(0)
            constants[op.result] = constant_value(op, model.weights) if contents else nothing
        elif isinstance(op, func.ReturnOp):
            names = [spec.name for spec in model.outputs]
            outputs = list(zip(names, op.operands, strict=True))
        else:
            nodes.append(node_of(op))
    return Graph(model.module, inputs, outputs, nodes, constants)


def constant_value(op: arith.ConstantOp, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    """The content of a constant, also of one that names a weight."""
    if not isinstance(op.value, DenseResourceAttr):
        return constant_array(op)
    name = op.value.resource_handle.data
    if name not in weights:
        raise TilewrightError(
            "TW1702",
            f"the model uses the weight {name}, which is missing",
            location_of(op),
            "compile from the original model, or give the file with its weights",
        )
    return weights[name].reshape(shape_of(op.result))


def node_of(op: Operation) -> Node:
    """An operation of `npu_kernel` as a node."""
    if op.name == "npu_kernel.matmul":
        call = contraction_call(op)
    elif op.name == "npu_kernel.ukernel_generic":
        call = symbol_call(op)
    else:
        raise TilewrightError(
            "TW1701",
            f"{op.name} is not a kernel on whole tensors",
            location_of(op),
            "run the pipeline up to npu_kernel first: tilewright opt --convert-linalg-to-npu-kernel",
        )
    roles = call.operands_by_role(list(op.operands))
    name = op.attributes.get("tw.layer")
    return Node(op, call, dict(roles), getattr(name, "data", ""))


def scalars(node: Node) -> Mapping[str, float]:
    """Literals in place of operands: scalar_lhs, scalar_rhs."""
    found = {n: node.call.value(n) for n in ("scalar_lhs", "scalar_rhs")}
    return {n: float(v) for n, v in found.items() if v is not None}
