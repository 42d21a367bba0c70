"""Functions of several steps, the meaning of the kernel families that name them.

Arguments are working arrays. Every step is computed and rounded in float32 (float64 if the
arguments are), whatever the storage type, and the caller rounds the result once to its type. Sums are
accumulated in float64. The order of steps is part of the definition, so that a chain of f32
operations in this order gives the same bits as the function that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.reference.dtypes import Array
from tilewright.reference.scalar_ops import erf


def _wide(function: Callable[[Array], Array], values: Array) -> Array:
    """A function computed in float64 and rounded back to the type of its argument."""
    return np.asarray(function(values.astype(np.float64))).astype(values.dtype)


def _constant(value: float, like: Array) -> Array:
    return np.asarray(value, dtype=like.dtype)


def total(values: Array, axes: int | tuple[int, ...]) -> Array:
    """Sum over axes, kept with size 1: float64 accumulation, one rounding."""
    return np.sum(values, axis=axes, keepdims=True, dtype=np.float64).astype(values.dtype)


def sigmoid(x: Array) -> Array:
    one = _constant(1.0, x)
    return one / (one + _wide(np.exp, -x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def silu_gate(gate: Array, up: Array) -> Array:
    return silu(gate) * up


def gelu_tanh(x: Array) -> Array:
    inner = x + _constant(0.044715, x) * ((x * x) * x)
    angle = _constant(math.sqrt(2.0 / math.pi), x) * inner
    return (_constant(0.5, x) * x) * (_constant(1.0, x) + _wide(np.tanh, angle))


def gelu_erf(x: Array) -> Array:
    inner = _wide(erf, x * _constant(math.sqrt(0.5), x))
    return (_constant(0.5, x) * x) * (_constant(1.0, x) + inner)


def softmax(x: Array, axis: int) -> Array:
    exponentials = _wide(np.exp, x - np.max(x, axis=axis, keepdims=True))
    return exponentials / total(exponentials, axis)


def mean(x: Array, axes: int | tuple[int, ...]) -> Array:
    selected = (axes,) if isinstance(axes, int) else axes
    count = math.prod(x.shape[a] for a in selected)
    return total(x, axes) / _constant(count, x)


def _reciprocal_root(x: Array) -> Array:
    return _wide(lambda v: 1.0 / np.sqrt(v), x)


def rms_norm(x: Array, weight: Array | None, epsilon: float, axis: int) -> Array:
    normal = x * _reciprocal_root(mean(x * x, axis) + _constant(epsilon, x))
    return normal if weight is None else normal * along(weight, x, axis)


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, epsilon: float, axis: int
) -> Array:
    centred = x - mean(x, axis)
    result = centred * _reciprocal_root(mean(centred * centred, axis) + _constant(epsilon, x))
    if weight is not None:
        result = result * along(weight, x, axis)
    if bias is not None:
        result = result + along(bias, x, axis)
    return result


def along(vector: Array, x: Array, axis: int) -> Array:
    """A vector shaped to broadcast along one axis of x."""
    shape = [1] * x.ndim
    shape[axis] = vector.size
    return vector.reshape(shape)


def rope(x: Array, cos: Array, sin: Array, axis: int, style: str) -> Array:
    """Rotate pairs along an axis; tables hold one value per pair, or one per element."""
    half = x.shape[axis] // 2
    first, second = _pair(x, axis, style)
    cos_first, cos_second = _table(cos, axis, half, x.shape[axis], style)
    sin_first, sin_second = _table(sin, axis, half, x.shape[axis], style)
    low = first * cos_first - second * sin_first
    high = second * cos_second + first * sin_second
    if style == "split_half":
        return np.concatenate((low, high), axis=axis)
    return np.stack((low, high), axis=axis % x.ndim + 1).reshape(x.shape)


def _pair(x: Array, axis: int, style: str) -> tuple[Array, Array]:
    half = x.shape[axis] // 2
    cut = [slice(None)] * x.ndim
    other = list(cut)
    if style == "split_half":
        cut[axis], other[axis] = slice(0, half), slice(half, None)
    else:
        cut[axis], other[axis] = slice(0, None, 2), slice(1, None, 2)
    return x[tuple(cut)], x[tuple(other)]


def _table(table: Array, axis: int, half: int, width: int, style: str) -> tuple[Array, Array]:
    if table.shape[axis] == width and width != half:
        return _pair(table, axis, style)
    return table, table
