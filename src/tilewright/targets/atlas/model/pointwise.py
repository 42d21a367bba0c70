"""Chains of element-wise operations as one kernel, and how what they read is spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node, scalars, shape_of
from tilewright.targets.atlas.model.calls import Numbers, Tensor, Unsupported, held
from tilewright.targets.atlas.model.kernels import BINARY, UNARY
from tilewright.targets.atlas.model.matching import find_leak, unary_name
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

CHAIN = 16  # element-wise operations in one kernel, at most
READ = 8  # and values that they read
SPREAD = 3  # values that are repeated in a chain, at most: each has addresses of its own


class Pointwise:
    """Makes calls of element-wise operations for a lowering."""

    def __init__(self, lowering: Lowering) -> None:
        self.at = lowering

    def emit(
        self, node: Node, shape: tuple[int, int, int], dtype: str, chained: bool = True
    ) -> Tensor:
        """A chain of element-wise operations in one kernel, or without `chained` a single one."""
        program: list[tuple[str, str, list[Any]]] = []
        inputs: dict[Any, tuple[str, str, Tensor]] = {}  # by value and how it is read
        nodes: list[Node] = []
        split: dict[str, Any] = {}  # of the batch, where operands have parts of it
        chain = self._chain(node, shape) if self.at.fuse and chained else [node]
        results: dict[Node, str] = {}

        def visit(inner: Node) -> str:
            if inner not in results:
                results[inner] = computed(inner)
            return results[inner]

        def computed(inner: Node) -> str:
            name = unary_name(inner)
            arguments: list[Any] = []
            leak = find_leak(self.at.graph, inner)
            if leak is not None:
                x, scaled = argument(leak.scaled, leak.index), f"t{len(program)}"
                slope = argument(leak.scaled, 1 - leak.index) if leak.slope is None else leak.slope
                program.append(("mul", scaled, [x, slope]))
                program.append(("max" if leak.above else "min", f"t{len(program)}", [scaled, x]))
                nodes.extend((leak.compared, leak.scaled, inner))
                return program[-1][1]
            literal = scalars(inner)
            if "scalar_lhs" in literal:
                arguments.append(held(literal["scalar_lhs"]))
            for index, operand in enumerate(inner.operands):
                deeper = self.at.graph.definition.get(operand)
                if deeper is not None and deeper in chain:
                    arguments.append(visit(deeper))
                else:
                    arguments.append(argument(inner, index))
            if "scalar_rhs" in literal:
                arguments.append(held(literal["scalar_rhs"]))
            nodes.append(inner)
            if name == "clamp":
                for bound, limit in (("max", "min"), ("min", "max")):
                    if (number := inner.call.floating(limit)) is not None:
                        program.append((bound, f"t{len(program)}", [*arguments, held(number)]))
                        arguments = [program[-1][1]]
                return arguments[0]
            if name == "silu_gate":
                program.append(("silu", f"t{len(program)}", arguments[:1]))
                arguments, name = [program[-1][1], arguments[1]], "mul"
            program.append((name, f"t{len(program)}", arguments))
            return program[-1][1]

        def argument(inner: Node, index: int) -> str:
            key = (inner.operands[index], tuple(inner.reads(index) or ()))
            if key not in inputs:
                kind, tensor = self._broadcast(inner, index, shape, split)
                inputs[key] = (f"x{len(inputs)}", kind, tensor)
            return inputs[key][0]

        if not _is_pointwise(node) and find_leak(self.at.graph, node) is None:
            raise Unsupported(_no_kernel(node))
        visit(node)
        kinds = [kind for _, kind, _ in inputs.values()]
        if chained and sum(kind not in ("full", "row", "matrix") for kind in kinds) > SPREAD:
            return self.emit(node, shape, dtype, chained=False)
        if all(kind in ("row", "matrix") for kind in kinds):
            raise Unsupported("every operand is a constant that is repeated")
        out = self.at.activation(self.at.hint(node.result), shape, dtype, value=node.result)
        operands = {name: tensor for name, _, tensor in inputs.values()}
        # Operands that are all repeated do not say how often.
        repeated: dict[str, Any] = {} if "full" in kinds else {"shape": list(shape)}
        return self.at.call(
            node.layer or node.family.removeprefix("elementwise_"), "pointwise", operands, out,
            tuple(nodes), inputs=[[n, k] for n, k, _ in inputs.values()], program=program, out=dtype,
            **split, **repeated,
        )  # fmt: skip

    def _chain(self, node: Node, shape: tuple[int, int, int]) -> list[Node]:
        """Nodes that one kernel computes together with this one, which is the first: element by
        element, and read by no other."""
        found = [node]
        grown = True
        while grown:
            grown = False
            for inner in [self.at.graph.definition.get(v) for one in found for v in one.operands]:
                if inner is None or inner in found or not self._joins(inner, found, shape):
                    continue
                made = {one.result for one in [*found, inner]}
                read = {v for one in [*found, inner] for v in one.operands} - made
                if len(found) < CHAIN and len(read) <= READ:
                    found.append(inner)
                    grown = True
        return found

    def _joins(self, inner: Node, chain: list[Node], shape: tuple[int, int, int]) -> bool:
        """Whether a node only serves those of a chain, element by element."""
        value = inner.result
        users = self.at.graph.users.get(value, ())
        return (
            _is_pointwise(inner)
            and all(user in chain for user in users)
            and all(find_leak(self.at.graph, user) is None for user in users)
            and not any(value is result for _, result in self.at.graph.outputs)
            and all(
                user.reads_plainly(index)
                for user in users
                for index, operand in enumerate(user.operands)
                if operand is value
            )
            and self.at.reason_for_host(inner) is None
            and self.at.linear(value) is None
            and (value, "bf16") not in self.at.forms
            and value not in self.at.recurrent
            and self.at.canonical(shape_of(value)) == shape
        )

    def _broadcast(
        self,
        node: Node,
        index: int,
        shape: tuple[int, int, int],
        split: dict[str, Any],
    ) -> tuple[str, Tensor]:
        """How an operand of an element-wise operation is spread over [B, M, N]."""
        value, result, read = node.operands[index], shape_of(node.result), node.reads(index)
        if read is None:
            raise Unsupported(f"an operand of {shape_text(value)} is read in another order")
        wide = [d for d, size in enumerate(result) if size != 1]
        array = self.at.graph.constants.get(value)
        if read == wide and self.at.canonical(shape_of(value)) == shape:
            return "full", self.at.bf16(value)
        if read == wide and value in self.at.graph.inputs:
            return "full", self.at.from_host(value, shape)
        if read == wide and array is None:
            raise Unsupported(
                f"an operand of {shape_text(value)} read as {shape_text(node.result)} moves values between "
                "tiles"
            )
        if array is None:
            return self.at.rearranging.spread(value, result, read, shape, split)
        # The constant over all dimensions it is repeated along inside of a row, or of a matrix.
        sizes = [result[d] if d in read else 1 for d in range(len(result))]
        numbers = np.asarray(array, np.float32).reshape(sizes)
        last = len(result) - 1
        if set(read) <= {last}:
            row = np.broadcast_to(numbers.reshape(-1), (shape[2],))
            return "row", self.at.weight(self.at.hint(value), Layout((shape[2],), "bf16"), row)
        rows = max((d for d in wide if d != last), default=0) if self.at.collapse else last - 1
        if self.at.merge:
            whole = np.broadcast_to(numbers, result).reshape(shape[1:])
            return "matrix", self.at.weight(self.at.hint(value), Layout(shape[1:], "bf16"), whole)
        if all(d >= rows for d in read):
            inner = np.broadcast_to(numbers, (*sizes[:rows], *result[rows:])).reshape(shape[1:])
            return "matrix", self.at.weight(self.at.hint(value), Layout(shape[1:], "bf16"), inner)
        whole = np.broadcast_to(numbers, result).reshape(shape)
        name = self.at.unique(self.at.hint(value))
        return "full", Tensor(name, Layout(shape, "bf16"), "constant", Numbers(whole), value)


def _is_pointwise(node: Node) -> bool:
    name = unary_name(node)
    if name == "clamp":
        return any(node.call.floating(limit) is not None for limit in ("min", "max"))
    return name in UNARY or name in BINARY or name == "silu_gate"


def shape_text(value: SSAValue) -> str:
    return "x".join(map(str, shape_of(value))) or "one number"


def _no_kernel(node: Node) -> str:
    """Why the device does not compute a node, in its own terms."""
    if node.family == "matmul":
        return "a product that adds to another value has no kernel on the NPU"
    if node.family == "softmax":
        return "a softmax along another dimension than the last has no kernel on the NPU"
    return f"{node.family} has no kernel on the NPU"
