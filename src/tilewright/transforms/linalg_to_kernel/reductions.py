"""Structured ops with reduction loops, except contractions and windows.

before: %r = linalg.generic {parallel, reduction} ins(%x) outs(%fill) { addf }
after:  %r = ukernel "npu_uk_reduction_sum"(%x) {axes = [1]}

What the body does to an element before it is combined becomes element-wise intents first. An initial
value that changes nothing (0 for a sum) is dropped, any other is kept as an operand. A maximum that
also tracks its position becomes a maximum, and a position on the host where somebody reads it.
"""

from __future__ import annotations

import math
from typing import cast

from tilewright.dialects.intents import Lane, Literal, shape_of, tensor_type
from tilewright.dialects.linalg_ext import IndexOp, StructuredOp
from tilewright.dialects.xdsl_api import (
    AnyFloat,
    Attribute,
    IntegerAttr,
    IntegerType,
    Operation,
    SSAValue,
    TensorType,
    i64,
)
from tilewright.transforms.linalg_to_kernel.bodies import Body
from tilewright.transforms.linalg_to_kernel.emitter import (
    Emitter,
    Unmapped,
    check_element,
    filled_with,
    is_undefined,
)

COMBINERS = {
    "arith.addf": "sum",
    "arith.addi": "sum",
    "arith.mulf": "prod",
    "arith.muli": "prod",
    "arith.maximumf": "max",
    "arith.maxsi": "max",
    "arith.minimumf": "min",
    "arith.minsi": "min",
}


def neutral(kind: str, element: Attribute) -> float | int:
    """The initial value that leaves a reduction as it is."""
    if kind in ("sum", "prod"):
        return 0 if kind == "sum" else 1
    if isinstance(element, AnyFloat):
        return -math.inf if kind == "max" else math.inf
    bits = cast(IntegerType, element).width.data
    return -(2 ** (bits - 1)) if kind == "max" else 2 ** (bits - 1) - 1


def convert_reduction(emitter: Emitter, op: StructuredOp) -> None:
    """One reduction per result, or a maximum with its position."""
    body = Body(emitter, op)
    if len(op.results) == 2 and _tracks_position(op):
        _extreme_with_position(emitter, op, body)
        return
    for index, result in enumerate(op.results):
        if not result.uses:
            emitter.values[result] = emitter.value(op.outputs[index])
            continue
        combine = cast(Operation, body.yielded(index).owner)
        argument = op.body.block.args[len(op.inputs) + index]
        kind = COMBINERS.get(getattr(combine, "name", ""))
        if kind is None or argument not in combine.operands:
            raise Unmapped(
                "TW1225",
                "its body is no sum, product, maximum or minimum over the reduction loops",
                "combine the element with the accumulator in one op at the end of the body",
            )
        other = [value for value in combine.operands if value is not argument]
        if len(other) != 1 or _depends(other[0], argument):
            raise Unmapped(
                "TW1225", "its body uses the accumulator twice", "use the accumulator once"
            )
        emitter.values[result] = _reduce(emitter, op, body, index, kind, other[0])


def _depends(value: SSAValue, argument: SSAValue) -> bool:
    """Whether a body value is computed from an argument."""
    pending, seen = [value], set()
    while pending:
        current = pending.pop()
        if current is argument:
            return True
        owner = current.owner
        if isinstance(owner, Operation) and owner not in seen:
            seen.add(owner)
            pending.extend(owner.operands)
    return False


def _reduce(
    emitter: Emitter, op: StructuredOp, body: Body, index: int, kind: str, element: SSAValue
) -> SSAValue:
    type_ = cast(TensorType, op.results[index].type)
    check_element(type_.element_type)
    outer = body.output_loops(index)
    kept = [d for d in outer if d is not None]
    reduced = [d for d in body.extents if d not in kept]
    tensor, loops = _full(emitter, body, element, kept, reduced)
    axes = [position for position, d in enumerate(loops) if d in reduced]
    init = emitter.value(op.outputs[index])
    keep_init: SSAValue | None = None
    if is_undefined(init):
        raise Unmapped(
            "TW1226",
            "its initial value has undefined contents (tensor.empty)",
            f"fill it with {neutral(kind, type_.element_type)} first",
        )
    if filled_with(init) != neutral(kind, type_.element_type):
        keep_init = init
    sizes = shape_of(tensor)
    keepdims = tuple(1 if d in axes else n for d, n in enumerate(sizes)) == shape_of(init) and (
        [d for d in loops if d in kept and body.extents[d] != 1]
        == [d for d in kept if body.extents[d] != 1]
    )
    after = [d for d in loops if d not in reduced]
    if keep_init is not None and not keepdims:
        keep_init = _laid_out(emitter, keep_init, kept, after, body)
    if not axes:
        value = tensor if keep_init is None else _combined(emitter, kind, tensor, keep_init)
        return emitter.reshape(value, type_.get_shape())
    value = emitter.reduction(kind, tensor, axes, keepdims, keep_init)
    if keepdims:
        return value
    present = [d for d in after if d is not None]
    value = emitter.reshape(value, [body.extents[d] for d in present])
    value = emitter.transpose(value, [present.index(d) for d in kept if d in present])
    return emitter.reshape(value, type_.get_shape())


