"""Gates whose image only a convolution of single pixels reads.

before: image times a number per channel -> conv 1x1
after:  conv 1x1 whose filters are multiplied by these numbers

So no second image is stored. Filters are multiplied where they are not many more than pixels: one of
their tiles takes a step on the vector unit, a tile of pixels three.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.kernels.images import SIDE
from tilewright.targets.atlas.model.image_chains import is_single
from tilewright.targets.atlas.model.image_layers import Layer, plain_image

STEPS = 3  # on the vector unit with a tile of an image that is multiplied


def with_gates(graph: Graph, layers: list[Layer], apart: Collection[SSAValue]) -> list[Layer]:
    """The layers, with convolutions that multiply their filters. apart: results of convolutions that
    cannot."""
    gates = {layer.result: layer for layer in layers if layer.kind == "gate"}
    found = []
    for layer in layers:
        gate = gates.get(layer.inputs[0])
        if gate is None or layer.result in apart or not _takes(graph, layer, gate):
            found.append(layer)
            continue
        x, numbers = gate.inputs
        gates.pop(gate.result)
        found.append(
            replace(
                layer, inputs=(x, *layer.inputs[1:], numbers), gate=numbers,
                nodes=(*layer.nodes, *gate.nodes),
            )
        )  # fmt: skip
    kept = set(gates.values())
    return [layer for layer in found if layer.kind != "gate" or layer in kept]


def _takes(graph: Graph, conv: Layer, gate: Layer) -> bool:
    """Whether a convolution is the only reader of a gate, and multiplying its filters pays."""
    if not is_single(conv) or conv.added is gate.result or not graph.used_once(gate.result):
        return False
    if conv.first != gate.first or gate.inputs[0] is gate.inputs[1] or conv.added is gate.inputs[1]:
        return False
    image, out = plain_image(gate.result, gate.first), plain_image(conv.result, conv.first)
    pixels = -(-image.height * image.width // SIDE)
    return -(-out.channels // SIDE) <= STEPS * pixels
