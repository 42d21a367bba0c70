"""Poolings that are made by the convolution whose image they look at, while it is on the chip.

before: conv -> max of 2 x 2 pixels, and somebody else who reads the image
after:  conv with two results: its image, and the largest numbers of it

So an image is not read again, and where nobody else reads it, it is not stored. Images are stored as
they were: windows side by side see the same pixels of all phases.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.kernels.convolution import NONNEGATIVE
from tilewright.targets.atlas.kernels.convolution_pooling import is_side_by_side
from tilewright.targets.atlas.model.image_layers import Layer


def with_pools(
    graph: Graph, layers: list[Layer], apart: Collection[SSAValue], deep: Collection[SSAValue]
) -> list[Layer]:
    """The layers, with convolutions that pool what they make. apart: results of poolings that cannot be
    part of one; deep: of convolutions in parts, which pool nothing."""
    place = {layer.result: k for k, layer in enumerate(layers)}
    found, gone = list(layers), set[SSAValue]()
    for layer in layers:
        x = layer.inputs[0] if layer.inputs else None
        if x is None or x not in place or layer.result in apart or not _is_pooling(layer):
            continue
        maker = found[place[x]]
        if x in deep or not _pools(maker, layer):
            continue
        kept = not graph.used_once(x)
        found[place[x]] = replace(
            maker, result=layer.result, nodes=(*maker.nodes, *layer.nodes), pool=layer, kept=kept
        )
        gone.add(layer.result)
    # A convolution is where it was: those that read its image may come before its pooling.
    return [layer for layer in found if layer.result not in gone or layer.pool is not None]


def _is_pooling(layer: Layer) -> bool:
    return layer.kind == "max" and layer.window is not None and is_side_by_side(layer.window)


def _pools(maker: Layer, pooling: Layer) -> bool:
    """Whether a convolution can pool its image like this."""
    assert pooling.window is not None
    convolves = maker.kind == "conv" or (maker.kind == "chain" and maker.bands)
    beyond = any(pooling.window.sides) and maker.activation not in NONNEGATIVE
    return convolves and maker.pool is None and maker.first == pooling.first and not beyond
