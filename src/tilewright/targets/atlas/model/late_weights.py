"""Weights that have to come in after the work before them, because VMEM cannot hold them so long.

before: the vector unit is busy for 1.9 M ticks, the engine moves 3.5 MB of weights beside that
after:  3.0 MB of these are for layers of which every number depends on every one of those 1.9 M ticks;
        1.1 MB can be on chip when they are over, so 0.9 M ticks of the engine follow

Take the calls of a set S, and the moment at which the last of their operations is complete: not before
each unit has done its part of S. Let every element that S computes reach a weight: some product (or
what multiplies a weight before that) takes the weight together with a number that depends on the
element. Then that product comes after this moment, whichever element was the last one, so the
weight is on chip then, or comes in later. What is on chip has room in VMEM, in tensor registers and in
matrix units; the rest takes the engine its time.

What reaches what is followed as boxes of pixels. An element changes one channel of one pixel; a window
makes of a box the results that see some of it; a product over channels makes every channel of them depend on the
element. Every place of the box is tried, so that edges, strides and dilations are what they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from tilewright.targets.atlas.artifact.atlas_artifact import Region, Step, copy_of, is_result
from tilewright.targets.atlas.bound import exact_ticks
from tilewright.targets.atlas.kernels.convolution_pooling import IMAGE
from tilewright.targets.atlas.kernels.images import Image, Window
from tilewright.targets.atlas.model.kernel_options_images import (
    ChainOptions,
    ConvolutionOptions,
    parts_of,
    stored_image,
    stored_window,
)
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import Profile

REGISTERS = 64 * 1024  # bytes of tensor registers
UNITS = 2 * (2 + 2) * 1024  # elements that weight slots and accumulators of both units hold
# Kernels of which every operation is for some element of the result.
SOURCES = (
    "conv2d", "chain", "combine", "gate", "mean", "gather", "pool", "image_norm", "resample",
)  # fmt: skip


class Reach(NamedTuple):
    """What depends on an element at least: a box of pixels somewhere, and of these all channels, or
    one of them. Rows of a matrix are pixels."""

    full: bool
    rows: int
    columns: int


ELEMENT = Reach(False, 1, 1)


def ticks_with_late_weights(
    profile: Profile,
    regions: Mapping[str, Region],
    calls: Sequence[tuple[Step, int]],
    loads: Mapping[str, int],
    busy: Callable[[list[int]], int],
) -> int:
    """The least time of calls, each a step and its iteration. loads: bytes of weights that have to come
    in, of all iterations. busy: how long some of the calls keep a unit busy at least."""
    reached = _reached(regions, calls, loads)
    capacity = profile.vmem_bytes + REGISTERS + UNITS
    found = 0
    for sources in set(reached.values()):
        late = sum(
            loads[name] / regions[name].count
            for (name, _), mask in reached.items()
            if mask & sources == sources
        )
        if late > capacity:
            some = [k for k in range(len(calls)) if sources >> k & 1]
            found = max(found, busy(some) + int(exact_ticks(profile, int(late - capacity))))
    return found


def _reached(
    regions: Mapping[str, Region], calls: Sequence[tuple[Step, int]], loads: Mapping[str, int]
) -> dict[tuple[str, int], int]:
    """Of every weight, as bits, the calls of which every element reaches all of it."""
    found: dict[tuple[str, int], int] = {}

    def key(name: str, iteration: int) -> tuple[str, int]:
        return name, iteration if regions[name].count > 1 else 0

    for source, (step, turn) in enumerate(calls):
        if not _is_source(step):
            continue
        # An element is one of any result: what each of them reaches.
        reached: set[tuple[str, int]] | None = None
        for names in _results_of(step).values():
            states = {key(name, turn): ELEMENT for name in names}
            mine = _reached_from(states, regions, calls[source + 1 :], loads, key)
            reached = mine if reached is None else reached & mine
        for where in reached or ():
            found[where] = found.get(where, 0) | 1 << source
    return found


def _results_of(step: Step) -> dict[str, list[str]]:
    """The results of a step, and the names of all their places."""
    results = [p for p in step.operands if is_result(p) and not p.endswith(copy_of(""))]
    return {
        p: [step.operands[place] for place in (p, copy_of(p)) if place in step.operands]
        for p in results
    }


def _reached_from(
    states: dict[tuple[str, int], Reach],
    regions: Mapping[str, Region],
    calls: Sequence[tuple[Step, int]],
    loads: Mapping[str, int],
    key: Callable[[str, int], tuple[str, int]],
) -> set[tuple[str, int]]:
    """The weights that an element reaches in some calls. states: what depends on it already."""
    found: set[tuple[str, int]] = set()
    for later, iteration in calls:
        results, weights = _through_call(later, iteration, states, key)
        found.update(
            key(name, iteration)
            for name in weights
            if name in loads and regions[name].kind == "weight"
        )
        for parameter, names in _results_of(later).items():
            for name in names:
                where = key(name, iteration)
                states.pop(where, None)
                result = results.get(parameter)
                if result is not None:
                    states[where] = result
    return found


def _through_call(
    step: Step,
    iteration: int,
    states: Mapping[tuple[str, int], Reach],
    key: Callable[[str, int], tuple[str, int]],
) -> tuple[dict[str, Reach | None], list[str]]:
    """What of a call's results depends on an element, and the names of weights that all meet it."""
    best: dict[str, Reach | None] = {}
    weights: list[str] = []
    for parameter, name in step.operands.items():
        reach = None if is_result(parameter) else states.get(key(name, iteration))
        if reach is None:
            continue
        made, met = through(step.kernel, step.options, parameter, reach)
        weights += [step.operands[p] for p in met if p in step.operands]
        for place, result in _left(step, made).items():
            known = best.get(place)
            if result is not None and (known is None or _size(result) > _size(known)):
                best[place] = result
    return best, weights


