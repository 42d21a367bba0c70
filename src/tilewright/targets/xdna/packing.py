"""On-chip layouts of packed weights: crumb-nibble (2 bits) and signed nibbles (4 bits).

Crumb-nibble: for each group of 16 columns j and each step i of 8 rows, 64 nibbles; nibble
8 * row + t holds the code of the left-hand column t in its low crumb and that of the right-hand
column t + 8 in its high one. A load that unpacks nibbles to bytes gives both halves in one
register: masked with 0x03 it is the left block, masked with 0x0C four times the right one.
"""

from __future__ import annotations

import numpy as np

from tilewright.errors import TilewrightError

ROWS, HALF = 8, 8


def _blocks(tile: np.ndarray) -> np.ndarray:
    """k x n as [16-column group, 8-row step, row, half, column]."""
    k, n = tile.shape
    if k % ROWS or n % (2 * HALF):
        raise TilewrightError(
            "TW8050",
            f"a {k}x{n} tile cannot be packed: rows come in {ROWS}s, columns in {2 * HALF}s",
            hint=f"nearest legal: {-(-k // ROWS) * ROWS}x{-(-n // (2 * HALF)) * 2 * HALF}",
        )
    return tile.reshape(k // ROWS, ROWS, n // (2 * HALF), 2, HALF).transpose(2, 0, 1, 3, 4)


def _join(nibbles: np.ndarray, low_first: bool) -> np.ndarray:
    """Pairs of nibbles to bytes."""
    pairs = nibbles.reshape(-1, 2).astype(np.uint8)
    low, high = (0, 1) if low_first else (1, 0)
    return (pairs[:, low] | pairs[:, high] << 4).astype(np.uint8)


def nibbles_of(data: np.ndarray, low_first: bool = True) -> np.ndarray:
    """Bytes to nibbles, what the unpacking load does."""
    data = data.view(np.uint8)
    parts = [data & 15, data >> 4]
    return np.stack(parts if low_first else parts[::-1], axis=-1).reshape(*data.shape[:-1], -1)


def pack_ternary(tile: np.ndarray, low_first: bool = True) -> np.ndarray:
    """A k x n tile of -1, 0, 1 as k * n / 4 bytes."""
    if tile.shape[0] % (2 * ROWS):
        raise TilewrightError(
            "TW8050",
            f"a packed ternary tile has k in multiples of {2 * ROWS}, not {tile.shape[0]}",
            hint=f"nearest legal: {-(-tile.shape[0] // (2 * ROWS)) * 2 * ROWS}",
        )
    wide = tile.astype(np.int64)
    if wide.size and (wide.min() < -1 or wide.max() > 1):
        raise TilewrightError("TW8051", "ternary weights are -1, 0 and 1")
    codes = _blocks((wide + 1).astype(np.uint8))
    return _join(codes[..., 0, :] | codes[..., 1, :] << 2, low_first)


def check_crumbs(data: np.ndarray) -> None:
    """Codes above 2 mean nothing; a tile that has one is refused."""
    data = data.view(np.uint8)
    bad = (data & data >> 1 & 0x55) != 0
    if bad.any():
        raise TilewrightError(
            "TW8051", f"byte {int(np.argmax(bad.reshape(-1)))} of packed weights has the code 3"
        )


def unpack_ternary(data: np.ndarray, k: int, n: int, low_first: bool = True) -> np.ndarray:
    """The tile of packed bytes; codes of 3 are refused."""
    check_crumbs(data)
    x = nibbles_of(data.reshape(-1), low_first).reshape(n // 16, k // ROWS, ROWS, HALF)
    both = np.stack([x & 3, x >> 2], axis=3).astype(np.int8) - 1
    return both.transpose(1, 2, 0, 3, 4).reshape(k, n)


def pack_int4(tile: np.ndarray, low_first: bool = True) -> np.ndarray:
    """A k x n tile of -8..7: per step the left block, then the right one, a nibble per weight."""
    wide = tile.astype(np.int64)
    if wide.size and (wide.min() < -8 or wide.max() > 7):
        raise TilewrightError("TW8051", "four-bit weights are -8 to 7")
    blocks = _blocks((wide & 15).astype(np.uint8)).transpose(0, 1, 3, 2, 4)
    return _join(np.ascontiguousarray(blocks), low_first)


def unpack_int4(data: np.ndarray, k: int, n: int, low_first: bool = True) -> np.ndarray:
    x = nibbles_of(data.reshape(-1), low_first).astype(np.int8)
    signed = np.where(x > 7, x - 16, x).astype(np.int8)
    blocks = signed.reshape(n // 16, k // ROWS, 2, ROWS, HALF)
    return blocks.transpose(1, 3, 0, 2, 4).reshape(k, n)
