"""How tensors lie in DRAM: whole 32x32 tiles, one after the other.

fp8 tiles are 1024 bytes, row by row. bf16 tiles are 2048 bytes: the left 32x16 half, then the
right. Tiles follow each other in row-major tile order (`tiles`), or column panel by column
panel (`panels`, for matrices whose columns are streamed). Results with one number per row may
be kept as left halves only (`halves`, 16 equal columns). Edges are padded with zeros; leading
dimensions come outermost. A vector is one row, padded to 32 rows when it is read as a tile; in
the order `rows` every row of a tensor is such a vector.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference import arithmetic as arith
from tilewright.reference.rounding import fp8_codes

if TYPE_CHECKING:
    from tilewright.tile.types import Arrangement

SIDE = 32
TILE_BYTES = {"fp8": 1024, "bf16": 2048}
NUMPY = {"fp8": ml_dtypes.float8_e4m3fn, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Layout:
    """Where each tile of a tensor is."""

    shape: tuple[int, ...]
    dtype: str
    order: str = "tiles"  # or "panels", "rows", "halves"
    arrangement: Arrangement | None = None
    side: int = SIDE  # of a tile; bytes are laid out for tiles of 32 only

    @property
    def given(self) -> tuple[int, ...]:
        """The shape of the arrays it is packed from and unpacked to."""
        return self.shape if self.arrangement is None else self.arrangement.shape

    def arranged(self, array: np.ndarray) -> np.ndarray:
        """Bit patterns of an array, in the shape of the tensor."""
        codes = to_codes(array, self.dtype)
        if self.arrangement is not None and codes.shape == self.arrangement.shape:
            return self.arrangement.arranged(codes)
        return codes

    def restored(self, codes: np.ndarray) -> np.ndarray:
        """The array, in the shape in which it is given."""
        return codes if self.arrangement is None else self.arrangement.restored(codes)

    @property
    def is_vector(self) -> bool:
        return len(self.shape) == 1 or self.order == "rows"

    @property
    def matrix(self) -> tuple[int, int]:
        return (1, self.shape[-1]) if self.is_vector else (self.shape[-2], self.shape[-1])

    @property
    def leading(self) -> tuple[int, ...]:
        return self.shape[:-1] if self.is_vector else self.shape[:-2]

    @property
    def padded(self) -> tuple[int, ...]:
        """The shape with its tile dimensions grown to whole tiles."""
        down, across = self.grid
        tail = (across * self.side,) if self.is_vector else (down * self.side, across * self.side)
        if self.order == "halves":
            tail = (down * self.side, self.side // 2)
        return (*self.leading, *tail)

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        rows, columns = self.matrix
        return -(-rows // self.side), -(-columns // self.side)

    @property
    def tile_bytes(self) -> int:
        return 1024 if self.order == "halves" else TILE_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        down, across = self.grid
        return int(np.prod(self.leading, dtype=np.int64)) * down * across * self.tile_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one index to the next: leading dimensions, tile rows, tile columns."""
        down, across = self.grid
        step = self.tile_bytes
        last = (step, down * step) if self.order == "panels" else (across * step, step)
        result: list[int] = []
        size = down * across * step
        for extent in reversed(self.leading):
            result.insert(0, size)
            size *= extent
        return (*result, *last)

    def pack(self, array: np.ndarray) -> bytes:
        """The DRAM bytes of an array of this shape (or of the shape it is given in)."""
        codes = self.arranged(array)
        if tuple(codes.shape) != self.shape:
            raise ValueError(f"expected shape {self.given}, got {tuple(array.shape)}")
        rows, columns = self.matrix
        down, across = self.grid
        padded = np.zeros((*self.leading, down * SIDE, across * SIDE), codes.dtype)
        padded[..., :rows, :columns] = codes.reshape(*self.leading, rows, columns)
        tiles = padded.reshape(-1, down, SIDE, across, SIDE).swapaxes(2, 3)
        if self.order == "halves":
            return np.ascontiguousarray(tiles[..., : SIDE // 2], "<u2").tobytes()
        if self.order == "panels":
            tiles = tiles.swapaxes(1, 2)
        if self.dtype == "bf16":
            tiles = tiles.reshape(*tiles.shape[:4], 2, SIDE // 2).swapaxes(3, 4)
            return np.ascontiguousarray(tiles, "<u2").tobytes()
        return np.ascontiguousarray(tiles).tobytes()

    def unpack(self, raw: bytes) -> np.ndarray:
        """The array in the shape it is given in, as ml_dtypes numbers."""
        if self.arrangement is not None:
            stored = replace(self, arrangement=None).unpack(raw)
            return np.ascontiguousarray(self.restored(stored))
        down, across = self.grid
        first, second = (across, down) if self.order == "panels" else (down, across)
        if self.order == "halves":
            halves = np.frombuffer(raw, "<u2").reshape(-1, down * SIDE, SIDE // 2)
            rows, columns = self.matrix
            codes = np.ascontiguousarray(halves[..., :rows, :columns]).reshape(self.shape)
            return codes.view(NUMPY[self.dtype])
        if self.dtype == "bf16":
            tiles = np.frombuffer(raw, "<u2").reshape(-1, first, second, 2, SIDE, SIDE // 2)
            tiles = tiles.swapaxes(3, 4).reshape(-1, first, second, SIDE, SIDE)
        else:
            tiles = np.frombuffer(raw, np.uint8).reshape(-1, first, second, SIDE, SIDE)
        if self.order == "panels":
            tiles = tiles.swapaxes(1, 2)
        rows, columns = self.matrix
        whole = tiles.swapaxes(2, 3).reshape(*self.leading, down * SIDE, across * SIDE)
        codes = np.ascontiguousarray(whole[..., :rows, :columns]).reshape(self.shape)
        return codes.view(NUMPY[self.dtype])


def to_codes(array: np.ndarray, dtype: str) -> np.ndarray:
    """Bit patterns of an array: already in the format, or rounded to it (fp8 saturates)."""
    array = np.asarray(array)
    if dtype == "bf16":
        if array.dtype == ml_dtypes.bfloat16:
            return array.view(np.uint16)
        if array.dtype == np.uint16:
            return array
        return arith.f64_to_bf16(_numbers(array))
    if array.dtype == ml_dtypes.float8_e4m3fn:
        return array.view(np.uint8)
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.float32 and array.size > _SMALL:
        return fp8_codes(array)
    clipped = np.clip(_numbers(array), -arith.FP8_MAX, arith.FP8_MAX)
    return clipped.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)


def held_codes(array: np.ndarray, dtype: str) -> np.ndarray:
    """The same, where what is finite stays finite: bf16 ends a little before float32 does."""
    codes = to_codes(array, dtype)
    if dtype != "bf16" or array.dtype == np.uint16:
        return codes
    beyond = (codes & 0x7FFF) == _INFINITY
    if beyond.any():
        beyond &= np.isfinite(array)
        codes = np.where(beyond, codes - np.uint16(1), codes)  # the largest of its sign
    return codes


_INFINITY = 0x7F80  # its bits in bf16
_SMALL = 4096  # elements up to which a table, where it is needed, is not worth making


def _numbers(array: np.ndarray) -> np.ndarray:
    """The array in float64."""
    try:
        if array.dtype.kind == "c":
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError):
        raise TilewrightError(
            "TW1649", f"an array of {array.dtype} holds no real numbers"
        ) from None