def _left(step: Step, made: Reach | None) -> dict[str, Reach | None]:
    """What a call leaves of what it makes: that, or what it pools of it, or both."""
    part = _last_part(step)
    if part is None or part["pool"] is None:
        return {"out": made}
    return {IMAGE: made, "out": _pooled(part, made)}


def _last_part(step: Step) -> ConvolutionOptions | None:
    """The convolution that makes a step's image, if one does."""
    if step.kernel not in ("conv2d", "chain"):
        return None
    o = _given(step.kernel, step.options)
    return parts_of(o)[-1] if step.kernel == "chain" else o


def _pooled(o: ConvolutionOptions, reach: Reach | None) -> Reach | None:
    """What is pooled of a box of pixels."""
    if reach is None or o["pool"] is None:
        return reach
    out = stored_image(needed(o["pooled"], "pooled"))
    return _moved(stored_window(o["pool"]), stored_image(o["out"]), out, reach)


def _size(reach: Reach) -> tuple[bool, int]:
    return reach.full, reach.rows * reach.columns


def _is_source(step: Step) -> bool:
    """Whether every operation of a call is for some element of its result."""
    if step.kernel not in SOURCES:
        return False
    if step.kernel != "chain":
        return True
    parts = parts_of(_given(step.kernel, step.options))
    for number in range(len(parts)):
        reach: Reach | None = ELEMENT
        for part in parts[number + 1 :]:
            reach = _convolved(part, reach)[0] if reach is not None else None
        if not parts[-1]["kept"] and number + 1 < len(parts):
            reach = _pooled(parts[-1], reach)
        if reach is None:
            return False
    return True


def _given(kernel: str, options: Mapping[str, Any]) -> Any:
    return RECORDS[kernel].given(options)


def through(
    kernel: str, options: Mapping[str, Any], parameter: str, reach: Reach
) -> tuple[Reach | None, tuple[str, ...]]:
    """What of a kernel's result depends on an element at least that an operand does, None where
    nothing is known; and the weights of which every number meets what does."""
    if kernel == "linear":
        return _multiplied(_given(kernel, options), parameter, reach)
    if kernel not in SOURCES:
        return None, ()
    o = _given(kernel, options)
    if kernel == "conv2d":
        return _convolution(o, parameter, reach)
    if kernel == "chain":
        return _chained(o, parameter, reach)
    if kernel == "combine":
        return (reach if parameter in ("a", "b") else None), ()
    if kernel == "gate":
        if parameter == "gate":
            return _everywhere(stored_image(o["out"]), reach.full), ()
        return (reach if parameter == "a" else None), ()
    if parameter != "x":
        return None, ()
    if kernel == "image_norm":
        return reach._replace(full=True), ()
    if kernel == "pool":
        image, out = stored_image(o["image"]), stored_image(o["out"])
        return _moved(stored_window(o["window"]), image, out, reach), ()
    if kernel == "resample":
        rows, columns = (
            _picked(tuple(o[name] or range(size)), size, box)
            for name, size, box in (
                ("rows", stored_image(o["image"]).height, reach.rows),
                ("columns", stored_image(o["image"]).width, reach.columns),
            )
        )
        return (Reach(reach.full, rows, columns) if rows and columns else None), ()
    image = stored_image(o["image"])
    whole = (reach.rows, reach.columns) == (image.height, image.width)
    full = reach.full and (kernel == "mean" or o["kind"] == "mean" or whole)
    return Reach(full, 1, 1), ()


