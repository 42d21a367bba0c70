"""Convolutions that become one kernel, so that what lies between them need not leave the chip.

before: conv 1x1 (16 to 96) -> conv 3x3 of every channel -> conv 1x1 (96 to 24)
after:  chain of the three

Where images between them would take much of VMEM; and where there are so few pixels that a kernel
would only wait for its filters, which come while the depthwise ones are made into tiles. The first
may be a convolution of what the host has unfolded, which is one of single pixels then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.kernels.images import SIDE, Image, result_image, round_up
from tilewright.targets.atlas.model.image_layers import Layer, plain_image
from tilewright.targets.atlas.profile import Profile

SHARE = 4  # of VMEM: one in so many is much
STEPS = 5  # on the vector unit with a tile of a convolution's results, about


def with_chains(
    graph: Graph, layers: list[Layer], profile: Profile, apart: set[SSAValue]
) -> list[Layer]:
    """The layers, with chains in place of their parts. apart: results of chains that cannot be."""
    readers: dict[SSAValue, list[Layer]] = {}
    for layer in layers:
        for x in layer.inputs:
            readers.setdefault(x, []).append(layer)
    made = {layer.result: layer for layer in layers}
    chains: dict[SSAValue, Layer] = {}
    inside: set[SSAValue] = set()
    for layer in layers:
        if not _is_depthwise(layer):
            continue
        before, after = made.get(layer.inputs[0]), only_reader(graph, layer, readers)
        parts = [layer]
        if before is not None and only_reader(graph, before, readers) is layer:
            parts = [before, layer] if is_single(before) or _is_unfolded(before) else parts
        if not _is_large(layer, profile) and (len(parts) < 2 or not _waits(parts[0], profile)):
            continue
        if after is not None and is_single(after) and _are_larger(parts[0], after, profile):
            parts.append(after)
        if len(parts) < 2 or parts[-1].result in apart:
            continue
        if any(part.first != layer.first for part in parts):
            continue
        if any(part.added is not None for part in parts[:-1]):
            continue
        chains[parts[-1].result] = _chain(parts)
        inside.update(part.result for part in parts[:-1])
    return [chains.get(one.result, one) for one in layers if one.result not in inside]


def between(layer: Layer, image: Image) -> Iterator[Image]:
    """How the results of a chain's parts but the last would be stored; image: what it reads, or the
    result of a first convolution of what is unfolded."""
    for part in layer.parts[:-1]:
        assert part.weight is not None and part.window is not None
        if part.unfolded:
            pass
        elif part.window.steps == (1, 1) and len(part.window.taps) == 1:
            image = replace(image, channels=part.weight.shape[-1], fill="zero")
        else:
            image = result_image(image, part.window, part.weight.shape[-1], spare=image.spare)
        yield image


def _chain(parts: list[Layer]) -> Layer:
    window = next(part.window for part in parts if _is_depthwise(part))
    nodes = tuple(node for part in parts for node in part.nodes)
    last = parts[-1]
    more = () if last.added is None else (last.added,)
    return Layer(
        "chain", (parts[0].inputs[0], *more), last.result, nodes, last.first, window,
        activation=last.activation, unfolded=parts[0].unfolded, parts=tuple(parts),
        added=last.added,
    )  # fmt: skip


def only_reader(graph: Graph, layer: Layer, readers: dict[SSAValue, list[Layer]]) -> Layer | None:
    """The layer that reads a result, if nobody else does."""
    found, users = readers.get(layer.result, []), graph.users.get(layer.result, [])
    if not graph.used_once(layer.result) or len(users) != 1 or len(found) != 1:
        return None
    if found[0].added is layer.result:
        return None
    return found[0] if users[0] in found[0].nodes else None


def _is_unfolded(layer: Layer) -> bool:
    """Whether a convolution sees whole windows as the channels of single pixels."""
    return layer.kind == "conv" and layer.unfolded is True and layer.groups == 1


def _is_conv(layer: Layer) -> bool:
    alone = not layer.unfolded and not layer.enlarged
    return layer.kind == "conv" and alone and layer.gains is None and layer.gate is None


def _is_depthwise(layer: Layer) -> bool:
    if not _is_conv(layer) or layer.weight is None:
        return False
    return 1 < layer.groups == layer.weight.shape[-1] == _channels(layer.inputs[0], layer)


def is_single(layer: Layer) -> bool:
    """Whether a convolution sees all channels of a single pixel."""
    if not _is_conv(layer) or layer.window is None or layer.groups != 1:
        return False
    window = layer.window
    return len(window.taps) == 1 and window.steps == (1, 1) and not any(window.sides)


def _channels(value: SSAValue, layer: Layer) -> int:
    return plain_image(value, layer.given_first).channels


def _are_larger(first: Layer, after: Layer, profile: Profile) -> bool:
    """Whether the depthwise result in a chain is too large to lie in VMEM together with what the
    chain reads; with its last result where that comes from the host and passes by."""
    seen = plain_image(after.inputs[0], after.given_first)
    other = plain_image(first.inputs[0], first.given_first)
    images = seen, plain_image(after.result, after.first) if first.unfolded else other
    held = sum(bytes_of(image) for image in images) * 9 // 8  # with pixels between rows
    return held > profile.vmem_bytes * (SHARE - 1) // SHARE


def _waits(layer: Layer, profile: Profile) -> bool:
    """Whether filters take longer to load than a convolution of single pixels needs them."""
    assert layer.weight is not None
    image = plain_image(layer.result, layer.first)
    tiles = -(-(image.batch or 1) * image.height * image.width // SIDE)
    work = tiles * round_up(image.channels) // SIDE * STEPS * profile.timing["vector"].interval
    return profile.dma.ticks(layer.weight.size) > work


def bytes_of(image: Image) -> int:
    return (image.batch or 1) * image.height * image.width * round_up(image.channels)


def _is_large(layer: Layer, profile: Profile) -> bool:
    """Whether what a depthwise convolution reads takes much of VMEM."""
    image = plain_image(layer.inputs[0], layer.given_first)
    return bytes_of(image) * SHARE >= profile.vmem_bytes
