"""Masks: causal, and choosing between tiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.tile.arrays import (
    HUGE,
    Cell,
    Operand,
    TileArray,
    as_tiles,
    binary,
    flag,
    kept_in_memory,
)
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block, Single
from tilewright.tile.formats import STAND_IN
from tilewright.tile.products import Product, chain

LONGEST = 1 << 24  # rows and columns of a causal mask
LOWEST = STAND_IN["bf16"]


def where(condition: Operand, a: Operand, b: Operand) -> TileArray:
    """a where the condition is 1 and b where it is 0, for finite a and b.

    A condition is a bf16 tensor; a numpy array of booleans given for it becomes zeros and ones.
    """
    chosen = as_tiles(condition)
    kept = binary("elementwise_mul", a, chosen)
    rest = binary("elementwise_sub", 1.0, chosen)
    return binary("elementwise_add", kept, binary("elementwise_mul", b, rest))


def keep(
    x: Operand,
    rows: np.ndarray,
    other: float = 0.0,
    *,
    nonnegative: bool = False,
    highest: float = np.inf,
    computed: bool = True,
) -> TileArray:
    """x in the rows where `rows` is true, and another number in the others (NaN stays NaN).

    rows: booleans, 32 for each tile down; a tile whose rows are all kept costs nothing.
    nonnegative: no number of x is negative and the other one is 0, which costs half as much.
    highest: larger numbers of a nonnegative x become this one, at no further cost.
    computed: the lower of two limits is computed from the upper one, else both are loaded.
    """
    tiles = as_tiles(x)
    backend = tiles.backend
    kept, kind = np.asarray(rows, bool), tiles.kind
    if kept.shape != (len(tiles.rows) * backend.side,) or tiles.kind == "row":
        raise backend.error(
            "TW1643", f"{kept.size} rows to keep of a tile of {tiles.text}", "32 for each tile down"
        )
    if (nonnegative and other != 0) or (highest != np.inf and not nonnegative):
        raise backend.error(
            "TW1643",
            f"rows that become {other:g} beside numbers up to {highest:g}",
            "only rows without negative numbers that become 0 have a highest one",
        )
    whole = tiles if highest == np.inf else binary("elementwise_min", tiles, highest)

    def made(cell: Cell, line: np.ndarray) -> Cell:
        def compute() -> Any:
            upper = _limit(backend, line, highest, other)
            smaller = backend.launcher("elementwise_min", backend.value, kind)
            if nonnegative:
                return smaller(backend.use(cell), upper)
            if other == 0 and computed:
                lower = backend.launcher("elementwise_neg", backend.value, "column")(upper)
            else:
                lower = _limit(backend, line, -np.inf, other)
            larger = backend.launcher("elementwise_max", backend.value, kind)
            # In this order what is not kept becomes +0, never -0: of equals the second one counts.
            return smaller(larger(backend.use(cell), lower), upper)

        return backend.lazily(compute)

    cells = []
    for r, row in enumerate(tiles.cells):
        line = kept[r * backend.side : r * backend.side + backend.side]
        cells.append(whole.cells[r] if line.all() else [made(cell, line) for cell in row])
    return TileArray(backend, cells, backend.value, tiles.rows, tiles.columns, tiles.kind)


def turned(x: Operand) -> TileArray:
    """The numbers of a column of one tile as a row; one that is NaN makes all of them NaN."""
    tiles = as_tiles(x)
    backend = tiles.backend
    if tiles.kind != "column" or len(tiles.rows) != 1:
        raise backend.error("TW1643", f"a tile of {tiles.text} is no column of a single tile")

    def compute() -> Any:
        value = backend.use(tiles.cells[0][0])
        for family, inner in (("elementwise_max", -np.inf), ("elementwise_min", np.inf)):
            name = f"diagonal_{'up' if inner > 0 else 'down'}"
            table = backend.constant_tensor(
                name, lambda inner=inner: np.where(np.eye(backend.side, dtype=bool), inner, 0.0)
            )
            limit = backend.read(table, [0, 0], "full")
            value = backend.launcher(family, backend.value, "full")(value, limit)
        return backend.launcher("reduction_sum", backend.value, "row", axes=(0,))(value)

    return TileArray(
        backend, [[backend.lazily(compute)]], backend.value, [backend.side], tiles.rows, "row"
    )


def _limit(backend: Any, line: np.ndarray, beyond: float, other: float) -> Any:
    """One number per row: `beyond` where the row is kept."""
    pattern = int("".join("01"[int(kept)] for kept in line), 2)
    name = f"keep_{pattern:08x}_{_text(beyond)}_{_text(other)}"
    limit = np.repeat(np.where(line, beyond, other)[:, None], backend.side // 2, axis=1)
    return backend.read(backend.constant_tensor(name, lambda: limit, "halves"), [0, 0], "column")


def _text(number: float) -> str:
    """A number as part of a name."""
    return repr(float(number)).replace("-", "m").replace(".", "p").replace("+", "")


def causal(
    scores: Operand,
    rows: Block,
    columns: Block,
    offset: int | None = None,
    infinite: bool = False,
) -> TileArray:
    """Scores with every column after its row lowered so far that exp gives 0.

    Row i sees columns up to i + offset; by default the last row sees the last column.
    infinite: lower them to minus infinity, which costs less; a row must see something then.
    """
    x = as_tiles(scores)
    backend = x.backend
    if not isinstance(rows, Block) or not isinstance(columns, Block):
        raise backend.error("TW1643", "causal takes the blocks that index rows and columns")
    if offset is not None and not isinstance(offset, int | np.integer):
        raise backend.error(
            "TW1643", f"causal takes the offset as a whole number, not {type(offset).__name__}"
        )
    flag("infinite", infinite)
    shift = columns.extent - rows.extent if offset is None else offset
    if x.grid != (rows.tiles, columns.tiles):
        raise backend.error(
            "TW1643", f"scores of {x.text} for blocks of {rows.size}x{columns.size}"
        )
    add = backend.launcher("elementwise_add", backend.value, "full")

    def made(r: int, c: int) -> Cell:
        place = _difference(rows, columns, r, c)
        if isinstance(place, int) and place + backend.side - 1 <= shift:
            return x.cells[r][c]  # everything is seen
        low = -np.inf if infinite else STAND_IN[backend.value]
        cell = backend.lazily(lambda: _mask(backend, rows, columns, place, shift, low))
        mask = TileArray(backend, [[cell]], backend.value, [backend.side], [backend.side])
        if infinite and x.grid == (1, 1) and isinstance(place, int):  # few tiles need a mask
            return hiding(scores, mask).cells[0][0]
        return backend.lazily(lambda: add(backend.use(x.cells[r][c]), backend.use(cell)))

    down, across = x.grid
    cells = [[made(r, c) for c in range(across)] for r in range(down)]
    return TileArray(backend, cells, backend.value, x.rows, x.columns)


def _difference(rows: Block, columns: Block, r: int, c: int) -> int | Single:
    """Column of a tile's first element minus its row, where both are known or as loops go."""
    start = (columns.start + c - rows.start - r) * rows.side
    # Loops that both follow leave their distance as it is.
    both = [v for v in columns.variables if any(v is w for w in rows.variables)]
    terms = [(v, 1) for v in columns.variables if not any(v is w for w in both)]
    terms += [(v, -1) for v in rows.variables if not any(v is w for w in both)]
    return Single(start, tuple(terms)) if terms else start


