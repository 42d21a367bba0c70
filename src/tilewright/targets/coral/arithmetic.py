"""Maximum and minimum as StableHLO has them: neither numpy's nor the core's."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def maximum(a: Array, b: Array) -> Array:
    """NaN if either is; -0 below +0."""
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def minimum(a: Array, b: Array) -> Array:
    if a.dtype.kind != "f":
        return np.minimum(a, b)
    return np.where((a == 0) & (b == 0), -((-a) + (-b)), np.minimum(a, b))
