"""Macro tiles: grids of 32x32 tiles with operators, in the middle of a trace or an eager run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tilewright.errors import TilewrightError
from tilewright.kernels.bodies import BODIES
from tilewright.tile.layouts import SIDE

if TYPE_CHECKING:
    from tilewright.tile.backend import Backend

PARK = 8  # macro tiles of more tiles than this wait in VMEM instead of registers


@dataclass(eq=False)
class Cell:
    """One 32x32 tile: in DRAM until used (`fetch`), or computed (`value`)."""

    fetch: Callable[[], Any] | None = None
    value: Any = None
    slot: Any = None
    depth: int = -1
    caches: bool = True  # stays in registers once fetched


@dataclass(eq=False)
class TileArray:
    """A macro tile.

    kind: "full", or "column" (one number per row, in all columns of a single tile), or "row"
    (one number per column, in all rows of a single tile).
    """

    backend: Backend
    cells: list[list[Cell]]
    dtype: str
    rows: list[int] = field(default_factory=list)  # valid rows of each row of tiles
    columns: list[int] = field(default_factory=list)  # valid columns of each column of tiles
    kind: str = "full"

    @property
    def grid(self) -> tuple[int, int]:
        return len(self.cells), len(self.cells[0])

    @property
    def shape(self) -> tuple[int, int]:
        down, across = self.grid
        return (
            1 if self.kind == "row" else SIDE * (down - 1) + self.rows[-1],
            1 if self.kind == "column" else SIDE * (across - 1) + self.columns[-1],
        )

    @property
    def T(self) -> TileArray:
        """The transpose of an fp8 tile."""
        if self.dtype != "fp8":
            raise self.backend.error("TW1610", "only fp8 tiles can be transposed", "cast it first")
        down, across = self.grid
        cells = [[self._turned(r, c) for r in range(down)] for c in range(across)]
        return TileArray(self.backend, cells, "fp8", self.columns, self.rows)

    def _turned(self, r: int, c: int) -> Cell:
        source = self.cells[r][c]
        body = BODIES["transpose"]
        use = lambda: self.backend.compute(body, [self.backend.use(source)], "fp8")  # noqa: E731
        return Cell(fetch=use)

    # --- operators ---

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

    def __matmul__(self, other: TileArray) -> Product:
        return Product(self, as_tiles(other))


@dataclass(eq=False)
class Product:
    """a @ b, not yet computed: it may still be added to an accumulator."""

    a: TileArray
    b: TileArray

    def __post_init__(self) -> None:
        backend = self.a.backend
        for side in (self.a, self.b):
            if side.dtype != "fp8":
                raise backend.error(
                    "TW1611",
                    f"a matrix product takes fp8 tiles, this one is {side.dtype}",
                    "cast it with tw.fp8_cast",
                )
        if self.a.grid[1] != self.b.grid[0]:
            raise backend.error(
                "TW1612",
                f"a product of {self.a.shape[0]}x{self.a.shape[1]} and "
                f"{self.b.shape[0]}x{self.b.shape[1]} tiles does not fit",
            )

    def tiles(self) -> TileArray:
        total = Accumulation(self.a.backend)
        total += self
        return total.tiles()


class Accumulation:
    """A sum of products.

    Without a unit it is computed when it is first used as a tile, a few rows at a time. With a
    unit, every product is added at once, and the accumulators of that unit are taken until then.
    """

    def __init__(self, backend: Backend, unit: int | None = None) -> None:
        self.backend = backend
        self.unit = unit
        self.products: list[Product] = []
        self.running: dict[tuple[int, int], Any] = {}

    def __iadd__(self, product: Product) -> Accumulation:
        if not isinstance(product, Product):
            raise self.backend.error(
                "TW1613", "only products (a @ b) can be added to an accumulator", "use + on tiles"
            )
        if self.products and (
            product.a.grid[0] != self.products[0].a.grid[0]
            or product.b.grid[1] != self.products[0].b.grid[1]
        ):
            raise self.backend.error("TW1614", "products of different shapes in one accumulator")
        self.products.append(product)
        if self.unit is not None:
            self._add_now(product)
        return self

    def _add_now(self, product: Product) -> None:
        down, across = product.a.grid[0], product.b.grid[1]
        if down * across > 2:
            raise self.backend.error(
                "TW1625",
                f"{down * across} tiles are accumulated at once, a matrix unit holds 2",
                "use a smaller block, or leave out the unit",
            )
        for k in range(product.a.grid[1]):
            for c in range(across):
                weight = self.backend.use(product.b.cells[k][c])
                for r in range(down):
                    self._extend((r, c), self.backend.use(product.a.cells[r][k]), weight)

    def _extend(self, place: tuple[int, int], a: Any, weight: Any) -> None:
        compute = self.backend.compute
        if place not in self.running:
            start = BODIES["matmul_acc_first"]
            self.running[place] = compute(start, [a, weight], "acc", 2, unit=self.unit)
        else:
            inputs = [self.running[place], a, weight]
            self.running[place] = compute(BODIES["matmul_acc_mid"], inputs, "acc", 2)

    def tiles(self) -> TileArray:
        if not self.products:
            raise self.backend.error("TW1615", "the accumulator is used before anything is added")
        first = self.products[0]
        down, across = first.a.grid[0], first.b.grid[1]
        if self.unit is not None:
            pop = BODIES["matmul_pop"]
            cells = [
                [
                    self.backend.keep(self.backend.compute(pop, [self.running[r, c]], "bf16", 1), 1)
                    for c in range(across)
                ]
                for r in range(down)
            ]
            return TileArray(self.backend, cells, "bf16", first.a.rows, first.b.columns)
        many = down * across > PARK
        cells: list[list[Cell]] = [[Cell() for _ in range(across)] for _ in range(down)]
        for c in range(across):
            for start in range(0, down, len(self.backend.units)):
                rows = range(start, min(down, start + len(self.backend.units)))
                group = _Group(self, rows, c)
                for r in rows:
                    if many:
                        cells[r][c] = Cell(fetch=group.fetcher(r), caches=False)
                    else:
                        cells[r][c] = self.backend.keep(group.tile(r), 1)
        return TileArray(self.backend, cells, "bf16", first.a.rows, first.b.columns)

    def _chain(self, rows: range, column: int) -> list[Any]:
        """Accumulate one column of tiles for a few rows that share the weights."""
        compute = self.backend.compute
        # A few operands stay in registers between columns and rows; many are read again.
        steps = sum(product.a.grid[1] for product in self.products)
        few = steps * max(self.products[0].a.grid[0], self.products[0].b.grid[1]) <= PARK
        use = self.backend.use if few else self.backend.fresh
        accumulators: list[Any] = [None] * len(rows)
        for product in self.products:
            for k in range(product.a.grid[1]):
                weight = use(product.b.cells[k][column])
                for place, r in enumerate(rows):
                    a = use(product.a.cells[r][k])
                    if accumulators[place] is None:
                        unit = self.backend.units[place]
                        accumulators[place] = compute(
                            BODIES["matmul_acc_first"], [a, weight], "acc", 2, unit=unit
                        )
                    else:
                        accumulators[place] = compute(
                            BODIES["matmul_acc_mid"], [accumulators[place], a, weight], "acc", 2
                        )
        return accumulators

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


class _Group:
    """A few rows of a sum that share their weights; computed together when one is asked for."""

    def __init__(self, sum_: Accumulation, rows: range, column: int) -> None:
        self.sum, self.rows, self.column = sum_, rows, column
        self.values: dict[int, Any] = {}

    def tile(self, row: int) -> Any:
        backend = self.sum.backend
        if not self.values:
            accumulators = self.sum._chain(self.rows, self.column)
            for r, acc in zip(self.rows, accumulators, strict=True):
                self.values[r] = backend.compute(BODIES["matmul_pop"], [acc], "bf16", 1)
        return self.values[row]

    def fetcher(self, row: int) -> Callable[[], Any]:
        return lambda: self.tile(row)


for _operator in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg"):
    _name = f"__{_operator}__"

    def _forward(self, *others, _name=_name):
        return getattr(self.tiles(), _name)(*others)

    setattr(Accumulation, _name, _forward)
    setattr(Product, _name, _forward)

Operand = TileArray | Accumulation | Product | float | int


def as_tiles(value: Any) -> TileArray:
    if isinstance(value, (Accumulation, Product)):
        return value.tiles()
    if isinstance(value, TileArray):
        return value
    if hasattr(value, "current"):  # carried state
        return as_tiles(value.current())
    raise TilewrightError("TW1616", f"{type(value).__name__} is not a tile")


def unary(family: str, x: Operand, cost: int = 2, **options: Any) -> TileArray:
    """A function of each element (or a cast)."""
    x = as_tiles(x)
    backend = x.backend
    dtype = {"requant": "fp8", "dequant": "bf16"}.get(family, x.dtype)
    wanted = "fp8" if family == "dequant" else "bf16"
    if x.dtype != wanted:
        raise backend.error("TW1617", f"this operation takes {wanted} tiles, not {x.dtype}")
    count = x.grid[0] * x.grid[1]

    def made(cell: Cell) -> Cell:
        def compute() -> Any:
            return backend.compute(BODIES[family], [backend.use(cell)], dtype, cost, **options)

        return backend.later(compute, count)

    cells = [[made(cell) for cell in row] for row in x.cells]
    return TileArray(backend, cells, dtype, x.rows, x.columns, x.kind)


def binary(family: str, a: Operand, b: Operand) -> TileArray:
    """An operation on two tiles of equal shape, or one of them broadcast."""
    if isinstance(a, (int, float)):
        b = as_tiles(b)
        a = b.backend.constant(float(a))
    a = as_tiles(a)
    b = a.backend.constant(float(b)) if isinstance(b, (int, float)) else as_tiles(b)
    backend = a.backend
    for side in (a, b):
        if side.dtype != "bf16":
            raise backend.error(
                "TW1617", f"this operation takes bf16 tiles, not {side.dtype}", "cast it first"
            )
    down, across, kind = _joined(a, b)
    left, right, count = a, b, down * across

    def made(r: int, c: int) -> Cell:
        def compute() -> Any:
            inputs = [backend.use(_pick(x, r, c)) for x in (left, right)]
            return backend.compute(BODIES[family], inputs, "bf16", 2)

        return backend.later(compute, count)

    cells = [[made(r, c) for c in range(across)] for r in range(down)]
    rows = a.rows if len(a.cells) >= len(b.cells) and a.kind != "row" else b.rows
    columns = a.columns if len(a.cells[0]) >= len(b.cells[0]) and a.kind != "column" else b.columns
    return TileArray(backend, cells, "bf16", rows, columns, kind)


def _pick(x: TileArray, r: int, c: int) -> Cell:
    return x.cells[0 if x.kind in ("row", "number") else r][
        0 if x.kind in ("column", "number") else c
    ]


def _joined(a: TileArray, b: TileArray) -> tuple[int, int, str]:
    """Grid and kind of the result of an operation on both."""
    for x, y in ((a, b), (b, a)):
        if x.kind == "number":
            return (*y.grid, y.kind)
    down = {x.grid[0] for x in (a, b) if x.kind != "row"} or {1}
    across = {x.grid[1] for x in (a, b) if x.kind != "column"} or {1}
    if len(down) > 1 or len(across) > 1:
        shapes = " and ".join(f"{x.shape[0]}x{x.shape[1]}" for x in (a, b))
        raise a.backend.error("TW1618", f"tiles of {shapes} do not broadcast")
    kind = a.kind if a.kind == b.kind else "full"
    return down.pop(), across.pop(), kind


def reduce_rows(kind: str, x: Operand) -> TileArray:
    """sum, max or min along each row."""
    x = as_tiles(x)
    backend = x.backend
    combine = {"sum": "elementwise_add", "max": "elementwise_max", "min": "elementwise_min"}[kind]
    cells = []
    for row in x.cells:
        total = None
        for c, cell in enumerate(row):
            value = backend.masked(backend.use(cell), x.columns[c], kind)
            if total is None:
                total = value
            else:
                total = backend.compute(BODIES[combine], [total, value], "bf16", 2)
        reduced = backend.compute(BODIES[f"reduction_{kind}"], [total], "bf16", 3)
        cells.append([backend.keep(reduced, len(x.cells))])
    return TileArray(backend, cells, "bf16", x.rows, [SIDE], "column")
