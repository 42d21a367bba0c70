"""Macro tiles: grids of 32x32 tiles with operators, in the middle of a trace or an eager run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.tile.formats import LARGEST

if TYPE_CHECKING:
    from tilewright.tile.backend import Backend
    from tilewright.tile.products import Product

HUGE = float("inf")
CHOICES = (
    "use tw.maximum or tw.minimum; tw.where takes ones and zeros as its condition, such as a mask "
    "that is given"
)
ONE_ROW = ("row", "number")  # kinds with the same numbers in every row
ONE_COLUMN = ("column", "number")


@dataclass(eq=False)
class Cell:
    """One 32x32 tile: computed, or still to be computed where it was written."""

    value: Any = None
    compute: Callable[[], Any] | None = None
    scope: Any = None
    in_memory: bool = False  # a tile of a tensor


class Arithmetic:
    """The operators of everything that stands for a tile."""

    def __add__(self, other: Operand) -> TileArray:
        return binary("elementwise_add", self, other)

    def __radd__(self, other: Operand) -> TileArray:
        return binary("elementwise_add", other, self)

    def __sub__(self, other: Operand) -> TileArray:
        return binary("elementwise_sub", self, other)

    def __rsub__(self, other: Operand) -> TileArray:
        return binary("elementwise_sub", other, self)

    def __mul__(self, other: Operand) -> TileArray:
        return binary("elementwise_mul", self, other)

    def __rmul__(self, other: Operand) -> TileArray:
        return binary("elementwise_mul", other, self)

    def __truediv__(self, other: Operand) -> TileArray:
        return binary("elementwise_div", self, other)

    def __rtruediv__(self, other: Operand) -> TileArray:
        return binary("elementwise_div", other, self)

    def __neg__(self) -> TileArray:
        return unary("elementwise_neg", self)

    def __pos__(self) -> TileArray:
        return as_tiles(self)

    def __abs__(self) -> TileArray:
        return unary("elementwise_abs", self)

    def __pow__(self, power: Any) -> TileArray:
        if isinstance(power, int | float) and power in (2, 3):
            return unary("elementwise_square" if power == 2 else "elementwise_cube", self)
        raise _no_way(
            f"a tile to the power {power}", "powers are 2 and 3; or tw.exp(tw.log(x) * p)"
        )

    # What Python would do here is not what an author means: tiles have no single truth or order.

    def __bool__(self) -> bool:
        raise _no_way("a tile as a condition", CHOICES)

    def __lt__(self, other: Any) -> TileArray:
        raise _no_way("a comparison of tiles", CHOICES)

    __gt__ = __le__ = __ge__ = __lt__
    __eq__ = __ne__ = __lt__  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __iter__(self) -> Any:
        raise _no_way("a loop over a tile", "loop over blocks: for m in tw.grid(...)")

    def __float__(self) -> float:
        raise _no_way("a tile as one number", "tw.row_sum and tw.col_sum give tiles again")

    __int__ = __index__ = __float__  # type: ignore[assignment]

    def __floordiv__(self, other: Any) -> TileArray:
        raise _no_way("// and % of tiles", "use /")

    __mod__ = __rfloordiv__ = __rmod__ = __floordiv__

    def __matmul__(self, other: Any) -> Product:
        from tilewright.tile.products import Product

        return Product(as_tiles(self), as_tiles(other))

    @property
    def T(self) -> TileArray:
        """The transpose of fp8 tiles."""
        return transpose(self)

    def tiles(self) -> TileArray:
        """The tiles this stands for."""
        raise AssertionError


@dataclass(eq=False)
class TileArray(Arithmetic):
    """A macro tile.

    kind: "full", or "column" (one number per row, in all columns of a single tile), or "row"
    (one number per column, in all rows of a single tile), or "number" (all of a tile is one).
    blank: whether what lies beyond the last row, and beyond the last column, is known to be zero.
    """

    backend: Backend
    cells: list[list[Cell]]
    dtype: str
    rows: list[int]  # valid rows of each row of tiles
    columns: list[int]  # valid columns of each column of tiles
    kind: str = "full"
    used_in: set[int] = field(default_factory=set)  # loops whose body works with it
    blank: tuple[bool, bool] = (False, False)

    def tiles(self) -> TileArray:
        self.used_in.update(self.backend.open_loops())
        return self

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles down and across."""
        return len(self.cells), len(self.cells[0])

    @property
    def shape(self) -> tuple[int, int]:
        return (
            1 if self.kind in ONE_ROW else sum(self.rows),
            1 if self.kind in ONE_COLUMN else sum(self.columns),
        )

    @property
    def text(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]}"

    def numpy(self) -> np.ndarray:
        """The numbers, in an eager run."""
        return self.backend.numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.numpy().astype(dtype or np.float32)

    def __repr__(self) -> str:
        name = "" if self.kind == "full" else f" {self.kind}"
        text = f"{self.dtype} tile {self.text}{name}"
        shown = self.backend.shown(self)
        return f"<{text}>" if shown is None else f"<{text}\n{shown}>"

    def cell(self, r: int, c: int) -> Cell:
        """The tile at a place of a grid that this one is spread over."""
        return self.cells[0 if self.kind in ONE_ROW else r][0 if self.kind in ONE_COLUMN else c]


