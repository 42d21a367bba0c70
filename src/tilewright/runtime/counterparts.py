"""Which value of the original model a step's result stands for.

A step names the operations it does the work of, as `layer: family place`. The last of them that
has the shape of the result makes the value. Steps in a loop have the names of the first round; the operations of the other rounds
follow at equal distances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.runtime.compiled_model import CompiledModel, Rounds, Step
from tilewright.runtime.reference_run import ReferenceCall

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import Operation, SSAValue
    from tilewright.frontend.imported import Imported

Name = tuple[str, str]  # layer and family
_SOURCE = re.compile(r"(?P<layer>.*?): (?P<family>\S+)( .*)?", re.S)
# Their results are kept as products want them: heads apart, halves of a rotation apart.
_REARRANGED = ("project", "split_heads")


@dataclass(frozen=True)
class Counterparts:
    """Values of the original's function by call of a step, to be returned by `tapped`."""

    values: dict[int, SSAValue]

    def distinct(self) -> list[SSAValue]:
        return list(dict.fromkeys(self.values.values()))


def find_counterparts(
    model: CompiledModel, calls: Iterable[ReferenceCall], original: Imported
) -> Counterparts:
    """The value of every call whose result is one of the model's values as it is."""
    nodes = [op for op in _main(original).body.block.ops if _is_node(op)]
    places = _places(model, nodes)
    distance = [_distance(nodes, rounds, places) for rounds in model.rounds]
    values: dict[int, SSAValue] = {}
    for number, call in enumerate(calls):
        shift = 0
        if call.turn:
            which = next(n for n, r in enumerate(model.rounds) if r.first <= call.step < r.end)
            shift = call.turn * distance[which]
            if shift == 0:
                continue
        # What only moves numbers may have been left to the next step.
        for place in reversed(places[call.step]):
            value = nodes[place + shift].results[0]
            if _is_value(model, model.steps[call.step], call, value):
                values[number] = value
                break
    return Counterparts(values)


def _places(model: CompiledModel, nodes: list[Operation]) -> list[list[int]]:
    """Where the operations of every step stand, those of a loop in its first round.

    Operations that look alike belong to steps in their order.
    """
    named: dict[Name, list[int]] = {}
    for number, op in enumerate(nodes):
        named.setdefault(_name(op), []).append(number)
    used: set[int] = set()
    places: list[list[int]] = []
    for step in model.steps:
        mine = []
        for source in step.sources:
            candidates = named.get(_parsed(source), [])
            if candidates:
                mine.append(next((n for n in candidates if n not in used), candidates[-1]))
        used.update(mine)
        places.append(mine)
    return places


def _distance(nodes: list[Operation], rounds: Rounds, places: list[list[int]]) -> int:
    """From an operation to the one of the next round: the smallest distance at which all of them
    find their like, or 0."""
    mine = sorted({n for step in places[rounds.first : rounds.end] for n in step})
    if not mine or rounds.count == 1:
        return 0
    for distance in range(mine[-1] - mine[0] + 1, len(nodes)):
        if mine[-1] + (rounds.count - 1) * distance >= len(nodes):
            return 0
        if all(
            _alike(nodes[n], nodes[n + turn * distance])
            for turn in range(1, rounds.count)
            for n in mine
        ):
            return distance
    return 0


def _alike(one: Operation, other: Operation) -> bool:
    return _name(one)[1] == _name(other)[1] and one.results[0].type == other.results[0].type


def _is_node(op: Operation) -> bool:
    return len(op.results) == 1 and op.name != "arith.constant"


def _is_value(model: CompiledModel, step: Step, call: ReferenceCall, value: SSAValue) -> bool:
    """Whether the step's result is the value itself, up to a scale."""
    if step.kernel in _REARRANGED or not call.writes:
        return False
    if step.kernel == "norm" and "weight" not in step.operands and len(value.owner.operands) > 1:  # pyright: ignore
        return False  # weight and bias are part of the next product
    region = model.regions[next(iter(call.writes.values()))[0]]
    return _sizes(region.layout.given) == _sizes(value.type.get_shape())  # pyright: ignore


def _sizes(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _parsed(source: str) -> Name:
    match = _SOURCE.fullmatch(source)
    return (match["layer"], match["family"]) if match else (source, "")


def _name(op: Operation) -> Name:
    """Layer and family of an operation, as steps name their sources."""
    from tilewright.dialects.xdsl_api import StringAttr
    from tilewright.reference.ops_npu_kernel import contraction_call, symbol_call

    if op.name == "npu_kernel.matmul":
        family = contraction_call(op).family.name
    elif op.name == "npu_kernel.ukernel_generic":
        family = symbol_call(op).family.name
    else:
        family = op.name.rpartition(".")[2]
    layer = op.attributes.get("tw.layer")
    return layer.data if isinstance(layer, StringAttr) else family, family


def _main(original: Imported) -> Any:
    from tilewright.dialects.xdsl_api import func

    functions = [op for op in original.module.ops if isinstance(op, func.FuncOp)]
    return next((f for f in functions if f.sym_name.data == "main"), functions[0])


def run_tapped(
    original: Imported, inputs: list[np.ndarray], values: list[SSAValue]
) -> tuple[list[np.ndarray], dict[SSAValue, np.ndarray]]:
    """The results of the original's function, and the given values of it."""
    from tilewright.dialects.xdsl_api import FunctionType, func
    from tilewright.reference.executor import Executor

    main = _main(original)
    block = main.body.block
    copy = original.module.clone()
    twin = next(
        op for op in copy.ops if isinstance(op, func.FuncOp) and op.sym_name == main.sym_name
    )
    partner: dict[SSAValue, SSAValue] = dict(zip(block.args, twin.body.block.args, strict=True))
    for op, other in zip(block.ops, twin.body.block.ops, strict=True):
        partner.update(zip(op.results, other.results, strict=True))
    last = twin.body.block.last_op
    assert last is not None
    results = [*last.operands, *(partner[value] for value in values)]
    last.detach()
    twin.body.block.add_op(func.ReturnOp(*results))
    twin.properties["function_type"] = FunctionType.from_lists(
        [argument.type for argument in block.args], [value.type for value in results]
    )
    arrays = Executor(copy, original.weights).run(inputs, twin.sym_name.data)
    own = len(arrays) - len(values)
    return arrays[:own], dict(zip(values, arrays[own:], strict=True))
