"""The host's part of a GEMM: padding, layouts and packing going in, cropping and sums coming out.

Also the reference a result is compared with. It works on whole matrices and shares nothing with
the simulation but the definition of the number formats.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.numerics import bf16_bits, bf16_values, bfp16, shift_round
from tilewright.targets.xdna.packing import pack_int4, pack_ternary
from tilewright.targets.xdna.problem import Gemm


def checked_operands(gemm: Gemm, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Operands as int8 or as bf16 bits; other shapes, types and values are refused."""
    if a.shape != (gemm.M, gemm.K) or b.shape != (gemm.K, gemm.N):
        raise TilewrightError(
            "TW8043",
            f"operands of {a.shape} and {b.shape} do not make {gemm.M}x{gemm.K}x{gemm.N}",
        )
    if gemm.inputs == "bf16":
        return _as_bf16(a), _as_bf16(b)
    for name, operand in (("A", a), ("B", b)):
        if operand.dtype.kind not in "iu":
            raise TilewrightError("TW8043", f"{name} is {operand.dtype}, not integers")
        if operand.size and (operand.min() < -128 or operand.max() > 127):
            raise TilewrightError("TW8043", f"{name} has values outside int8")
    if gemm.weights == "ternary" and b.size and (b.min() < -1 or b.max() > 1):
        raise TilewrightError("TW8051", "ternary weights are -1, 0 and 1")
    if gemm.weights == "int4" and b.size and (b.min() < -8 or b.max() > 7):
        raise TilewrightError("TW8051", "four-bit weights are -8 to 7")
    return a.astype(np.int8), b.astype(np.int8)


def _as_bf16(values: np.ndarray) -> np.ndarray:
    if values.dtype == ml_dtypes.bfloat16:
        return values.view(np.uint16)
    if values.dtype == np.uint16:
        return values
    return bf16_bits(np.asarray(values, np.float32))


def _padded(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    wide = np.zeros((rows, columns), matrix.dtype)
    wide[: matrix.shape[0], : matrix.shape[1]] = matrix
    return wide


def host_buffers(gemm: Gemm, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Flat buffers A and B as the design reads them."""
    M, K, N = gemm.padded
    a, b = checked_operands(gemm, a, b)
    a, b = _padded(a, M, K), _padded(b, K, N)
    if gemm.packed:
        return {"A": a.reshape(-1), "B": packed_panels(gemm, b)}
    if gemm.b_layout == "col":
        b = np.ascontiguousarray(b.T)
    return {"A": a.reshape(-1), "B": b.reshape(-1)}


def packed_panels(gemm: Gemm, b: np.ndarray) -> np.ndarray:
    """B by column panels, each its tiles in k order, each tile as the kernel reads it."""
    _, s, t = gemm.block
    K, N = b.shape
    pieces = []
    for left in range(0, N, gemm.n):
        for top in range(0, K, gemm.k):
            tile = b[top : top + gemm.k, left : left + gemm.n]
            if gemm.weights == "ternary":
                pieces.append(pack_ternary(tile))
            elif gemm.weights == "int4":
                pieces.append(pack_int4(tile))
            else:
                blocks = tile.reshape(gemm.k // s, s, gemm.n // t, t).transpose(0, 2, 1, 3)
                pieces.append(np.ascontiguousarray(blocks).reshape(-1))
    flat = np.concatenate(pieces)
    return flat.view(np.int8) if flat.dtype == np.uint8 else flat


def result_of(gemm: Gemm, buffer: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The M x N result of the drained buffer: cropped, zero point taken out if the host does it."""
    M, _, N = gemm.padded
    c = buffer.reshape(N, M).T if gemm.c_layout == "col" else buffer.reshape(M, N)
    c = np.ascontiguousarray(c[: gemm.M, : gemm.N])
    if gemm.weights == "ternary" and gemm.zero_point == "rowsum":
        sums = a.astype(np.int64).sum(axis=1, keepdims=True)
        c = (c.astype(np.int64) - sums).astype(np.int32)
    if gemm.output == "bf16":
        return c.view(ml_dtypes.bfloat16)
    return c


def reference(gemm: Gemm, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the array has to compute: the matmul, or the recurrence of narrow and float outputs."""
    a, b = checked_operands(gemm, a, b)
    if gemm.inputs == "bf16":
        return _float_reference(gemm, a, b)
    if gemm.output == "i32":
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64).astype(np.int32)
    # One step of k: k products of at most 2^14 stay below the mantissa of f32 up to k = 1024.
    kind = np.float32 if gemm.k <= 1024 else np.float64
    left, right = a.astype(kind), b.astype(kind)
    limits = np.iinfo({"i8": np.int8, "i16": np.int16}[gemm.output])
    c = np.zeros((gemm.M, gemm.N), np.int32)
    for start in range(0, gemm.padded[1], gemm.k):
        part = (left[:, start : start + gemm.k] @ right[start : start + gemm.k]).astype(np.int32)
        part += c << gemm.shift
        rounded = shift_round(part, gemm.shift, gemm.rounding)
        if gemm.saturate:
            c = np.clip(rounded, limits.min, limits.max).astype(np.int32)
        else:
            c = rounded.astype(limits.dtype).astype(np.int32)
    return c.astype(limits.dtype)


def _float_reference(gemm: Gemm, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    _, K, _ = gemm.padded
    left = bf16_values(_padded(a, gemm.M, K))
    right = bf16_values(_padded(b, K, gemm.N))
    if gemm.numbers == "bfp16":
        left, right = bfp16(left, 1), bfp16(right, 0)
    c = np.zeros((gemm.M, gemm.N), np.float32)
    rounds = gemm.output == "bf16" and not gemm.wide_sum
    for index in range(K):
        c += np.outer(left[:, index], right[index])
        if rounds and (index + 1) % gemm.k == 0:
            c = c.astype(ml_dtypes.bfloat16).astype(np.float32)
    return c.astype(ml_dtypes.bfloat16) if gemm.output == "bf16" else c