Operand = Arithmetic | float | int
# Families that make zero of zero, of two zeros, and of a zero and anything finite.
KEEPS_ZERO = frozenset(
    ["requant", "dequant", "cast", "silu", "gelu_tanh"]
    + [f"elementwise_{name}" for name in ("relu", "tanh", "sin", "sqrt", "abs", "neg")]
    + ["elementwise_square", "elementwise_cube"]
)
ZERO_OF_BOTH = frozenset(
    ("elementwise_add", "elementwise_sub", "elementwise_max", "elementwise_min")
)
ZERO_OF_ONE = "elementwise_mul"


def _no_way(what: str, hint: str) -> Exception:
    from tilewright.tile.backend import active

    return active().error("TW1648", f"{what} is not possible", hint)


def as_tiles(value: Any) -> TileArray:
    from tilewright.tile.backend import active

    if isinstance(value, Arithmetic):
        return value.tiles()
    kind = "a number" if isinstance(value, (int, float)) else type(value).__name__
    if value is None:
        kind = "None"
    from tilewright.tile.tensors import Tensor

    hint = None
    if isinstance(value, Tensor):
        kind = f"the tensor {value.name}"
        hint = f"{value.name}[{', '.join(':' * len(value.shape))}], or some blocks of it, is a tile"
    raise active().error("TW1616", f"a tile is needed here, not {kind}", hint)


def _as_operand(value: Any) -> TileArray | float:
    number = getattr(value, "number", None)  # a state that still is a number
    if number is not None:
        return number
    if isinstance(value, (int, float, np.integer, np.floating)):
        return as_number(value)
    return as_tiles(value)


def as_number(value: Any) -> float:
    """A number that tiles can hold."""
    from tilewright.tile.backend import active

    backend = active()
    if not isinstance(value, int | float | np.integer | np.floating):
        raise backend.error("TW1616", f"a number is needed here, not {type(value).__name__}")
    limit, text = LARGEST[backend.value]
    if limit <= abs(value) < HUGE:
        # Integers of Python may have more digits than it prints.
        shown: Any = value
        if isinstance(value, int) and abs(value) >= 1 << 128:
            shown = f"an integer of {value.bit_length()} bits"
        raise backend.error(
            "TW1616", f"{shown} is beyond the largest {backend.value} number, {text}"
        )
    return float(value)


def flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        from tilewright.tile.backend import active

        raise active().error("TW1616", f"{name} is True or False, not {type(value).__name__}")


def casts(dtype: str) -> str:
    """The function that makes tiles of a format."""
    known = {"bf16": "tw.to_bf16", "fp8": "tw.to_fp8", "f16": "tw.to_value"}
    return known.get(dtype, "tw.to_operand")


def _want(x: TileArray, dtype: str) -> None:
    if x.dtype != dtype:
        cast = casts(dtype)
        raise x.backend.error(
            "TW1617", f"this operation takes {dtype} tiles, not {x.dtype}", f"use {cast} first"
        )


