"""How much the kernels over images of a whole model have to do, counted from their formulas.

Pixels are counted as if they filled tiles whatever image they belong to, and the taps of a window
as if their channels lay side by side: no way to store an image does with less.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.atlas.kernels.image_blocks import in_register
from tilewright.targets.atlas.kernels.images import SIDE, Image
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
    mean_of,
    needed_pixels,
    parts_of,
    stored_image,
    stored_window,
)

Counts = dict[str, float]  # fields of Work
Function = Callable[[str], int]  # instructions of an element-wise function


def _tiles(extent: float) -> float:
    return extent / SIDE


def _pixels(image: Image) -> float:
    """Tiles of pixels of all images together."""
    return _tiles((image.batch or 1) * image.height * image.width)


def _activation(name: str, function: Function) -> int:
    known = {"none": 0, "relu6": 2, "hardsigmoid": 4, "hardswish": 5}
    return known[name] if name in known else function("gelu_tanh" if name == "gelu" else name)


def _multiplies(factor: float, out: Image) -> bool:
    """Whether a factor of the result takes a step of its own: a cast has some for nothing."""
    return factor != 1.0 and not (out.dtype == "fp8" and in_register(factor))


def conv2d(o: ConvolutionOptions, function: Function) -> Counts:
    """A product, then scale, bias and activation."""
    image, out, window = (
        stored_image(o["image"]),
        stored_image(o["out"]),
        stored_window(o["window"]),
    )
    deep = _tiles(window.height * window.width * image.channels // o["groups"])
    rows, wide = _pixels(needed_pixels(o)), _tiles(out.channels)
    after = o["scale"] + o["bias"] + _multiplies(o["factor"], out)
    after += _activation(o["activation"], function)
    after += 0 if o["added"] is None else 1 + (not in_register(1 / o["share"]))
    casts, joins = rows * (out.dtype == "fp8"), 0.0
    if o["pooled"] is not None:  # every pixel of a window but one is compared with others
        windows = _pixels(stored_image(o["pooled"]))
        seen = _pixels(needed_pixels({**o, "kept": False}))
        casts, joins = windows + rows * o["kept"], max(0.0, seen - windows)
    gated = 0.0 if o["gate"] is None else (image.batch or 1) * deep * wide  # tiles of filters
    return {
        "products": max(rows * deep * wide, deep * wide, rows * wide) + gated,
        "sums": rows * wide + gated,
        "operand_tiles": deep * min(rows, wide),
        "tiles": rows * wide * after + joins * wide,
        "casts": casts * wide + gated,
    }


def chain(o: ChainOptions, function: Function) -> Counts:
    """All of its convolutions."""
    total: Counts = {}
    for part in parts_of(o):
        counts = conv2d(part, function)
        total = {name: total.get(name, 0.0) + count for name, count in counts.items()}
    return total


def pool(o: PoolOptions, function: Function) -> Counts:
    """Maxima of all taps, which windows next to each other can share, so that only the last one is
    a result's own; or sums of products of any arrangement, and one multiplication."""
    out, window = stored_image(o["out"]), stored_window(o["window"])
    results, taps = _pixels(out) * _tiles(out.channels), window.height * window.width
    if o["kind"] == "max":
        return {"tiles": results * (taps > 1)}
    return {
        "products": max(results * taps / SIDE, results), "sums": results,
        "tiles": results, "casts": results,
    }  # fmt: skip


def gather(o: GatherOptions, function: Function) -> Counts:
    """Sums of tiles of pixels; rows that are only moved need no work."""
    image = stored_image(o["image"])
    if o["kind"] == "flat":
        return {}
    batch, wide = image.batch or 1, _tiles(image.channels)
    deep = batch * _tiles(image.height * image.width)
    rows = _tiles(batch)
    return {
        "products": deep * wide, "sums": rows * wide, "operand_tiles": deep * min(rows, wide),
        "tiles": rows * wide, "casts": rows * wide * (o["out"] == "fp8"),
    }  # fmt: skip


def combine(o: CombineOptions, function: Function) -> Counts:
    """Factors, a sum, an activation, a cast; from fp8 a matrix unit can cast as well."""
    image, out = stored_image(o["image"]), stored_image(o["out"])
    given = [o["first"], o["second"]][: 1 + o["two"]]
    changes = o["factor"] != 1.0 or any(number != 1.0 for number in given)
    steps = sum(not in_register(1 / number) for number in given) + bool(o["two"])
    steps += _multiplies(o["factor"], out) + _activation(o["activation"], function)
    tiles = _pixels(image) * _tiles(image.channels)
    casts = out.dtype == "fp8" and (changes or steps > 0)
    return {"tiles": tiles * steps, "casts": tiles * casts}


def resample(o: ResampleOptions, function: Function) -> Counts:
    """Pixels that are only moved need no work."""
    return {}


def mean(o: MeanOptions, function: Function) -> Counts:
    """Sums of tiles of pixels, as of rows of means."""
    return gather(mean_of(o), function)


def image_norm(o: ImageNormOptions, function: Function) -> Counts:
    """Squares and their sum, the product with their root; what the options add. Sums of a row are
    of tiles that are added up first."""
    image, out = stored_image(o["image"]), stored_image(o["out"])
    rows, wide = _pixels(image), _tiles(image.channels)
    joins, layer = max(0.0, wide - 1), o["kind"] == "layer"
    tiles = 2 * wide + joins + wide * (o["weight"] + o["bias"])
    tiles += wide * _multiplies(o["factor"], out) + (joins + wide) * layer
    return {
        "tiles": rows * tiles, "columns": rows * (3 + layer), "row_sums": rows * (1 + layer),
        "casts": rows * wide * (out.dtype == "fp8"),
    }  # fmt: skip


def gate(o: GateOptions, function: Function) -> Counts:
    """One multiplication and a cast."""
    image, out = stored_image(o["image"]), stored_image(o["out"])
    tiles = _pixels(image) * _tiles(image.channels)
    return {"tiles": tiles, "casts": tiles * (out.dtype == "fp8")}


def join(o: JoinOptions, function: Function) -> Counts:
    """Channels that are only moved need no work."""
    return {}
