"""The kernels over images that whole models are made of.

Convolution and pooling are the library's. Two more are for the way out of images: `gather` makes
rows of them, one per image, for the products that follow; `combine` works on images element by
element. Options are JSON: images and windows as `targets/atlas/kernels/arrangements.py` writes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels import convolution, pooling
from tilewright.targets.atlas.kernels.convolution import ACTIVATIONS, Convolution
from tilewright.targets.atlas.kernels.convolution_chain import Chain, convolution_chain
from tilewright.targets.atlas.kernels.convolution_pooling import Pool
from tilewright.targets.atlas.kernels.image_blocks import (
    kept_rows,
    loaded,
    own_tile,
    pixel_blocks,
    stored,
    write_border,
)
from tilewright.targets.atlas.kernels.image_operands import Channels
from tilewright.targets.atlas.kernels.image_sources import Source
from tilewright.targets.atlas.kernels.images import SIDE, Image, image_type, round_up
from tilewright.targets.atlas.kernels.pooling import Pooling, first_rows
from tilewright.targets.atlas.kernels.resampling import Resampling
from tilewright.targets.atlas.kernels.resampling import resample as resampling
from tilewright.targets.atlas.model.kernel_options_images import (
    ChainOptions,
    CombineOptions,
    ConvolutionOptions,
    GateOptions,
    GatherOptions,
    ImageNormOptions,
    JoinOptions,
    MeanOptions,
    PoolOptions,
    ResampleOptions,
    parts_of,
    stored_image,
    stored_window,
)
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.arrays import spread
from tilewright.tile.blocks import Block
from tilewright.tile.kernel import Kernel, kernel_of
from tilewright.tile.types import bf16, fp8

NORMED = 24  # tiles of pixels and channels that are normed together


def convolved(o: ConvolutionOptions, first: bool | None = None) -> Convolution:
    """The convolution of some options; `first` says anew where arrays have their channels."""
    return convolution.conv2d(
        stored_image(o["image"], first), o["filters"], stored_window(o["window"]), groups=o["groups"],
        bias=o["bias"], scale=o["scale"], activation=o["activation"],
        factor=o["factor"], out=stored_image(o["out"], first), unfolded=o["unfolded"],
        diagonal=o["diagonal"], sources=sources_of(o, first), share=o["share"],
        added=None if o["added"] is None else stored_image(o["added"], first),
        gate=None if o["gate"] is None else stored_image(o["gate"], first), deep=o["deep"],
        pool=pool_of(o, first),
    )  # fmt: skip


def pool_of(o: ConvolutionOptions, first: bool | None = None) -> Pool | None:
    """What a convolution makes of its image, if anything."""
    if o["pool"] is None:
        return None
    out = stored_image(needed(o["pooled"], "pooled"), first)
    return Pool(stored_window(o["pool"]), out, o["kept"])


def sources_of(o: ConvolutionOptions, first: bool | None = None) -> list[Source]:
    """The images that a convolution reads as one."""
    images = [stored_image(one, first) for one in o["images"]]
    if [len(one) for one in o["enlarged"]] != [2] * len(images):
        raise TilewrightError("TW1717", f"{len(images)} images enlarged by {o['enlarged']}")
    return [
        Source(image, (down, across))
        for image, (down, across) in zip(images, o["enlarged"], strict=True)
    ]


def chained(o: ChainOptions, first: bool | None = None) -> Chain:
    """The convolutions in a row of some options; of each its factor stands beside the others."""
    return convolution_chain([convolved(part, first) for part in parts_of(o)], o["rows"])


def check_room(kernel: str, o: Any, profile: Profile) -> None:
    """An error if a kernel over windows does not fit on the machine, whatever else is there."""
    if kernel == "conv2d":
        convolved(o).blocking(profile)
    elif kernel == "pool":
        pooled(o).blocking(profile)


def pooled(o: PoolOptions, first: bool | None = None) -> Pooling:
    """The pooling of some options."""
    image, out = stored_image(o["image"], first), stored_image(o["out"], first)
    if o["kind"] == "max":
        return pooling.max_pool(
            image, stored_window(o["window"]), nonnegative=o["nonnegative"], out=out
        )
    return pooling.average_pool(
        image, stored_window(o["window"]), count_padding=o["counting"], out=out
    )


def gathered_columns(image: Image, kind: str) -> int:
    """Columns of the rows that `gather` makes."""
    if kind == "mean":
        return image.channels
    return image.height * image.width * round_up(image.channels)


def mean_unit(image: Image) -> float:
    """What pixels are multiplied by while they are added up: sums stay in range."""
    count = image.height * image.width
    return 2.0 ** -min(9, max(0, count.bit_length() - 1))


def gather(o: GatherOptions) -> Kernel:
    """Rows [1, images, columns] of images, times `factor`.

    "mean": the mean of all pixels. "flat": all pixels side by side, each with whole tiles of
    channels. Both are products with tiles that pick the image's row.
    """
    image, factor = stored_image(o["image"]), o["factor"]
    batch, columns = image.batch or 1, gathered_columns(image, o["kind"])
    element = fp8 if o["out"] == "fp8" else bf16
    panels = image.stored[-1]

    def write(out: Any, rows: range, column: int, y: Any) -> None:
        y = first_rows(y, len(rows), min(SIDE, columns - column * SIDE))
        into = Block(rows.start // SIDE, 1, batch), Block(column, 1, columns)
        out[(0, *into)] = tw.to_fp8(y) if o["out"] == "fp8" else y

    def mean(x: Any, out: Any) -> None:
        """The mean of all pixels of each image."""
        unit = mean_unit(image)
        share = factor / (image.height * image.width * unit)
        first, last = image.lead // SIDE, -(-(image.lead + image.rows * image.pitch) // SIDE)
        for rows in _row_blocks(batch):
            for c in range(panels // SIDE):
                total = tw.zeros()
                for b in rows:
                    row = np.arange(SIDE) == b - rows.start
                    chosen = tw.to_fp8(tw.keep(tw.full(unit), row, nonnegative=True))
                    for a, d, tile in np.ndindex(*image.phase_count, last - first):
                        at = Block(first + tile, 1, image.pixels)
                        total += chosen @ x[b, a, d, at, Block(c, 1, panels)]
                write(out, rows, c, total * share)

    def flat(x: Any, out: Any) -> None:
        """All pixels of each image side by side."""
        down, across = image.phase_count
        for rows in _row_blocks(batch):
            chosen = [
                tw.park(tw.to_fp8(own_tile(f"row_{k}", _single(k)))) for k in range(len(rows))
            ]
            for h, w in np.ndindex(image.height, image.width):
                at = image.lead + h // down * image.pitch + w // across
                pixel = Block(0, 1, image.pixels, None, 0) + at
                for c in range(panels // SIDE):
                    total = tw.zeros()
                    for b in rows:
                        tile = x[b, h % down, w % across, pixel, Block(c, 1, panels)]
                        total += chosen[b - rows.start] @ tile
                    column = (h * image.width + w) * (panels // SIDE) + c
                    write(out, rows, column, total if factor == 1.0 else total * factor)

    specs = {"x": image_type(image), "out": element[1, batch, columns]}
    return kernel_of("gather", specs, mean if o["kind"] == "mean" else flat)


def _row_blocks(batch: int) -> list[range]:
    return [range(start, min(batch, start + SIDE)) for start in range(0, batch, SIDE)]


def _single(row: int) -> np.ndarray:
    """A tile that brings the first row of another to `row`."""
    tile = np.zeros((SIDE, SIDE))
    tile[row, 0] = 1.0
    return tile


def combine(o: CombineOptions) -> Kernel:
    """activation(a * first [+ b * second]) * factor for images that are stored alike."""
    image, out_image = stored_image(o["image"]), stored_image(o["out"])
    activation, panels = ACTIVATIONS[o["activation"]], image.stored[-1]

    def run(out: Any, a: Any, b: Any = None) -> None:
        """Element by element."""
        for i in tw.each(image.batch or 1):
            for row, column in np.ndindex(*image.phase_count):
                for c in tw.grid(panels):
                    for p in tw.grid(image.pixels):
                        at = (i, row, column, p, c)
                        y = loaded(a[at], o["first"])
                        y = y if b is None else y + loaded(b[at], o["second"])
                        out[at] = stored(activation(y), o["factor"], out_image.dtype)

    specs = {name: image_type(image) for name in ("a", "b")[: 1 + bool(o["two"])]}
    return kernel_of("combine", {**specs, "out": image_type(out_image)}, run)


def conv2d(o: ConvolutionOptions) -> Kernel:
    """The kernel of a convolution."""
    return convolved(o).kernel


def chain(o: ChainOptions) -> Kernel:
    """The kernel of convolutions in a row."""
    return chained(o).kernel


def pool(o: PoolOptions) -> Kernel:
    """The kernel of a pooling."""
    return pooled(o).kernel


def resampled(o: ResampleOptions, first: bool | None = None) -> Resampling:
    """An image of the pixels of another: those of `rows` and `columns`, or all of them."""
    image, out = stored_image(o["image"], first), stored_image(o["out"], first)
    return resampling(image, out, o["rows"], o["columns"])


def resample(o: ResampleOptions) -> Kernel:
    """The kernel of an image made of another's pixels."""
    return resampled(o).kernel