def _mask(
    backend: Any, rows: Block, columns: Block, place: int | Single, shift: int, low: float
) -> Any:
    """The tile to add: which columns of it are seen depends on column minus row only, so one
    strip of tiles serves all places."""
    side = backend.side
    last_row = -(-rows.extent // side) * side
    last_column = -(-columns.extent // side) * side
    if last_row + last_column > LONGEST:
        raise backend.error(
            "TW1643", f"a causal mask for {rows.extent:,} rows and {columns.extent:,} columns"
        )

    def strip() -> np.ndarray:
        row = np.arange(side)[:, None]
        column = np.arange(-last_row + side, last_column)[None, :]
        count = (last_row + last_column) // side - 1
        tiles = []
        for k in range(count):
            first = column[0, 0] + k * side
            seen = first + np.arange(side)[None, :] - row <= shift
            tiles.append(np.where(seen, 0.0, low))
        return np.concatenate(tiles, axis=1)

    name = f"causal_{rows.extent}_{columns.extent}_{shift}"
    tensor = backend.constant_tensor(name if np.isfinite(low) else f"{name}_infinite", strip)
    origin = last_row - side
    return backend.read(tensor, [0, place + origin], "full")


def beyond(extent: int) -> TileArray | None:
    """Minus infinities that hide the columns of a last tile beyond the edge, kept in VMEM; None
    where all tiles are whole."""
    backend = active()
    valid = extent % backend.side
    if not valid:
        return None
    cell = backend.lazily(lambda: backend.edge(valid, 0.0, -np.inf, axis=1))
    return kept_in_memory(
        TileArray(backend, [[cell]], backend.value, [backend.side], [backend.side])
    )


def hiding(scores: Operand, mask: TileArray) -> TileArray:
    """One tile of scores plus zeros where they count and minus infinities where not.

    The accumulator of a product starts as the mask where that spares the vector unit. First or
    last, a zero or an infinity leaves the same.
    """
    if isinstance(scores, Product) and mask.backend.machine.presets_accumulators:
        return chain([scores], mask).tiles()
    tiles = as_tiles(scores)
    mask = replace(mask, rows=tiles.rows, columns=tiles.columns)
    return binary("elementwise_add", tiles, mask)


def plus(x: Operand, number: float, beyond: float) -> TileArray:
    """A column plus a number, or plus another one in rows beyond the edge of the tensor."""
    tiles = as_tiles(x)
    backend = tiles.backend
    if tiles.kind != "column" or all(valid >= backend.side for valid in tiles.rows):
        return binary("elementwise_add", tiles, number)
    add = backend.launcher("elementwise_add", backend.value, "column")

    def made(cell: Cell, valid: int) -> Cell:
        kept = np.arange(backend.side) < valid
        return backend.lazily(lambda: add(backend.use(cell), _limit(backend, kept, number, beyond)))

    cells = [
        [made(cell, n) for cell in row] for row, n in zip(tiles.cells, tiles.rows, strict=True)
    ]
    return replace(tiles, cells=cells)


def beyond_edges(x: Operand, number: float) -> TileArray:
    """The tiles with a number in place of what lies beyond the edges of their tensor, unless that
    is NaN."""
    tiles = as_tiles(x)
    backend, kind = tiles.backend, tiles.kind
    least = backend.launcher("elementwise_min", backend.value, kind)
    most = backend.launcher("elementwise_max", backend.value, kind)

    def limit(axis: int, valid: int, inner: float) -> Any:
        if kind == "column":
            return _limit(backend, np.arange(backend.side) < valid, inner, number)
        return backend.edge(valid, inner, number, axis)

    def made(cell: Cell, edges: list[tuple[int, int]]) -> Cell:
        def compute() -> Any:
            value = backend.use(cell)
            for axis, valid in edges:
                value = least(value, limit(axis, valid, HUGE))
                value = most(value, limit(axis, valid, -HUGE))
            return value

        return backend.lazily(compute) if edges else cell

    def edges(r: int, c: int) -> list[tuple[int, int]]:
        rows = [] if kind == "row" else [(0, tiles.rows[r])]
        columns = [] if kind == "column" else [(1, tiles.columns[c])]
        return [(axis, valid) for axis, valid in rows + columns if valid < backend.side]

    down, across = tiles.grid
    cells = [[made(tiles.cells[r][c], edges(r, c)) for c in range(across)] for r in range(down)]
    return TileArray(backend, cells, backend.value, tiles.rows, tiles.columns, kind)
