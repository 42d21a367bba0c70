"""Matrix products and the accumulators that add them up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.tile.arrays import Arithmetic, Cell, TileArray, casts, without_edge
from tilewright.tile.formats import FINITE, family
from tilewright.tile.states import Carrier


@dataclass(eq=False)
class Product(Arithmetic):
    """a @ b, not yet computed: it may still be added to an accumulator."""

    a: TileArray
    b: TileArray

    def __post_init__(self) -> None:
        backend = self.a.backend
        formats = backend.machine.formats
        for side in (self.a, self.b):
            if not formats.is_operand(side.dtype):
                raise backend.error(
                    "TW1611",
                    f"a matrix product takes {backend.operand} tiles, this one is {side.dtype}",
                    f"use {casts(backend.operand)} first",
                )
        if not formats.multiplies(self.a.dtype, self.b.dtype):
            raise backend.error(
                "TW1611",
                f"a matrix product does not take {self.a.dtype} and {self.b.dtype} tiles",
                "bind both to formats that go together: compile(formats=...)",
            )
        if self.a.columns != self.b.rows:
            raise backend.error(
                "TW1612", f"a product of {self.a.text} and {self.b.text} tiles does not fit"
            )
        if self.a.columns[-1] < backend.side:
            self._clear_edges()
        self.line = backend.line()
        self.computed: TileArray | None = None

    def _clear_edges(self) -> None:
        """What lies beyond the edge of both operands would be added. Zeros in one of them make up
        for anything finite in the other; where a format has infinities, both have to be zero."""
        a, b = self.a.blank[1], self.b.blank[0]
        if family(self.a.dtype) in FINITE:
            if not (a or b):
                self.a = without_edge(self.a)
            return
        if not a:
            self.a = without_edge(self.a)
        if not b:
            self.b = without_edge(self.b, axis=0)

    def tiles(self) -> TileArray:
        if self.computed is None:
            self.computed = chain([self], None)
        return self.computed.tiles()


class Accumulation(Carrier):
    """A sum of products.

    Without a unit it is computed when it is first used as a tile, a few tiles at a time. With
    a unit every product is added at once, in accumulators of that unit.
    """

    def __init__(self, backend: Any, unit: int | None = None) -> None:
        super().__init__(backend)
        self.unit = unit
        self.products: list[Product] = []
        self.slots = backend.new_slots(2) if unit is not None else range(0)
        self.steps = 0  # products of single tiles so far in this chain, with a unit
        self.next: tuple[Product, int] | None = None  # the one that may turn out to be the last

    @property
    def shaped(self) -> bool:
        return bool(self.products) or super().shaped

    def __iadd__(self, product: Any) -> Accumulation:
        if not isinstance(product, Product):
            raise self.backend.error(
                "TW1613", "only products (a @ b) can be added to an accumulator", "use + on tiles"
            )
        self.enter()
        shape = (product.a.rows, product.b.columns)
        known = self._shape()
        if known is not None and known != shape:
            raise self.backend.error(
                "TW1614",
                f"a product of {sum(shape[0])}x{sum(shape[1])} in an accumulator of "
                f"{sum(known[0])}x{sum(known[1])}",
            )
        self.products.append(product)
        if self.unit is not None:
            self._add_now(product)
        return self

    def _shape(self) -> tuple[list[int], list[int]] | None:
        if self.products:
            return self.products[0].a.rows, self.products[0].b.columns
        if self.held is not None:
            return self.held.rows, self.held.columns
        return None

    def _add_now(self, product: Product) -> None:
        count = len(product.a.rows) * len(product.b.columns)
        if count > len(self.slots):
            raise self.backend.error(
                "TW1640",
                f"{count} tiles are accumulated at once, a matrix unit holds {len(self.slots)}",
                "use a smaller block, or leave out the unit",
            )
        for side in (product.a, product.b):
            for row in side.cells:
                for cell in row:
                    self.backend.use(cell)
        for k in range(len(product.a.columns)):
            if self.next is not None:
                self._multiply(last=False)
            self.next = (product, k)

    def _multiply(self, last: bool) -> list[list[Any]]:
        """Add the step that was kept back; the tiles if it is the last."""
        assert self.next is not None and self.unit is not None
        (product, k), use = self.next, self.backend.use
        first, self.steps = self.steps == 0, self.steps + 1
        slots = iter(self.slots)
        results = []
        for r in range(len(product.a.rows)):
            results.append([])
            for c in range(len(product.b.columns)):
                start = None
                if first and self.held is not None:
                    start = use(self.held.cells[r][c])
                a, b = use(product.a.cells[r][k]), use(product.b.cells[k][c])
                slot, line = next(slots), product.line
                tile = self.backend.multiply(a, b, start, first, last, slot, self.unit, line)
                results[-1].append(tile)
        return results

    def settle(self) -> None:
        """Compute what is pending, on top of what was carried here."""
        if not self.products:
            return
        if self.unit is None:
            self.held = chain(self.products, self.held)
        else:
            first = self.products[0]
            values = self._multiply(last=True)
            cells = [[self.backend.made(value) for value in row] for row in values]
            blank = _blank(self.products, self.held)
            self.held = TileArray(
                self.backend, cells, self.backend.value, first.a.rows, first.b.columns, blank=blank
            )
            self.next, self.steps = None, 0
        self.products = []

    def tiles(self) -> TileArray:
        self.enter()
        self.settle()
        if self.held is None:
            raise self.backend.error("TW1615", "the accumulator is used before anything is added")
        return self.held.tiles()


def chain(products: list[Product], start: TileArray | None) -> TileArray:
    """The tiles of a sum of products, added to `start`.

    A few tiles that share an operand are computed together, one accumulator each: rows that
    share the pushed weights, or (activations stationary) columns that share the activation.
    """
    backend = products[0].a.backend
    rows, columns = products[0].a.rows, products[0].b.columns
    units, stationary = backend.units, backend.stationary
    cells = [[Cell() for _ in columns] for _ in rows]
    count = len(units)
    if stationary == "weights":
        groups = [
            [(r, c) for r in range(first, min(len(rows), first + count))]
            for c in range(len(columns))
            for first in range(0, len(rows), count)
        ]
    else:
        groups = [
            [(r, c) for c in range(first, min(len(columns), first + count))]
            for r in range(len(rows))
            for first in range(0, len(columns), count)
        ]
    for group in groups:
        line = _Line(backend, products, start, group, units)
        for place, (r, c) in enumerate(group):
            cells[r][c] = backend.lazily(lambda line=line, place=place: line.result(place))
    blank = _blank(products, start)
    return TileArray(backend, cells, backend.value, rows, columns, blank=blank)


def _blank(products: list[Product], start: TileArray | None) -> tuple[bool, bool]:
    """Where a sum of products is zero beyond its edges."""
    down = all(p.a.blank[0] for p in products) and (start is None or start.blank[0])
    across = all(p.b.blank[1] for p in products) and (start is None or start.blank[1])
    return down, across


class _Line:
    """Tiles computed together, when the first of them is wanted."""

    def __init__(
        self,
        backend: Any,
        products: list[Product],
        start: TileArray | None,
        group: list[tuple[int, int]],
        units: tuple[int, ...],
    ) -> None:
        self.backend, self.products, self.start = backend, products, start
        self.group, self.units = group, units
        self.results: list[Any] | None = None

    def result(self, place: int) -> Any:
        if self.results is None:
            self.results = self._compute()
        return self.results[place]

    def _compute(self) -> list[Any]:
        backend = self.backend
        steps = [(p, k) for p in self.products for k in range(len(p.a.columns))]
        results: list[Any] = [None] * len(self.group)
        # Operands may be products themselves: those get the accumulators first.
        for product, k in steps:
            for r, c in self.group:
                for cell in (product.a.cells[r][k], product.b.cells[k][c]):
                    if not cell.in_memory:
                        backend.use(cell)
        for number, (product, k) in enumerate(steps):
            first, last = number == 0, number == len(steps) - 1
            for place, (r, c) in enumerate(self.group):
                a = backend.use(product.a.cells[r][k])
                b = backend.use(product.b.cells[k][c])
                start = None
                if first and self.start is not None:
                    start = backend.use(self.start.cells[r][c])
                results[place] = backend.multiply(
                    a, b, start, first, last, place, self.units[place], product.line
                )
        return results
