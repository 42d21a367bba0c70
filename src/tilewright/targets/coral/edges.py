"""Where a program meets its model: floats to the int8 it takes, and back from what it gives."""

from __future__ import annotations

import numpy as np

from tilewright.targets.coral.program import DTYPES, Value


def quantised(value: Value, array: np.ndarray) -> np.ndarray:
    """An array of the model as a program takes it."""
    array = np.asarray(array)
    if value.scale is not None and array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            steps = np.rint(array.astype(np.float32) / np.float32(value.scale)) + value.zero
            array = np.clip(np.nan_to_num(steps, nan=0.0), -128, 127)
    return array.astype(DTYPES[value.dtype]).reshape(value.shape)


def dequantised(value: Value, array: np.ndarray) -> np.ndarray:
    """What a program gives as an array of the model."""
    if value.scale is None:
        return array
    return (array.astype(np.float32) - np.float32(value.zero)) * np.float32(value.scale)
