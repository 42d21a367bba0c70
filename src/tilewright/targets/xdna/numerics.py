"""Arithmetic of the cores: narrowing with shift and rounding, bf16 and block floating point."""

from __future__ import annotations

import numpy as np

from tilewright.targets.xdna.problem import refuse

INTEGER = {"i8": np.int8, "i16": np.int16, "i32": np.int32}


def shift_round(values: np.ndarray, shift: int, rounding: str) -> np.ndarray:
    """values / 2^shift as integers, in one of the eight roundings of the hardware."""
    if shift == 0:
        return values
    wide = values.astype(np.int64)
    floor = wide >> shift
    rest = wide - (floor << shift)
    half = 1 << (shift - 1)
    above, tie = rest > half, rest == half
    if rounding == "floor":
        up = np.zeros_like(above)
    elif rounding == "ceil":
        up = rest > 0
    else:
        choose = {
            "half_up": np.ones_like(tie),
            "half_down": np.zeros_like(tie),
            "half_away": wide >= 0,
            "half_to_zero": wide < 0,
            "half_even": floor & 1 == 1,
            "half_odd": floor & 1 == 0,
        }
        if rounding not in choose:
            raise refuse(f"there is no rounding {rounding!r}")
        up = above | (tie & choose[rounding])
    return floor + up


def narrow(
    values: np.ndarray, output: str, shift: int, rounding: str, saturate: bool
) -> np.ndarray:
    """Accumulators to the output type: shift, round, then saturate or wrap."""
    kind = INTEGER[output]
    rounded = shift_round(values, shift, rounding)
    if saturate:
        limits = np.iinfo(kind)
        return np.clip(rounded, limits.min, limits.max).astype(kind)
    return rounded.astype(np.int64).astype(kind)


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """f32 to bf16 (as uint16), nearest even; NaN stays a NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    quiet = (bits >> 16) | 0x40
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def bf16_values(bits: np.ndarray) -> np.ndarray:
    """bf16 (as uint16) to f32, exactly."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfp16(values: np.ndarray, axis: int) -> np.ndarray:
    """f32 through block floating point: eight values along an axis share the largest exponent.

    Mantissas are eight bits in two's complement, rounded to nearest even.
    """
    moved = np.moveaxis(np.asarray(values, np.float32), axis, -1)
    if moved.shape[-1] % 8:
        raise refuse("block floating point takes eight values at a time along k")
    blocks = moved.reshape(*moved.shape[:-1], -1, 8).astype(np.float64)
    largest = np.abs(blocks).max(axis=-1, keepdims=True)
    _, exponent = np.frexp(largest)
    # The largest value has its leading bit at 2^6 of the mantissa, the sign takes the eighth bit.
    unit = np.exp2((exponent - 7).astype(np.float64))
    mantissa = np.clip(np.rint(blocks / unit), -128, 127)
    result = np.where(largest > 0, mantissa * unit, 0.0)
    return np.moveaxis(result.reshape(moved.shape).astype(np.float32), -1, axis)
