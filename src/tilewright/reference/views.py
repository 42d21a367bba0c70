"""Operands seen through affine maps: an array as a view over a loop nest, without copying."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
from xdsl.ir import Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from tilewright.reference.dtypes import Array
from tilewright.reference.faults import fault


def linear_form(expression: AffineExpr) -> tuple[dict[int, int], int] | None:
    """Coefficients by dimension and the constant, or None if the expression is not linear."""
    match expression:
        case AffineConstantExpr():
            return {}, expression.value
        case AffineDimExpr():
            return {expression.position: 1}, 0
        case AffineBinaryOpExpr():
            left, right = linear_form(expression.lhs), linear_form(expression.rhs)
            if left is None or right is None:
                return None
            if expression.kind is AffineBinaryOpKind.Add:
                total = dict(left[0])
                for dimension, factor in right[0].items():
                    total[dimension] = total.get(dimension, 0) + factor
                return total, left[1] + right[1]
            if expression.kind is AffineBinaryOpKind.Mul:
                if right[0]:
                    left, right = right, left
                if right[0]:
                    return None
                return {d: f * right[1] for d, f in left[0].items()}, left[1] * right[1]
    return None


def dimensions_of(affine: AffineMap) -> set[int]:
    """The loop dimensions a map reads."""
    return {d for result in affine.results for d in result.used_dims()}


def loop_sizes(
    op: Operation, maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]]
) -> tuple[int, ...]:
    """The extent of every loop, from the operands that a loop indexes directly."""
    sizes: dict[int, int] = {}
    for affine, shape in zip(maps, shapes, strict=True):
        if len(affine.results) != len(shape):
            raise fault(
                op,
                "TW1502",
                f"an indexing map with {len(affine.results)} results meets an operand of rank {len(shape)}",
            )
        for expression, size in zip(affine.results, shape, strict=True):
            if not isinstance(expression, AffineDimExpr):
                continue
            if sizes.setdefault(expression.position, size) != size:
                raise fault(
                    op,
                    "TW1502",
                    f"loop d{expression.position} has {sizes[expression.position]} and {size} steps",
                    "the indexing maps and the shapes of the operands contradict each other",
                )
    count = maps[0].num_dims if maps else 0
    missing = [d for d in range(count) if d not in sizes]
    if missing:
        raise fault(op, "TW1502", f"no operand gives the size of loop d{missing[0]}")
    return tuple(sizes[d] for d in range(count))


def operand_view(op: Operation, array: Array, affine: AffineMap, sizes: Sequence[int]) -> Array:
    """The array over the loops: one axis per loop, of size 1 where the map does not read it."""
    forms = [linear_form(result) for result in affine.results]
    if any(form is None for form in forms):
        return _gathered_view(op, array, affine, sizes)
    strides = [0] * len(sizes)
    used: set[int] = set()
    start: list[slice] = []
    for axis, form in enumerate(forms):
        assert form is not None
        factors, constant = form
        low = constant + sum(f * (sizes[d] - 1) for d, f in factors.items() if f < 0)
        high = constant + sum(f * (sizes[d] - 1) for d, f in factors.items() if f > 0)
        if low < 0 or high >= array.shape[axis]:
            raise fault(
                op,
                "TW1505",
                f"an indexing map reads {low} to {high} on axis {axis}, which has {array.shape[axis]} elements",
            )
        start.append(slice(constant, None))
        for dimension, factor in factors.items():
            strides[dimension] += factor * array.strides[axis]
            used.add(dimension)
    shape = [size if d in used else 1 for d, size in enumerate(sizes)]
    origin = array[tuple(start)] if start else array
    return np.lib.stride_tricks.as_strided(origin, shape, strides, writeable=False)


def _gathered_view(op: Operation, array: Array, affine: AffineMap, sizes: Sequence[int]) -> Array:
    """As `operand_view` for maps with division or remainder, by indexing."""
    grids = [loop_index(d, sizes) for d in range(len(sizes))]
    indices = []
    for axis, result in enumerate(affine.results):
        # Affine expressions evaluate on arrays as they do on integers.
        index = np.asarray(result.eval(cast("list[int]", grids), []))
        if index.size and (index.min() < 0 or index.max() >= array.shape[axis]):
            raise fault(op, "TW1505", f"an indexing map leaves axis {axis} of its operand")
        indices.append(index if index.ndim else index.reshape((1,) * len(sizes)))
    return array[tuple(indices)]


def loop_index(dimension: int, sizes: Sequence[int], start: int = 0) -> Array:
    """The value of one loop's index, shaped to broadcast over the loop nest."""
    shape = [1] * len(sizes)
    shape[dimension] = sizes[dimension]
    return np.arange(start, start + sizes[dimension], dtype=np.int64).reshape(shape)


def to_operand(result: Array, affine: AffineMap, sizes: Sequence[int]) -> Array:
    """A result over the loops -> the shape of the output operand its map describes.

    before: axes are loops d0, d1, ...; loops that the map does not name have size 1
    after:  axes are the map's results in order
    """
    order: list[int] = []
    for expression in affine.results:
        if isinstance(expression, AffineDimExpr):
            order.append(expression.position)
    full = [size if d in order else 1 for d, size in enumerate(sizes)]
    result = np.broadcast_to(result, full)
    rest = [d for d in range(len(sizes)) if d not in order]
    moved = result.transpose(order + rest).reshape([sizes[d] for d in order])
    if len(order) == len(affine.results):
        return moved
    shape = []
    following = iter(order)
    for expression in affine.results:
        shape.append(sizes[next(following)] if isinstance(expression, AffineDimExpr) else 1)
    return moved.reshape(shape)


def is_output_map(affine: AffineMap) -> bool:
    """Whether every result is a loop of its own or the constant 0."""
    seen: list[int] = []
    for expression in affine.results:
        if isinstance(expression, AffineDimExpr):
            seen.append(expression.position)
        elif not (isinstance(expression, AffineConstantExpr) and expression.value == 0):
            return False
    return len(seen) == len(set(seen))
