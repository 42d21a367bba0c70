"""The same as `latencies.py` for the kernels over images."""

from __future__ import annotations

from tilewright.targets.atlas.kernels.image_blocks import in_register
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.clock import Clock, Ready, soonest
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
    parts_of,
    stored_image,
    stored_window,
)
from tilewright.targets.atlas.model.latencies import Moments, Options, Shapes, normed, stored

IN_A_ROW = {"none": 0, "relu6": 2, "hardsigmoid": 4, "hardswish": 5}  # operations of activations


def _meets(window: Window, image: Image, out: Image) -> bool:
    """Whether every window has a tap on the image: otherwise some results do not depend on it."""
    top, left, *_ = window.sides
    sizes = (image.height, out.height, window.height), (image.width, out.width, window.width)
    return all(
        any(0 <= place * step - before + tap * spacing < size for tap in range(taps))
        for (size, places, taps), step, before, spacing in zip(
            sizes, window.steps, (top, left), window.spacing, strict=True
        )
        for place in range(places)
    )


def _activated(c: Clock, name: str, y: Ready) -> Ready:
    if name in IN_A_ROW:
        return c.chain(IN_A_ROW[name], y)
    return c.function("gelu_tanh" if name == "gelu" else name, y)


def _loaded(c: Clock, x: Ready, factor: float) -> Ready:
    return x if factor > 0 and in_register(1 / factor) else c.vector(x)


def _convolved(c: Clock, o: ConvolutionOptions, x: Ready, rows: Moments, factor: float) -> Ready:
    out = stored_image(o["out"])
    if not _meets(stored_window(o["window"]), stored_image(o["image"]), out):
        return None
    w = rows.get("w")
    y = c.product(x, w if o["gate"] is None else c.product(rows.get("gate"), w))
    for name in ("scale", "bias"):
        y = c.vector(y, rows.get(name)) if o[name] else y
    if o["added"] is not None:
        y = c.vector(y, _loaded(c, rows.get("added"), o["share"]))
    return stored(c, _activated(c, o["activation"], y), factor, out.dtype)


def conv2d(c: Clock, o: ConvolutionOptions, shapes: Shapes, m: Moments) -> Ready:
    """Every result sees pixels of all images."""
    return _convolved(c, o, _seen(o, m), m, o["factor"])


def _seen(o: ConvolutionOptions, m: Moments) -> Ready:
    """When all is there that a convolution sees."""
    known = [x for k in range(len(o["images"])) if (x := m[f"x{k}"]) is not None]
    return max(known, key=lambda moment: moment.done, default=None) if o["images"] else m["x"]


def chain(c: Clock, o: ChainOptions, shapes: Shapes, m: Moments) -> Ready:
    y = _seen(o["parts"][0], m)
    for k, part in enumerate(parts_of(o)):
        rows = {name: m.get(f"{name}{k}") for name in ("w", "scale", "bias")}
        y = _convolved(c, part, y, {**rows, "added": m.get("added")}, part["factor"])
    return y


def pool(c: Clock, o: PoolOptions, shapes: Shapes, m: Moments) -> Ready:
    """The largest number of a window at an edge may be the only one it has."""
    image, out, window = (
        stored_image(o["image"]),
        stored_image(o["out"]),
        stored_window(o["window"]),
    )
    if not _meets(window, image, out):
        return None
    if o["kind"] == "max":
        alone = any(window.sides) or window.height * window.width == 1
        return m["x"] if alone else c.vector(m["x"])
    return c.vector(c.vector(c.product(m["x"], None)))


def gather(c: Clock, o: GatherOptions, shapes: Shapes, m: Moments) -> Ready:
    if o["kind"] == "flat":
        return m["x"]
    y = c.vector(c.product(m["x"], None))
    return c.vector(y) if o["out"] == "fp8" else y


def combine(c: Clock, o: CombineOptions, shapes: Shapes, m: Moments) -> Ready:
    y = _loaded(c, m["a"], o["first"])
    if o["two"]:
        y = c.vector(y, _loaded(c, m["b"], o["second"]))
    y, out = _activated(c, o["activation"], y), stored_image(o["out"])
    if y is m["a"]:  # only moved, or scaled by a cast
        return y
    return stored(c, y, o["factor"], out.dtype)


def mean(c: Clock, o: MeanOptions, shapes: Shapes, m: Moments) -> Ready:
    return gather(c, mean_of(o), shapes, m)


def gate(c: Clock, o: GateOptions, shapes: Shapes, m: Moments) -> Ready:
    line = m["gate"] if o["factor"] == 1.0 else c.vector(m["gate"])
    return stored(c, c.vector(m["a"], line), 1.0, stored_image(o["out"]).dtype)


def image_norm(c: Clock, o: ImageNormOptions, shapes: Shapes, m: Moments) -> Ready:
    y = normed(c, m["x"], stored_image(o["image"]).channels, o["kind"], o["epsilon"], 1.0)
    for name in ("weight", "bias"):
        y = c.vector(y, m.get(name)) if o[name] else y
    return stored(c, y, o["factor"], stored_image(o["out"]).dtype)


def resample(c: Clock, o: ResampleOptions, shapes: Shapes, m: Moments) -> Ready:
    """Nothing is said: some of its pixels may be no pixels of the image."""
    return None


def join(c: Clock, o: JoinOptions, shapes: Shapes, m: Moments) -> Ready:
    """Every channel is of one of its operands; of what fills up the last tile nothing is asked."""
    return soonest(*m.values())


def leaves_out(kernel: str, o: Options, parameter: str, result: str = "out") -> bool:
    """Whether a result of a call may do without some elements of an operand: parts of values, and windows
    that move by more than a pixel."""
    if kernel in ("move", "resample"):
        return True
    parts = o["parts"] if kernel == "chain" else [o] if kernel in ("conv2d", "pool") else []
    pools = result == "out" and any(part.get("pool") is not None for part in parts)
    if pools and (parameter.startswith("x") or parameter == "added"):
        return True
    return parameter.startswith("x") and any(
        stored_window(part["window"]).steps != (1, 1) for part in parts
    )
