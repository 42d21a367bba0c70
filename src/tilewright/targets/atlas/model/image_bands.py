"""Convolutions in a row that become one kernel, band of rows by band, where images between them are too
large to stay on the chip.

before: conv 3x3 (32 to 32) -> conv 3x3 (32 to 32) -> conv 1x1 (32 to 8)
after:  chain of the three, in bands

Two that look around themselves at most, with one of single pixels behind them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.kernels.images import (
    SIDE,
    Image,
    beyond,
    needed_border,
    result_image,
    result_phases,
)
from tilewright.targets.atlas.model.image_chains import bytes_of, is_single, only_reader
from tilewright.targets.atlas.model.image_layers import Layer, Phases, plain_image
from tilewright.targets.atlas.profile import Profile

SHARE = 2  # of VMEM: an image that takes one in so many does not stay
WIDE = 2 * SIDE  # channels that a convolution of single pixels takes as they are made, at most


def with_bands(
    graph: Graph, layers: list[Layer], profile: Profile, apart: set[SSAValue]
) -> list[Layer]:
    """The layers, with chains in place of convolutions in a row. apart: results of those that cannot be."""
    readers: dict[SSAValue, list[Layer]] = {}
    for layer in layers:
        for x in layer.inputs:
            readers.setdefault(x, []).append(layer)
    chains: dict[SSAValue, Layer] = {}
    inside: set[SSAValue] = set()
    for layer in layers:
        if layer.result in inside or layer.unfolded == "columns" or not _is_whole(layer):
            continue
        parts = [layer]
        while len(parts) < 3:
            after = only_reader(graph, parts[-1], readers)
            if after is None or not _follows(parts, after, profile):
                break
            parts.append(after)
        if len(parts) > 1 and parts[-1].result not in apart:
            chains[parts[-1].result] = _chain(parts)
            inside.update(part.result for part in parts)
    gone = inside - set(chains)
    return [chains.get(one.result, one) for one in layers if one.result not in gone]


def bands_between(layer: Layer, image: Image) -> Iterator[Image]:
    """How the results of a chain's parts but the last would be stored; image: what it reads, or the
    result of a first convolution of what is unfolded."""
    for part, after in zip(layer.parts, layer.parts[1:], strict=False):
        assert part.weight is not None and part.window is not None and after.window is not None
        channels = part.weight.shape[-1]
        if part.unfolded:
            image = replace(image, channels=channels)
        else:
            image = result_image(image, part.window, channels)
        border = needed_border(image, after.window)
        wide = max(border[0], image.border[0]), max(border[1], image.border[1])
        image = replace(image, border=wide, spare=0)
        image = replace(image, spare=max(1, -(-beyond(image, after.window) // SIDE)))
        yield image


def rows_ahead(layer: Layer, image: Image) -> int:
    """Rows of border below an image that the first convolution of a chain sees, which for some phases
    is a row ahead."""
    first, second = layer.parts[0].window, layer.parts[1].window
    assert first is not None and second is not None
    height, width = first.result(image.height, image.width)
    phases = result_phases(image, first)
    between = replace(image, height=height, width=width, phases=phases, pitch=0)
    ahead: dict[Phases, int] = {}
    for phase in between.each_phase():
        for tap in second.taps:
            at = second.place(between, phase, tap)
            ahead[at.row, at.column] = max(at.down, ahead.get((at.row, at.column), 0))
    downs = [
        rows + first.place(image, phase, tap).down
        for phase, rows in ahead.items() for tap in first.taps
    ]  # fmt: skip
    return max(0, *downs)


def _is_whole(layer: Layer) -> bool:
    """Whether all filters of a convolution see all channels, and nothing else is done with them."""
    plain = layer.kind == "conv" and layer.gains is None and layer.gate is None
    return plain and layer.groups == 1 and layer.added is None and layer.window is not None


def _follows(parts: list[Layer], after: Layer, profile: Profile) -> bool:
    """Whether a convolution may come behind others in one kernel."""
    before = parts[-1]
    if not _is_whole(after) or after.unfolded or after.enlarged or after.first != before.first:
        return False
    if after.window is None or after.window.steps != (1, 1) or is_single(before):
        return False
    seen = plain_image(after.inputs[0], after.given_first)
    if bytes_of(seen) * SHARE < profile.vmem_bytes:
        return False
    return seen.channels <= WIDE if is_single(after) else len(parts) == 1


def _chain(parts: list[Layer]) -> Layer:
    first, last = parts[0], parts[-1]
    nodes = tuple(node for part in parts for node in part.nodes)
    return Layer(
        "chain", first.inputs, last.result, nodes, last.first,
        parts[1].window if first.unfolded else first.window, activation=last.activation,
        unfolded=first.unfolded, parts=tuple(parts), enlarged=first.enlarged, bands=True,
    )  # fmt: skip
