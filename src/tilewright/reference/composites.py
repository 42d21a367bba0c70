"""Functions of several steps, the meaning of the kernel families that name them.

Arguments are working arrays on the grid of an element type. Every step rounds to that type (sums are
accumulated in float64 first), except in the norms, whose steps are in float32. The order of steps is
part of the definition and that of `tilewright.dialects.composites`: a chain of single operations in
this order gives the same bits as the function that names it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.reference import dtypes
from tilewright.reference.dtypes import F32, F64, Array, ElementType
from tilewright.reference.scalar_ops import erf


class Steps:
    """Single steps in one element type."""

    def __init__(self, element: ElementType) -> None:
        self.element = element

    def constant(self, value: float) -> Array:
        return dtypes.rounded(np.asarray(value, dtype=np.float64), self.element)

    def add(self, a: Array, b: Array) -> Array:
        return dtypes.rounded(a + b, self.element)

    def subtract(self, a: Array, b: Array) -> Array:
        return dtypes.rounded(a - b, self.element)

    def multiply(self, a: Array, b: Array) -> Array:
        return dtypes.rounded(a * b, self.element)

    def divide(self, a: Array, b: Array) -> Array:
        return dtypes.rounded(a / b, self.element)

    def apply(self, function: Callable[[Array], Array], x: Array) -> Array:
        """A function computed in float64."""
        return dtypes.rounded(np.asarray(function(x.astype(np.float64))), self.element)

    def total(self, x: Array, axes: int | tuple[int, ...]) -> Array:
        """Sum over axes, kept with size 1."""
        wide = np.add.reduce(x, axis=axes, keepdims=True, dtype=np.float64)
        return dtypes.rounded(np.asarray(wide), self.element)

    def mean(self, x: Array, axes: int | tuple[int, ...]) -> Array:
        """Sum, then division by the count."""
        selected = (axes,) if isinstance(axes, int) else axes
        count = math.prod(x.shape[a] for a in selected)
        return self.divide(self.total(x, axes), self.constant(count))


def sigmoid(x: Array, element: ElementType) -> Array:
    """1 / (1 + exp(-x))"""
    steps = Steps(element)
    one = steps.constant(1.0)
    return steps.divide(one, steps.add(steps.apply(np.exp, -x), one))


def silu(x: Array, element: ElementType) -> Array:
    """sigmoid(x) * x"""
    return Steps(element).multiply(sigmoid(x, element), x)


def silu_gate(gate: Array, up: Array, element: ElementType) -> Array:
    """silu(gate) * up"""
    return Steps(element).multiply(silu(gate, element), up)


def cube(x: Array) -> Array:
    """x * x * x of floats, to be rounded once."""
    wide = x.astype(np.float64)
    return wide * wide * wide


def gelu_tanh(x: Array, element: ElementType, inner_scale: float) -> Array:
    """x * (0.5 * (1 + tanh(inner_scale * (x + 0.044715 * cube(x)))))"""
    steps = Steps(element)
    cubic = steps.multiply(dtypes.rounded(cube(x), element), steps.constant(0.044715))
    inner = steps.multiply(steps.add(x, cubic), steps.constant(inner_scale))
    return _halved(steps, x, steps.apply(np.tanh, inner))


def gelu_erf(x: Array, element: ElementType, inner_scale: float | None = None) -> Array:
    """x * (0.5 * (1 + erf(x / sqrt 2))), or erf(x * inner_scale) where that is given"""
    steps = Steps(element)
    if inner_scale is None:
        inner = steps.divide(x, steps.constant(math.sqrt(2.0)))
    else:
        inner = steps.multiply(x, steps.constant(inner_scale))
    return _halved(steps, x, steps.apply(erf, inner))


def _halved(steps: Steps, x: Array, inner: Array) -> Array:
    half = steps.multiply(steps.add(inner, steps.constant(1.0)), steps.constant(0.5))
    return steps.multiply(x, half)


def softmax(x: Array, axis: int, element: ElementType) -> Array:
    """e / sum(e) with e = exp(x - max(x))"""
    steps = Steps(element)
    if not x.shape[axis]:
        return x  # nothing to share out
    shifted = steps.subtract(x, np.max(x, axis=axis, keepdims=True))
    exponentials = steps.apply(np.exp, shifted)
    return steps.divide(exponentials, steps.total(exponentials, axis))


def _inverse_deviation(steps: Steps, x: Array, epsilon: float, axis: int) -> Array:
    variance = steps.mean(steps.multiply(x, x), axis)
    shifted = steps.add(variance, steps.constant(epsilon))
    return steps.apply(lambda v: 1.0 / np.sqrt(v), shifted)


def _norm_steps(x: Array) -> Steps:
    return Steps(F64 if x.dtype == np.float64 else F32)


def rms_norm(
    x: Array, weight: Array | None, epsilon: float, axis: int, target: ElementType
) -> Array:
    """x * rsqrt(mean(x * x) + epsilon) in float32, rounded; then times weight, rounded."""
    steps = _norm_steps(x)
    normal = steps.multiply(x, _inverse_deviation(steps, x, epsilon, axis))
    normal = dtypes.rounded(normal, target)
    if weight is None:
        return normal
    return Steps(target).multiply(normal, along(weight, x, axis))


def layer_norm(
    x: Array, weight: Array | None, bias: Array | None, epsilon: float, axis: int
) -> Array:
    """(x - mean) * rsqrt(variance + epsilon) * weight + bias in float32."""
    steps = _norm_steps(x)
    centred = steps.subtract(x, steps.mean(x, axis))
    result = steps.multiply(centred, _inverse_deviation(steps, centred, epsilon, axis))
    if weight is not None:
        result = steps.multiply(result, along(weight, x, axis))
    if bias is not None:
        result = steps.add(result, along(bias, x, axis))
    return result


def along(vector: Array, x: Array, axis: int) -> Array:
    """A vector shaped to broadcast along one axis of x."""
    shape = [1] * x.ndim
    shape[axis] = vector.size
    return vector.reshape(shape)


def rope(x: Array, cos: Array, sin: Array, axis: int, style: str, element: ElementType) -> Array:
    """a * cos - b * sin and b * cos + a * sin for the pairs (a, b) along an axis.

    Tables have the rank of x and hold one value per pair, one per element, or one for all.
    """
    steps = Steps(element)
    axis %= x.ndim
    a, b = _pair(x, axis, style)
    cos_a, cos_b = _table(cos, axis, x.shape[axis], style)
    sin_a, sin_b = _table(sin, axis, x.shape[axis], style)
    first = steps.subtract(steps.multiply(a, cos_a), steps.multiply(b, sin_a))
    second = steps.add(steps.multiply(b, cos_b), steps.multiply(a, sin_b))
    if style == "split_half":
        return np.concatenate((first, second), axis=axis)
    return np.stack((first, second), axis=axis + 1).reshape(x.shape)


def _pair(x: Array, axis: int, style: str) -> tuple[Array, Array]:
    half = x.shape[axis] // 2
    cut: list[slice] = [slice(None)] * x.ndim
    other = list(cut)
    if style == "split_half":
        cut[axis], other[axis] = slice(0, half), slice(half, None)
    else:
        cut[axis], other[axis] = slice(0, None, 2), slice(1, None, 2)
    return x[tuple(cut)], x[tuple(other)]


def _table(table: Array, axis: int, width: int, style: str) -> tuple[Array, Array]:
    if table.shape[axis] == width:
        return _pair(table, axis, style)
    return table, table