def unary(family: str, x: Any, **attributes: Any) -> TileArray:
    """A function of each element (or a cast)."""
    x = as_tiles(x)
    backend = x.backend
    _want(x, backend.value if family != "dequant" else _operand_of(x))
    dtype = backend.operand if family == "requant" else backend.value
    launch = backend.launcher(family, dtype, x.kind, **attributes)

    def made(cell: Cell) -> Cell:
        return backend.lazily(lambda: launch(backend.use(cell)))

    cells = [[made(cell) for cell in row] for row in x.cells]
    blank = x.blank if _keeps_zero(family, attributes) else (False, False)
    return TileArray(backend, cells, dtype, x.rows, x.columns, x.kind, blank=blank)


def _operand_of(x: TileArray) -> str:
    """The format of operands that this tile has, or should have."""
    return x.dtype if x.backend.machine.formats.is_operand(x.dtype) else x.backend.operand


def _keeps_zero(family: str, attributes: dict[str, Any]) -> bool:
    """Whether a function of each element makes zero of zero."""
    numbers = [attributes[name] for name in ("scalar_lhs", "scalar_rhs") if name in attributes]
    if not numbers:
        return family in KEEPS_ZERO
    if family == ZERO_OF_ONE:
        return all(map(math.isfinite, numbers))
    if family == "elementwise_div":
        return attributes.get("scalar_rhs", 0.0) != 0.0
    return family in ZERO_OF_BOTH and not any(numbers)


def _blank_of_both(family: str, a: TileArray, b: TileArray) -> tuple[bool, bool]:
    """Where an operation on two tiles makes zero beyond the edges; rows and columns that are
    spread have no edge of their own."""
    down = [x.blank[0] and x.kind not in ONE_ROW for x in (a, b)]
    across = [x.blank[1] and x.kind not in ONE_COLUMN for x in (a, b)]
    if family == ZERO_OF_ONE and a.backend.value == "bf16":
        return any(down), any(across)
    if family == ZERO_OF_ONE:  # a narrow format: the other one may well be infinite
        return all(down), all(across)
    return (all(down), all(across)) if family in ZERO_OF_BOTH else (False, False)


def binary(family: str, a: Any, b: Any) -> TileArray:
    """An operation on two tiles of equal shape, or one of them broadcast."""
    left, right = _as_operand(a), _as_operand(b)
    if not isinstance(left, TileArray):
        if not isinstance(right, TileArray):
            from tilewright.tile.backend import active

            raise active().error("TW1616", "at least one operand has to be a tile")
        return unary(family, right, scalar_lhs=left)
    if not isinstance(right, TileArray):
        return unary(family, left, scalar_rhs=right)
    backend = left.backend
    for side in (left, right):
        _want(side, backend.value)
    down, across, kind = _joined(left, right)
    launch = backend.launcher(family, backend.value, kind)

    def made(r: int, c: int) -> Cell:
        def compute() -> Any:
            return launch(*(backend.use(x.cell(r, c)) for x in (left, right)))

        return backend.lazily(compute)

    cells = [[made(r, c) for c in range(across)] for r in range(down)]
    rows = left.rows if left.kind not in ONE_ROW else right.rows
    columns = left.columns if left.kind not in ONE_COLUMN else right.columns
    blank = _blank_of_both(family, left, right)
    return TileArray(backend, cells, backend.value, rows, columns, kind, blank=blank)


def _joined(a: TileArray, b: TileArray) -> tuple[int, int, str]:
    """Grid and kind of the result of an operation on both."""
    down = {tuple(x.rows) for x in (a, b) if x.kind not in ONE_ROW} or {(a.backend.side,)}
    across = {tuple(x.columns) for x in (a, b) if x.kind not in ONE_COLUMN} or {(a.backend.side,)}
    if len(down) > 1 or len(across) > 1:
        raise a.backend.error(
            "TW1618",
            f"tiles of {a.text} and {b.text} do not broadcast",
            "both need the same rows and columns, or be a row or a column",
        )
    kinds = {a.kind, b.kind} - {"number"} or {"number"}
    kind = kinds.pop() if len(kinds) == 1 else "full"
    return len(down.pop()), len(across.pop()), kind