def mean_tiles(image: Image) -> list[tuple[int, int, int]]:
    """Phase and number of every tile that has pixels."""
    first, last = image.lead // SIDE, -(-(image.lead + image.rows * image.pitch) // SIDE)
    return [(a, d, p) for a, d in image.each_phase() for p in range(first, last)]


def mean(o: MeanOptions) -> Kernel:
    """The mean of all pixels of each image, times `factor`, as an image of one pixel."""
    image, out_image = stored_image(o["image"]), stored_image(o["out"])
    tiles, unit, panels = mean_tiles(image), mean_unit(image), image.stored[-1]
    share = o["factor"] / (image.height * image.width * unit)

    def run(x: Any, out: Any) -> None:
        """Sums of tiles one below the other, then of these."""
        chosen = [
            tw.park(tw.to_fp8(tw.keep(tw.full(unit), np.arange(SIDE) == k, nonnegative=True)))
            for k in range(min(SIDE, len(tiles)))
        ]
        into = Block(0, 1, out_image.pixels, None, 0) + out_image.lead
        for b in tw.each(image.batch or 1):
            write_border(out, b, out_image)
            for c in tw.grid(panels):
                total = tw.zeros()
                for k, (a, d, p) in enumerate(tiles):
                    total += chosen[k % SIDE] @ x[b, a, d, Block(p, 1, image.pixels), c]
                line = spread((tw.col_sum(total) * share).tiles(), 1, 1)
                out[b, 0, 0, into, c] = tw.to_fp8(tw.keep(line, np.arange(SIDE) == 0))

    return kernel_of("mean", {"x": image_type(image), "out": image_type(out_image)}, run)


