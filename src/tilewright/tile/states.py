"""Tiles carried from one step to the next: running maxima, sums, outputs."""

from __future__ import annotations

from typing import Any

from tilewright.tile.arrays import Arithmetic, Operand, TileArray, as_number, as_tiles


class Carrier(Arithmetic):
    """Something whose tiles change from step to step.

    In a loop of the program the tiles at the start of an iteration are those at the end of
    the one before; `levels` holds, for each open loop that works with the carrier, the tiles
    before it.
    """

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.home = backend.scope()
        self.held: TileArray | None = None
        self.levels: list[tuple[Any, TileArray]] = []
        backend.carriers.add(self)

    @property
    def shaped(self) -> bool:
        """Whether its tiles are known, so that a loop can carry them."""
        return self.held is not None

    def settle(self) -> None:
        """Compute what is pending."""

    def enter(self) -> None:
        """Be carried by every open loop around the place where we are now."""
        self.backend.carry(self)


class State(Carrier):
    """A tile that is set anew in each step."""

    def __init__(self, backend: Any, first: Operand | None) -> None:
        super().__init__(backend)
        self.first: float | None = None
        if isinstance(first, (int, float)):
            self.first = as_number(first)
        elif first is not None:
            self.held = as_tiles(first)

    @property
    def number(self) -> float | None:
        """The number it starts as, until it is set."""
        return self.first if self.held is None else None

    def tiles(self) -> TileArray:
        self.enter()
        if self.held is None:
            raise self.backend.error(
                "TW1625",
                "the state is used before it is set"
                if self.first is None
                else f"the state is still the number {self.first}, a tile is needed here",
                "give it a first value: tw.state(0.0)",
            )
        return self.held.tiles()

    def set(self, value: Operand) -> None:
        """Make `value` the state from here on."""
        self.enter()
        tiles = as_tiles(value)
        if self.held is not None:
            before, after = (
                (x.kind, x.dtype, x.rows if x.kind != "row" else [], x.columns)
                for x in (self.held, tiles)
            )
            if before != after:
                raise self.backend.error(
                    "TW1626",
                    f"the state is a {self.held.dtype} tile of {self.held.text}, it cannot become "
                    f"a {tiles.dtype} tile of {tiles.text}",
                )
        self.held = tiles
