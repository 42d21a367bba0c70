"""Sums of products over loops, through matrix multiplication.

Floats: products are exact and added in float64; the caller rounds once. For the narrow types the
float64 sums are exact on ordinary data, for f32 they differ from the exact sum by less than
2^-29 of a rounding step, so the order of addition, and with it the tiling, does not show in
the rounded result except with a chance of about 1e-8 per element.
Integers: exact modulo 2^64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tilewright.reference.dtypes import Array

# Largest matrix operand that is copied at once (elements).
COPY_LIMIT = 1 << 24


def contract(
    left: Array,
    left_loops: set[int],
    right: Array,
    right_loops: set[int],
    output_loops: set[int],
) -> Array:
    """The sum of left*right over all loops that the output does not have.

    Operands are views with one axis per loop (size 1 where a loop is not used). The result has
    one axis per loop too, of size 1 for summed loops, in float64 or int64.
    """
    count = left.ndim
    left, left_loops = _sum_private(left, left_loops, right_loops | output_loops)
    right, right_loops = _sum_private(right, right_loops, left_loops | output_loops)
    batch = sorted(left_loops & right_loops & output_loops)
    rows = sorted((left_loops & output_loops) - right_loops)
    columns = sorted((right_loops & output_loops) - left_loops)
    summed = sorted((left_loops & right_loops) - output_loops)

    split = next((d for d in batch + rows if left.shape[d] > 1), None)
    if left.size > COPY_LIMIT and split is not None:
        pieces = max(1, min(left.shape[split], -(-left.size // COPY_LIMIT)))
        step = -(-left.shape[split] // pieces)
        parts = []
        for start in range(0, left.shape[split], step):
            window = [slice(None)] * count
            window[split] = slice(start, start + step)
            other = right[tuple(window)] if split in batch else right
            parts.append(_contract(left[tuple(window)], other, batch, rows, columns, summed, count))
        return np.concatenate(parts, axis=split)
    return _contract(left, right, batch, rows, columns, summed, count)


def _sum_private(operand: Array, loops: set[int], shared: set[int]) -> tuple[Array, set[int]]:
    """Sum the loops that only this operand has."""
    private = tuple(sorted(loops - shared))
    if not private:
        return operand, loops
    wide = np.float64 if operand.dtype.kind == "f" else np.int64
    return operand.sum(axis=private, keepdims=True, dtype=wide), loops - set(private)


def _contract(
    left: Array,
    right: Array,
    batch: list[int],
    rows: list[int],
    columns: list[int],
    summed: list[int],
    count: int,
) -> Array:
    batch_sizes = [left.shape[d] for d in batch]
    row_sizes = [left.shape[d] for d in rows]
    column_sizes = [right.shape[d] for d in columns]
    depth = math.prod(left.shape[d] for d in summed)
    a = _matrix(left, batch, rows, summed, (math.prod(row_sizes), depth))
    b = _matrix(right, batch, summed, columns, (depth, math.prod(column_sizes)))
    product = multiply(a, b).reshape(batch_sizes + row_sizes + column_sizes)
    loops = batch + rows + columns
    ordered = product.transpose([loops.index(d) for d in sorted(loops)])
    shape = [1] * count
    for axis, d in enumerate(sorted(loops)):
        shape[d] = ordered.shape[axis]
    return ordered.reshape(shape)


def _matrix(
    operand: Array,
    batch: Sequence[int],
    first: Sequence[int],
    second: Sequence[int],
    sizes: tuple[int, int],
) -> Array:
    kept = [*batch, *first, *second]
    rest = [d for d in range(operand.ndim) if d not in kept]
    batch_size = math.prod(operand.shape[d] for d in batch)
    return operand.transpose([*kept, *rest]).reshape((batch_size, *sizes))


PART = 1 << 17  # numbers of a matrix that are widened at a time for a few rows: they stay in caches
LARGE_PART = 1 << 22  # for more rows, where products take longer than widening
FEW = 8


def _part(a: Array) -> int:
    return PART if a.shape[-2] <= FEW else LARGE_PART


def _multiply_in_parts(a: Array, b: Array) -> Array:
    """The product in float64 with a large matrix, some of its columns at a time, so that what is
    widened never takes the room of two such matrices."""
    a = a.astype(np.float64, copy=False)
    part = _part(a)
    columns = b.shape[-1]
    result = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], columns))
    step = max(32, part * columns // b.size)
    for first in range(0, columns, step):
        some = slice(first, first + step)
        result[..., some] = np.matmul(a, b[..., some].astype(np.float64, copy=False))
    return result


def multiply(a: Array, b: Array) -> Array:
    """Matrix product (with leading batch axes) in float64, or exact in int64."""
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        if min(a.ndim, b.ndim) > 1 and b.dtype != np.float64 and b.size > 2 * _part(a):
            return _multiply_in_parts(a, b)
        return np.matmul(a.astype(np.float64, copy=False), b.astype(np.float64, copy=False))
    a, b = a.astype(np.int64, copy=False), b.astype(np.int64, copy=False)
    if not a.size or not b.size:
        return np.matmul(a, b)
    largest = float(np.abs(a).max()) * float(np.abs(b).max()) * a.shape[-1]
    if largest < 2.0**53:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a, b)
