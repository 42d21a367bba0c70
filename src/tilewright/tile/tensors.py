"""Kernel parameters while a kernel runs: indexing gives tiles, assigning writes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError
from tilewright.tile.arrays import (
    ONE_COLUMN,
    ONE_ROW,
    Arithmetic,
    Cell,
    TileArray,
    as_number,
    as_tiles,
    casts,
    kept_in_memory,
    spread,
)
from tilewright.tile.blocks import Block, Single, shown, whole
from tilewright.tile.layouts import Layout
from tilewright.tile.types import TensorSpec

if TYPE_CHECKING:
    from tilewright.tile.backend import Backend

MOST_TILES = 1 << 15  # in one place of a program: all of them are looked at one by one


class UnknownSize(TilewrightError, AttributeError):
    """A size that a tensor does not have."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor in DRAM, or on chip, where it may change between two reads."""

    backend: Backend
    name: str
    spec: TensorSpec
    layout: Layout
    output: bool = False
    on_chip: bool = False
    complete: bool = False  # nothing writes it any more

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def dtype(self) -> str:
        return self.layout.dtype

    def __getattr__(self, name: str) -> int:
        sizes = object.__getattribute__(self, "spec").sizes
        if name in sizes:
            return self.shape[sizes.index(name)]
        if name.startswith("__"):
            raise AttributeError(name)
        known = ", ".join(str(s) for s in sizes if isinstance(s, str)) or "none"
        found = self.backend.error("TW1645", f"{self.name} has no size {name}", f"it has: {known}")
        raise UnknownSize(found.code, found.message, found.location, found.hint)

    def __repr__(self) -> str:
        return f"<{self.dtype} tensor {self.name} {'x'.join(map(str, self.shape))}>"

    # --- indices ------------------------------------------------------------------------

    @property
    def is_vector(self) -> bool:
        """Whether its tiles are rows: one number per column."""
        return self.layout.is_vector

    def _kind(self) -> str:
        if self.is_vector:
            return "row"
        return "column" if self.spec.sizes[-1] == 1 or self.layout.order == "halves" else "full"

    def _blocks(self, index: Any) -> tuple[list[Single], Block | None, Block]:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape):
            raise self.backend.error(
                "TW1607",
                f"{self.name} has {len(self.shape)} dimensions, {len(index)} indices given",
                f"index all of them: {self.name}[{', '.join([':'] * len(self.shape))}] is all of it",
            )
        count = 1 if self.is_vector else 2
        leading = [
            self._single(i, extent)
            for i, extent in zip(index[:-count], self.shape[:-count], strict=True)
        ]
        rows = None if self.is_vector else self._block(index[-2], self.shape[-2], rows=True)
        columns = self._block(index[-1], self.shape[-1])
        count = columns.tiles * (1 if rows is None else rows.tiles)
        if count > MOST_TILES:
            raise self.backend.error(
                "TW1607",
                f"{count:,} tiles of {self.name} at once, at most {MOST_TILES:,} are read or written",
                "loop over them with tw.grid or tw.steps",
            )
        return leading, rows, columns

    def _single(self, index: Any, extent: int) -> Single:
        if isinstance(index, int):
            index = Single(index % extent if -extent <= index < extent else index, (), index)
        if not isinstance(index, Single):
            raise self.backend.error(
                "TW1608",
                f"{shown(index)} does not index a leading dimension of {self.name}",
                "use a number or tw.each",
            )
        if not index.start >= 0 or index.last >= extent:
            raise self.backend.error(
                "TW1608", f"index {index.last} is outside a dimension of {extent} of {self.name}"
            )
        return index

    def _instead_of(self, index: Any, rows: bool) -> str:
        """What to write where an index is no block."""
        if self.is_vector or not isinstance(index, Single | int):
            return "use tw.grid, tw.steps or :"
        leading, (high, wide) = self.spec.sizes[:-2], [repr(size) for size in self.spec.sizes[-2:]]
        before = "".join(f"{size!r}, " for size in leading)
        if rows:
            shape, way = (
                f"[{before}{high}, {wide}].separate()",
                "whose rows are vectors of their own",
            )
        else:
            shape, way = f"[{before}{wide}, {high}, 1]", "whose columns are tensors of their own"
        return f"annotate it tw.value{shape.replace(chr(39), chr(34))}, {way}, or use tw.grid, tw.steps or :"

    def _block(self, index: Any, extent: int, rows: bool = False) -> Block:
        if isinstance(index, slice) and index == slice(None):
            return whole(extent, self.backend.side)
        if not isinstance(index, Block):
            raise self.backend.error(
                "TW1605",
                f"{shown(index)} does not index a tile dimension of {self.name}",
                self._instead_of(index, rows),
            )
        if index.shift is not None:
            return self._window(index, extent, rows)
        # A tensor on chip also serves for what is shorter, such as the last part of a dimension.
        if index.extent != extent and not (self.on_chip and index.extent <= extent):
            raise self.backend.error(
                "TW1604",
                f"a block of a dimension of {index.extent} indexes a dimension of {extent} "
                f"of {self.name}",
            )
        return index

    def _window(self, index: Block, extent: int, rows: bool) -> Block:
        """A block of another dimension, moved along the rows of this tensor."""
        shift, side = index.shift or 0, self.backend.side
        between = self.dtype == "fp8" and self.layout.order == "panels"
        if not rows or (shift % side and not between):
            raise self.backend.error(
                "TW1639",
                f"{self.name} cannot be {'written' if self.output else 'read'} between tiles",
                "only rows of fp8 tensors stored in panels can: tw.fp8[...].panels()",
            )
        end = index.start + index.tiles if not index.variables else -(-index.extent // side)
        last = end * side + shift
        if index.travel is not None:
            last = (index.start + index.tiles) * side + shift + index.factor * index.travel
        if index.start * side + shift < 0 or last > self.layout.padded[-2]:
            raise self.backend.error(
                "TW1604",
                f"a window up to element {last} leaves a dimension of {extent} of {self.name}",
                f"make it at least {last} long",
            )
        return index

    def _place(
        self, leading: list[Single], rows: Block | None, columns: Block, r: int, c: int
    ) -> list[Any]:
        """The element at which tile (r, c) starts: numbers, or Single for moving ones."""
        place: list[Any] = list(leading)
        for block, step in ((rows, r), (columns, c)):
            if block is not None:
                start = (block.start + step) * block.side + (block.shift or 0)
                terms = tuple((variable, block.factor) for variable in block.variables)
                place.append(Single(start, terms) if terms else start)
        return place

    # --- tiles --------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> TileArray:
        backend = self.backend
        if self.output and self.name not in backend.written:
            raise backend.error(
                "TW1629", f"{self.name} is read before it is written", "write all of it first"
            )
        leading, rows, columns = self._blocks(index)
        kind = self._kind()
        down = 1 if rows is None else rows.tiles

        def cell(r: int, c: int) -> Cell:
            place = self._place(leading, rows, columns, r, c)
            made = backend.lazily(lambda: backend.read(self, place, kind))
            made.in_memory = True
            return made

        tiles = TileArray(
            backend,
            [[cell(r, c) for c in range(columns.tiles)] for r in range(down)],
            self.dtype,
            [backend.side if rows is None else rows.valid(r) for r in range(down)],
            [backend.side]
            if kind == "column"
            else [columns.valid(c) for c in range(columns.tiles)],
            kind,
            blank=self._blank(rows),
        )
        # What can change later is fetched here, where the author reads it.
        if self.complete:
            return tiles
        if self.on_chip:
            for row in tiles.cells:
                for made in row:
                    backend.use(made)
            return tiles
        return kept_in_memory(tiles) if self.output else tiles

    def completed(self) -> Tensor:
        """The tensor from when on nothing writes it any more: tiles are read where they are needed,
        also when it is on chip."""
        return replace(self, complete=True)

    def _blank(self, rows: Block | None) -> tuple[bool, bool]:
        """Where tiles of the tensor are zero beyond its edges: what comes from outside is, what the
        kernel wrote itself may not be; a window between tiles ends anywhere."""
        ours = self.output or self.on_chip
        return not ours and (rows is None or rows.shift is None), not ours

    def __setitem__(self, index: Any, value: Any) -> None:
        backend = self.backend
        if not self.output:
            raise backend.error(
                "TW1630",
                f"{self.name} is an input and cannot be assigned",
                "outputs are the parameters named out or out_…, or else the last one",
            )
        if self.complete:
            raise backend.error(
                "TW1630",
                f"{self.name} is complete and cannot be assigned",
                "write all of it before completed()",
            )
        leading, rows, columns = self._blocks(index)
        backend.written.add(self.name)
        if isinstance(value, (int, float)):
            value = self._filled(rows, columns, as_number(value))
        if not isinstance(value, Arithmetic):
            raise backend.error("TW1616", f"a tile is needed here, not {value!r}")
        value = as_tiles(value)
        if value.dtype != self.dtype:
            raise backend.error(
                "TW1609",
                f"{self.name} holds {self.dtype}, the tile is {value.dtype}",
                f"use {casts(self.dtype)}",
            )
        self._check_shape(value, rows, columns)
        kind = "row" if self.is_vector else "full"
        down = 1 if rows is None else rows.tiles
        if self.layout.order == "halves":
            kind = "half"
            value = spread(value, down, 1, kind)
        elif value.kind != kind and self._kind() == "full":
            value = spread(value, down, columns.tiles)
        elif value.kind == "number":
            value = spread(value, down, columns.tiles, self._kind())
        # Column by column, as products are computed.
        for c in range(columns.tiles):
            for r in range(down):
                place = self._place(leading, rows, columns, r, c)
                backend.write(self, place, kind, backend.use(value.cell(r, c)))

    def _filled(self, rows: Block | None, columns: Block, number: float) -> TileArray:
        """Tiles of one number for a block."""
        kind = "row" if self.is_vector else "full"
        launch = self.backend.launcher("fill", self.dtype, kind, value=number)
        valid = [self.backend.side] if rows is None else [rows.valid(r) for r in range(rows.tiles)]
        across = [columns.valid(c) for c in range(columns.tiles)]
        cells = [[self.backend.lazily(launch) for _ in across] for _ in valid]
        return TileArray(self.backend, cells, self.dtype, valid, across, kind)

    def _check_shape(self, value: TileArray, rows: Block | None, columns: Block) -> None:
        wanted = 1 if rows is None else rows.size, columns.size
        if self.layout.order == "halves" and value.kind not in ONE_COLUMN:
            raise self.backend.error(
                "TW1642",
                f"{self.name} keeps one number per row, a tile of {value.text} has more",
                "reduce its rows first: tw.row_sum, tw.row_max",
            )
        fits = value.shape[1] == wanted[1] or value.kind in ONE_COLUMN
        fits = fits and (value.shape[0] == wanted[0] or value.kind in ONE_ROW)
        if not fits or (rows is None and value.kind not in ONE_ROW):
            raise self.backend.error(
                "TW1642",
                f"a tile of {value.text} does not fill {wanted[0]}x{wanted[1]} of {self.name}",
            )
