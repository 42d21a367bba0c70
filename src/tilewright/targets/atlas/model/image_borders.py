"""Which border of an image somebody looks at: whoever makes the image writes no other.

Windows reach beyond an image through few of its phases: one of 3x3 pixels over an image in 4x4 phases looks at
the row above it in 4 of the 16 phases, and in 4 others at the row below it. Of convolutions, poolings and bands of
convolutions it is known what they load; whoever else reads an image may look at all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node
from tilewright.targets.atlas.kernels.convolution_bands import Bands
from tilewright.targets.atlas.kernels.image_sources import Source
from tilewright.targets.atlas.kernels.images import SIDE, Image, round_up
from tilewright.targets.atlas.model.image_layers import Layer
from tilewright.targets.atlas.model.kernel_options_images import parts_of
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.kernels_images import convolved
from tilewright.targets.atlas.model.typed_options import needed

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.image_plan import ImagePlan

Read = tuple[int, int, int, int]  # phase, and the first and last pixel of it that is loaded


def seen_borders(plan: ImagePlan) -> dict[SSAValue, Image]:
    """The images of a plan, each with the tiles of border that its readers look at."""
    layers = list(dict.fromkeys(plan.layers.values()))
    readers: dict[SSAValue, list[Layer]] = {value: [] for value in plan.images}
    for layer in layers:
        for x in dict.fromkeys(layer.inputs):
            readers.setdefault(x, []).append(layer)
    own = _only_read(plan, {node for one in layers for node in one.nodes}, set(readers))
    # Images that are stored alike stay so, for layers that are alike.
    every: dict[Image, list[Read] | None] = {}
    for value, image in plan.images.items():
        reads = _all_reads(plan, readers[value], value) if value in own else None
        known = every.setdefault(image, [])
        every[image] = None if reads is None or known is None else known + reads
    return {value: _with_seen(image, every[image]) for value, image in plan.images.items()}


def _with_seen(image: Image, reads: list[Read] | None) -> Image:
    return image if reads is None else replace(image, seen=_tiles(image, reads))


def _all_reads(plan: ImagePlan, readers: list[Layer], value: SSAValue) -> list[Read] | None:
    """What all readers of an image load of it."""
    found: list[Read] = []
    for layer in readers:
        reads = _reads(plan, layer, value)
        if reads is None:
            return None
        found += reads
    return found


def _only_read(plan: ImagePlan, nodes: set[Node], values: set[SSAValue]) -> set[SSAValue]:
    """The values that nobody but layers reads, as images or by what these are where they are. nodes,
    values: of layers."""
    graph = plan.graph
    results = {result for _, result in graph.outputs}
    found: set[SSAValue] = set()

    def is_for_layers(user: Node) -> bool:
        made = user.result
        return user in nodes or (made not in values and made in found and made in graph.users)

    # Whoever reads a value comes behind it.
    for value in [*(node.result for node in reversed(graph.nodes)), *values]:
        if value not in results and all(map(is_for_layers, graph.users.get(value, ()))):
            found.add(value)
    return found


def _tiles(image: Image, reads: list[Read]) -> tuple[int, ...]:
    """Tiles before and behind the pixels of every phase that are among what is read."""
    first, end = image.lead, image.lead + round_up(image.rows * image.pitch)
    found: list[int] = []
    for phase in image.each_phase():
        spans = [(low, high) for a, b, low, high in reads if (a, b) == phase]
        lowest = min((low for low, _ in spans), default=first)
        highest = max((high for _, high in spans), default=end)
        found += [-(-max(0, first - lowest) // SIDE), -(-max(0, highest - end) // SIDE)]
    return tuple(found)


def _reads(plan: ImagePlan, layer: Layer, value: SSAValue) -> list[Read] | None:
    """What a layer loads of an image; None if that may be all of it."""
    image = plan.images[value]
    if layer.kind == "conv" and value is layer.added and value is not layer.inputs[0]:
        return []  # nothing but its pixels
    if value in (layer.added, layer.gate) or layer.unfolded:
        return None
    if layer.kind == "chain" and layer.bands:
        return list(_of_bands(plan, layer, value))
    if layer.kind not in ("conv", "max", "average") or layer.window is None:
        return None
    out, times = plan.images[layer.image], layer.enlarged
    repeated = times[layer.inputs.index(value)] if times else (1, 1)
    found: list[Read] = []
    for phase in out.each_phase():
        for tap in layer.window.taps:
            at = Source(image, repeated).at(layer.window, phase, tap)
            end = at.shift + round_up(out.rows * out.pitch)
            found.append((at.row, at.column, at.shift, end))
    return found


def _of_bands(plan: ImagePlan, layer: Layer, value: SSAValue) -> Iterator[Read]:
    """What bands of convolutions load of an image."""
    kernel, options = plan.options(layer)
    parts = parts_of(RECORDS[kernel].given(options))
    plans = tuple(needed(convolved(part).plan, "a plan") for part in parts)
    number = layer.inputs.index(value)
    for place, row, column, first, end in Bands(plans, options["rows"]).loaded():
        if place == number:
            yield row, column, first, end