def spread(x: TileArray, down: int, across: int, kind: str = "full") -> TileArray:
    """A row, column or number repeated over a grid of tiles (or left halves of tiles)."""
    backend = x.backend
    launch = backend.launcher("cast", x.dtype, kind)

    def made(cell: Cell) -> Cell:
        return backend.lazily(lambda: launch(backend.use(cell)))

    cells = [[made(cell) for cell in row] for row in x.cells]
    cells = [row * across for row in cells] if x.kind in ONE_COLUMN else cells
    cells = cells * down if x.kind in ONE_ROW else cells
    rows = x.rows if x.kind not in ONE_ROW else [backend.side] * down
    columns = x.columns if x.kind not in ONE_COLUMN else [backend.side] * across
    blank = (x.blank[0] and x.kind not in ONE_ROW, x.blank[1] and x.kind not in ONE_COLUMN)
    return TileArray(backend, cells, x.dtype, rows, columns, blank=blank)


def kept_in_memory(tiles: TileArray) -> TileArray:
    """The tiles, put into VMEM where this is called and taken from there when used."""
    backend = tiles.backend
    launch = backend.launcher("cast", tiles.dtype, tiles.kind, **{"tilewright.park": True})

    def made(cell: Cell) -> Cell:
        parked = backend.lazily(lambda: launch(backend.use(cell)))
        backend.use(parked)  # now, not when it is used
        return parked

    cells = [[made(cell) for cell in row] for row in tiles.cells]
    return TileArray(
        backend, cells, tiles.dtype, tiles.rows, tiles.columns, tiles.kind, blank=tiles.blank
    )


def in_columns(x: TileArray, most: int) -> list[TileArray]:
    """Parts of so many columns of tiles at most, from left to right."""
    return [
        replace(
            x,
            cells=[row[first : first + most] for row in x.cells],
            columns=x.columns[first : first + most],
            used_in=set(x.used_in),
            blank=(x.blank[0], x.blank[1] and first + most >= len(x.columns)),
        )
        for first in range(0, len(x.columns), most)
    ]


def beside(*parts: Any) -> TileArray:
    """Tiles of the same rows side by side: what `in_columns` took apart."""
    tiles = [as_tiles(part) for part in parts]
    return replace(
        tiles[0],
        cells=[
            [cell for row in rows for cell in row]
            for rows in zip(*(x.cells for x in tiles), strict=True)
        ],
        columns=[width for x in tiles for width in x.columns],
        used_in=set().union(*(x.used_in for x in tiles)),
        blank=(all(x.blank[0] for x in tiles), tiles[-1].blank[1]),
    )


def transpose(x: Any) -> TileArray:
    """Rows and columns of fp8 tiles exchanged."""
    x = as_tiles(x)
    backend = x.backend
    if not backend.machine.formats.is_operand(x.dtype):
        wanted = backend.operand
        raise backend.error(
            "TW1610",
            f"only {wanted} tiles can be transposed, this one is {x.dtype}",
            f"use {casts(wanted)}",
        )
    if x.kind != "full":
        raise backend.error(
            "TW1610",
            f"only whole tiles can be transposed, this one is a {x.kind}",
            "give the tensor a named size, or one of 2 and more, where it is to be a matrix",
        )
    down, across = x.grid
    launch = backend.launcher("transpose", x.dtype, "full", permutation=(1, 0))

    def made(cell: Cell) -> Cell:
        return backend.lazily(lambda: launch(backend.use(cell)))

    cells = [[made(x.cells[r][c]) for r in range(down)] for c in range(across)]
    return TileArray(backend, cells, x.dtype, x.columns, x.rows, blank=(x.blank[1], x.blank[0]))


