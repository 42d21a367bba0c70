"""Element types of a model's inputs and outputs, as MLIR spells them, and their numpy types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tilewright.tile.layouts import to_codes

PORT_TYPES: dict[str, np.dtype[Any]] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "i1": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
    **{f"i{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{f"ui{8 * n}": np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
}
FLOATS = ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2")
# What may be given for a float: itself, what it holds exactly, and float32 to be rounded.
_GIVEN = {
    "f64": ("f32", "f16", "bf16"),
    "f32": ("f16", "bf16"),
    "f16": ("f32",),
    "bf16": ("f32",),
    "f8E4M3FN": ("f32", "bf16"),
    "f8E5M2": ("f32", "bf16"),
}


def port_type(dtype: np.dtype[Any]) -> str:
    """The MLIR name of a numpy type, or numpy's own name if there is none."""
    return next((name for name, known in PORT_TYPES.items() if known == dtype), str(dtype))


def converts(given: np.dtype[Any], wanted: str) -> bool:
    """Whether an array may be given where `wanted` is expected.

    What loses nothing is accepted (bf16 for f32, i32 for i64, integers for index), and float32
    where a narrower float is wanted: files of numpy have no name for those.
    """
    if given == PORT_TYPES[wanted]:
        return True
    name = port_type(given)
    if wanted in FLOATS:
        return name in _GIVEN[wanted]
    return wanted != "i1" and given.kind in "iu" and np.can_cast(given, PORT_TYPES[wanted], "safe")


def rounded(array: np.ndarray, dtype: str) -> np.ndarray:
    """The array in the numpy type of a port; floats are rounded once, fp8 saturates."""
    wanted = PORT_TYPES[dtype]
    if array.dtype == wanted:
        return array
    if dtype in ("bf16", "f8E4M3FN"):
        name = "bf16" if dtype == "bf16" else "fp8"
        # Unsigned integers would be taken for bit patterns.
        return to_codes(array.astype(np.float64), name).view(wanted).reshape(array.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(wanted)