def _multiplied(o: Any, parameter: str, reach: Reach) -> tuple[Reach | None, tuple[str, ...]]:
    """A product with weights, row by row: every number of the result's row has all of the row."""
    if parameter != "a" or o["heads"] or o["precise"]:
        return None, ()
    return Reach(True, 1, 1), ("w",) if reach.full else ()


def _everywhere(image: Image, full: bool) -> Reach:
    return Reach(full, image.height, image.width)


def _convolution(
    o: ConvolutionOptions, parameter: str, reach: Reach
) -> tuple[Reach | None, tuple[str, ...]]:
    if parameter == "added":
        return reach, ()
    if parameter == "gate":  # it multiplies the filters of its channels
        return _everywhere(stored_image(o["out"]), True), ("w",) if reach.full else ()
    if not parameter.startswith("x"):
        return None, ()
    result, met = _convolved(o, reach)
    return result, ("w",) if met else ()


def _chained(o: ChainOptions, parameter: str, reach: Reach) -> tuple[Reach | None, tuple[str, ...]]:
    if parameter == "added":
        return reach, ()
    if parameter != "x":
        return None, ()
    weights: list[str] = []
    state: Reach | None = reach
    for k, part in enumerate(parts_of(o)):
        if state is None:
            break
        state, met = _convolved(part, state)
        weights += [f"w{k}"] if met else []
    return state, tuple(weights)


def _convolved(o: ConvolutionOptions, reach: Reach) -> tuple[Reach | None, bool]:
    """The results of a convolution that see a box of pixels, and whether all filters meet it."""
    if o["unfolded"] or any(times != [1, 1] for times in o["enlarged"]):
        return None, False
    window = stored_window(o["window"])
    image, out = stored_image(o["image"]), stored_image(o["out"])
    result = _moved(window, image, out, reach)
    if result is None:
        return None, False
    met = reach.full and not o["images"] and o["diagonal"] != "ones"
    met = met and all(
        _every_tap(*line) for line in _lines(window, image, out, (reach.rows, reach.columns))
    )
    return result._replace(full=reach.full or o["groups"] == 1), met


def _moved(window: Window, image: Image, out: Image, reach: Reach) -> Reach | None:
    """The box of results that see a box of pixels, None if it can be that none does."""
    rows, columns = (
        _results(*line) for line in _lines(window, image, out, (reach.rows, reach.columns))
    )
    return Reach(reach.full, rows, columns) if rows and columns else None


Line = tuple[int, int, int, int, int, int, int]


def _lines(window: Window, image: Image, out: Image, box: tuple[int, int]) -> list[Line]:
    """Of rows and columns: pixels, results, taps, step, spacing, padding, and the box's."""
    top, left, *_ = window.sides
    return [
        (image.height, out.height, window.height, window.steps[0], window.spacing[0], top, box[0]),
        (image.width, out.width, window.width, window.steps[1], window.spacing[1], left, box[1]),
    ]


@lru_cache(4096)
def _results(
    pixels: int, results: int, taps: int, step: int, spacing: int, before: int, box: int
) -> int:
    """Results next to each other that see some of a box, wherever it is: the fewest."""
    fewest = results
    for first in range(pixels - box + 1):
        last, run, longest = first + box, 0, 0
        for place in range(results):
            start = place * step - before
            sees = any(first <= start + tap * spacing < last for tap in range(taps))
            run = run + 1 if sees else 0
            longest = max(longest, run)
        fewest = min(fewest, longest)
    return fewest


@lru_cache(4096)
def _picked(chosen: tuple[int, ...], pixels: int, box: int) -> int:
    """The same where a result is one pixel, that of the number `chosen`."""
    fewest = len(chosen)
    for first in range(pixels - box + 1):
        run = longest = 0
        for place in chosen:
            run = run + 1 if first <= place < first + box else 0
            longest = max(longest, run)
        fewest = min(fewest, longest)
    return fewest


@lru_cache(4096)
def _every_tap(
    pixels: int, results: int, taps: int, step: int, spacing: int, before: int, box: int
) -> bool:
    """Whether every tap of some result sees a pixel of a box, wherever it is."""
    for first in range(pixels - box + 1):
        for tap in range(taps):
            shift = tap * spacing - before
            if not any(first <= p * step + shift < first + box for p in range(results)):
                return False
    return True
