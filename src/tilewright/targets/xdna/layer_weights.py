"""Weights of linear layers as the array multiplies them: int8 or ternary codes and scales.

int8: w = code * scale, one scale per column or one for all, the largest magnitude is 127.
ternary: a matrix of -g, 0 and g is taken as it is; any other is rounded by the mean magnitude, as
BitNet b1.58 does it in training.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.bitnet import quantise_weights
from tilewright.targets.xdna.host import packed_panels
from tilewright.targets.xdna.packing import unpack_ternary
from tilewright.targets.xdna.problem import Gemm

KINDS = ("i8", "ternary")


@dataclass(frozen=True)
class Quantised:
    """A K x N matrix as integers, and what they are multiples of: one number per column."""

    codes: np.ndarray  # int8
    scales: np.ndarray  # float32, N
    rule: str  # for people


def quantise(matrix: np.ndarray, kind: str, per_channel: bool, what: str) -> Quantised:
    """Codes and scales of real-valued weights."""
    wide = np.asarray(matrix).astype(np.float64)
    if not np.isfinite(wide).all():
        raise TilewrightError(
            "TW8090", f"the weights of {what} hold infinities or NaN", hint="repair the model"
        )
    columns = wide.shape[1]
    if kind == "ternary":
        codes, scale, rule = _ternary(wide)
        return Quantised(codes, np.full(columns, scale, np.float32), rule)
    largest = np.abs(wide).max(axis=0 if per_channel else None)
    # The scale is what will be multiplied with, so it is rounded before it is divided by.
    step = (np.broadcast_to(largest, (columns,)) / 127.0).astype(np.float32)
    step = np.where(step > 0, step, np.float32(1)).astype(np.float32)
    codes = np.clip(np.rint(wide / step.astype(np.float64)), -127, 127).astype(np.int8)
    return Quantised(codes, step, f"int8, one scale per {'column' if per_channel else 'tensor'}")


def _ternary(wide: np.ndarray) -> tuple[np.ndarray, float, str]:
    magnitudes = np.unique(np.abs(wide))
    above = magnitudes[magnitudes > 0]
    if len(above) <= 1:
        scale = float(above[0]) if len(above) else 1.0
        return np.sign(wide).astype(np.int8), scale, "ternary as it is"
    codes, gamma = quantise_weights(wide)
    return codes, gamma, "ternary by mean magnitude"


def digest(codes: np.ndarray, scales: np.ndarray) -> str:
    """Tells whether codes (K x N) and scales are still what the compiler meant."""
    mark = hashlib.sha256(np.ascontiguousarray(codes, np.int8).tobytes())
    mark.update(np.ascontiguousarray(scales, np.float32).tobytes())
    return mark.hexdigest()


def pack(gemm: Gemm, codes: np.ndarray) -> np.ndarray:
    """Codes as the design reads them: column panels of tiles in the kernel's order."""
    _, K, N = gemm.padded
    padded = np.zeros((K, N), np.int8)
    padded[: codes.shape[0], : codes.shape[1]] = codes
    return packed_panels(gemm, padded)


def unpack(gemm: Gemm, packed: np.ndarray) -> np.ndarray:
    """The codes (K x N, unpadded) of packed panels."""
    _, s, t = gemm.block
    _, K, N = gemm.padded
    k, n = gemm.k, gemm.n
    size = gemm.weight_bytes(k * n)
    tiles = packed.reshape(N // n, K // k, size)
    codes = np.empty((K, N), np.int8)
    for across in range(N // n):
        for down in range(K // k):
            data = tiles[across, down]
            if gemm.weights == "ternary":
                tile = unpack_ternary(data, k, n)
            else:
                blocks = data.reshape(k // s, n // t, s, t)
                tile = blocks.transpose(0, 2, 1, 3).reshape(k, n)
            codes[down * k : (down + 1) * k, across * n : (across + 1) * n] = tile
    return codes[: gemm.K, : gemm.N]
