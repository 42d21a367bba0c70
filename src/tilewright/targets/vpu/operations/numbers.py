"""Number formats and the few arithmetic rules that all kernels share.

Formats are i8, i32, f16 and f32. Rounding is to nearest even, f16 overflows to infinity, every
NaN is 0x7E00. Sums run over 32 lanes that are folded at the end; exp, tanh and erf are computed
in double precision and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewright.errors import TilewrightError

try:
    from tilewright.targets.vpu import _vpu as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None

DTYPES: dict[str, np.dtype] = {
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
}
LANES = 32
_LONGEST_SUM = 131_071  # products of i8 whose sum stays in i32
_erf = np.frompyfunc(math.erf, 1, 1)


def to_f32(values: np.ndarray) -> np.ndarray:
    """Any format as f32; i32 is rounded."""
    return values.astype(np.float32)


def rounded(values: np.ndarray, dtype: str) -> np.ndarray:
    """f32 (or f64) results in an output format; i8 is rounded and clamped."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "i8":
            whole = np.rint(np.where(np.isnan(values), 0, values))
            return np.clip(whole, -128, 127).astype(np.int8)
        result = values.astype(DTYPES[dtype])
    if dtype in ("f16", "f32"):
        result[np.isnan(result)] = np.nan
    return result


def once(function: Callable[[np.ndarray], np.ndarray], values: np.ndarray) -> np.ndarray:
    """A function of f32 computed in double precision and rounded once to f32."""
    with np.errstate(all="ignore"):
        return function(values.astype(np.float64)).astype(np.float32)


def exp(values: np.ndarray) -> np.ndarray:
    return once(np.exp, values)


def erf(values: np.ndarray) -> np.ndarray:
    """The error function of doubles."""
    return np.asarray(_erf(values), dtype=np.float64)


def lane_sum(values: np.ndarray) -> np.ndarray:
    """f32 sums over the last axis: lane j takes elements j, j+32, ..., then lanes are folded."""
    length = values.shape[-1]
    lanes = np.zeros((*values.shape[:-1], LANES), np.float32)
    with np.errstate(all="ignore"):
        for first in range(0, length, LANES):
            part = values[..., first : first + LANES]
            lanes[..., : part.shape[-1]] += part
        width = LANES // 2
        while width:
            lanes = lanes[..., :width] + lanes[..., width : 2 * width]
            width //= 2
    return lanes[..., 0]


def table(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """A unary function from f16 to f16, correctly rounded, for all 65,536 inputs."""
    inputs = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(all="ignore"):
        return rounded(function(inputs), "f16")


def check_sum_length(length: int) -> None:
    """Sums of i8 products longer than this could leave i32."""
    if length > _LONGEST_SUM:
        raise TilewrightError(
            "TW7070", f"a sum of {length} products of i8 may leave i32", hint="split the inner axis"
        )


_EXACT_TERMS = 1024  # products of i8 whose f32 sum is exact in any order: 2^14 times 2^10


def exact_products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[M, K] times [N, K] of i8, exact, as doubles."""
    if native is None or first.shape[1] > _LONGEST_SUM:
        return plain_exact_products(first, second)
    sums = np.empty((first.shape[0], second.shape[0]), np.int32)
    native.whole_products(np.ascontiguousarray(first), np.ascontiguousarray(second), sums)
    return sums.astype(np.float64)


def plain_exact_products(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    total = np.zeros((first.shape[0], second.shape[0]), np.float64)
    for start in range(0, first.shape[1], _EXACT_TERMS):
        part = slice(start, start + _EXACT_TERMS)
        total += to_f32(first[:, part]) @ to_f32(second[:, part]).T
    return total


def add_products(sums: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
    """Onto sums [M, N]: [M, K] times [N, K] of f16, in f32, k after k."""
    left, right = np.ascontiguousarray(to_f32(first)), np.ascontiguousarray(to_f32(second))
    if native is None or not sums.flags.c_contiguous:
        plain_add_products(sums, left, right)
    else:
        native.ordered_products(left, right, sums)


def plain_add_products(sums: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        for k in range(left.shape[1]):
            sums += left[:, k, None] * right[None, :, k]


def check_i32(values: np.ndarray) -> np.ndarray:
    """Exact sums as i32; one outside is an error, not a wrap."""
    if values.size and (values.max() > 2**31 - 1 or values.min() < -(2**31)):
        raise TilewrightError("TW7071", "a sum with its bias leaves i32")
    return values.astype(np.int32)
