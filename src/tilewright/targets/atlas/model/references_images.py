"""What the kernels over images of a whole model compute, bit for bit.

Convolution and pooling follow the library's references. Arrays come as the model has them, with
channels first or last; in between they are last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.kernels import references_images as library
from tilewright.targets.atlas.kernels.convolution_pooling import IMAGE
from tilewright.targets.atlas.kernels.images import SIDE, Image, round_up
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
    Table,
    parts_of,
    stored_image,
)
from tilewright.targets.atlas.model.kernels_images import (
    convolved,
    mean_tiles,
    mean_unit,
    pooled,
)
from tilewright.targets.atlas.model.references_steps import (
    UNARY,
    Codes,
    bf16,
    constant,
    fp8,
    row_total,
    times,
)
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import Profile

Operands = Mapping[str, Codes]


def _last(image: Table, codes: Codes) -> Codes:
    return stored_image(image).channels_last(codes)


def _given(out: Table, codes: Codes) -> dict[str, Codes]:
    """The result as the model has it."""
    first = stored_image(out).first
    return {"out": np.ascontiguousarray(np.moveaxis(codes, -1, -3) if first else codes)}


def conv2d(profile: Profile, o: ConvolutionOptions, operands: Operands) -> dict[str, Codes]:
    """activation(conv(x, w) * scale + bias) * factor."""
    layer = convolved(o, first=False)
    rows = [operands[name] for name in ("scale", "bias") if name in layer.kernel.specs]
    for name in ("added", "gate"):
        image = o[name]
        rows += [] if image is None else [_last(image, operands[name])]
    pool = layer.plan and layer.plan.pool
    if pool is not None:
        layer = replace(layer, out=replace(layer.out, dtype="bf16"))  # before it is rounded
    exact = library.conv2d(layer, o["unfolded"]).exact
    given = [_last(one, operands[f"x{k}"]) for k, one in enumerate(o["images"])]
    given = given or [_last(o["image"], operands["x"])]
    y = exact(profile, *given, operands["w"], *rows)
    if pool is None:
        return _given(o["out"], y)
    found = _given(needed(o["pooled"], "pooled"), library.largest_side_by_side(pool, y))
    if pool.kept:
        found[IMAGE] = _given(o["out"], fp8(profile, y))["out"]
    return found


def chain(profile: Profile, o: ChainOptions, operands: Operands) -> dict[str, Codes]:
    """Convolutions one after the other, each of what the one before it has stored."""
    given, found = {n: x for n, x in operands.items() if n.startswith("x")}, dict[str, Codes]()
    for k, part in enumerate(parts_of(o)):
        own = {n: operands[f"{n}{k}"] for n in ("w", "scale", "bias") if f"{n}{k}" in operands}
        own |= {} if part["added"] is None else {"added": operands["added"]}
        found = conv2d(profile, part, {**given, **own})
        given = {"x": found["out"]}
    return found


def pool(profile: Profile, o: PoolOptions, operands: Operands) -> dict[str, Codes]:
    """The largest number or the mean of each window."""
    layer = pooled(o, first=False)
    if o["kind"] == "max":
        reference = library.max_pool(layer)
    else:
        reference = library.average_pool(layer, o["counting"] or not any(layer.window.sides))
    return _given(o["out"], reference.exact(profile, _last(o["image"], operands["x"])))


def gather(profile: Profile, o: GatherOptions, operands: Operands) -> dict[str, Codes]:
    """Rows of images: means, or all pixels side by side."""
    image = replace(stored_image(o["image"]), first=False)
    x = _last(o["image"], operands["x"]).reshape(-1, image.height, image.width, image.channels)
    if o["kind"] == "mean":
        share = o["factor"] / (image.height * image.width * mean_unit(image))
        y = arith.multiply(_sums(image, x), constant(share))
    else:
        y = times(_side_by_side(image, x), o["factor"])
    return {"out": (fp8(profile, y) if o["out"] == "fp8" else y)[None]}


def _sums(image: Image, x: Codes) -> Codes:
    """The sum of all pixels, tile by tile of what is stored, images of a block one after the
    other in one accumulator; each adds zeros to the rows of the others."""
    stored = image.arranged(x)
    first = image.lead
    last = first + -(-image.rows * image.pitch // SIDE) * SIDE
    unit = arith.pack(arith.f64_to_bf16(np.full((1, SIDE), mean_unit(image))), 1)
    rows = []
    for start in range(0, len(stored), SIDE):
        block = range(start, min(start + SIDE, len(stored)))
        total = None
        for b in block:
            chosen = np.where(np.arange(SIDE)[:, None] == b - start, unit, np.uint8(0))
            for a, d in np.ndindex(*image.phase_count):
                for p in range(first, last, SIDE):
                    total = arith.matmul(chosen, stored[b, a, d, p : p + SIDE], total)
        assert total is not None
        rows.append(total[: len(block), : image.channels])
    return np.concatenate(rows)


def _side_by_side(image: Image, x: Codes) -> Codes:
    """bf16 of all pixels; what is picked by a product has no negative zeros."""
    wide = np.zeros((*x.shape[:3], round_up(image.channels)), np.uint8)
    wide[..., : image.channels] = x
    values = arith.unpack(wide.reshape(len(x), -1), 1)
    return np.where(values == 0x8000, np.uint16(0), values)


def combine(profile: Profile, o: CombineOptions, operands: Operands) -> dict[str, Codes]:
    """activation(a * first [+ b * second]) * factor."""
    y = times(bf16(profile, operands["a"]), o["first"])
    if o["two"]:
        y = arith.add(y, times(bf16(profile, operands["b"]), o["second"]))
    y = _last(o["image"], times(library.ACTIVATIONS[o["activation"]][0](y), o["factor"]))
    return _given(o["out"], fp8(profile, y) if stored_image(o["out"]).dtype == "fp8" else y)


def resample(profile: Profile, o: ResampleOptions, operands: Operands) -> dict[str, Codes]:
    """Pixels of an image at other places; what is picked by a product has no negative zeros."""
    image = stored_image(o["image"])
    rows = np.arange(image.height) if o["rows"] is None else np.array(o["rows"])
    columns = np.arange(image.width) if o["columns"] is None else np.array(o["columns"])
    y = _last(o["image"], operands["x"])[..., rows[:, None], columns[None, :], :]
    outside = (rows[:, None] < 0) | (columns[None, :] < 0)
    return _given(o["out"], np.where(outside[..., None] | (y == 0x80), np.uint8(0), y))


def gate(profile: Profile, o: GateOptions, operands: Operands) -> dict[str, Codes]:
    """a times one number per image and channel, which is multiplied by `factor` first."""
    number = _last(o["gate"], operands["gate"])
    number = bf16(profile, np.where(number == 0x80, np.uint8(0), number))
    line = times(number, o["factor"])
    y = arith.multiply(bf16(profile, _last(o["image"], operands["a"])), line)
    return _given(o["out"], fp8(profile, y) if stored_image(o["out"]).dtype == "fp8" else y)


def image_norm(profile: Profile, o: ImageNormOptions, operands: Operands) -> dict[str, Codes]:
    """rms or layer norm of every pixel's channels."""
    values = bf16(profile, _last(o["image"], operands["x"]))
    share = constant(1 / values.shape[-1])
    if o["kind"] == "layer":
        mean_ = arith.multiply(row_total(profile, values, "sum"), share)
        values = arith.subtract(values, mean_)
    squares = row_total(profile, arith.multiply(values, values), "sum")
    spread = arith.add(arith.multiply(squares, share), constant(o["epsilon"]))
    y = arith.multiply(values, UNARY["rsqrt"](spread))
    y = arith.multiply(y, operands["weight"]) if o["weight"] else y
    y = arith.add(y, operands["bias"]) if o["bias"] else y
    y = times(y, o["factor"])
    return _given(o["out"], fp8(profile, y) if stored_image(o["out"]).dtype == "fp8" else y)


