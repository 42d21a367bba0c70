"""What is known of a module before it runs: arrays behind the values that no input reaches.

`KnownValues` answers for constants written in the IR, for weights that were given, and for every
kernel intent on such values; nothing is computed before somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dialects.intents import shape_of
from tilewright.dialects.npu_kernel import MatmulOp, UKernelGenericOp
from tilewright.dialects.xdsl_api import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Operation,
    SSAValue,
    TensorType,
    arith,
)
from tilewright.errors import TilewrightError
from tilewright.reference import dtypes
from tilewright.transforms.kernel_rewriting import family_name, number_of

Array = np.ndarray[Any, np.dtype[Any]]

# Results that are larger than this and larger than what they are made of are not computed.
EXPANSION_LIMIT = 1 << 24

# Quantised weights stay quantised: decoding them is for the kernels that read them.
OPAQUE = frozenset(["dequant"])


def resource_name(op: Operation) -> str | None:
    """The weight that a constant stands for."""
    value = op.value if isinstance(op, arith.ConstantOp) else None
    return value.resource_handle.data if isinstance(value, DenseResourceAttr) else None


class KnownValues:
    """Arrays by value, computed by the reference executor and kept."""

    def __init__(self, weights: Mapping[str, Array] | None = None) -> None:
        self.weights: Mapping[str, Array] = weights if weights is not None else {}
        self._arrays: dict[SSAValue, Array | None] = {}
        self._knowable: dict[SSAValue, bool] = {}

    def forget(self) -> None:
        """Drop what was computed, before values are erased or reused."""
        self._arrays.clear()
        self._knowable.clear()

    def remember(self, value: SSAValue, array: Array) -> None:
        """Take in a value that has just been made of an array."""
        self._arrays[value] = array
        self._knowable[value] = True

    def is_known(self, value: SSAValue) -> bool:
        """Whether no input reaches a value and its array may be asked for."""
        waiting = [value]  # networks are deeper than Python may call
        while waiting:
            current = waiting[-1]
            if current not in self._knowable:
                operands = self._operands(current)
                asked = next((v for v in operands or () if v not in self._knowable), None)
                if asked is not None and all(self._knowable.get(v, True) for v in operands or ()):
                    waiting.append(asked)
                    continue
                self._knowable[current] = operands is not None and self._is_made(current, operands)
            waiting.pop()
        return self._knowable[value]

    def _operands(self, value: SSAValue) -> Sequence[SSAValue] | None:
        """What a value is computed from, if it may be; none if it may not."""
        op = value.owner
        if not isinstance(op, Operation) or not isinstance(value.type, TensorType):
            return None
        if isinstance(op, arith.ConstantOp):
            name = resource_name(op)
            has = name is None or (
                name in self.weights and self.weights[name].shape == shape_of(value)
            )
            return () if has else None
        if not isinstance(op, UKernelGenericOp | MatmulOp) or family_name(op) in ("", *OPAQUE):
            return None
        return op.operands

    def _is_made(self, value: SSAValue, operands: Sequence[SSAValue]) -> bool:
        """Whether a value is worth being computed from these, all of which have been asked for."""
        if not all(self._knowable.get(operand) for operand in operands):
            return False
        if isinstance(value.owner, arith.ConstantOp):
            return True
        size = math.prod(shape_of(value))
        return size <= max(EXPANSION_LIMIT, sum(self.stored(v) for v in operands))

    def stored(self, value: SSAValue) -> int:
        """How many elements have to be kept for a value: one when all are the same literal."""
        op = value.owner
        if isinstance(op, UKernelGenericOp) and family_name(op) == "fill":
            return 1
        if isinstance(op, arith.ConstantOp) and isinstance(op.value, DenseIntOrFPElementsAttr):
            return len(op.value)
        return math.prod(shape_of(value))

    def array(self, value: SSAValue) -> Array | None:
        """The contents of a value in stored form, or None when an input reaches it."""
        if value not in self._arrays:
            self._arrays[value] = self._array(value) if self.is_known(value) else None
        return self._arrays[value]

    def _array(self, value: SSAValue) -> Array | None:
        op = value.owner
        assert isinstance(op, Operation)
        try:
            if isinstance(op, arith.ConstantOp):
                return self._constant(op)
            if family_name(op) == "fill" and not op.operands:
                from tilewright.reference.families import literal_value

                element = dtypes.element_type(value.type)
                one = dtypes.stored(literal_value(number_of(op, "value") or 0, element), element)
                return np.broadcast_to(one, shape_of(value))
            arrays = [self.array(operand) for operand in op.operands]
            if any(array is None for array in arrays):
                return None
            return evaluate(op, arrays)
        except TilewrightError:
            return None  # what fails to compute stays in the module, where running it says why

    def _constant(self, op: arith.ConstantOp) -> Array:
        from tilewright.reference.scalar_ops import constant_array

        name = resource_name(op)
        if name is None:
            return constant_array(op)
        return dtypes.from_safetensors(
            np.asarray(self.weights[name]), dtypes.element_type(op.result.type)
        )

    def number(self, value: SSAValue) -> float | int | None:
        """The one number that all elements of a known value are."""
        op = value.owner
        if isinstance(op, UKernelGenericOp) and family_name(op) == "fill" and not op.operands:
            return number_of(op, "value")
        array = self.array(value)
        return None if array is None else uniform(array)


def once(array: Array) -> Array:
    """The part of an array that holds every element; along axes that repeat one, only the first."""
    return array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]


def uniform(array: Array) -> float | int | None:
    """The one number an array holds everywhere, to the bit; None otherwise or for NaN."""
    if not array.size:
        return None
    flat = once(array).ravel()
    first: Any = flat[0]
    if flat[-1] != first or not bool((flat == first).all()):
        return None
    if array.dtype.kind not in "biu" and not bool(first):
        signs = np.signbit(flat.astype(np.float64))
        if bool(signs.any()) != bool(signs.all()):
            return None
    number = first.item()
    return number if isinstance(number, int | float) else float(number)


def evaluate(op: Operation, arrays: list[Array | None]) -> Array:
    """The result of one intent on arrays, as the reference executor has it."""
    from tilewright.reference.ops_npu_kernel import contraction_call, evaluate_call, symbol_call

    call = contraction_call(op) if isinstance(op, MatmulOp) else symbol_call(op)
    with np.errstate(all="ignore"):
        return evaluate_call(op, call)(*arrays)
