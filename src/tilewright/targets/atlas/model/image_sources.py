"""Convolutions that read images side by side, or enlarged ones, where they are.

before: resample (each pixel twice, down and across) -> join with another image -> conv
after:  conv of both images

Where an enlarged image is wanted in as many times more phases than the image it is made of, these are
the phases of that image again, and nothing has to be moved.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph
from tilewright.targets.atlas.model.image_layers import Layer, Phases, repetitions
from tilewright.targets.atlas.model.image_phases import phases_of

Part = tuple[SSAValue, Phases]


def reading_parts(graph: Graph, layers: list[Layer]) -> list[Layer]:
    """The layers, with convolutions of joined and enlarged images in place of these."""
    phases, wrong = phases_of(layers)
    if wrong:
        return layers
    made = {layer.result: layer for layer in layers}
    readers: dict[SSAValue, list[Layer]] = {}
    for layer in layers:
        for x in layer.inputs:
            readers.setdefault(x, []).append(layer)
    changed: dict[SSAValue, Layer] = {}
    gone: set[SSAValue] = set()

    def passes_by(value: SSAValue) -> bool:
        """Whether only convolutions read a value, which can read what it is made of."""
        found = readers.get(value, [])
        users = {node for layer in found for node in layer.nodes}
        outside = any(value is result for _, result in graph.outputs)
        known = all(user in users for user in graph.users.get(value, ()))
        return bool(found) and known and not outside and all(map(_reads_parts, found))

    def source(value: SSAValue) -> Part:
        """What an image is an enlargement of, if it need not be stored."""
        layer = made.get(value)
        if layer is None or layer.kind != "resample" or not graph.used_once(value):
            return value, (1, 1)
        x, times = layer.inputs[0], repetitions(layer)
        wanted = (
            None if times is None else tuple(n * k for n, k in zip(phases[x], times, strict=True))
        )
        if times is None or wanted != phases[value] or layer.result in changed:
            return value, (1, 1)
        return x, times

    for layer in layers:
        if layer.kind not in ("join", "resample") or not passes_by(layer.result):
            continue
        whole = layer.kind == "resample" or (not any(layer.starts) and len(layer.inputs) > 1)
        parts = [source(x) for x in (layer.inputs if layer.kind == "join" else (layer.result,))]
        images = [x for x, _ in parts]
        if not whole or len(set(images)) < len(images) or images == [layer.result]:
            continue
        gone.add(layer.result)
        gone.update(x for x, (new, _) in zip(layer.inputs, parts, strict=False) if new is not x)
        for reader in readers[layer.result]:
            changed[reader.result] = replace(
                reader, inputs=tuple(images), enlarged=tuple(times for _, times in parts)
            )
    return [changed.get(one.result, one) for one in layers if one.result not in gone]


def _reads_parts(layer: Layer) -> bool:
    """Whether a convolution can read several images as one."""
    plain = layer.kind == "conv" and layer.gains is None and not layer.unfolded
    return plain and layer.groups == 1
