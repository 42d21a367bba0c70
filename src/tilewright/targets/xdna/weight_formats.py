"""Ternary weights in the packings that published models and runtimes use.

Each format packs a flat or 2-D array of -1, 0, 1 and gives it back; a code that no weight has is
refused where the format has one. Codes are the weight plus one unless a format says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError

SHIFTS_DOWN = (6, 4, 2, 0)
SHIFTS_UP = (0, 2, 4, 6)
I2S_TAIL = 32  # bytes after the codes of an I2_S tensor, the first four its scale
BLOCK = 256  # weights of a TQ1_0 or TQ2_0 block


def _refuse(sentence: str, hint: str | None = None) -> TilewrightError:
    return TilewrightError("TW8051", sentence, hint=hint)


def _codes(weights: np.ndarray) -> np.ndarray:
    wide = np.asarray(weights).astype(np.int64)
    if wide.size and (wide.min() < -1 or wide.max() > 1):
        raise _refuse("ternary weights are -1, 0 and 1")
    return (wide + 1).astype(np.uint8)


def _whole(count: int, unit: int, name: str) -> None:
    if count % unit:
        near = -(-count // unit) * unit
        raise _refuse(f"{name} packs {unit} at a time, not {count}", f"pad to {near}")


def _weights(codes: np.ndarray, name: str) -> np.ndarray:
    if (codes > 2).any():
        raise _refuse(f"{name} data has a code that no weight has")
    return codes.astype(np.int8) - 1


def _bytes_of(parts: np.ndarray, shifts: tuple[int, ...]) -> np.ndarray:
    """Two-bit fields, one per entry of the first axis, put together."""
    joined = np.zeros(parts.shape[1:], np.uint8)
    for part, shift in zip(parts, shifts, strict=True):
        joined |= part << shift
    return joined


def _crumbs(data: np.ndarray, shifts: tuple[int, ...]) -> np.ndarray:
    """Two-bit fields of bytes, one more axis in front."""
    return np.stack([data >> shift & 3 for shift in shifts])


# -- two bits ---------------------------------------------------------------------------------


def pack_hf(weights: np.ndarray) -> np.ndarray:
    """Rows in four quarters: byte row p holds row p + i * R / 4 in bits 2i."""
    codes = _codes(weights)
    _whole(codes.shape[0], 4, "the packed checkpoint format")
    quarters = codes.reshape(4, codes.shape[0] // 4, -1)
    return _bytes_of(quarters, SHIFTS_UP)


def unpack_hf(data: np.ndarray) -> np.ndarray:
    codes = _crumbs(data.astype(np.uint8), SHIFTS_UP)
    return _weights(codes.reshape(-1, data.shape[1]), "packed checkpoint")


def pack_i2s(weights: np.ndarray, scale: float = 1.0, block: int = 128) -> np.ndarray:
    """Blocks of 128 (x86) or 64 (ARM): byte p holds elements p + i * block / 4, first one highest."""
    codes = _codes(weights).reshape(-1)
    _whole(codes.size, block, "I2_S")
    parts = codes.reshape(-1, 4, block // 4)
    data = _bytes_of(parts.transpose(1, 0, 2), SHIFTS_DOWN).reshape(-1)
    tail = np.zeros(I2S_TAIL, np.uint8)
    tail[:4] = np.frombuffer(np.float32(scale).tobytes(), np.uint8)
    return np.concatenate([data, tail])


def unpack_i2s(data: np.ndarray, block: int = 128) -> tuple[np.ndarray, float]:
    body = np.ascontiguousarray(data[:-I2S_TAIL])
    scale = float(np.ascontiguousarray(data[-I2S_TAIL:][:4]).view(np.float32)[0])
    codes = _crumbs(body.reshape(-1, block // 4), SHIFTS_DOWN)
    return _weights(codes.transpose(1, 0, 2).reshape(-1), "I2_S"), scale


def pack_i2s_rows(weights: np.ndarray) -> np.ndarray:
    """The newer x86 order: four rows per byte."""
    codes = _codes(weights)
    _whole(codes.shape[0], 4, "I2_S by rows")
    rows = codes.reshape(-1, 4, codes.shape[1])
    return _bytes_of(rows.transpose(1, 0, 2), SHIFTS_DOWN)


def unpack_i2s_rows(data: np.ndarray) -> np.ndarray:
    codes = _crumbs(data.astype(np.uint8), SHIFTS_DOWN)
    return _weights(codes.transpose(1, 0, 2).reshape(-1, data.shape[1]), "I2_S by rows")


def pack_lsb_first(weights: np.ndarray) -> np.ndarray:
    """Four per byte, the first lowest: 00 is -1, 01 is 0, 10 is 1."""
    codes = _codes(weights).reshape(-1)
    _whole(codes.size, 4, "LSB-first")
    parts = codes.reshape(-1, 4)
    return _bytes_of(parts.T, SHIFTS_UP)


def unpack_lsb_first(data: np.ndarray) -> np.ndarray:
    """11 is -1 here, not an error."""
    codes = _crumbs(data.reshape(-1).astype(np.uint8), SHIFTS_UP).T.reshape(-1)
    return np.where(codes == 3, 0, codes).astype(np.int8) - 1


# -- tables of pairs and triples --------------------------------------------------------------


def _nibbles(values: np.ndarray) -> np.ndarray:
    pairs = values.reshape(-1, 2).astype(np.uint8)
    return pairs[:, 0] << 4 | pairs[:, 1]


def _from_nibbles(data: np.ndarray) -> np.ndarray:
    return np.stack([data >> 4, data & 15], axis=1).reshape(-1)


def pack_tl1(weights: np.ndarray) -> np.ndarray:
    """Pairs as 3 * w0 + w1 + 4 in nibbles, the first of two in the high one."""
    _codes(weights)
    flat = np.asarray(weights).reshape(-1).astype(np.int64)
    _whole(flat.size, 4, "TL1")
    pairs = flat.reshape(-1, 2)
    return _nibbles(3 * pairs[:, 0] + pairs[:, 1] + 4)


def unpack_tl1(data: np.ndarray) -> np.ndarray:
    index = _from_nibbles(data.astype(np.uint8))
    if (index > 8).any():
        raise _refuse("TL1 data has an index above 8")
    codes = np.stack([index // 3, index % 3], axis=1).reshape(-1)
    return codes.astype(np.int8) - 1


@dataclass(frozen=True)
class TripleTable:
    """TL2: magnitudes in nibbles, signs in bits, and the tail of the rows as TL1 pairs."""

    shape: tuple[int, int]
    magnitudes: np.ndarray
    signs: np.ndarray
    tail: np.ndarray


def _triples(columns: int) -> int:
    """Weights of a row that go in triples: the rest is even."""
    return columns // 3 * 3 if columns % 3 != 1 else columns - 4


def pack_tl2(weights: np.ndarray) -> TripleTable:
    """Triples as 9 * w0 + 3 * w1 + w2: a magnitude up to 13 and a sign."""
    _codes(weights)
    wide = np.atleast_2d(np.asarray(weights)).astype(np.int64)
    rows, columns = wide.shape
    cut = _triples(columns)
    if cut < 0 or (columns - cut) % 2:
        raise _refuse(f"TL2 rows of {columns} weights are neither triples nor pairs")
    triples = wide[:, :cut].reshape(-1, 3)
    values = triples @ np.array([9, 3, 1])
    magnitudes = np.abs(values).astype(np.uint8)
    padded = np.concatenate([magnitudes, np.zeros(magnitudes.size % 2, np.uint8)])
    pairs = wide[:, cut:].reshape(-1, 2)
    index = (3 * pairs[:, 0] + pairs[:, 1] + 4).astype(np.uint8)
    index = np.concatenate([index, np.full(index.size % 2, 4, np.uint8)])
    return TripleTable((rows, columns), _nibbles(padded), np.packbits(values < 0), _nibbles(index))


def unpack_tl2(table: TripleTable) -> np.ndarray:
    rows, columns = table.shape
    cut = _triples(columns)
    many = rows * cut // 3
    magnitudes = _from_nibbles(table.magnitudes)[:many].astype(np.int64)
    signs = np.unpackbits(table.signs)[:many].astype(bool)
    if (magnitudes > 13).any() or (signs & (magnitudes == 0)).any():
        raise _refuse("TL2 data has a magnitude above 13 or a negative zero")
    values = np.where(signs, -magnitudes, magnitudes) + 13
    triples = np.stack([values // 9, values // 3 % 3, values % 3], axis=1) - 1
    result = np.empty((rows, columns), np.int8)
    result[:, :cut] = triples.reshape(rows, cut)
    pairs = _from_nibbles(table.tail)[: rows * (columns - cut) // 2]
    if (pairs > 8).any():
        raise _refuse("TL2 data has a pair index above 8")
    codes = np.stack([pairs // 3, pairs % 3], axis=1).astype(np.int8) - 1
    result[:, cut:] = codes.reshape(rows, columns - cut)
    return result


# -- blocks of 256 ----------------------------------------------------------------------------


def _scales(values: np.ndarray | None, blocks: int) -> np.ndarray:
    scales = np.ones(blocks, np.float16) if values is None else np.asarray(values, np.float16)
    if scales.shape != (blocks,):
        raise _refuse(f"{blocks} blocks have {blocks} scales, not {scales.shape}")
    return scales.view(np.uint8).reshape(blocks, 2)


def pack_tq2_0(weights: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
    """64 bytes and an f16 scale: byte 32h + p holds elements 128h + p + 32i at bits 2i."""
    codes = _codes(weights).reshape(-1)
    _whole(codes.size, BLOCK, "TQ2_0")
    parts = codes.reshape(-1, 2, 4, 32)
    data = _bytes_of(parts.transpose(2, 0, 1, 3), SHIFTS_UP)
    return np.concatenate([data.reshape(-1, 64), _scales(scales, len(parts))], axis=1)


def unpack_tq2_0(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = _crumbs(data[:, :64].reshape(-1, 2, 32), SHIFTS_UP).transpose(1, 2, 0, 3)
    scales = np.ascontiguousarray(data[:, 64:]).view(np.float16).reshape(-1)
    return _weights(codes.reshape(-1), "TQ2_0"), scales


def _trit_byte(codes: np.ndarray) -> np.ndarray:
    """Five codes (last axis), the first most significant, as a byte that multiplies back."""
    q = codes.astype(np.int64) @ np.array([81, 27, 9, 3, 1])
    return ((q * 256 + 242) // 243).astype(np.uint8)


def _trits(data: np.ndarray, many: int, name: str) -> np.ndarray:
    """Codes of trit bytes; a byte that packs nothing is refused."""
    wide = data.astype(np.int64)
    digits = np.stack([(wide * 3**i % 256) * 3 >> 8 for i in range(5)], axis=-1)
    if many < 5 and (digits[..., many:] != 0).any():
        raise _refuse(f"{name} data has a byte with too many trits")
    if (_trit_byte(digits) != data).any():
        raise _refuse(f"{name} data has a byte that packs no trits")
    return digits[..., :many].astype(np.uint8)


def pack_tq1_0(weights: np.ndarray, scales: np.ndarray | None = None) -> np.ndarray:
    """54 bytes: 48 of five trits, 4 of four, an f16 scale."""
    codes = _codes(weights).reshape(-1)
    _whole(codes.size, BLOCK, "TQ1_0")
    blocks = codes.reshape(-1, BLOCK)
    first = blocks[:, :160].reshape(-1, 5, 32).transpose(0, 2, 1)
    second = blocks[:, 160:240].reshape(-1, 5, 16).transpose(0, 2, 1)
    tail = blocks[:, 240:].reshape(-1, 4, 4).transpose(0, 2, 1)
    tail = np.concatenate([tail, np.zeros((*tail.shape[:2], 1), np.uint8)], axis=2)
    parts = [_trit_byte(part) for part in (first, second, tail)]
    return np.concatenate([*parts, _scales(scales, len(blocks))], axis=1)


def unpack_tq1_0(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first = _trits(data[:, :32], 5, "TQ1_0").transpose(0, 2, 1).reshape(-1, 160)
    second = _trits(data[:, 32:48], 5, "TQ1_0").transpose(0, 2, 1).reshape(-1, 80)
    tail = _trits(data[:, 48:52], 4, "TQ1_0").transpose(0, 2, 1).reshape(-1, 16)
    scales = np.ascontiguousarray(data[:, 52:]).view(np.float16).reshape(-1)
    codes = np.concatenate([first, second, tail], axis=1).reshape(-1)
    return _weights(codes, "TQ1_0"), scales


def pack_trits(weights: np.ndarray) -> np.ndarray:
    """Five per byte without blocks; the tail is filled up with zero weights."""
    codes = _codes(weights).reshape(-1)
    codes = np.concatenate([codes, np.ones(-codes.size % 5, np.uint8)])
    return _trit_byte(codes.reshape(-1, 5))


def unpack_trits(data: np.ndarray, count: int) -> np.ndarray:
    return _weights(_trits(data.reshape(-1), 5, "5-trit").reshape(-1)[:count], "5-trit")


def _plain(unpack: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    return lambda data, weights: unpack(data).reshape(weights.shape)


# name -> (pack, unpack given the packed data and the original for its shape)
FORMATS: dict[str, tuple[Callable[..., object], Callable[..., np.ndarray]]] = {
    "hf": (pack_hf, _plain(unpack_hf)),
    "i2_s_x86": (pack_i2s, lambda d, w: unpack_i2s(d)[0].reshape(w.shape)),
    "i2_s_arm": (
        lambda w: pack_i2s(w, block=64),
        lambda d, w: unpack_i2s(d, block=64)[0].reshape(w.shape),
    ),
    "i2_s_rows": (pack_i2s_rows, _plain(unpack_i2s_rows)),
    "tl1": (pack_tl1, _plain(unpack_tl1)),
    "tl2": (pack_tl2, lambda d, w: unpack_tl2(d).reshape(w.shape)),
    "tq2_0": (pack_tq2_0, lambda d, w: unpack_tq2_0(d)[0].reshape(w.shape)),
    "tq1_0": (pack_tq1_0, lambda d, w: unpack_tq1_0(d)[0].reshape(w.shape)),
    "trits": (pack_trits, lambda d, w: unpack_trits(d, w.size).reshape(w.shape)),
    "lsb_first": (pack_lsb_first, _plain(unpack_lsb_first)),
}
