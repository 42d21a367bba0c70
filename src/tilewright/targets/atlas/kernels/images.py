"""How images and filters lie in DRAM, so that windows over them are plain tiles.

An image of H x W pixels with C channels is stored as

    [phase row, phase column, channel panel, pixel, 32 channels]      fp8, 32 bytes a pixel

*Phases.* With S phases pixel (r, q) belongs to the phase image (r mod S, q mod S), at row r // S
and column q // S of it. A window that moves S pixels at a time then moves one pixel in every phase
image, so pixels that are computed together lie one after the other. A kernel with stride s takes
an image of S phases to one of S / s; a whole network starts with the product of its strides. Rows
and columns may have different phases.

*Pixels.* The rows of a phase image follow each other, `pitch` pixels apart: a tile of 32 pixels
goes on in the next row, and small images fill tiles as well as large ones. What one operation
reads and writes has the same pitch.

*Border.* Before the first row, after the last, and between rows lie pixels that are not of the
image; the end of one row serves as the left border of the next. They are zero (or the lowest
number, for a maximum over windows that leave the image), and every kernel writes them so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.tile.layouts import SIDE
from tilewright.tile.types import TensorSpec, bf16, fp8

MANY = 24  # tiles of a phase image that is worth a loop
LOWEST = -448.0  # the lowest fp8 number
_FILLS = {"zero": 0x00, "lowest": 0xFE}


def round_up(size: int, step: int = SIDE) -> int:
    return -(-size // step) * step


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    """The same number for rows and columns, or one for each."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


