"""How much of an image a step looks at: windows that step further than they reach leave pixels out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.targets.atlas.artifact.atlas_artifact import Step
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.kernel_options_images import (
    needed_pixels,
    parts_of,
    stored_image,
    stored_window,
)
from tilewright.targets.atlas.model.kernel_records import RECORDS

KERNELS = ("conv2d", "pool", "chain", "resample")


def share_seen(step: Step, parameter: str) -> float:
    """The part of an operand's pixels that the results of a step depend on, at most."""
    if step.kernel not in KERNELS or parameter != "x":
        return 1.0
    o: Any = RECORDS[step.kernel].given(step.options)
    if step.kernel == "chain":
        first, *_, last = parts_of(o)
        image, some = stored_image(last["out"]), needed_pixels(last)
        part = some.height * some.width / (image.height * image.width)
        return part * _share(first, stored_image(first["out"]))
    if step.kernel == "resample":
        image = stored_image(o["image"])
        chosen = ((o["rows"], image.height), (o["columns"], image.width))
        rows, columns = (len(set(some)) / size if some else 1.0 for some, size in chosen)
        return rows * columns
    return _share(o, needed_pixels(o) if step.kernel == "conv2d" else stored_image(o["out"]))


def _share(o: Any, made: Image) -> float:
    """The part of an image's pixels that windows see that make another."""
    if o.get("unfolded") or any(times != [1, 1] for times in o.get("enlarged") or ()):
        return 1.0
    return _seen(stored_window(o["window"]), stored_image(o["image"]), made)


def _seen(window: Window, image: Image, out: Image) -> float:
    top, left, *_ = window.sides
    (down, across), (far, wide) = window.steps, window.spacing
    rows = _touched(image.height, out.height, window.height, down, far, top)
    columns = _touched(image.width, out.width, window.width, across, wide, left)
    return rows * columns / (image.height * image.width)


@lru_cache(4096)
def _touched(pixels: int, results: int, taps: int, step: int, spacing: int, before: int) -> int:
    """Pixels of a line that windows see."""
    seen = {r * step - before + tap * spacing for r in range(results) for tap in range(taps)}
    return sum(0 <= place < pixels for place in seen)