def gate(o: GateOptions) -> Kernel:
    """Images times one number per image and channel (an image of one pixel), times `factor`."""
    image, pixel, out_image = (stored_image(o[name]) for name in ("image", "gate", "out"))
    panels = image.stored[-1]

    def run(a: Any, gate: Any, out: Any) -> None:
        """Element by element; a product repeats the pixel."""
        repeat = tw.keep(tw.full(1.0), np.arange(SIDE) == 0, nonnegative=True)
        repeat = tw.park(tw.transpose(tw.to_fp8(repeat)))
        for b in tw.each(image.batch or 1):
            for c in tw.grid(panels):
                line = tw.zeros()
                line += repeat @ gate[b, 0, 0, Block(pixel.lead // SIDE, 1, pixel.pixels), c]
                line = tw.park(line if o["factor"] == 1.0 else line * o["factor"])
                for row, column in image.each_phase():
                    for p in tw.grid(image.pixels):
                        at = (b, row, column, p, c)
                        y = tw.to_bf16(a[at]) * line
                        out[at] = tw.to_fp8(y) if out_image.dtype == "fp8" else y

    specs = {"a": image_type(image), "gate": image_type(pixel), "out": image_type(out_image)}
    return kernel_of("gate", specs, run)


def image_norm(o: ImageNormOptions) -> Kernel:
    """The rms or layer norm of the channels of every pixel, times `factor`, or times `weight` plus
    `bias`; the channels fill whole tiles."""
    image, out_image = stored_image(o["image"]), stored_image(o["out"])
    panels, share = image.stored[-1], 1 / image.channels
    if image.channels % SIDE:
        raise TilewrightError(
            "TW1675", f"a norm of {image.channels} channels, which do not fill tiles of {SIDE}"
        )
    tiles = max(1, NORMED // (panels // SIDE))

    def run(x: Any, out: Any, weight: Any = None, bias: Any = None) -> None:
        """Row by row of tiles of pixels."""
        whole = Block(0, panels // SIDE, panels)
        for b in tw.each(image.batch or 1):
            write_border(out, b, out_image)
            for p in pixel_blocks(out_image, tiles):
                for row, column in out_image.each_phase():
                    values = tw.to_bf16(x[b, row, column, p + image.lead, whole])
                    if o["kind"] == "layer":
                        values = values - tw.row_sum(values) * share
                    squares = tw.row_sum(tw.square(values), nonnegative=True) * share
                    y = values * tw.rsqrt(squares + o["epsilon"])
                    y = y if weight is None else y * weight[whole]
                    y = y if bias is None else y + bias[whole]
                    y = tw.keep(y, kept_rows(out_image, p, (row, column)))
                    y = stored(y, o["factor"], out_image.dtype)
                    out[b, row, column, p + out_image.lead, whole] = y

    per_channel = bf16[panels].arranged(Channels(image.channels))
    specs = {"x": image_type(image), **{n: per_channel for n in ("weight", "bias") if o[n]}}
    return kernel_of("image_norm", {**specs, "out": image_type(out_image)}, run)


def joined_columns(o: JoinOptions) -> list[list[tuple[int, int, np.ndarray]]]:
    """For every tile of channels of a joined image: (source, tile of its channels, which of these
    become which)."""
    images, out = [stored_image(one) for one in o["images"]], stored_image(o["out"])
    if len(images) != len(o["starts"]):
        raise TilewrightError("TW1717", f"{len(images)} images with {len(o['starts'])} starts")
    found: list[list[tuple[int, int, np.ndarray]]] = [[] for _ in range(out.stored[-1] // SIDE)]
    place = 0
    for k, (image, start) in enumerate(zip(images, o["starts"], strict=True)):
        count = min(image.channels - start, out.channels - place)
        channels = np.arange(count)
        pairs = np.stack([(start + channels) // SIDE, (place + channels) // SIDE], 1)
        for source, target in np.unique(pairs, axis=0):
            here = channels[(pairs == (source, target)).all(1)]
            chosen = np.zeros((SIDE, SIDE))
            chosen[(start + here) % SIDE, (place + here) % SIDE] = 1.0
            found[target].append((k, int(source), chosen))
        place += count
    return found


def join(o: JoinOptions) -> Kernel:
    """An image of the channels of others, side by side: of each those from `starts` on, times
    `scale0`, `scale1`, …, as products with tiles that pick columns."""
    images, out_image = [stored_image(one) for one in o["images"]], stored_image(o["out"])
    parts, panels = joined_columns(o), out_image.stored[-1]

    def run(**tensors: Any) -> None:
        """Tile by tile of pixels."""
        out, chosen = tensors["out"], {}
        for k, _, columns in (part for target in parts for part in target):
            key = k, columns.tobytes()
            if key not in chosen:
                tile = own_tile(f"columns_{len(chosen)}", columns * o["scales"].get(k, 1.0))
                chosen[key] = tw.park(tw.to_fp8(tile))
        for b in tw.each(out_image.batch or 1):
            for row, column in out_image.each_phase():
                for p in tw.grid(out_image.pixels):
                    for n, target in enumerate(parts):
                        total = tw.zeros()
                        for k, source, columns in target:
                            c = Block(source, 1, images[k].stored[-1])
                            pixels = tensors[f"x{k}"][b, row, column, p, c]
                            total += pixels @ chosen[k, columns.tobytes()]
                        out[b, row, column, p, Block(n, 1, panels)] = tw.to_fp8(total)

    specs = {f"x{k}": image_type(image) for k, image in enumerate(images)}
    return kernel_of("join", {**specs, "out": image_type(out_image)}, run)
