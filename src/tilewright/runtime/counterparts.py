"""Which value of the original model a step's result stands for.

A step names the operations it does the work of, as `layer: family place (which of how many)`. The
last of them that has the shape of the result makes the value. Steps in a loop have the names of the
first round; the operations of the other rounds follow at equal distances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.runtime.watch import Expected
from tilewright.targets.artifact import LayerLoop, Step, StepValues, Tensor
from tilewright.targets.compiled_model import CompiledModel

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import Operation, SSAValue
    from tilewright.frontend.imported import Imported

Name = tuple[str, str]  # layer and family
_SOURCE = re.compile(
    r"(?P<layer>.*?): (?P<family>\S+)( .*?)??( \((?P<number>\d+) of (?P<count>\d+)\))?", re.S
)


@dataclass(frozen=True)
class Counterparts:
    """Values of the original's function by call of a step, to be returned by `tapped`."""

    values: dict[int, SSAValue]

    def distinct(self) -> list[SSAValue]:
        return list(dict.fromkeys(self.values.values()))


def find_counterparts(
    model: CompiledModel[Any], wanted: Expected, original: Imported
) -> Counterparts:
    """The value of every call whose result is one of the model's values as it is."""
    nodes = [op for op in _main(original).body.block.ops if _is_node(op)]
    places = _places(model, nodes)
    steps, loops, tensors = model.artifact.steps, model.artifact.loops, model.artifact.tensors
    distance = [_distance(nodes, loop, places) for loop in loops]
    scaled = _scaled(model)
    values: dict[int, SSAValue] = {}
    for number, key in enumerate(wanted.order):
        step, turn = key
        shift = 0
        if turn:
            which = next(n for n, r in enumerate(loops) if r.first <= step < r.end)
            shift = turn * distance[which]
            if shift == 0:
                continue
        # What only moves numbers may have been left to the next step.
        for place in reversed(places[step]):
            value = nodes[place + shift].results[0]
            if _name(nodes[place + shift]) in scaled:
                break
            if _is_value(tensors, steps[step], wanted.values[key], value):
                values[number] = value
                break
    return Counterparts(values)


def _scaled(model: CompiledModel[Any]) -> set[Name]:
    """Operations whose values have other scales in their channels than in the original."""
    noted = model.provenance.get("smoothed")
    values = noted.get("values") if isinstance(noted, dict) else None
    return {_parsed(text) for text in values or () if isinstance(text, str)}


def _places(model: CompiledModel[Any], nodes: list[Operation]) -> list[list[int]]:
    """Where the operations of every step stand, those of a loop in its first round.

    Of operations that look alike a step says which one it is. Where it does not, they belong to steps
    in their order.
    """
    named: dict[Name, list[int]] = {}
    for number, op in enumerate(nodes):
        named.setdefault(_name(op), []).append(number)
    used: set[int] = set()
    places: list[list[int]] = []
    for step in model.artifact.steps:
        mine = []
        for source in step.sources:
            candidates = named.get(_parsed(source), [])
            number = _which(source, len(candidates))
            if number is not None:
                mine.append(candidates[number])
            elif candidates:
                mine.append(next((n for n in candidates if n not in used), candidates[-1]))
        used.update(mine)
        places.append(mine)
    return places


def _distance(nodes: list[Operation], rounds: LayerLoop, places: list[list[int]]) -> int:
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


def _is_value(
    tensors: Mapping[str, Tensor], step: Step, found: StepValues, value: SSAValue
) -> bool:
    """Whether the step's result is the value itself, up to a scale."""
    if step.rearranged or not found.writes:
        return False
    if _has_weights(value) and not _keeps_weights(tensors, step):
        return False  # they are part of another step, such as a norm's of the next product
    result = next(iter(found.writes.values()))
    return _sizes(result.shape) == _sizes(value.type.get_shape())  # pyright: ignore


def _has_weights(value: SSAValue) -> bool:
    """Whether the operation takes constants of several numbers."""
    return any(
        getattr(operand.owner, "name", "") == "arith.constant"
        and any(size > 1 for size in operand.type.get_shape())  # pyright: ignore
        for operand in value.owner.operands  # pyright: ignore
    )


def _keeps_weights(tensors: Mapping[str, Tensor], step: Step) -> bool:
    return any(
        name in tensors and tensors[name].kind in ("weight", "constant")
        for name in step.operands.values()
    )


def _sizes(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def _parsed(source: str) -> Name:
    match = _SOURCE.fullmatch(source)
    return (match["layer"], match["family"]) if match else (source, "")


def _which(source: str, count: int) -> int | None:
    """Which of so many operations that look alike a step names, if it says so of as many."""
    match = _SOURCE.fullmatch(source)
    if match is None or match["number"] is None or int(match["count"]) != count:
        return None
    return int(match["number"]) - 1 if 1 <= int(match["number"]) <= count else None


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
