"""Pooling, and sums of images: fp8 images in, fp8 images out, stored as `images.py` says.

A maximum runs on the vector unit and is exact. An average is a sum of products with a diagonal
tile on a matrix unit, rounded to bf16 after every tap, and one multiplication. A tap outside of the
image never wins a maximum: the border has to hold the lowest number (`fill="lowest"`), or nothing
but numbers that are not negative may be in the image (after a ReLU, zeros serve as well).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS
from tilewright.targets.atlas.kernels.image_blocks import (
    Blocking,
    Cost,
    choose,
    kept_rows,
    own_tile,
    pixel_blocks,
    write_border,
)
from tilewright.targets.atlas.kernels.image_operands import Means
from tilewright.targets.atlas.kernels.images import (
    LOWEST,
    SIDE,
    Image,
    Window,
    check_result,
    check_window,
    image_type,
    needed_border,
    result_image,
    round_up,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.backend import active
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.types import fp8

LONGEST = 1600  # steps on the vector unit in one loop body


@dataclass(frozen=True)
class Pooling:
    """One pooling of images of one size; the kernel takes x."""

    image: Image
    window: Window
    out: Image
    kernel: Kernel
    plan: _Plan | None = field(default=None, compare=False)

    def blocking(self, profile: Profile) -> Blocking:
        """How it is cut on a machine; an error where it does not fit."""
        assert self.plan is not None
        return self.plan.blocking(profile)


def max_pool(
    image: Image, window: Window, *, nonnegative: bool = False, out: Image | None = None
) -> Pooling:
    """The largest of each window.

    nonnegative: no number of the image is negative, so that a border of zeros may be read.
    """
    check_window(image, window, "a maximum")
    if any(needed_border(image, window)) and image.fill != "lowest" and not nonnegative:
        raise TilewrightError(
            "TW1676",
            "a maximum over windows that leave the image reads its border of zeros",
            hint='store the image with fill="lowest", or say nonnegative=True',
        )
    out = out or result_image(image, window, image.channels)
    plan = _Plan(image, window, out, 2 * len(window.taps), 66.0)
    return _made("max_pool", plan, plan.largest)


def average_pool(
    image: Image, window: Window, *, count_padding: bool = True, out: Image | None = None
) -> Pooling:
    """The mean of each window; with `count_padding` pixels outside of the image count as zeros,
    without they do not count."""
    check_window(image, window, "an average")
    if any(needed_border(image, window)) and image.fill != "zero":
        raise TilewrightError(
            "TW1676",
            "an average over windows that leave the image needs a border of zeros",
            hint='store the image with fill="zero"',
        )
    counting = count_padding or not any(window.sides)
    out = out or result_image(image, window, image.channels)
    plan = _Plan(image, window, out, len(window.taps), 40.0, counting)
    return _made("average_pool", plan, plan.mean)


def _made(name: str, plan: _Plan, function: Any) -> Pooling:
    check_result(plan.image, plan.window, plan.image.channels, plan.out)
    specs = {"x": image_type(plan.image), "out": image_type(plan.out)}
    return Pooling(plan.image, plan.window, plan.out, kernel_of(name, specs, function), plan)


@dataclass(frozen=True)
class _Plan:
    image: Image
    window: Window
    out: Image
    steps: int  # of a tile of pixels
    ticks: float  # of a step
    counting: bool = True

    def largest(self, x: Any, out: Any) -> None:
        """The largest of each window."""
        for at, taps in self._windows(x, out):
            best = None
            for tap in taps:
                value = tw.to_bf16(tap)
                best = value if best is None else tw.maximum(best, value)
            self._write(out, at, best)

    def mean(self, x: Any, out: Any) -> None:
        """The mean of each window."""
        count = len(self.window.taps)
        unit = 2.0 ** -min(9, count.bit_length() - 1)  # sums of a window stay in range
        diagonal = tw.park(tw.to_fp8(own_tile("diagonal", np.eye(SIDE)) * unit))
        for at, taps in self._windows(x, out):
            total = tw.zeros()
            for tap in taps:
                total += tap @ diagonal
            share = 1 / (count * unit) if self.counting else self._shares(at, unit)
            self._write(out, at, total * share)

    def _windows(self, x: Any, out: Any) -> Any:
        """(image, phase, pixels, channels) of every block, and the tiles under the taps."""
        phases = self.out.each_phase()
        panels = self.image.stored[-1] // SIDE
        blocking = self.blocking(active_profile())
        for b in tw.each(self.out.batch or 1):
            write_border(out, b, self.out)
            for block in tw.grid(panels * SIDE, blocking.panels * SIDE):
                for p in pixel_blocks(self.out, blocking.tiles):
                    for c, phase in product(block.parts(), phases):
                        places = [self.window.place(self.image, phase, t) for t in self.window.taps]
                        taps = (x[b, at.row, at.column, p + at.shift, c] for at in places)
                        yield (b, phase, p, c), taps

    def blocking(self, profile: Profile) -> Blocking:
        """Tiles of pixels and panels of channels in one body."""
        panels = self.image.stored[-1] // SIDE
        return choose(self.out, panels, self._cost(), profile, "pooling")

    def _cost(self) -> Cost:
        phases = self.out.each_phase()
        places = [self.window.place(self.image, f, tap) for f in phases for tap in self.window.taps]
        seen = {(at.row, at.column) for at in places}
        shifts = [at.shift for at in places]
        halo = max(shifts) - min(shifts)
        steps = len(phases) * self.steps
        return Cost(0, len(seen), halo, 0, len(phases), steps, self.ticks, LONGEST)

    def _write(self, out: Any, at: Any, y: Any) -> None:
        b, phase, p, c = at
        other = LOWEST if self.out.fill == "lowest" else 0.0
        y = tw.keep(y, kept_rows(self.out, p, phase), other)
        y = tw.to_fp8(y) if self.out.dtype == "fp8" else y
        out[b, phase[0], phase[1], p + self.out.lead, c] = y

    def _shares(self, at: Any, unit: float) -> Any:
        """1 / (taps inside of the image), for every pixel of a block."""
        _, phase, p, _ = at
        total = round_up(self.out.rows * self.out.pitch)
        flat = np.arange(total)
        counts = np.zeros(total)
        down, across = self.out.phase_count
        r, q = flat // self.out.pitch * down + phase[0], flat % self.out.pitch * across + phase[1]
        for i, j in self.window.taps:
            row = r * self.window.steps[0] + i * self.window.spacing[0] - self.window.sides[0]
            column = q * self.window.steps[1] + j * self.window.spacing[1] - self.window.sides[1]
            counts += (
                (row >= 0) & (row < self.image.height) & (column >= 0) & (column < self.image.width)
            )
        shares = np.repeat(1 / (np.maximum(counts, 1) * unit)[:, None], SIDE // 2, axis=1)
        tensor = active().constant_tensor(f"shares_{phase[0]}_{phase[1]}", lambda: shares, "halves")
        return tensor[replace(p, extent=total, shift=None), :]


@dataclass(frozen=True)
class GlobalPooling:
    """The mean of whole images; the kernel takes x and gives fp8 [images, C]."""

    image: Image
    kernel: Kernel


def global_average_pool(image: Image) -> GlobalPooling:
    """The mean of all pixels, one row per image: what a linear layer takes."""
    if image.fill != "zero":
        raise TilewrightError(
            "TW1676", "a mean over a whole image needs a border of zeros", hint='fill="zero"'
        )
    if image.dtype != "fp8":
        raise TilewrightError("TW1672", f"a mean reads fp8 images, not {image.dtype}")

    def run(x: Any, out: Any) -> None:
        """The mean of all pixels of each image."""
        count, batch = image.height * image.width, image.batch or 1
        unit = 2.0 ** -min(9, max(0, count.bit_length() - 1))
        first, last = image.lead // SIDE, -(-(image.lead + image.rows * image.pitch) // SIDE)
        panels = image.stored[-1]
        for start in range(0, batch, SIDE):
            rows = range(start, min(batch, start + SIDE))
            into = Block(start // SIDE, 1, batch)
            for c in tw.grid(panels):
                total = tw.zeros()
                for b in rows:
                    row = np.arange(SIDE) == b - start
                    chosen = tw.to_fp8(tw.keep(tw.full(unit), row, nonnegative=True))
                    for a, d, tile in np.ndindex(*image.phase_count, last - first):
                        pixels = x[b, a, d, Block(first + tile, 1, image.pixels), c]
                        total += chosen @ pixels
                out[into, c] = tw.to_fp8(first_rows(total * (1 / (count * unit)), len(rows)))

    specs = {
        "x": image_type(image),
        "out": fp8[image.batch or 1, round_up(image.channels)].arranged(
            Means(image.batch or 1, image.channels)
        ),
    }
    return GlobalPooling(image, kernel_of("global_average_pool", specs, run))


def first_rows(x: Any, count: int, columns: int = SIDE) -> Any:
    """The tile as one whose first rows (and columns) count."""
    tiles = x.tiles()
    return replace(tiles, rows=[count], columns=[columns])


@dataclass(frozen=True)
class ImageSum:
    """The sum of two images; the kernel takes a and b."""

    image: Image
    activation: str
    kernel: Kernel


def add_images(image: Image, activation: str = "none") -> ImageSum:
    """activation(a + b) of two images that are stored alike: the end of a residual block."""
    if activation not in ACTIVATIONS or image.fill != "zero" or image.dtype != "fp8":
        raise TilewrightError(
            "TW1675",
            f"a sum of {image.dtype} images with a border of {image.fill!r} and the activation "
            f"{activation!r}",
            hint=f"images are fp8 with a border of zeros; use {', '.join(ACTIVATIONS)}",
        )

    def run(a: Any, b: Any, out: Any) -> None:
        """activation(a + b)."""
        panels = image.stored[-1]
        first = ACTIVATIONS[activation]
        for i in tw.each(image.batch or 1):
            for row, column in np.ndindex(*image.phase_count):
                for c in tw.grid(panels):
                    for p in tw.grid(image.pixels):
                        at = (i, row, column, p, c)
                        out[at] = tw.to_fp8(first(tw.to_bf16(a[at]) + tw.to_bf16(b[at])))

    specs = {name: image_type(image) for name in ("a", "b", "out")}
    return ImageSum(image, activation, kernel_of("add_images", specs, run))
