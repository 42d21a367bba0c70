"""Pieces of a bundle that are computed from others when it is loaded.

A tied head is the table of embeddings again: turned, over one scale per token, in fp8 and in tiles.
The table and the scales are in the bundle anyway, so the head is not; what is computed from them has
to have the digest that names it, bit for bit.

    head = fp8(table [rows, columns] turned / (scales * 2^power)), in tiles or panels of tiles

`find` looks for such pieces by their content alone, and takes only what it gets back exactly; it
knows layouts, and no machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.json_tables import Table
from tilewright.tile.layouts import SIDE, Layout, to_codes

SMALLEST = 1 << 16  # bytes; smaller pieces are not worth it
TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
ORDERS = ("panels", "tiles")
POWERS = range(-64, 65)
ROWS = 64 * SIDE  # of a table, worked on at a time


@dataclass(frozen=True)
class Derived:
    """How a piece comes from a table and its scales, both named by their digests."""

    table: str
    shape: tuple[int, int]
    dtype: str
    scales: str
    power: int
    order: str

    @property
    def sources(self) -> tuple[str, str]:
        return self.table, self.scales

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table, "shape": list(self.shape), "dtype": self.dtype,
            "scales": self.scales, "power": self.power, "order": self.order,
        }  # fmt: skip

    def computed(self, store: Mapping[str, np.ndarray], place: Location) -> np.ndarray:
        """The bytes of the piece."""
        rows, columns = self.shape
        table, scales = store[self.table], store[self.scales]
        wanted = rows * columns * np.dtype(TYPES[self.dtype]).itemsize
        for what, raw, size in (
            ("table", table, wanted),
            ("scales", scales, _scale_layout(rows).bytes),
        ):
            if raw.nbytes != size:
                raise TilewrightError(
                    "TW3105",
                    f"a piece is derived from {what} of {raw.nbytes} bytes, "
                    f"{rows}x{columns} need {size}",
                    place,
                )
        numbers = table.view(TYPES[self.dtype]).reshape(rows, columns)
        return turned(numbers, scales_of(scales, rows), self.power, self.order)


def read_derived(table: Table) -> Derived:
    """A recipe from a manifest."""
    shape = table.shape(1)
    if len(shape) != 2:
        raise table.bad("is of no table")
    result = Derived(
        table.text("table"),
        shape,
        table.choice("dtype", tuple(TYPES)),
        table.text("scales"),
        table.integer("power", min(POWERS), max(POWERS)),
        table.choice("order", ORDERS),
    )
    table.done()
    return result


def turned(table: np.ndarray, scales: np.ndarray, power: int, order: str) -> np.ndarray:
    """The bytes of the turned table over its scales."""
    rows, columns = table.shape
    step = ROWS if order == "panels" else rows  # panels of tiles follow each other
    over = np.ldexp(scales, power).astype(np.float32)
    parts = []
    for first in range(0, rows, step):
        some = slice(first, min(first + step, rows))
        with np.errstate(all="ignore"):
            numbers = np.asarray(table[some], np.float32).T / over[some]
        codes = to_codes(np.ascontiguousarray(numbers), "fp8")
        packed = Layout((columns, some.stop - first), "fp8", order).pack(codes)
        parts.append(np.frombuffer(packed, np.uint8))
    return np.concatenate(parts)


def _scale_layout(rows: int) -> Layout:
    return Layout((rows,), "bf16")


def scales_of(raw: np.ndarray, rows: int) -> np.ndarray:
    """One float32 number per row."""
    return _scale_layout(rows).unpack(raw.tobytes()).astype(np.float32)


# --- finding them -----------------------------------------------------------------------


def find(pieces: Iterable[tuple[str, np.ndarray]]) -> dict[str, Derived]:
    """The pieces that others give, among all of them with their digests."""
    every = dict(pieces)
    kinds = {np.dtype(kind): name for name, kind in TYPES.items()}
    tables = {m: x for m, x in every.items() if x.ndim == 2 and x.dtype in kinds and x.size}
    bytes_ = {m: x for m, x in every.items() if x.dtype == np.uint8 and x.ndim == 1}
    found: dict[str, Derived] = {}
    for mark, table in tables.items():
        rows, columns = table.shape
        for other, piece in bytes_.items():
            if piece.nbytes < SMALLEST or piece.nbytes != Layout((columns, rows), "fp8").bytes:
                continue
            for scales, raw in bytes_.items():
                if scales == other or raw.nbytes != _scale_layout(rows).bytes:
                    continue
                for order, power in _candidates(table, scales_of(raw, rows), piece):
                    made = turned(table, scales_of(raw, rows), power, order)
                    if other not in found and np.array_equal(made, piece):
                        kind = kinds[table.dtype]
                        found[other] = Derived(mark, (rows, columns), kind, scales, power, order)
    sources = {source for one in found.values() for source in one.sources}
    return {mark: one for mark, one in found.items() if mark not in sources}


def _candidates(
    table: np.ndarray, scales: np.ndarray, piece: np.ndarray
) -> Iterator[tuple[str, int]]:
    """Orders and powers by which one telling row, that of the largest number, comes out right."""
    rows, columns = table.shape
    telling = [
        np.nan_to_num(np.abs(np.asarray(table[at : at + ROWS], np.float32)), posinf=0.0).max(1)
        for at in range(0, rows, ROWS)
    ]
    row = int(np.argmax(np.concatenate(telling)))
    numbers = np.asarray(table[row], np.float32)
    for order in ORDERS:
        down, across = Layout((columns, rows), "fp8").grid
        grid = (across, down) if order == "panels" else (down, across)
        tiles = piece.reshape(*grid, SIDE, SIDE)
        column = tiles[row // SIDE] if order == "panels" else tiles[:, row // SIDE]
        codes = column[..., row % SIDE].reshape(-1)[:columns]
        for power in POWERS:
            with np.errstate(all="ignore"):
                over = np.ldexp(scales[row], power).astype(np.float32)
                if np.array_equal(to_codes(numbers / over, "fp8"), codes):
                    yield order, power
                    break
