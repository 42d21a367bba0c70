"""Resizing along one axis: where result elements lie, and the matrix that interpolates them.

Every kind of interpolation is separable, so a resize is one step per axis: a lookup at places known
at import for nearest neighbours, a product with a constant matrix for the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def linear(distance: Array) -> Array:
    return np.maximum(0.0, 1.0 - np.abs(distance))


def cubic(a: float) -> Callable[[Array], Array]:
    """Keys' kernel with its one free coefficient."""

    def kernel(distance: Array) -> Array:
        d = np.abs(distance)
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return kernel


def matrix(
    coordinates: Array,
    old: int,
    kernel: Callable[[Array], Array],
    reach: float,
    shrink: float = 1.0,
    exclude_outside: bool = False,
) -> Array:
    """Row i holds the weights of the input's elements for result element i.

    shrink: below 1 the kernel is widened by as much, so that everything between counts
    exclude_outside: weights beyond the border are dropped instead of going to its elements
    """
    span = math.ceil(reach / shrink)
    weights = np.zeros((len(coordinates), old))
    for row, at in enumerate(coordinates):
        base = math.floor(at)
        places = np.arange(base - span, base + span + 2)
        own = kernel((places - at) * shrink)
        if exclude_outside:
            own = np.where((places < 0) | (places >= old), 0.0, own)
        np.add.at(weights[row], np.clip(places, 0, old - 1), own / own.sum())
    return weights
