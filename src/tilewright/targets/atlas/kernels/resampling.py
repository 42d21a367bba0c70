"""Images made of the pixels of others: stored another way, enlarged, cropped, turned.

A result's pixel (r, q) is the image's pixel (rows[r], columns[q]), or zero where one of them is
negative. Rows of a tile are picked by products with tiles of zeros and ones, which are exact: a
tile of results is the sum of `selection @ pixels` over the few stretches of 32 stored pixels in
which its pixels lie. Rows that are alike are a loop; a tile of results then moves on by a number
of rows and the stretches by as many of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.image_blocks import (
    kept_rows,
    own_tile,
    period,
    write_border,
)
from tilewright.targets.atlas.kernels.images import LOWEST, SIDE, Image, image_type
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import Kernel, kernel_of

SELECTIONS = 96  # different tiles of zeros and ones, at most: they stay on the chip
LONGEST = 1200  # products in one body, at most
LOOPED = 160  # products from which on rows that are alike become a loop


@dataclass(frozen=True)
class Stretch:
    """32 stored pixels of a phase of the image, and which of them become which of a tile."""

    phase: tuple[int, int]
    start: int
    selection: bytes  # [32, 32] of zeros and ones


@dataclass(frozen=True)
class Resampling:
    """One image made of another; the kernel takes x."""

    image: Image
    out: Image
    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        given, wanted = (self.image.height, self.image.width), (self.out.height, self.out.width)
        maps = self.rows, self.columns
        if tuple(map(len, maps)) != wanted or any(
            not -1 <= place < size for size, places in zip(given, maps, strict=True)
            for place in places
        ):  # fmt: skip
            raise TilewrightError(
                "TW1677", f"pixels of {given[0]}x{given[1]} do not make an image of {wanted[0]}x"
                f"{wanted[1]} by {len(self.rows)} rows and {len(self.columns)} columns",
                hint="name the row (or column) of the image for each of the result, or -1",
            )  # fmt: skip
        same = ("channels", "batch", "first")
        if any(getattr(self.image, name) != getattr(self.out, name) for name in same):
            raise TilewrightError("TW1677", "pixels of an image keep their channels")
        if self.image.dtype != "fp8" or self.out.dtype != "fp8":
            raise TilewrightError("TW1672", "only fp8 images are made of others")
        if len(self.selections) > SELECTIONS or self.longest > LONGEST:
            raise TilewrightError(
                "TW1677",
                f"an image of {wanted[0]}x{wanted[1]} is made of {given[0]}x{given[1]} pixels by "
                f"{self.longest} products and {len(self.selections)} selections at a time",
                hint="use sizes whose rows fill tiles",
            )

    # --- which pixels --------------------------------------------------------------------------

    @property
    def tiles(self) -> int:
        """Tiles of a phase of the result."""
        return -(-self.out.rows * self.out.pitch // SIDE)

    def stretches(self, phase: tuple[int, int], tile: int) -> list[Stretch]:
        """Where the pixels of a tile of results are."""
        flat = tile * SIDE + np.arange(SIDE)
        down, across = self.out.phase_count
        r, q = flat // self.out.pitch * down + phase[0], flat % self.out.pitch * across + phase[1]
        inside = self.out.inside(flat, phase)
        rows, columns = np.array(self.rows), np.array(self.columns)
        r, q = rows[np.where(inside, r, 0)], columns[np.where(inside, q, 0)]
        inside &= (r >= 0) & (q >= 0)
        image = self.image
        high, wide = image.phase_count
        places = image.lead + r // high * image.pitch + q // wide
        found = []
        for a, b in image.each_phase():
            mine = np.flatnonzero(inside & (r % high == a) & (q % wide == b))
            while len(mine):
                start = min(int(places[mine].min()), image.pixels - SIDE)
                here = places[mine] < start + SIDE
                chosen = np.zeros((SIDE, SIDE), np.uint8)
                chosen[mine[here], places[mine[here]] - start] = 1
                found.append(Stretch((a, b), start, chosen.tobytes()))
                mine = mine[~here]
        return found

    @cached_property
    def _every(self) -> list[list[list[Stretch]]]:
        """Stretches by phase and tile."""
        phases = self.out.each_phase()
        return [[self.stretches(phase, t) for t in range(self.tiles)] for phase in phases]

    @cached_property
    def selections(self) -> dict[bytes, int]:
        """Different selections, numbered."""
        used = (s.selection for one in self._every for tile in one for s in tile)
        return {selection: k for k, selection in enumerate(dict.fromkeys(used))}

    # --- loops ---------------------------------------------------------------------------------

    @cached_property
    def loop(self) -> tuple[int, int, int]:
        """(tiles of an iteration, iterations, how many times as fast pixels of the image pass);
        no iterations where rows are not alike."""
        if sum(len(tile) for one in self._every for tile in one) <= LOOPED:
            return (1, 0, 1)
        size = period(self.out)
        most = self.tiles // size
        for one in range(1, most // 2 + 1):
            found = self._alike(one * size)
            if found is not None:
                return found
        return (1, 0, 1)

    def _alike(self, size: int) -> tuple[int, int, int] | None:
        """The loop whose iterations are so many tiles."""
        if self.tiles // size < 2:
            return None
        pairs = [
            (self._every[p][t], self._every[p][t + size])
            for p in range(len(self._every)) for t in range(self.tiles - size)
        ]  # fmt: skip
        ahead = next((b[0].start - a[0].start for a, b in pairs if a and b), 0)
        if ahead <= 0 or ahead % (size * SIDE):
            return None
        trips = self.tiles // size
        while trips > 1 and not all(
            [replace(s, start=s.start + ahead) for s in one[t]] == one[t + size]
            for one in self._every for t in range((trips - 1) * size)
        ):  # fmt: skip
            trips -= 1
        return (size, trips, ahead // (size * SIDE)) if trips > 1 else None

    @property
    def longest(self) -> int:
        """Products of the longest body."""
        size, trips, _ = self.loop
        counts = [sum(len(one[t]) for one in self._every) for t in range(self.tiles)]
        return max(sum(counts[: size * bool(trips)]), sum(counts[size * trips :]))

    # --- the kernel ----------------------------------------------------------------------------

    @property
    def kernel(self) -> Kernel:
        specs = {"x": image_type(self.image), "out": image_type(self.out)}
        return kernel_of("resample", specs, self._run)

    def _run(self, x: Any, out: Any) -> None:
        """Pixels of the image at the places of the result's."""
        chosen = {
            selection: tw.park(tw.to_fp8(own_tile(f"selection_{k}", _matrix(selection))))
            for selection, k in self.selections.items()
        }
        panels = self.image.stored[-1]
        for b in tw.each(self.out.batch or 1):
            write_border(out, b, self.out)
            for c in tw.grid(panels):
                for block, tile in self._blocks():
                    for number, phase in enumerate(self.out.each_phase()):
                        y = self._tile(x, chosen, (b, block, c), number, tile)
                        out[(b, *phase, block + self.out.lead, c)] = y

    def _tile(self, x: Any, chosen: dict[bytes, Any], at: Any, number: int, tile: int) -> Any:
        """A tile of the result's phase of this number."""
        b, block, c = at
        other = LOWEST if self.out.fill == "lowest" else 0.0
        if not self._every[number][tile]:
            return tw.full(other, "fp8")
        total = tw.zeros()
        for stretch in self._every[number][tile]:
            pixels = x[(b, *stretch.phase, self._at(block, stretch.start), c)]
            total += chosen[stretch.selection] @ pixels
        place = Block(tile, 1, self.tiles * SIDE)
        kept = kept_rows(self.out, place, self.out.each_phase()[number])
        return tw.to_fp8(tw.keep(total, kept, other))

    def _blocks(self) -> Iterator[tuple[Block, int]]:
        """Every tile of results, and that of the first iteration that is like it."""
        size, trips, _ = self.loop
        if trips:
            for block in tw.grid(trips * size * SIDE, size * SIDE):
                for k, part in enumerate(block.parts()):
                    yield replace(part, shift=0), k
        for tile in range(trips * size, self.tiles):
            yield Block(tile, 1, self.tiles * SIDE, None, 0), tile

    def _at(self, block: Block, start: int) -> Block:
        """The stretch that begins at a pixel in the first iteration."""
        size, _, factor = self.loop
        if block.variable is None:
            return Block(0, 1, self.image.pixels, None, 0) + start
        return block.times_as_fast(factor, size * SIDE, start)


def _matrix(selection: bytes) -> np.ndarray:
    return np.frombuffer(selection, np.uint8).reshape(SIDE, SIDE).astype(np.float64)


def resample(
    image: Image,
    out: Image,
    rows: Sequence[int] | None = None,
    columns: Sequence[int] | None = None,
) -> Resampling:
    """`out` of the pixels of an image; by default the same ones, stored another way."""
    rows = range(image.height) if rows is None else rows
    columns = range(image.width) if columns is None else columns
    return Resampling(image, out, tuple(map(int, rows)), tuple(map(int, columns)))
