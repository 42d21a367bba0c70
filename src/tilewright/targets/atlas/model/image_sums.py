"""Sums of images that are made by a convolution which is one of them.

before: conv -> add another image -> relu
after:  conv that adds the other image to its sums, with relu

So what the convolution makes is neither stored nor rounded to fp8 before the sum.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.model.image_layers import Layer


def with_sums(graph: Graph, layers: list[Layer], apart: Collection[SSAValue]) -> list[Layer]:
    """The layers, with convolutions in place of the sums that read them. apart: results of sums that
    cannot be part of one."""
    place = {layer.result: k for k, layer in enumerate(layers)}
    found = list(layers)
    gone: set[SSAValue] = set()
    for k, layer in enumerate(layers):
        if layer.kind != "combine" or len(set(layer.inputs)) != 2 or layer.result in apart:
            continue
        # Of two convolutions the later one: the other image is there before it then.
        for x in sorted(layer.inputs, key=lambda x: place.get(x, -1), reverse=True):
            if x not in place or not _ends_in_sums(graph, found[place[x]], layer):
                continue
            conv = found[place[x]]
            (other,) = (y for y in layer.inputs if y is not x)
            found[k] = replace(
                conv, inputs=(*conv.inputs, other), result=layer.result, added=other,
                nodes=(*conv.nodes, *layer.nodes), activation=layer.activation, times=layer.times,
            )  # fmt: skip
            gone.add(x)
            break
    return [layer for layer in found if layer.result not in gone]


def _ends_in_sums(graph: Graph, conv: Layer, reader: Layer) -> bool:
    """Whether what a convolution makes is only read by a sum and is nothing but scaled sums."""
    plain = conv.activation == "none" and conv.times == 1.0 and conv.added is None
    return (
        conv.kind == "conv" and plain and not conv.enlarged and conv.first == reader.first
        and graph.used_once(conv.result)
    )  # fmt: skip
