"""The end of convolutions in a row whose results lie side by side in tiles (`narrow_images.py`): what is
stored at one place waits until all tiles of pixels in it, and those of a few others, are there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilewright.targets.atlas.kernels.image_blocks import stacked
from tilewright.targets.atlas.kernels.images import SIDE
from tilewright.targets.atlas.kernels.narrow_images import NarrowImage
from tilewright.targets.atlas.kernels.narrow_results import StoredTile, added_up, filters, made
from tilewright.tile.arrays import TileArray
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block

if TYPE_CHECKING:
    from tilewright.targets.atlas.kernels.convolution import Plan

Phase = tuple[int, int]
Place = tuple[Phase, int]


@dataclass
class NarrowEnd:
    """The last convolution of a step, and the `tiles` tiles of a phase that a step computes of it."""

    plan: Plan
    tiles: int
    b: Any
    out: Any
    w: Any
    rows: Any
    waiting: list[tuple[Place, dict[int, TileArray]]] = field(default_factory=list)

    @property
    def image(self) -> NarrowImage:
        assert isinstance(self.plan.out, NarrowImage)
        return self.plan.out

    @property
    def count(self) -> int:
        """Tiles of pixels that are computed together: stored ones share filters."""
        return len(active().units) * self.image.places

    def window(
        self, group: Sequence[Place], m: Block, images: list[Any], seen: list[tuple[Phase, Block]]
    ) -> None:
        """A convolution that looks around itself, of what it sees of tiles of pixels in their order."""
        stored = list(self._stored(group, [block for _, block in seen], m))
        for one, y in made(self.plan, images, self.w, self.b, stored, self.rows):
            self._write(one, y)

    def single(self, place: Place, tiles: dict[int, TileArray], m: Block) -> None:
        """A convolution of single pixels, of a tile of them that was just made."""
        self.waiting.append((place, tiles))
        if len(self.waiting) == self.count:
            self.finish(m)

    def finish(self, m: Block) -> None:
        """What waits is stored."""
        if not self.waiting:
            return
        places, found = [place for place, _ in self.waiting], [tiles for _, tiles in self.waiting]
        stored = list(self._stored(places, [m] * len(places), m))
        many = self.image.places
        products = (
            (k, stacked([tiles[c] for tiles in found[k::many]]), filters(self.plan, self.w, (0, 0), c, k))
            for k in range(many) for c in sorted(found[0])
        )  # fmt: skip
        for one, y in added_up(self.plan, stored, products, self.rows):
            self._write(one, y)
        self.waiting.clear()

    def _stored(
        self, places: Sequence[Place], blocks: list[Block], m: Block
    ) -> Iterator[StoredTile]:
        """The stored tiles of tiles of pixels, which come place by place."""
        (across, each), many = self.image.beside, self.image.places
        step = self.tiles // each * SIDE
        for first in range(0, len(places), many):
            (a, c), tile = places[first]
            travel = m.extent - step if m.variables else None
            at = replace(m, tiles=1, shift=tile // each * SIDE, travel=travel)
            members = [
                (k, places[first + k][0], blocks[first + k]) for k in range(many)
            ]  # fmt: skip
            yield StoredTile((a, c // across), at, tuple(members))

    def _write(self, one: StoredTile, y: Any) -> None:
        self.out[self.b, one.phase[0], one.phase[1], one.at, Block(0, 1, SIDE)] = y


def in_order(out: NarrowImage, places: list[Place]) -> list[Place]:
    """Tiles of pixels, those of a stored tile after each other."""
    across, each = out.beside

    def key(place: Place) -> tuple[int, ...]:
        (a, c), tile = place
        return a, c // across, tile // each, c % across, tile % each

    return sorted(places, key=key)
