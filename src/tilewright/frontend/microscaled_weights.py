"""Weights that a checkpoint holds in MX formats: codes and scales, which become numbers when they are read.

| names | content |
|---|---|
| `X.weight` in FP8, `X.weight_scale` | mxfp8: a code a byte, [rows, K] |
| `X.weight_packed`, `X.weight_scale` | mxfp4: two codes a byte, [rows, K / 2] |
| `X.weight_blocks`, `X.weight_scales` | mxfp4: the same, [rows, K / 32, 16] |

Scales are E8M0, [rows, K / 32], as such or as bytes. Names other than these are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.deferred import Deferred, as_weight
from tilewright.reference.microscaling import BLOCK, FORMATS, Blocks, decode, unpacked

ELEMENTS = {
    np.dtype(ml_dtypes.float8_e4m3fn): "mxfp8",
    np.dtype(ml_dtypes.float8_e5m2): "mxfp8-e5m2",
}
PACKED = (("_packed", "_scale"), ("_blocks", "_scales"))  # behind the name of a weight
SCALES = (np.dtype(np.uint8), np.dtype(ml_dtypes.float8_e8m0fnu))


def with_decoded(weights: Mapping[str, np.ndarray], place: Location) -> dict[str, np.ndarray]:
    """Tensors of a file, those in MX formats as float32, read when they are needed."""
    found = dict(weights)
    for name in list(weights):
        for codes, scales in PACKED:
            base = name.removesuffix(codes)
            if name != base and base + scales in weights:
                form, held = "mxfp4", (found.pop(name), found.pop(base + scales))
                found[base] = _decoded(base, form, *held, place)
        form, scale = ELEMENTS.get(weights[name].dtype), weights.get(f"{name}_scale")
        if form is not None and scale is not None and scale.dtype in SCALES and scale.ndim == 2:
            found[name] = _decoded(name, form, found[name], found.pop(f"{name}_scale"), place)
    return found


def _decoded(
    name: str, form: str, codes: np.ndarray, scales: np.ndarray, place: Location
) -> np.ndarray:
    """Numbers of codes and scales that may stay in a mapped file until somebody asks."""
    rows, each = scales.shape[0] if scales.ndim == 2 else 0, FORMATS[form].bits
    count = codes.size * 8 // each
    width = count // rows if rows else 0
    fits = codes.dtype.itemsize == 1 and scales.dtype in SCALES and rows > 0
    if not fits or codes.shape[0] != rows or scales.shape[1] * BLOCK - BLOCK >= width:
        raise _unfit(name, form, codes, scales, place)
    if scales.shape[1] * BLOCK < width or rows * width != count:
        raise _unfit(name, form, codes, scales, place)

    def read() -> np.ndarray:
        found = np.empty((rows, width), np.float32)
        step = max(1, (1 << 20) // width)
        for first in range(0, rows, step):
            part = np.ascontiguousarray(codes[first : first + step]).view(np.uint8)
            part = unpacked(part.reshape(len(part), -1), FORMATS[form])
            own = np.ascontiguousarray(scales[first : first + step]).view(np.uint8)
            found[first : first + step] = decode(Blocks(FORMATS[form], part, own))
        return found

    return as_weight(Deferred((rows, width), np.dtype(np.float32), read))


def _unfit(
    name: str, form: str, codes: np.ndarray, scales: np.ndarray, place: Location
) -> TilewrightError:
    return TilewrightError(
        "TW6403",
        f"{name} has codes of {form} of {list(codes.shape)} and scales of {list(scales.shape)}",
        place,
        f"every {BLOCK} numbers of a row have a scale",
    )