def mean(profile: Profile, o: MeanOptions, operands: Operands) -> dict[str, Codes]:
    """The mean of all pixels: sums of every 32nd tile of what is stored, one below the other, then
    of these."""
    image = replace(stored_image(o["image"]), first=False)
    x = _last(o["image"], operands["x"]).reshape(-1, image.height, image.width, image.channels)
    stored, unit = image.arranged(x), mean_unit(image)
    one = arith.pack(arith.f64_to_bf16(np.full((1, SIDE), unit)), 1)
    share = constant(o["factor"] / (image.height * image.width * unit))
    rows = []
    for b in range(len(stored)):
        total = None
        for k, (a, d, p) in enumerate(mean_tiles(image)):
            chosen = np.where(np.arange(SIDE)[:, None] == k % SIDE, one, np.uint8(0))
            total = arith.matmul(chosen, stored[b, a, d, p * SIDE : (p + 1) * SIDE], total)
        assert total is not None
        rows.append(arith.column_sum(total, profile.column_sum)[:1, : image.channels])
    y = arith.multiply(np.concatenate(rows), share)
    return _given(o["out"], fp8(profile, y).reshape(*x.shape[:1], 1, 1, image.channels))


def join(profile: Profile, o: JoinOptions, operands: Operands) -> dict[str, Codes]:
    """Channels of images side by side, each times the fp8 number nearest to its scale."""
    out, parts, left = stored_image(o["out"]), [], stored_image(o["out"]).channels
    for k, start in enumerate(o["starts"]):
        scale = arith.unpack(arith.pack(constant(o["scales"].get(k, 1.0)), 1), 1)
        x = _last(o["images"][k], operands[f"x{k}"])[..., start:][..., :left]
        y = arith.multiply(arith.unpack(x, 1), scale)
        parts.append(np.where(y == 0x8000, np.uint16(0), y))
        left -= x.shape[-1]
    assert left == 0 and out.dtype == "fp8"
    return _given(o["out"], arith.pack(np.concatenate(parts, axis=-1), 1))
