"""Positions along a dimension: blocks of whole tiles, and single indices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilewright.tile.layouts import SIDE

Terms = tuple[tuple[Any, int], ...]  # loop variables with factors


@dataclass(frozen=True)
class Block:
    """`tiles` tiles from tile `start` on, or that much further than a loop variable.

    A block that follows a loop variable lies wholly inside its dimension; what is left over at
    the end is a block of its own.
    """

    start: int
    tiles: int
    extent: int  # elements of the dimension
    variable: Any = None  # counts elements
    shift: int | None = None  # elements further on, for windows over rows
    outer: tuple[Any, ...] = ()  # variables of the blocks it lies in, see `within`
    side: int = SIDE  # of a tile
    factor: int = 1  # elements it moves per element of the loop variable, see `times_as_fast`
    travel: int | None = None  # how far the loop variable goes; None: to the end of the dimension

    def times_as_fast(self, factor: int, step: int, start: int = 0) -> Block:
        """A tile of another dimension, `start` elements from its beginning, which moves so many
        times as far in every iteration. step: elements of an iteration of the loop."""
        return replace(
            self, start=0, tiles=1, shift=start, factor=factor, travel=self.extent - step
        )

    def __add__(self, elements: int) -> Block:
        """The same block so many elements further on: `x[m + 1, :]` under a window."""
        if not isinstance(elements, int):
            from tilewright.tile.backend import active

            raise active().error(
                "TW1604", f"a block moves by a number of elements, not by {type(elements).__name__}"
            )
        return replace(self, shift=(self.shift or 0) + elements)

    @property
    def size(self) -> int:
        """Elements of the block that are inside the dimension."""
        return sum(self.valid(i) for i in range(self.tiles))

    def valid(self, index: int) -> int:
        """Elements of tile `index` that are inside the dimension."""
        _whole("counted by", index)
        if self.variables:
            return self.side
        return max(0, min(self.side, self.extent - (self.start + index) * self.side))

    @property
    def variables(self) -> tuple[Any, ...]:
        """The loop variables that it follows."""
        return self.outer if self.variable is None else (*self.outer, self.variable)

    def within(self, block: Block) -> Block:
        """A block of a block: `for r in tw.grid(m.size): x[r.within(m), :]`."""
        from tilewright.tile.backend import active

        if not isinstance(block, Block):
            raise active().error(
                "TW1604", f"a block lies within another block, not within {type(block).__name__}"
            )
        if -(-self.extent // self.side) > block.tiles:
            raise active().error(
                "TW1604",
                f"blocks of {self.extent} elements do not lie within a block of {block.size}",
                "loop over the block's own size: `for r in tw.grid(m.size)`",
            )
        shifts = [shift for shift in (self.shift, block.shift) if shift is not None]
        return replace(
            self,
            start=block.start + self.start,
            extent=block.extent,
            outer=block.variables,
            shift=sum(shifts) if shifts else None,
        )

    def parts(self) -> list[Block]:
        """The block's single tiles."""
        return [replace(self, start=self.start + k, tiles=1) for k in range(self.tiles)]


@dataclass(frozen=True)
class Single:
    """One index of a leading dimension: a number plus multiples of loop variables.

    `g * 4 + i` is the head of a group, `h // 4` the group of a head and `h % 4` its place there.
    """

    start: int
    terms: Terms = ()
    last: int = 0  # the largest index it takes

    def __mul__(self, factor: int) -> Single:
        _whole("multiplied with", factor)
        terms = tuple((variable, f * factor) for variable, f in self.terms)
        return Single(self.start * factor, terms, self.last * factor)

    __rmul__ = __mul__

    def __add__(self, other: int | Single) -> Single:
        if not isinstance(other, Single):
            _whole("added to", other)
            other = Single(other, (), other)
        return Single(self.start + other.start, self.terms + other.terms, self.last + other.last)

    __radd__ = __add__

    def __floordiv__(self, count: int) -> Single:
        return self._divided(count)[0]

    def __mod__(self, count: int) -> Single:
        return self._divided(count)[1]

    def _divided(self, count: int) -> tuple[Single, Single]:
        from tilewright.tile.backend import active

        _whole("divided by", count)
        if count < 1:
            raise active().error("TW1604", f"an index cannot be divided by {count}")
        last = self.last // count, min(self.last, count - 1)
        if self.terms:
            (start, terms), (left, others) = active().divided(self, count)
            return Single(start, terms, last[0]), Single(left, others, last[1])
        whole, left = divmod(self.start, count)
        return Single(whole, (), last[0]), Single(left, (), last[1])


def _whole(what: str, number: object) -> None:
    if not isinstance(number, int):
        from tilewright.tile.backend import active

        raise active().error(
            "TW1604", f"an index is {what} a whole number, not {type(number).__name__}"
        )


def shown(index: object) -> str:
    """An index in a message."""
    if isinstance(index, Block):
        return "a block"
    return "the index of a leading dimension" if isinstance(index, Single) else repr(index)


def whole(extent: int, side: int = SIDE) -> Block:
    return Block(0, -(-extent // side), extent, side=side)
