"""Bodies of structured ops as single-op intents.

before: linalg.generic with a body of several scalar ops
after:  one intent per scalar op, each with the element type the body gives that value, over the
        smallest set of loops its operands need

`Body` computes body values on demand, so a value that the results do not need costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from tilewright.dialects.intents import Lane, Literal, shape_of, tensor_type
from tilewright.dialects.linalg_ext import IndexOp, StructuredOp
from tilewright.dialects.xdsl_api import (
    AffineDimExpr,
    ArrayAttr,
    Attribute,
    BlockArgument,
    IntegerAttr,
    Operation,
    SSAValue,
    TensorType,
    i64,
)
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    constant_of,
    index_free,
    is_undefined,
    kernel_of,
    literal_of,
    loop_extents,
    loops_of,
)
from tilewright.transforms.linalg_to_kernel.scalar_ops import Value, convert_scalar_op


@dataclass
class Body:
    """The body of `op`, over loops renumbered so that the first result's dimensions come in order."""

    emitter: Emitter
    op: StructuredOp
    extents: dict[int, int] = field(default_factory=dict)
    number: dict[int, int] = field(default_factory=dict)
    known: dict[SSAValue, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        order: list[int] = []
        for expression in self.op.operand_maps[len(self.op.inputs)].results:
            if isinstance(expression, AffineDimExpr) and expression.position not in order:
                order.append(expression.position)
        old = loop_extents(self.op)
        order += [d for d in sorted(old) if d not in order]
        self.number = {loop: index for index, loop in enumerate(order)}
        self.extents = {self.number[loop]: size for loop, size in old.items()}

    def output_loops(self, index: int = 0) -> tuple[int | None, ...]:
        """The renumbered loops of output `index`."""
        map_ = self.op.operand_maps[len(self.op.inputs) + index]
        return self._renumbered(loops_of(map_, f"output {index}"))

    def _renumbered(self, loops: Sequence[int | None]) -> tuple[int | None, ...]:
        return tuple(None if d is None else self.number[d] for d in loops)

    def yielded(self, index: int = 0) -> SSAValue:
        """The body's value of result `index`."""
        return cast(Operation, self.op.body.block.last_op).operands[index]

    def value(self, scalar: SSAValue) -> Value:
        """The lane or literal of a scalar of the body."""
        found = self.known.get(scalar)
        if found is None:
            found = self.known[scalar] = self._compute(scalar)
        return found

    def _compute(self, scalar: SSAValue) -> Value:
        if isinstance(scalar, BlockArgument) and scalar.owner is self.op.body.block:
            return self.operand(scalar.index)
        op = scalar.owner
        if not isinstance(op, Operation) or op.parent is not self.op.body.block:
            return self._outside(scalar)
        if isinstance(op, IndexOp):
            return self._index(self.number[op.dim.value.data])
        if (constant := literal_of(scalar)) is not None:
            return constant
        if op.regions or len(op.results) != 1:
            raise Unmapped(
                "TW1225",
                f"its body holds {op.name}",
                "bodies of kernels are straight scalar arithmetic",
            )
        check_element(op.results[0].type)
        operands = [self.value(operand) for operand in op.operands]
        return convert_scalar_op(op, operands, self.apply)

    def operand(self, index: int) -> Value:
        """Operand `index` of the op as the body reads it."""
        old = self.op.operands[index]
        constant = literal_of(old)
        if constant is not None:
            return constant
        new = self.emitter.value(old)
        if not isinstance(old.type, TensorType):
            check_element(old.type)
            return Lane(self.emitter.scalar_tensor(new), ())
        check_element(old.type.element_type)
        if is_undefined(new):
            raise Unmapped(
                "TW1226",
                f"operand {index} has undefined contents (tensor.empty) and the body reads it",
                "fill it first",
            )
        filled = kernel_of(new)
        if filled and filled[0] == "fill" and not filled[1].operands:
            return Literal(filled[1].attributes["value"])  # type: ignore[arg-type]
        what = f"operand {index}" if index < len(self.op.inputs) else "an output"
        loops = self._renumbered(loops_of(self.op.operand_maps[index], what))
        return look_through(Lane(new, loops), self.extents)

    def _outside(self, scalar: SSAValue) -> Value:
        """A scalar computed before the op."""
        constant = constant_of(scalar)
        if constant is not None:
            return Literal(constant)
        check_element(scalar.type)
        return Lane(self.emitter.scalar_tensor(self.emitter.value(scalar)), ())

    def _index(self, loop: int) -> Lane:
        size = self.extents[loop]
        attributes = {"axis": IntegerAttr(0, i64)}
        value = self.emitter.call("iota", [], TensorType(i64, [size]), attributes)
        return Lane(value, (loop,))

    def apply(
        self,
        family: str,
        operands: Sequence[Value],
        element: Attribute,
        attributes: dict[str, Attribute],
    ) -> Value:
        """Emit one intent."""
        check_element(element)
        return self.emitter.elementwise(
            family, operands, index_free(element), self.extents, attributes
        )


def look_through(lane: Lane, extents: dict[int, int]) -> Lane:
    """The same elements read from before a broadcast or a change of unit dimensions.

    before: reading the result of `cast` that only repeats, or of a reshape between 4x8 and 4x8x1
    after:  reading the source, with the maps composed
    """
    while (found := kernel_of(lane.tensor)) is not None:
        family, op = found
        if family == "cast" and tensor_type(op.operands[0]).element_type == lane.element:
            maps = op.attributes.get("operand_maps")
            if not isinstance(maps, ArrayAttr):
                return lane
            reads = loops_of(maps.data[0].data, "operand 0")  # type: ignore[attr-defined]
            lane = Lane(op.operands[0], tuple(None if d is None else lane.loops[d] for d in reads))
        elif family == "reshape":
            source, target = shape_of(op.operands[0]), shape_of(op.result)
            if [n for n in source if n != 1] != [n for n in target if n != 1]:
                return lane
            wide = iter(d for d, n in zip(lane.loops, target, strict=True) if n != 1)
            lane = Lane(op.operands[0], tuple(None if n == 1 else next(wide) for n in source))
        else:
            return lane
    return lane


def convert_elementwise(emitter: Emitter, op: StructuredOp) -> None:
    """A structured op without reduction loops.

    before: %r = linalg.generic {all parallel} ins(%a, %b) { exp, mul }
    after:  %e = ukernel "npu_uk_elementwise_exp"(%a); %r = ukernel "npu_uk_elementwise_mul"(%e, %b)
    """
    body = Body(emitter, op)
    for index, result in enumerate(op.results):
        emitter.values[result] = materialise(emitter, body, index, result)


def materialise(emitter: Emitter, body: Body, index: int, result: SSAValue) -> SSAValue:
    """Result `index` of the body as a tensor of the result's type."""
    type_ = cast(TensorType, result.type)
    if not result.uses:
        # Nobody reads it: contents do not matter, but the op must have a value to map to.
        return emitter.value(body.op.outputs[index])
    check_element(type_.element_type)
    value = body.value(body.yielded(index))
    if isinstance(value, Literal):
        return emitter.fill(value.value, type_.get_shape())
    loops = body.output_loops(index)
    wide = tuple(d for d in loops if d is not None)
    unread = [d for d in value.loops if d is not None and d not in wide]
    if any(body.extents[d] != 1 for d in unread):
        raise Unmapped(
            "TW1223",
            f"result {index} is written several times, through {body.op.operand_maps[-1]}",
            "use a reduction loop",
        )
    if unread:
        value = Lane(value.tensor, tuple(None if d in unread else d for d in value.loops))
    tensor = emitter.broadcast(value, wide, body.extents)
    return emitter.reshape(tensor, type_.get_shape())
