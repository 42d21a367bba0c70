"""Grouped heads: finding the keys and values that were only repeated for several query heads.

Exporters repeat heads in many ways: a broadcast and a reshape, before or after a transpose, a concat
of copies, a lookup with repeated indices. Instead of a pattern for each, the chain of movements is
run on a tensor of element numbers; what lands where shows whether and how heads repeat.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

import numpy as np

from tilewright.dialects.intents import shape_of, tensor_type
from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import Operation, SSAValue
from tilewright.transforms.kernel_rewriting import (
    BuilderBefore,
    family_name,
    integers_of,
    operand_reads,
)
from tilewright.transforms.known_values import Array, KnownValues


@dataclass(frozen=True)
class Heads:
    """Keys or values before they were repeated: `source` moved into [batch.., heads, rows, width]."""

    source: SSAValue
    order: tuple[int, ...]  # of the dimensions of source that are not of size 1
    shape: tuple[int, ...]
    group: int

    def build(self, builder: BuilderBefore) -> SSAValue:
        """The heads as a value: one reshape and one transpose at most where that is enough."""
        sizes = [n for n in shape_of(self.source) if n != 1]
        if [sizes[place] for place in self.order] != [n for n in self.shape if n != 1]:
            moved = builder.transpose(builder.reshape(self.source, sizes), self.order)
            return builder.reshape(moved, self.shape)
        units = len(self.shape) - len(sizes)
        aligned = builder.reshape(self.source, [1] * units + sizes)
        rest, ones = iter([units + place for place in self.order]), iter(range(units))
        order = [next(ones) if n == 1 else next(rest) for n in self.shape]
        return builder.transpose(aligned, order)


def repeated_heads(value: SSAValue, known: KnownValues) -> Heads | None:
    """The heads behind [batch.., heads, rows, width], when each stands several times in a row."""
    chain = _movements(value, known)
    repeats = [place for place, op in enumerate(chain) if _repeats(op)]
    if not repeats or len(shape_of(value)) < 3:
        return None
    chain = chain[: repeats[-1] + 1]  # from the value back to where the first repetition starts
    source = chain[-1].operands[0]
    numbers = np.arange(prod(shape_of(source))).reshape(shape_of(source))
    landed = numbers
    for op in reversed(chain):
        landed = _moved(op, landed, known)
    *batch, heads, rows, width = landed.shape
    for group in range(heads, 1, -1):
        if heads % group:
            continue
        grouped = landed.reshape(*batch, heads // group, group, rows, width)
        if (grouped == grouped[..., :1, :, :]).all():
            narrow = grouped[..., 0, :, :]
            order = _order(numbers, narrow)
            return None if order is None else Heads(source, order, narrow.shape, group)
    return None


def _movements(value: SSAValue, known: KnownValues) -> list[UKernelGenericOp]:
    """The ops that only move elements, from a value back to what they move."""
    chain: list[UKernelGenericOp] = []
    while isinstance(value.owner, Operation):
        op = value.owner
        if not isinstance(op, UKernelGenericOp) or not op.operands:
            break
        name, source = family_name(op), op.operands[0]
        same = tensor_type(source).element_type == tensor_type(op.result).element_type
        moves = (
            name in ("reshape", "transpose")
            or (name == "cast" and same)
            or (name == "concat" and all(part is source for part in op.operands))
            or (name == "gather" and known.array(op.operands[1]) is not None)
        )
        if not moves:
            break
        chain.append(op)
        value = source
    return chain


def _repeats(op: UKernelGenericOp) -> bool:
    return prod(shape_of(op.result)) > prod(shape_of(op.operands[0]))


def _moved(op: UKernelGenericOp, array: Array, known: KnownValues) -> Array:
    """What a movement makes of a tensor of element numbers."""
    name, shape = family_name(op), shape_of(op.result)
    if name == "reshape":
        return array.reshape(shape)
    if name == "transpose":
        return array.transpose(integers_of(op, "permutation"))
    if name == "concat":
        axis = op.attributes["axis"].value.data  # type: ignore[attr-defined]
        return np.concatenate([array] * len(op.operands), axis=axis)
    if name == "gather":
        axis = op.attributes["axis"].value.data if "axis" in op.attributes else 0  # type: ignore[attr-defined]
        indices = known.array(op.operands[1])
        assert indices is not None
        return np.take(array, indices.astype(np.int64), axis=axis)
    read = operand_reads(op)[0]
    kept = [d for d in read if d is not None]
    places = [place for place, d in enumerate(read) if d is not None]
    array = array.reshape([array.shape[p] for p in places])
    array = array.transpose(np.argsort(kept)) if kept else array
    aligned = [shape[d] if d in kept else 1 for d in range(len(shape))]
    return np.broadcast_to(array.reshape(aligned), shape)


def _order(numbers: Array, wanted: Array) -> tuple[int, ...] | None:
    """The order of dimensions that makes `numbers`, reshaped, equal to `wanted`."""
    if numbers.size != wanted.size:
        return None
    narrow = numbers.reshape([n for n in numbers.shape if n != 1])
    for order in itertools.permutations(range(narrow.ndim)):
        if (narrow.transpose(order).reshape(wanted.shape) == wanted).all():
            return order
    return None