def reduce(kind: str, axis: int, x: Any, nonnegative: bool = False) -> TileArray:
    """sum, max or min along each row (axis 1) or column (axis 0).

    Tiles are combined element by element, then the last one is reduced. Elements beyond the
    tensor's edge are left out. nonnegative: no element is negative, there neither.
    """
    x = as_tiles(x)
    backend = x.backend
    _want(x, backend.value)
    if x.kind == "number" or x.kind == ("column" if axis == 1 else "row"):
        return x
    if x.kind != "full":
        reduced = reduce(kind, axis, spread(x, len(x.rows), len(x.columns)), nonnegative)
        return replace(spread(reduced, 1, 1, "number"), kind="number")
    combine = {"sum": "elementwise_add", "max": "elementwise_max", "min": "elementwise_min"}[kind]
    join = backend.launcher(combine, backend.value, "full")
    result_kind = "column" if axis == 1 else "row"
    finish = backend.launcher(f"reduction_{kind}", backend.value, result_kind, axes=(axis,))
    down, across = x.grid
    valid = x.columns if axis == 1 else x.rows

    def made(position: int) -> Cell:
        places = range(across) if axis == 1 else range(down)
        line = [x.cells[position][p] if axis == 1 else x.cells[p][position] for p in places]

        def compute() -> Any:
            total = None
            for cell, count in zip(line, valid, strict=True):
                value = inside(
                    backend, backend.use(cell), count, kind, axis, nonnegative=nonnegative
                )
                total = value if total is None else join(total, value)
            return finish(total)

        return backend.lazily(compute)

    if axis == 1:
        return TileArray(
            backend,
            [[made(r)] for r in range(down)],
            backend.value,
            x.rows,
            [backend.side],
            "column",
        )
    return TileArray(
        backend, [[made(c) for c in range(across)]], backend.value, [backend.side], x.columns, "row"
    )


def neutral(kind: str, x: Any) -> TileArray:
    """The tiles with every column beyond the edge of their tensor replaced by what a sum, maximum
    or minimum ignores; tiles of different steps can then be combined element by element."""
    x = as_tiles(x)
    backend = x.backend
    _want(x, backend.value)
    if not isinstance(kind, str) or kind not in ("sum", "max", "min"):
        raise backend.error("TW1616", f'"{kind}" is none of "sum", "max", "min"')

    def made(cell: Cell, valid: int) -> Cell:
        if valid >= backend.side:
            return cell
        return backend.lazily(lambda: inside(backend, backend.use(cell), valid, kind, 1))

    cells = [[made(c, n) for c, n in zip(row, x.columns, strict=True)] for row in x.cells]
    return TileArray(backend, cells, backend.value, x.rows, [backend.side] * len(x.columns))


def without_edge(x: TileArray, axis: int = 1) -> TileArray:
    """Operand tiles with zeros beyond their last column (or row), whatever was computed there."""
    backend = x.backend
    numbers = backend.launcher("dequant", backend.value, "full")
    codes = backend.launcher("requant", x.dtype, "full")

    def made(cell: Cell, valid: int) -> Cell:
        if valid >= backend.side:
            return cell

        def compute() -> Any:
            value = backend.use(cell)
            if x.dtype == backend.value:
                return inside(backend, value, valid, "sum", axis)
            return codes(inside(backend, numbers(value), valid, "sum", axis))

        return backend.lazily(compute)

    cells = [
        [made(c, x.columns[place] if axis else x.rows[r]) for place, c in enumerate(row)]
        for r, row in enumerate(x.cells)
    ]
    blank = (x.blank[0], True) if axis else (True, x.blank[1])
    return TileArray(backend, cells, x.dtype, x.rows, x.columns, blank=blank)


def inside(
    backend: Backend,
    value: Any,
    valid: int,
    kind: str,
    axis: int,
    shape: str = "full",
    nonnegative: bool = False,
) -> Any:
    """The tile with everything beyond `valid` replaced by what the reduction ignores."""
    if valid >= backend.side:
        return value
    both = ("max",) if nonnegative else ("max", "min")
    for bound in both if kind == "sum" else (kind,):
        # A maximum ignores what was lowered to minus infinity; a sum what was clamped to 0.
        inner = HUGE if bound == "max" else -HUGE
        outer = 0.0 if kind == "sum" else -inner
        limit = backend.edge(valid, inner, outer, axis)
        family = "elementwise_min" if bound == "max" else "elementwise_max"
        value = backend.launcher(family, backend.value, shape)(value, limit)
    return value
