"""Products, convolutions and pooling of whole tensors.

i8 sums are exact; f16 products are added in f32 one after the other, in the order ky, kx, ic.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations.numbers import rounded


def in_order(left: np.ndarray, right: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """[.., M, K] times [.., N, K] of floats: f32, k after k."""
    a, b = left.astype(np.float32), right.astype(np.float32)
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    total = np.zeros((*shape, a.shape[-2], b.shape[-2]), np.float32) if start is None else start
    with np.errstate(all="ignore"):
        for k in range(a.shape[-1]):
            total = total + a[..., :, k, None] * b[..., None, :, k]
    return total


def whole_sums(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """[M, K] times [N, K] of i8: doubles hold these sums exactly."""
    return left.astype(np.float64) @ right.astype(np.float64).T


def finish(
    sums: np.ndarray,
    whole: bool,
    scale: np.ndarray,
    bias: np.ndarray | None,
    dtype: str,
    options: dict[str, Any],
) -> np.ndarray:
    """Bias, scale, ReLU or clamp, one rounding; channels are the last axis."""
    if whole:
        if bias is not None:
            sums = sums + bias
        if sums.size and (sums.max() > 2**31 - 1 or sums.min() < -(2**31)):
            raise TilewrightError("TW7071", "a sum with its bias leaves i32")
        values = sums.astype(np.int64).astype(np.float32)
    else:
        values = sums if bias is None else sums + bias.astype(np.float32)
    with np.errstate(all="ignore"):
        values = values * scale.astype(np.float32)
        if options.get("relu"):
            values = np.maximum(values, np.float32(0))
        if "clamp" in options:
            low, high = (np.float32(bound) for bound in options["clamp"])
            values = np.minimum(np.maximum(values, low), high)
    return rounded(values, dtype)


def convolution(image: np.ndarray, weights: np.ndarray, options: dict[str, Any]) -> np.ndarray:
    """Sums of [N, H, W, C] with [OC, KY, KX, C / groups]; taps outside the image are left out."""
    whole = image.dtype == np.int8
    count, height, width, _ = image.shape
    channels, rows, columns, inner = weights.shape
    groups = int(options.get("groups", 1))
    top, left, bottom, right = options.get("padding", (0, 0, 0, 0))
    (down, across), (apart, aside) = (
        options.get("strides", (1, 1)),
        options.get("dilations", (1, 1)),
    )
    out_height = (height + top + bottom - apart * (rows - 1) - 1) // down + 1
    out_width = (width + left + right - aside * (columns - 1) - 1) // across + 1
    total = np.zeros((count, out_height, out_width, channels), np.float64 if whole else np.float32)
    y, x = np.arange(out_height) * down - top, np.arange(out_width) * across - left
    share = channels // groups
    for ky, kx in product(range(rows), range(columns)):
        at_y, at_x = y + ky * apart, x + kx * aside
        inside_y, inside_x = (at_y >= 0) & (at_y < height), (at_x >= 0) & (at_x < width)
        if not inside_y.any() or not inside_x.any():
            continue
        place = np.ix_(np.arange(count), np.flatnonzero(inside_y), np.flatnonzero(inside_x))
        taken = image[:, at_y[inside_y]][:, :, at_x[inside_x]]
        for group in range(groups):
            own = slice(group * share, (group + 1) * share)
            part = taken[..., group * inner : (group + 1) * inner]
            weight = weights[own, ky, kx]
            sums = total[..., own][place]
            if whole:
                sums = sums + part.astype(np.float64) @ weight.astype(np.float64).T
            else:
                with np.errstate(all="ignore"):
                    for c in range(inner):
                        term = part[..., c, None].astype(np.float32) * weight[:, c].astype(
                            np.float32
                        )
                        sums = sums + term
            total[..., own][place] = sums
    return total


def pool(image: np.ndarray, dtype: str, ratio: float, options: dict[str, Any]) -> np.ndarray:
    """Largest or average element of windows of [N, H, W, C]."""
    count, height, width, channels = image.shape
    rows, columns = options["kernel"]
    top, left, bottom, right = options.get("padding", (0, 0, 0, 0))
    down, across = options.get("strides", (1, 1))
    out_height = (height + top + bottom - rows) // down + 1
    out_width = (width + left + right - columns) // across + 1
    largest = options["function"] == "max"
    result = np.zeros((count, out_height, out_width, channels), np.float32)
    for oy, ox in product(range(out_height), range(out_width)):
        y, x = oy * down - top, ox * across - left
        window = image[:, max(0, y) : max(0, y + rows), max(0, x) : max(0, x + columns)]
        flat = window.reshape(count, -1, channels).astype(np.float32)
        if largest:
            top_value = flat.max(axis=1)
            result[:, oy, ox] = top_value * np.float32(ratio) if ratio != 1.0 else top_value
            continue
        with np.errstate(all="ignore"):
            total = np.zeros((count, channels), np.float32)
            for number in range(flat.shape[1]):
                total = total + flat[:, number]
            n = rows * columns if options.get("count_padding") else flat.shape[1]
            if options["function"] == "sum":
                n = 1
            result[:, oy, ox] = total * np.float32(1.0 / n) * np.float32(ratio)
    return rounded(result, dtype)
