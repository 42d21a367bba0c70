"""Positions along a dimension: whole blocks, the rest at the end, single indices."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.nest import Variable
from tilewright.tile.layouts import SIDE


@dataclass(frozen=True)
class Block:
    """`tiles` tiles from tile `start` on; with a variable, `step` times the variable further."""

    start: int
    tiles: int
    extent: int  # elements of the dimension
    variable: Variable | None = None
    pitch: int = 0  # tiles from one iteration to the next, when not `tiles`

    @property
    def step(self) -> int:
        """Tiles from one iteration of the loop to the next."""
        return self.pitch or self.tiles

    @property
    def size(self) -> int:
        return self.tiles * SIDE

    def valid(self, index: int) -> int:
        """Elements of tile `index` inside the tensor; blocks of a loop count as full."""
        if self.variable is not None:
            return SIDE
        return max(0, min(SIDE, self.extent - (self.start + index) * SIDE))

    def parts(self) -> list[Block]:
        """The block's single tiles."""
        return [
            replace(self, start=self.start + k, tiles=1, pitch=self.pitch or self.tiles)
            for k in range(self.tiles)
        ]


@dataclass(frozen=True)
class Single:
    """One index of a leading dimension."""

    start: int
    extent: int
    variable: Variable | None = None


def whole(extent: int) -> Block:
    return Block(0, -(-extent // SIDE), extent)