@dataclass(frozen=True)
class Image:
    """An image as it is given ([H, W, C], or [B, H, W, C] with a batch) and stored.

    border: rows above and below, and columns beside each row, of every phase image.
    pitch: pixels from row to row of a phase image; 0: few pixels, but also few places of tiles
    at which rows begin, since each needs a mask of its own.
    fill: what the border holds, "zero" or "lowest". dtype: fp8, or bf16 for results. spare: tiles
    behind the last one, for windows without padding that begin between tiles. first: arrays have
    their channels before rows and columns, [C, H, W] or [B, C, H, W]. seen: of every phase, tiles of
    border before and behind its pixels that somebody looks at, in one row; nothing: all of them.
    """

    height: int
    width: int
    channels: int
    phases: int | tuple[int, int] = 1
    border: tuple[int, int] = (0, 0)
    pitch: int = 0
    fill: str = "zero"
    batch: int | None = None
    dtype: str = "fp8"
    spare: int = 0
    first: bool = False
    seen: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "phases", pair(self.phases))
        sizes = (self.height, self.width, self.channels, *self.phase_count, self.batch or 1)
        if min(sizes) < 1 or min(self.border) < 0:
            raise TilewrightError(
                "TW1670", f"an image of {self.height}x{self.width}x{self.channels} pixels in "
                f"{self.phase_count} phases with a border of {self.border}", hint="sizes are 1 or more"
            )  # fmt: skip
        if self.seen and len(self.seen) != 2 * math.prod(self.phase_count):
            raise TilewrightError(
                "TW1670",
                f"{len(self.seen)} numbers of tiles of border for {self.phase_count} phases",
                hint="two for each, or none",
            )
        if self.fill not in _FILLS:
            raise TilewrightError(
                "TW1670", f"a border of {self.fill!r}", hint='use "zero" or "lowest"'
            )
        least = self.columns + self.border[1]
        if not self.pitch:
            object.__setattr__(self, "pitch", _best_pitch(self.rows, self.columns, least))
        if self.pitch < least:
            raise TilewrightError(
                "TW1670",
                f"rows of {self.columns} pixels and a border of {self.border[1]} in a pitch of "
                f"{self.pitch}",
                hint=f"make it at least {least}",
            )

    def each_phase(self) -> list[tuple[int, int]]:
        down, across = self.phase_count
        return [(a, b) for a in range(down) for b in range(across)]

    # --- geometry of a phase image, in its own pixels ---

    @property
    def phase_count(self) -> tuple[int, int]:
        return pair(self.phases)

    @property
    def rows(self) -> int:
        return -(-self.height // self.phase_count[0])

    @property
    def columns(self) -> int:
        return -(-self.width // self.phase_count[1])

    @property
    def around(self) -> int:
        """Pixels that a window may reach beyond the first and the last one."""
        return self.border[0] * self.pitch + self.border[1]

    @property
    def lead(self) -> int:
        """Where the first pixel is."""
        return round_up(self.around)

    @property
    def pixels(self) -> int:
        """Of a phase image with its border: whole tiles."""
        around = 2 * round_up(self.around)
        return around + round_up(self.rows * self.pitch) + self.spare * SIDE

    def border_seen(self, phase: tuple[int, int]) -> tuple[int, int]:
        """Tiles of border that are looked at before and behind the pixels of a phase, at most."""
        if not self.seen:
            return self.pixels // SIDE, self.pixels // SIDE
        at = 2 * (phase[0] * self.phase_count[1] + phase[1])
        return self.seen[at], self.seen[at + 1]

    def inside(self, flat: np.ndarray, phase: tuple[int, int]) -> np.ndarray:
        """Which pixels of a phase, counted from its first one, are of the image."""
        row, column = flat // self.pitch, flat % self.pitch
        down = row * self.phase_count[0] + phase[0] < self.height
        across = column * self.phase_count[1] + phase[1] < self.width
        return (flat >= 0) & down & across

    # --- storing ---

    @property
    def shape(self) -> tuple[int, ...]:
        whole = (self.height, self.width, self.channels)
        whole = (whole[2], *whole[:2]) if self.first else whole
        return whole if self.batch is None else (self.batch, *whole)

    def channels_last(self, codes: np.ndarray) -> np.ndarray:
        """An array of `shape` as [..., H, W, C]."""
        return np.moveaxis(codes, -3, -1) if self.first else codes

    @property
    def stored(self) -> tuple[int, ...]:
        """Images, phase rows, phase columns, pixels, channels."""
        channels = round_up(self.channels)
        return (self.batch or 1, *self.phase_count, self.pixels, channels)

    def _flat(self) -> tuple[np.ndarray, ...]:
        """Phase row, phase column and pixel of every (row, column)."""
        r, q = np.indices((self.height, self.width))
        down, across = self.phase_count
        flat = self.lead + r // down * self.pitch + q // across
        return r % down, q % across, flat

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        fill = _FILLS[self.fill] if codes.dtype == np.uint8 else 0
        result = np.full(self.stored, fill, codes.dtype)
        result[..., self.channels :] = 0
        a, b, flat = self._flat()
        image = self.channels_last(codes)
        image = image.reshape(self.batch or 1, self.height, self.width, self.channels)
        result[:, a, b, flat, : self.channels] = image
        return result

    def restored(self, codes: np.ndarray) -> np.ndarray:
        a, b, flat = self._flat()
        image = codes[:, a, b, flat, : self.channels]
        image = np.moveaxis(image, -1, -3) if self.first else image
        return image.reshape(self.shape)


@dataclass(frozen=True)
class Window:
    """A window of taps that moves over an image.

    padding: of all sides, or top, left, bottom, right.
    """

    height: int
    width: int
    stride: int | tuple[int, int] = 1
    padding: int | tuple[int, int, int, int] = 0
    dilation: int | tuple[int, int] = 1

    def __post_init__(self) -> None:
        if isinstance(self.padding, int):
            object.__setattr__(self, "padding", (self.padding,) * 4)
        sizes = (self.height, self.width, *self.steps, *self.spacing)
        if min(sizes) < 1 or len(self.sides) != 4 or min(self.sides) < 0:
            raise TilewrightError(
                "TW1671", f"{self} is no window",
                hint="sizes, stride and dilation are 1 or more, padding 0 or more",
            )  # fmt: skip

    @property
    def sides(self) -> tuple[int, ...]:
        """Padding: top, left, bottom, right."""
        return self.padding if isinstance(self.padding, tuple) else (self.padding,) * 4

    @property
    def steps(self) -> tuple[int, int]:
        return pair(self.stride)

    @property
    def spacing(self) -> tuple[int, int]:
        return pair(self.dilation)

    @property
    def taps(self) -> list[tuple[int, int]]:
        return [(i, j) for i in range(self.height) for j in range(self.width)]

    def result(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of what it makes of an image."""
        top, left, bottom, right = self.sides
        spans = (
            (height + top + bottom, self.height, self.steps[0], self.spacing[0]),
            (width + left + right, self.width, self.steps[1], self.spacing[1]),
        )
        rows, columns = ((size - (k - 1) * apart - 1) // step + 1 for size, k, step, apart in spans)
        if rows < 1 or columns < 1:
            raise TilewrightError(
                "TW1671",
                f"a window of {self.height}x{self.width} (dilation {self.dilation}) does not fit "
                f"into {height}x{width} pixels with padding {self.sides}",
                hint="use more padding or a smaller window",
            )
        return rows, columns

    def place(self, image: Image, phase: tuple[int, int], tap: tuple[int, int]) -> Tap:
        """Where a tap of a result's phase is in the image."""
        found = []
        for k in range(2):
            at = self.steps[k] * phase[k] + tap[k] * self.spacing[k] - self.sides[k]
            found.append((at % image.phase_count[k], at // image.phase_count[k]))
        (a, down), (b, across) = found
        return Tap(a, b, down, across, image.lead + down * image.pitch + across)


@dataclass(frozen=True)
class Tap:
    """A phase of an image, how far (rows, columns) from the pixel of the result, and how many
    stored pixels that is."""

    row: int
    column: int
    down: int
    across: int
    shift: int


def needed_border(image: Image, window: Window) -> tuple[int, int]:
    """Rows and columns of border that a window of this kind wants."""
    rows, columns = window.result(image.height, image.width)
    phases = result_phases(image, window)
    down, across = [0], [0]
    for phase in np.ndindex(*phases):
        last = -(-(rows - phase[0]) // phases[0]) - 1, -(-(columns - phase[1]) // phases[1]) - 1
        for tap in window.taps:
            place = window.place(image, (phase[0], phase[1]), tap)
            down += [-place.down, last[0] + place.down - image.rows + 1]
            across += [-place.across, last[1] + place.across - image.columns + 1]
    return max(down), max(across)


def result_phases(image: Image, window: Window) -> tuple[int, int]:
    down, across = (n // step for n, step in zip(image.phase_count, window.steps, strict=True))
    return down, across


def prepared(image: Image, window: Window) -> Image:
    """The image with the border and the pitch that a window over it wants."""
    rows, columns = needed_border(image, window)
    border = max(rows, image.border[0]), max(columns, image.border[1])
    wide = replace(image, border=border, pitch=0, seen=())
    across = result_phases(image, window)[1]
    least = -(-window.result(image.height, image.width)[1] // across) + border[1]
    wide = wide if wide.pitch >= least else replace(wide, pitch=round_up(least, 8))
    return replace(wide, spare=max(wide.spare, -(-beyond(wide, window) // SIDE)))


def result_image(image: Image, window: Window, channels: int, **changes: Any) -> Image:
    """What a window makes of an image, stored with the same border and pitch."""
    height, width = window.result(image.height, image.width)
    phases = result_phases(image, window)
    least = -(-width // phases[1]) + image.border[1]
    if least > image.pitch:
        raise TilewrightError(
            "TW1672",
            f"the result has rows of {least - image.border[1]} pixels and {image.border[1]} of border "
            f"for a pitch of {image.pitch}",
            hint=f"store the image with pitch={round_up(least, 8)}",
        )
    return replace(
        image, height=height, width=width, channels=channels, phases=phases,
        **{"fill": "zero", "spare": 0, "seen": (), **changes},
    )  # fmt: skip


def check_result(image: Image, window: Window, channels: int, out: Image) -> None:
    """An error unless `out` is a way to store what the window makes of the image."""
    wanted = result_image(image, window, channels, dtype=out.dtype, fill=out.fill)
    fixed = ("height", "width", "channels", "batch", "phases", "pitch")
    if any(getattr(out, name) != getattr(wanted, name) for name in fixed):
        raise TilewrightError(
            "TW1672",
            f"the result is {wanted.height}x{wanted.width}x{channels} in {wanted.phase_count} phases "
            f"with a pitch of {image.pitch}, not {out.height}x{out.width}x{out.channels} in "
            f"{out.phase_count} with {out.pitch}",
            hint="make it with result_image(image, window, channels)",
        )


def image_type(image: Image) -> TensorSpec:
    """The type of a kernel's parameter for an image."""
    element = fp8 if image.dtype == "fp8" else bf16
    spec = element[image.stored].panels() if image.dtype == "fp8" else element[image.stored]
    return spec.arranged(image)


def check_window(image: Image, window: Window, what: str) -> None:
    """An error unless the window can move over the image as it is stored."""
    if image.dtype != "fp8":
        raise TilewrightError("TW1672", f"{what} reads fp8 images, not {image.dtype}")
    if any(n % step for n, step in zip(image.phase_count, window.steps, strict=True)):
        wanted = tuple(map(math.lcm, image.phase_count, window.steps))
        raise TilewrightError(
            "TW1672",
            f"{what} with stride {window.steps} over an image of {image.phase_count} phases",
            hint=f"store it in multiples of the stride: Image(..., phases={wanted})",
        )
    rows, columns = needed_border(image, window)
    if rows > image.border[0] or columns > image.border[1]:
        raise TilewrightError(
            "TW1672",
            f"{what} reaches {rows} rows and {columns} columns of border, the image has "
            f"{image.border[0]} and {image.border[1]}",
            hint="store it as prepared(image, window)",
        )
    if beyond(image, window) > 0:
        raise TilewrightError(
            "TW1672",
            f"the last tile of {what} reaches {beyond(image, window)} pixels beyond the image",
            hint="store it as prepared(image, window)",
        )


def beyond(image: Image, window: Window) -> int:
    """Pixels that the last tile of a result reaches beyond what is stored."""
    rows = -(-window.result(image.height, image.width)[0] // result_phases(image, window)[0])
    farthest = max(
        window.place(image, (a, c), tap).shift
        for a, c in np.ndindex(*result_phases(image, window))
        for tap in window.taps
    )
    return round_up(rows * image.pitch) + farthest - image.pixels


@lru_cache(4096)  # a network has the same few sizes again and again
def _best_pitch(rows: int, columns: int, least: int) -> int:
    """The pitch that costs least for `rows` of `columns` pixels, the smallest of equals."""
    sizes = range(least, round_up(least) + 1)
    return min(sizes, key=lambda pitch: (_waste(rows, columns, pitch), pitch))


def _waste(rows: int, columns: int, pitch: int) -> int:
    """What a pitch costs, in tiles: pixels, masks, and rows until a loop can repeat."""
    tiles = -(-rows * pitch // SIDE)
    every = math.lcm(pitch, SIDE) // SIDE
    starts = np.arange(min(tiles, every) * SIDE).reshape(-1, SIDE) % pitch
    masks = np.unique(starts[(starts >= columns).any(1), 0])  # which says how the tile goes on
    return 2 * tiles + len(masks) + (every if tiles > MANY else 0)
