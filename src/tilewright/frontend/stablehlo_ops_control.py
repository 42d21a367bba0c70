"""StableHLO operations that hold or call other operations: calls, loops, branches.

Calls are followed. A loop whose condition is known at every step is unrolled; a branch that depends
on the inputs computes all its sides and chooses. Error code: TW6202 a loop without a known length.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import Operation, SSAValue, SymbolRefAttr
from tilewright.frontend.stablehlo_builder import (
    OPERATIONS,
    HLOImporter,
    Value,
    View,
    extent,
    lowers,
)
from tilewright.frontend.stablehlo_reading import written

MOST_STEPS = 4096
DEEPEST_CALL = 64

# Calls that place or annotate values and compute nothing.
IDENTITIES = frozenset(
    ["Sharding", "xla.sdy.FuncResultSharding", "annotate_device_placement", "MoveToDevice"]
)


@lowers("func.call")
def call(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    callee = op.properties.get("callee")
    assert isinstance(callee, SymbolRefAttr)
    return _called(importer, op, callee.string_value())


def _called(importer: HLOImporter, op: Operation, name: str) -> list[Value]:
    """What a function gives for the operands of a call."""
    function = importer.functions.get(name)
    if function is None or not function.regions[0].blocks:
        raise importer.refused(f"calls @{name}, which is not there", "TW6204")
    if len(importer.callers) >= DEEPEST_CALL:
        raise importer.refused(f"calls @{name} from inside itself", "TW6204")
    block = function.regions[0].blocks[0]
    arguments = [importer.found(value) for value in op.operands]
    if [a.type for a in block.args] != [v.type for v in op.operands]:
        raise importer.refused(f"calls @{name} with other types than it takes", "TW6204")
    assert importer.node is not None
    importer.callers.append(importer.node)
    found = importer.inlined(block, arguments)
    importer.callers.pop()
    return found


@lowers("composite")
def composite(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    """An operation by its name where that is known, else what it is composed of."""
    name = written(op, "name")
    if name in OPERATIONS and name.startswith("chlo."):
        found = OPERATIONS[name](importer, op)
        return [found] if isinstance(found, (SSAValue, View)) else found
    body = op.get("decomposition")
    if not isinstance(body, SymbolRefAttr):
        raise importer.refused("names no decomposition", "TW6204")
    return _called(importer, op, body.string_value())


@lowers("custom_call")
def custom_call(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    target = written(op, "call_target_name")
    if target in IDENTITIES:
        return [importer.operand(i) for i in range(len(op.results))]
    raise importer.refused(
        f"@{target} has no mapping",
        "TW6201",
        "write the function with other operations, or compute this part outside the model",
    )


@lowers("optimization_barrier")
def barrier(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    return [importer.operand(i) for i in range(len(op.operands))]


@lowers("while")
def while_(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    """The loop unrolled, as long as its condition is known."""
    values = [importer.operand(i) for i in range(len(op.operands))]
    condition, body = (region.blocks[0] for region in op.regions)
    for _ in range(MOST_STEPS):
        (going,) = importer.inlined(condition, values)
        if not importer.is_known(going):
            raise importer.refused(
                "runs until something holds that depends on the inputs",
                "TW6202",
                "use a loop with a fixed number of steps, such as jax.lax.scan",
            )
        if not bool(importer.array(going)):
            return values
        values = importer.inlined(body, values)
    raise importer.refused(f"runs for more than {MOST_STEPS} steps", "TW6202")


@lowers("case", "if")
def branch(importer: HLOImporter, op: HLOOp) -> Sequence[Value]:
    """The side that is known to be taken, or all sides and a choice between them."""
    index = importer.operand(0)
    blocks = [region.blocks[0] for region in op.regions]
    if op.name.endswith(".if"):
        blocks = blocks[::-1]  # false first, as a case has it
    if importer.is_known(index):
        place = int(importer.array(index))
        inside = 0 <= place < len(blocks)
        return importer.inlined(blocks[place if inside else -1], [])
    sides = [importer.inlined(block, []) for block in blocks]
    found = sides[-1]
    for number in range(len(sides) - 2, -1, -1):
        if importer.kind_of(index).name == "i1":
            found = [
                importer.chosen(_spread(importer, index, b), b, a)
                for a, b in zip(sides[0], sides[1], strict=True)
            ]
            break
        taken = importer.matched(importer.whole(index), "eq", number)
        found = [
            importer.chosen(_spread(importer, taken, a), a, b)
            for a, b in zip(sides[number], found, strict=True)
        ]
    return found


def _spread(importer: HLOImporter, condition: Value, like: Value) -> Value:
    return importer.repeated(condition, [], extent(like))