def _laid_out(
    emitter: Emitter, init: SSAValue, kept: list[int], after: list[int | None], body: Body
) -> SSAValue:
    """An initial value with the dimensions the reduction leaves, in their order."""
    present = [d for d in kept if d in after]
    init = emitter.reshape(init, [body.extents[d] for d in present])
    init = emitter.transpose(init, [present.index(d) for d in after if d is not None])
    return emitter.reshape(init, [1 if d is None else body.extents[d] for d in after])


def _combined(emitter: Emitter, kind: str, x: SSAValue, init: SSAValue) -> SSAValue:
    """A reduction over loops of one iteration: the element and the initial value."""
    family = {"sum": "elementwise_add", "prod": "elementwise_mul"}.get(kind, f"elementwise_{kind}")
    return emitter.call(family, [x, emitter.reshape(init, shape_of(x))], x.type)


def _full(
    emitter: Emitter, body: Body, element: SSAValue, kept: list[int], reduced: list[int]
) -> tuple[SSAValue, list[int | None]]:
    """The combined elements as a tensor over all loops, and the loop of each dimension.

    Loops of one iteration may be missing. The tensor keeps its own order of dimensions as long as
    the reduced ones come in loop order, because sums are taken in that order.
    """
    value = body.value(element)
    every = sorted([*kept, *reduced])
    if isinstance(value, Literal):
        return emitter.fill(value.value, [body.extents[d] for d in every]), list(every)
    present = [d for d in value.loops if d is not None]
    missing = [d for d in every if d not in present]
    in_order = [d for d in present if d in reduced]
    if all(body.extents[d] == 1 for d in missing) and in_order == sorted(in_order):
        return value.tensor, list(value.loops)
    return emitter.broadcast(value, every, body.extents), list(every)


# ------------------------------------------------------------------------------------- positions


def _tracks_position(op: StructuredOp) -> bool:
    """Whether the body is: keep the larger (smaller) element, and its index when it is new."""
    yielded = cast(Operation, op.body.block.last_op).operands
    best, place = (value.owner for value in yielded)
    if getattr(best, "name", "") not in ("arith.maximumf", "arith.minimumf"):
        return False
    if getattr(place, "name", "") != "arith.select":
        return False
    element, accumulator = op.body.block.args[0], op.body.block.args[1]
    condition, index, old = cast(Operation, place).operands
    compare = condition.owner
    wanted = 2 if best.name == "arith.maximumf" else 4  # type: ignore[union-attr]
    return (
        len(op.inputs) == 1
        and set(cast(Operation, best).operands) == {element, accumulator}
        and getattr(compare, "name", "") == "arith.cmpf"
        and cast(Operation, compare).properties["predicate"].value.data == wanted  # type: ignore[attr-defined]
        and list(cast(Operation, compare).operands) == [element, accumulator]
        and old is op.body.block.args[2]
        and _is_loop_index(index)
        and op.iterators.count("reduction") == 1
    )


def _is_loop_index(value: SSAValue) -> bool:
    owner = value.owner
    if getattr(owner, "name", "") == "arith.index_cast":
        owner = cast(Operation, owner).operands[0].owner
    return isinstance(owner, IndexOp)


def _extreme_with_position(emitter: Emitter, op: StructuredOp, body: Body) -> None:
    best = cast(Operation, body.yielded(0).owner)
    kind = COMBINERS[best.name]
    value, place = op.results
    emitter.values[value] = emitter.value(op.outputs[0])
    emitter.values[place] = emitter.value(op.outputs[1])
    if value.uses:
        emitter.values[value] = _reduce(emitter, op, body, 0, kind, op.body.block.args[0])
    if place.uses:
        lane = body.value(op.body.block.args[0])
        outer = body.output_loops(1)
        kept = [d for d in outer if d is not None]
        if not isinstance(lane, Lane) or filled_with(emitter.value(op.outputs[1])) != 0:
            raise Unmapped("TW1225", "positions count from another start than 0", "start at 0")
        every = sorted(body.extents)
        axis = next(d for d in every if d not in kept)
        tensor = emitter.broadcast(lane, every, body.extents)
        shape = [body.extents[d] for d in every if d != axis]
        element = tensor_type(place).element_type
        found = emitter.call(
            f"arg{kind}",
            [tensor],
            TensorType(element, shape),
            {"axis": IntegerAttr(every.index(axis), i64)},
        )
        emitter.values[place] = emitter.reshape(found, shape_of(place))
