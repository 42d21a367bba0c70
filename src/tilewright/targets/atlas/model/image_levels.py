"""Where networks that halve images and double them again store them anew, so that what is doubled is
read where it is.

before: pool -> conv -> (store anew -> pool -> …, concat with … -> double) -> conv -> double
after:  pool -> store anew -> conv -> (pool -> …, concat with … -> double) -> conv -> store anew -> double

All images of one size between are stored in the phases that the stride wants. What is doubled comes
in these phases by itself; otherwise every pixel of it would be stored again, four times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewright.dialects.xdsl_api import SSAValue

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.image_layers import Layer

Place = tuple["SSAValue", list["Layer"]]  # an image, and who reads it stored anew


def edges_of(layers: list[Layer], value: SSAValue, strided: list[Layer]) -> list[Place]:
    """Where images of the size of `value` come from larger ones and become them again; nothing
    unless one of them is made by repeating the pixels that strides leave of it."""
    from tilewright.targets.atlas.model.image_layers import repetitions

    steps = {layer.steps for layer in strided}
    made = {layer.result: layer for layer in layers}
    inside, doubled = _level(layers, value), False
    begins: dict[SSAValue, list[Layer]] = {}
    ends: dict[SSAValue, list[Layer]] = {}
    for layer in layers:
        for x in layer.alike if layer in inside else ():
            maker = made.get(x)
            if maker is not None and maker.kind == "resample":
                doubled |= steps == {repetitions(maker)}
            elif maker not in inside:
                begins.setdefault(x, []).append(layer)
        larger = layer.kind == "resample" and repetitions(layer) not in (None, (1, 1))
        if larger and made.get(layer.inputs[0]) in inside:
            ends.setdefault(layer.inputs[0], []).append(layer)
    known = all(x in made and made[x].steps != (1, 1) for x in begins)
    return [*begins.items(), *ends.items()] if doubled and known and begins else []


def _level(layers: list[Layer], value: SSAValue) -> set[Layer]:
    """Layers that make images of one size in the same phases, one of which is `value`, of images of
    that size."""
    even = [layer for layer in layers if layer.alike and layer.steps == (1, 1)]
    made = {layer.result for layer in even}
    inside: set[Layer] = set()
    values = {value}
    while True:
        more = [
            layer for layer in even
            if layer not in inside and not values.isdisjoint({layer.result, *layer.alike})
        ]  # fmt: skip
        if not more:
            return inside
        inside.update(more)
        values.update(layer.result for layer in more)
        values.update(x for layer in more for x in layer.alike if x in made)
