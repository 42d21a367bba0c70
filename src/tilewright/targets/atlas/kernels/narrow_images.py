"""Images of few channels, as a kernel writes them for the host: several tiles of pixels side by side.

A tile has 32 columns, and an image of 8 channels needs 8 of them. What only the host reads may lie as it
likes, so four tiles of pixels share one:

    columns        0..7      8..15     16..23    24..31
    32 pixels of   tile 0    tile 1    tile 2    tile 3        of one phase, or of phases in a row

Filters are stored once for each of these places, in its columns, with zeros in all others: products of every
tile of pixels with the filters of its place are added up in one accumulator. So one sum leaves where
there were four, one tile is scaled, and a quarter of the bytes go to DRAM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.image_operands import Filters
from tilewright.targets.atlas.kernels.images import SIDE, Image, round_up
from tilewright.tile.types import TensorSpec, bf16, fp8

MOST = 8  # places in a tile: filters are stored as often
FEWEST = 16  # tiles of pixels that are worth it
AGAIN = 3  # times filters count: with more of them, fewer pixels are computed together


@dataclass(frozen=True)
class NarrowImage(Image):
    """A result for the host. beside: phases in a row and tiles of a phase whose pixels share a tile, in
    this order; pixels that are none of the image may hold anything."""

    beside: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        super().__post_init__()
        across, down = self.beside
        fits = across > 0 < down and not SIDE % self.places and self.channels <= self.wide
        plain = self.border == (0, 0) and not self.spare and self.dtype == "bf16"
        if not fits or not plain or self.phase_count[1] % across:
            raise TilewrightError(
                "TW1670",
                f"{self.channels} channels of {self.beside} tiles of pixels side by side, in "
                f"{self.phase_count} phases",
                hint="a bf16 image without border, whose channels share a tile",
            )

    # --- places ---------------------------------------------------------------------------

    @property
    def places(self) -> int:
        """Tiles of pixels in one."""
        return self.beside[0] * self.beside[1]

    @property
    def wide(self) -> int:
        """Columns of each."""
        return SIDE // self.places

    @property
    def tiles(self) -> int:
        """Of pixels, of a phase."""
        return -(-self.rows * self.pitch // SIDE)

    @property
    def stored(self) -> tuple[int, ...]:
        down, across = self.phase_count
        rows = -(-self.tiles // self.beside[1]) * SIDE
        return (self.batch or 1, down, across // self.beside[0], rows, SIDE)

    @property
    def grid(self) -> Image:
        """A phase image of what is stored, to go over its tiles: one has the pixels of several."""
        return Image(self.stored[3] // SIDE, SIDE, SIDE, pitch=SIDE, batch=self.batch)

    def members(self, phase: tuple[int, int], tile: int) -> list[tuple[int, tuple[int, int], int]]:
        """(place, phase, tile of it) of all tiles of pixels that share a stored one."""
        across, each = self.beside
        return [
            (i * each + j, (phase[0], phase[1] * across + i), tile * each + j)
            for i in range(across) for j in range(each) if tile * each + j < self.tiles
        ]  # fmt: skip

    def inside(self, flat: np.ndarray, phase: tuple[int, int]) -> np.ndarray:
        """All of them: nobody reads the others, so none has to be zero."""
        return np.ones(np.shape(flat), bool)

    # --- storing --------------------------------------------------------------------------

    def _stored_at(self) -> tuple[np.ndarray, ...]:
        """Phase row and column, pixel and place of every (row, column)."""
        a, b, flat = self._flat()
        across, each = self.beside
        tile, pixel = flat // SIDE, flat % SIDE
        place = b % across * each + tile % each
        return a, b // across, tile // each * SIDE + pixel, place

    def _columns(self) -> tuple[np.ndarray, ...]:
        a, b, pixel, place = (index[..., None] for index in self._stored_at())
        return a, b, pixel, place * self.wide + np.arange(self.channels)

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        result = np.zeros(self.stored, codes.dtype)
        image = self.channels_last(codes)
        a, b, pixel, column = self._columns()
        result[:, a, b, pixel, column] = image.reshape(
            self.batch or 1, self.height, self.width, self.channels
        )
        return result

    def restored(self, codes: np.ndarray) -> np.ndarray:
        a, b, pixel, column = self._columns()
        image = codes[:, a, b, pixel, column]
        image = np.moveaxis(image, -1, -3) if self.first else image
        return image.reshape(self.shape)

    def neighbours(self) -> tuple[np.ndarray, np.ndarray]:
        """Of every (row, column), whether others come before it in the sums of its tile, and behind it."""
        _, _, pixel, place = self._stored_at()
        each = self.beside[1]
        there = np.minimum(each, self.tiles - pixel // SIDE * each)  # tiles of a phase
        return place > 0, place < self.places - each + there - 1


def narrow(image: Image, products: int, filters: int, most: int = MOST) -> Image:
    """An image for the host with as many tiles of pixels side by side as move the fewest bytes, `most` at
    most, or the image as it is. Every place takes `products` tiles of filters; `filters` is their room."""
    each_phase = -(-image.rows * image.pitch // SIDE)
    tiles = each_phase * math.prod(image.phase_count) * (image.batch or 1)

    def moved(places: int) -> float:
        """Tiles of results, which are bf16, and of filters."""
        return 2 * tiles / places + AGAIN * products * places

    ways = [1 << k for k in range(most.bit_length())]
    fitting = [n for n in ways if n * image.channels <= SIDE and n * products <= filters]
    if not fitting or tiles < FEWEST:
        return image
    places = min(fitting, key=moved)
    across = math.gcd(places, image.phase_count[1])
    each = min(places // across, 1 << (each_phase.bit_length() - 1))
    if across * each == 1:
        return image
    names = ("height", "width", "channels", "phases", "pitch", "batch", "first")
    same = {name: getattr(image, name) for name in names}
    return NarrowImage(**same, dtype="bf16", beside=(across, each))


@dataclass(frozen=True)
class PlacedFilters:
    """Filters once for every place that their results have in a tile, zero in the columns of others."""

    given: Filters
    places: int

    def __post_init__(self) -> None:
        if self.places < 1 or SIDE % self.places or self.given.filters > SIDE // self.places:
            raise TilewrightError(
                "TW1673", f"{self.given.filters} filters at {self.places} places of a tile",
                hint=f"use fewer than {SIDE} filters",
            )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        return self.given.shape

    @property
    def stored(self) -> tuple[int, ...]:
        return (*self.given.stored[:3], self.places * SIDE)

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        own = self.given.arranged(codes)[..., : self.given.filters]
        result = np.zeros(self.stored, codes.dtype)
        for place in range(self.places):
            first = place * SIDE + place * (SIDE // self.places)
            result[..., first : first + self.given.filters] = own
        return result

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return self.given.restored(codes[..., : round_up(self.given.filters)])


@dataclass(frozen=True)
class PlacedChannels:
    """One number per channel, once for every place that channels have in a tile."""

    count: int
    places: int

    def __post_init__(self) -> None:
        if self.places < 1 or SIDE % self.places or not 0 < self.count <= SIDE // self.places:
            raise TilewrightError(
                "TW1673", f"{self.count} channels at {self.places} places of a tile",
                hint=f"use fewer than {SIDE} channels",
            )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def stored(self) -> tuple[int, ...]:
        return (SIDE,)

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        result = np.zeros((self.places, SIDE // self.places), codes.dtype)
        result[:, : self.count] = codes
        return result.reshape(SIDE)

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return codes[: self.count]


def operand_types(out: NarrowImage, filters: Filters) -> tuple[TensorSpec, TensorSpec]:
    """The types of filters, and of numbers per filter, of a convolution that makes such an image."""
    w, row = PlacedFilters(filters, out.places), PlacedChannels(out.channels, out.places)
    return fp8[w.stored].panels().arranged(w), bf16[row.stored].arranged(row)
