"""What else kernels over images read and write, and how it is stored: filters, numbers of channels, means,
images that the host stores window by window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.images import (
    Image,
    Window,
    beyond,
    needed_border,
    round_up,
)
from tilewright.tile.layouts import SIDE


@dataclass(frozen=True)
class Filters:
    """Filters [KH, KW, C / groups, N] as they are given; stored with the channels that a tile of
    32 filters sees, [KH, KW, channels of the widest tile, N], zero where a group does not look.
    """

    height: int
    width: int
    channels: int
    filters: int
    groups: int = 1
    taken: tuple[int, ...] | None = None  # the shape in which they are given, of equal size

    def __post_init__(self) -> None:
        if self.groups < 1 or self.channels % self.groups or self.filters % self.groups:
            raise TilewrightError(
                "TW1673",
                f"{self.groups} groups of {self.channels} channels and {self.filters} filters",
                hint="both have to be multiples of the groups",
            )

    def tiles(self, tile: int) -> tuple[int, int]:
        """First and last tile of channels that a tile of filters sees."""
        each, of = self.filters // self.groups, self.channels // self.groups
        last = min(tile * SIDE + SIDE, self.filters) - 1
        return tile * SIDE // each * of // SIDE, ((last // each + 1) * of - 1) // SIDE

    @property
    def depth(self) -> int:
        """Tiles of channels of the widest tile of filters."""
        spans = [self.tiles(t) for t in range(-(-self.filters // SIDE))]
        return max(last - first + 1 for first, last in spans)

    @property
    def _own(self) -> tuple[int, ...]:
        return (self.height, self.width, self.channels // self.groups, self.filters)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.taken or self._own

    @property
    def stored(self) -> tuple[int, ...]:
        return (self.height, self.width, self.depth * SIDE, round_up(self.filters))

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        """Stored channel of every (channel of its group, filter), and the filter."""
        channel, f = np.indices((self.channels // self.groups, self.filters))
        each, of = self.filters // self.groups, self.channels // self.groups
        firsts = np.array([self.tiles(t)[0] for t in range(-(-self.filters // SIDE))])
        return f // each * of + channel - firsts[f // SIDE] * SIDE, f

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        result = np.zeros(self.stored, codes.dtype)
        channel, f = self._places()
        result[:, :, channel, f] = codes.reshape(self._own)
        return result

    def restored(self, codes: np.ndarray) -> np.ndarray:
        channel, f = self._places()
        return codes[:, :, channel, f].reshape(self.shape)


@dataclass(frozen=True)
class DenseFilters(Filters):
    """Filters of groups, stored as if all saw all channels, with zeros for those of other groups."""

    def tiles(self, tile: int) -> tuple[int, int]:
        return 0, -(-self.channels // SIDE) - 1


@dataclass(frozen=True)
class JoinedFilters(Filters):
    """Filters over images side by side with so many channels each, stored with whole tiles of the
    channels of every image.
    """

    parts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups != 1 or sum(self.parts) != self.channels or min(self.parts, default=0) < 1:
            raise TilewrightError(
                "TW1673",
                f"filters of {self.channels} channels over images of {self.parts} channels",
            )

    def tiles(self, tile: int) -> tuple[int, int]:
        return 0, sum(-(-channels // SIDE) for channels in self.parts) - 1

    @property
    def channel_places(self) -> np.ndarray:
        """Where every channel is stored."""
        starts = np.cumsum([0, *map(round_up, self.parts)])
        pairs = zip(starts[:-1], self.parts, strict=True)
        return np.concatenate([start + np.arange(channels) for start, channels in pairs])

    def _places(self) -> tuple[np.ndarray, np.ndarray]:
        channel, f = np.indices((self.channels, self.filters))
        return self.channel_places[channel], f


@dataclass(frozen=True)
class Diagonals:
    """Filters [KH, KW, 1, N] of a channel each, stored as [taps, N] with zeros up to whole tiles of
    filters. As tiles of filters they would be diagonals, 32 times as many bytes.
    """

    height: int
    width: int
    filters: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.height, self.width, 1, self.filters)

    @property
    def stored(self) -> tuple[int, ...]:
        return (self.height * self.width, round_up(self.filters))

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        rows = codes.reshape(-1, self.filters)
        return np.pad(rows, [(0, 0), (0, round_up(self.filters) - self.filters)])

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return codes[:, : self.filters].reshape(self.shape)


@dataclass(frozen=True)
class Channels:
    """One number per channel, stored with zeros up to whole tiles."""

    count: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.count,)

    @property
    def stored(self) -> tuple[int, ...]:
        return (round_up(self.count),)

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        return np.pad(codes, (0, round_up(self.count) - self.count))

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return codes[: self.count]


@dataclass(frozen=True)
class Means:
    """[images, C], stored with whole tiles of channels."""

    batch: int
    channels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.batch, self.channels)

    @property
    def stored(self) -> tuple[int, ...]:
        return (self.batch, round_up(self.channels))

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        return np.pad(codes, [(0, 0), (0, round_up(self.channels) - self.channels)])

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return codes[:, : self.channels]


@dataclass(frozen=True)
class Unfolded:
    """An image given as [H, W, C] and stored with each pixel's whole window as its channels, for
    first layers with few channels: a convolution over it is a product with one tap.
    """

    source: Image
    window: Window
    out: Image  # the result

    @property
    def into(self) -> Image:
        """How it is stored: pixels as in the result."""
        depth = self.window.height * self.window.width * self.source.channels
        return replace(
            self.out, channels=depth, border=(0, 0), fill="zero", dtype="fp8", first=False, seen=()
        )

    def filters(self, given: Filters) -> Filters:
        """The filters for it, given with their taps."""
        if given.groups != 1:
            raise TilewrightError("TW1675", "an unfolded convolution has one group")
        return Filters(1, 1, self.into.channels, given.filters, taken=given.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def stored(self) -> tuple[int, ...]:
        return self.into.stored

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        seen = taken(self.source.channels_last(codes), self.window)
        return self.into.arranged(seen.reshape(self.into.shape))

    reads_back = False  # pixels are there several times

    def restored(self, codes: np.ndarray) -> np.ndarray:
        raise TilewrightError("TW1672", "an unfolded image is an input and is not read back")


@dataclass(frozen=True)
class UnfoldedAround(Unfolded):
    """The same with the border of the result around it, for bands that look at rows beside theirs."""

    @property
    def into(self) -> Image:
        return replace(super().into, border=self.out.border, spare=max(1, self.out.spare))


@dataclass(frozen=True)
class UnfoldedColumns(Unfolded):
    """The same for the columns of a window only: every pixel of a row stands for the columns that a
    window sees there, and a convolution over it has a tap per row. `window` is one row of a window,
    `out` the image that is stored.
    """

    @property
    def into(self) -> Image:
        return self.out

    def filters(self, given: Filters) -> Filters:
        if given.groups != 1:
            raise TilewrightError("TW1675", "an unfolded convolution has one group")
        return Filters(
            given.height, 1, self.into.channels, given.filters, taken=given.shape
        )  # fmt: skip


def unfolded_columns(image: Image, window: Window, out: Image) -> tuple[UnfoldedColumns, Window]:
    """An image whose columns are unfolded for a window, and what is left of the window."""
    top, left, bottom, right = window.sides
    across = Window(
        1, window.width, (1, window.steps[1]), (0, left, 0, right), (1, window.spacing[1])
    )
    down = Window(
        window.height, 1, (window.steps[0], 1), (top, 0, bottom, 0), (window.spacing[0], 1)
    )
    stored = Image(
        image.height, out.width, window.width * image.channels,
        (out.phase_count[0] * window.steps[0], out.phase_count[1]), batch=image.batch,
        pitch=out.pitch,
    )  # fmt: skip
    stored = replace(stored, border=(needed_border(stored, down)[0], 0))
    stored = replace(stored, spare=max(0, -(-beyond(stored, down) // SIDE)))
    return UnfoldedColumns(image, across, stored), down


def taken(image: np.ndarray, window: Window, border: int | float = 0) -> np.ndarray:
    """[..., rows, columns, taps, C]: what every position of a window sees."""
    rows, columns = window.result(*image.shape[-3:-1])
    top, left, bottom, right = window.sides
    wide = [(0, 0)] * (image.ndim - 3) + [(top, bottom), (left, right), (0, 0)]
    padded = np.pad(image, wide, constant_values=border)
    seen = []
    for i, j in window.taps:
        down = i * window.spacing[0] + np.arange(rows) * window.steps[0]
        across = j * window.spacing[1] + np.arange(columns) * window.steps[1]
        seen.append(padded[..., down[:, None], across[None, :], :])
    return np.stack(seen, axis=-2)
