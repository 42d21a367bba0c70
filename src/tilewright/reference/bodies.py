"""Bodies of `linalg.generic`, `tensor.pad` and the like, evaluated once on whole arrays.

A body is a block of scalar operations. Instead of running it for every element, its arguments
are bound to arrays that broadcast against each other and every operation runs once on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tilewright.reference import dtypes
from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault, name_of
from tilewright.reference.program import (
    as_array,
    captures,
    element_of,
    unknown_operation,
    values_used,
)
from tilewright.reference.scalar_ops import attribute_of, scalar_function

IndexOf = Callable[[int], Array]


def slice_of(block: Block, targets: Iterable[SSAValue]) -> list[Operation]:
    """Operations of a block that the targets depend on, in order."""
    needed: set[Operation] = set()
    pending = list(targets)
    while pending:
        value = pending.pop()
        owner = value.owner
        if not isinstance(value, OpResult) or not isinstance(owner, Operation):
            continue
        if owner.parent is block and owner not in needed:
            needed.add(owner)
            pending.extend(values_used(owner))
    return [op for op in block.ops if op in needed]


def arguments_used(block: Block, targets: Iterable[SSAValue]) -> set[int]:
    """Numbers of the block arguments that the targets depend on."""
    targets = list(targets)
    values: set[SSAValue] = set(targets)
    for op in slice_of(block, targets):
        values.update(values_used(op))
    return {v.index for v in values if isinstance(v, BlockArgument) and v.owner is block}


class Body:
    """The part of a block that computes some of its values, over arrays in working form."""

    def __init__(self, block: Block, targets: Sequence[SSAValue], owner: Operation) -> None:
        self.block = block
        self.captured = captures(owner)
        self.targets = list(targets)
        slots: dict[SSAValue, int] = {}
        for value in (*block.args, *self.captured):
            slots[value] = len(slots)
        operations = slice_of(block, targets)
        # Assertions guard the values around them: they run with any slice.
        kept = set(operations)
        for op in block.ops:
            if name_of(op) == "cf.assert":
                kept.update([op, *slice_of(block, op.operands)])
        self.steps: list[tuple[Callable[..., Any], list[int], int]] = []
        for op in block.ops:
            if op not in kept:
                continue
            for result in op.results:
                slots[result] = len(slots)
            operands = [slots[v] for v in op.operands]
            target = slots[op.results[0]] if op.results else -1
            self.steps.append((self._function(op), operands, target))
        self.slots = slots
        self.uses_index = any(name_of(op) == "linalg.index" for op in kept)

    def _function(self, op: Operation) -> Callable[..., Any]:
        name = name_of(op)
        if name == "linalg.index":
            return _index_function(attribute_of(op, "dim").value.data)
        if name == "tensor.extract":
            return _extract_function(op)
        if name == "cf.assert":
            return _assert_function(op)
        if name in ("affine.apply", "affine.min", "affine.max"):
            return _affine_function(op)
        if name == "tensor.dim":
            return lambda _, tensor, axis: np.asarray(np.shape(tensor)[int(axis)])
        function = scalar_function(op)
        if function is None:
            raise unknown_operation(op)
        return lambda _, *arguments: function(*arguments)

    def run(
        self, arguments: Sequence[Array | None], captured: Sequence[Any], index_of: IndexOf
    ) -> list[Array]:
        """The targets' values for the given block arguments (None for those not needed)."""
        values: list[Any] = [None] * len(self.slots)
        values[: len(arguments)] = arguments
        start = len(self.block.args)
        for number, (value, array) in enumerate(zip(self.captured, captured, strict=True)):
            array = as_array(array)
            if array.ndim == 0:
                array = dtypes.working(array, element_of(value))
            values[start + number] = array
        for function, operands, target in self.steps:
            result = function(index_of, *[values[i] for i in operands])
            if target >= 0:
                values[target] = result
        return [np.asarray(values[self.slots[t]]) for t in self.targets]


def _index_function(dimension: int) -> Callable[..., Array]:
    return lambda index_of: index_of(dimension)


def _extract_function(op: Operation) -> Callable[..., Array]:
    element = element_of(op.results[0])

    def extract(_: IndexOf, tensor: Array, *indices: Array) -> Array:
        for axis, index in enumerate(indices):
            if np.any(np.less(index, 0)) or np.any(np.greater_equal(index, tensor.shape[axis])):
                raise fault(
                    op,
                    "TW1505",
                    f"tensor.extract reads outside of axis {axis}, which has {tensor.shape[axis]} elements",
                )
        return dtypes.working(np.asarray(tensor[tuple(np.asarray(i) for i in indices)]), element)

    return extract


def _assert_function(op: Operation) -> Callable[..., None]:
    def check(_: IndexOf, condition: Array) -> None:
        if not np.all(condition):
            raise fault(op, "TW1505", f"the program's own check failed: {attribute_of(op, 'msg')}")

    return check


def _affine_function(op: Operation) -> Callable[..., Array]:
    affine = attribute_of(op, "map").data
    count = affine.num_dims
    choose = {"affine.min": np.minimum, "affine.max": np.maximum}.get(name_of(op))

    def evaluate(_: IndexOf, *values: Array) -> Array:
        results = affine.eval(list(values[:count]), list(values[count:]))
        if choose is None:
            return results[0]
        total = results[0]
        for other in results[1:]:
            total = choose(total, other)
        return total

    return evaluate
