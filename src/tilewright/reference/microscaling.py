"""MX formats: blocks of 32 numbers that share a scale, a power of two in eight bits (E8M0).

    block = encode(numbers, "mxfp4")        along the last dimension
    decode(block)                           exactly what it stands for, in float32

The formats of the Open Compute Project's specification of microscaling formats, version 1.0: elements in
FP8 (E4M3 and E5M2), FP6 (E2M3 and E3M2), FP4 (E2M1) and INT8 (multiples of 1/64). A block's scale is
the power of two that brings its largest number to the largest exponent of an element; elements are
rounded to nearest even, and what is too large becomes the largest. A scale of 255 is NaN.

Error codes: TW1718 no such format, codes that do not fit their scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilewright.errors import TilewrightError

BLOCK = 32
AT_ONCE = 1 << 20  # numbers that are rounded at a time, about
BIAS, NAN_SCALE = 127, 255  # of E8M0


@dataclass(frozen=True)
class Format:
    """Elements of an MX format: their type, bits, the largest number and its exponent."""

    name: str
    dtype: np.dtype
    bits: int
    largest: float
    exponent: int

    @property
    def bits_each(self) -> float:
        """Of a number, its part of the scale included."""
        return self.bits + 8 / BLOCK


FORMATS = {
    form.name: form
    for form in (
        Format("mxfp8", np.dtype(ml_dtypes.float8_e4m3fn), 8, 448.0, 8),
        Format("mxfp8-e5m2", np.dtype(ml_dtypes.float8_e5m2), 8, 57344.0, 15),
        Format("mxfp6", np.dtype(ml_dtypes.float6_e2m3fn), 6, 7.5, 2),
        Format("mxfp6-e3m2", np.dtype(ml_dtypes.float6_e3m2fn), 6, 28.0, 4),
        Format("mxfp4", np.dtype(ml_dtypes.float4_e2m1fn), 4, 6.0, 2),
        Format("mxint8", np.dtype(np.int8), 8, 127 / 64, 0),
    )
}


@dataclass(frozen=True)
class Blocks:
    """Numbers in an MX format: codes [..., K] and a scale for every 32 of them, [..., K / 32]."""

    form: Format
    codes: np.ndarray
    scales: np.ndarray


def format_of(name: str) -> Format:
    """A format by its name."""
    if name not in FORMATS:
        raise TilewrightError(
            "TW1718", f"there is no MX format {name}", hint=f"formats are {', '.join(FORMATS)}"
        )
    return FORMATS[name]


def encode(numbers: np.ndarray, name: str) -> Blocks:
    """The nearest numbers in a format; a last block may be shorter."""
    form, given = format_of(name), np.asarray(numbers, np.float64)
    cut = _in_blocks(given)
    with np.errstate(invalid="ignore"):
        largest = np.abs(cut).max(-1)
    wrong = ~np.isfinite(largest)
    exponents = np.frexp(np.where(wrong, 0.0, largest))[1] - 1 - form.exponent
    exponents = np.where(largest == 0, -BIAS, np.clip(exponents, -BIAS, BIAS))
    scales = np.where(wrong, NAN_SCALE, exponents + BIAS).astype(np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.ldexp(np.where(wrong[..., None], 0.0, cut), -exponents[..., None])
        shares = np.clip(shares, -form.largest, form.largest)
    if form.dtype == np.int8:
        codes = np.rint(shares * 64).astype(np.int8).view(np.uint8)
    else:
        codes = shares.astype(form.dtype).view(np.uint8)
    codes = codes.reshape(*given.shape[:-1], -1)[..., : given.shape[-1]]
    return Blocks(form, np.ascontiguousarray(codes), scales)


def decode(blocks: Blocks) -> np.ndarray:
    """What codes and scales stand for: exact in float32, but for what is beyond its range."""
    form, size = blocks.form, blocks.codes.shape[-1]
    wanted = (*blocks.codes.shape[:-1], -(-size // BLOCK))
    if blocks.codes.dtype != np.uint8 or blocks.scales.dtype != np.uint8:
        raise TilewrightError("TW1718", "codes and scales of an MX format are bytes")
    if blocks.scales.shape != wanted:
        raise TilewrightError(
            "TW1718",
            f"codes of {_sizes(blocks.codes.shape)} in blocks of {BLOCK} have scales of "
            f"{_sizes(wanted)}, not {_sizes(blocks.scales.shape)}",
        )
    if form.bits < 8 and blocks.codes.size and int(blocks.codes.max()) >> form.bits:
        raise TilewrightError("TW1718", f"a code of {form.name} has more than {form.bits} bits")
    elements = blocks.codes.view(form.dtype).astype(np.float64)
    if form.dtype == np.int8:
        elements = elements / 64
    exponents = blocks.scales.astype(np.int32) - BIAS
    spread = np.repeat(exponents, BLOCK, -1)[..., :size]
    with np.errstate(over="ignore"):
        found = np.ldexp(elements, spread).astype(np.float32)
    found[spread == NAN_SCALE - BIAS] = np.nan
    return found


def rounded(numbers: np.ndarray, name: str, axis: int = -1) -> np.ndarray:
    """Numbers as a format has them, in blocks along a dimension; in their own type."""
    array = np.asarray(numbers)
    turned, found = np.moveaxis(array, axis, -1), np.empty_like(array)
    if not array.size:
        return found
    into = np.moveaxis(found, axis, -1)
    rows = max(1, AT_ONCE // (array.size // len(turned)))
    for first in range(0, len(turned), rows):
        part = turned[first : first + rows]
        into[first : first + rows] = decode(encode(part, name)).astype(array.dtype)
    return found


def unpacked(packed: np.ndarray, form: Format) -> np.ndarray:
    """Codes of bytes in which they lie side by side, the first one lowest: [..., bytes] to
    [..., codes]."""
    if form.bits == 8:
        return packed
    if packed.shape[-1] * 8 % form.bits:
        raise TilewrightError("TW1718", f"{packed.shape[-1]} bytes are no codes of {form.name}")
    bits = np.unpackbits(packed, axis=-1, bitorder="little")
    bits = bits.reshape(*packed.shape[:-1], -1, form.bits)
    return np.packbits(bits, axis=-1, bitorder="little")[..., 0]


def packed(codes: np.ndarray, form: Format) -> np.ndarray:
    """Codes side by side in bytes; what is left of the last byte is 0."""
    if form.bits == 8:
        return codes
    bits = np.unpackbits(codes[..., None], axis=-1, bitorder="little")[..., : form.bits]
    return np.packbits(bits.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


def _in_blocks(numbers: np.ndarray) -> np.ndarray:
    """[..., K] as [..., K / 32, 32], filled up with zeros."""
    rest = -numbers.shape[-1] % BLOCK
    filled = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, rest)])
    return filled.reshape(*numbers.shape[:-1], -1, BLOCK)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one number"
