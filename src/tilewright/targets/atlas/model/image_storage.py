"""How every image of a plan is stored: phases, borders, pitches, what a border holds.

What one layer reads and writes has the same pitch, and images that are added up are stored alike,
so images that are connected are looked at together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node
from tilewright.targets.atlas.kernels.images import (
    SIDE,
    Image,
    beyond,
    needed_border,
    round_up,
)
from tilewright.targets.atlas.model.image_activations import NONNEGATIVE
from tilewright.targets.atlas.model.image_bands import rows_ahead
from tilewright.targets.atlas.model.image_layers import Layer, plain_image
from tilewright.targets.atlas.model.image_means import mean_order
from tilewright.targets.atlas.model.image_phases import phases_of

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.image_plan import ImagePlan


def store_images(plan: ImagePlan, layers: list[Layer]) -> dict[Node, str]:
    """Fill in the images of a plan; layers that cannot be, with the reason."""
    phases, wrong = phases_of(layers)
    if wrong:
        return wrong
    orders = {x: layer.given_first for layer in layers for x in (*layer.inputs, *layer.alike)}
    orders.update((layer.result, layer.first) for layer in layers)
    drafts = {value: plain_image(value, orders[value], n) for value, n in phases.items()}
    _note_signs(plan, layers)
    readers: dict[SSAValue, list[Layer]] = {value: [] for value in drafts}
    for layer in layers:
        for x in (*layer.alike, *layer.apart):
            readers[x].append(layer)
    alike, pitches = _Groups(drafts), _Groups(drafts)
    for layer in layers:
        for x in layer.alike:
            pitches.join(x, layer.result)
            if layer.kind in ("combine", "gate", "join"):
                alike.join(x, layer.result)
    for group in alike.groups():
        border = np.max([_border(reader.seen(v, drafts[v]), reader, v) for v in group for reader in readers[v]]
                        + [(0, 0)], axis=0)  # fmt: skip
        fills = {value: _fill(plan, value, drafts[value], readers[value]) for value in group}
        for value in group:
            wanted = fills[value]
            if isinstance(wanted, Layer):
                reason = "a maximum beyond the edge of an image that others read with zeros there"
                return {wanted.node: reason}
            rows, columns = map(int, border)
            image = replace(drafts[value], border=(rows, columns), fill=wanted, pitch=0)
            drafts[value] = image
        if len({drafts[value].fill for value in group}) > 1:
            low = next(r for v in group for r in readers[v] if r.kind == "max")
            return {low.node: "a maximum beyond the edge of an image that is part of a sum"}
    for group in pitches.groups():
        # Rows of any of them fit with the border of any other.
        widest = max(group, key=lambda v: (drafts[v].columns, drafts[v].rows))
        across = max(drafts[value].border[1] for value in group)
        model = replace(drafts[widest], border=(drafts[widest].border[0], across), pitch=0)
        pitch = _even(model) if plan.even & set(group) else model.pitch
        for value in group:
            drafts[value] = replace(drafts[value], pitch=pitch)
    for group in alike.groups():
        # A tile more, so that one can begin at any pixel.
        needs = [1] + [
            -(-beyond(reader.seen(v, drafts[v]), window) // SIDE)
            for v in group for reader in readers[v]
            if (window := reader.window_over(v)) is not None
        ]  # fmt: skip
        for value in group:
            drafts[value] = replace(drafts[value], spare=max(needs))
    plan.images = drafts
    return {}


def _even(image: Image) -> int:
    """The smallest pitch with which rows begin at the same places of all tiles."""
    least = image.columns + image.border[1]
    return round_up(least) if least > SIDE // 2 else 1 << (least - 1).bit_length()


def _note_signs(plan: ImagePlan, layers: list[Layer]) -> None:
    """Find images that hold no negative number."""
    for layer in layers:
        pooled = (
            layer.kind in ("max", "average", "resample") and layer.inputs[0] in plan.nonnegative
        )
        if pooled or layer.activation in NONNEGATIVE:
            plan.nonnegative.add(layer.result)


def _border(image: Image, layer: Layer, value: SSAValue) -> tuple[int, int]:
    window = layer.window_over(value)
    if window is None:
        return (0, 0)
    rows, columns = needed_border(image, window)
    if layer.bands and not layer.unfolded:
        rows = max(rows, rows_ahead(layer, image))
    return rows, columns


def _fill(plan: ImagePlan, value: SSAValue, image: Image, readers: list[Layer]) -> str | Layer:
    """What the border of an image holds; a layer that would need something else."""
    lowest = [
        layer for layer in readers
        if layer.kind == "max" and any(_border(image, layer, value))
        and layer.inputs[0] not in plan.nonnegative
    ]  # fmt: skip
    if not lowest:
        return "zero"
    others = [
        r
        for r in readers
        if r.kind in ("combine", "gate", "mean", "join")
        or (r.kind != "max" and any(_border(image, r, value)))
    ]
    users = plan.graph.users.get(lowest[0].inputs[0], ())
    means = any(mean_order(user) is not None for user in users)
    return lowest[0] if others or means else "lowest"


class _Groups:
    """Values that belong together."""

    def __init__(self, values: Iterable[SSAValue]) -> None:
        self.of = {value: [value] for value in values}

    def join(self, one: SSAValue, other: SSAValue) -> None:
        first, second = self.of[one], self.of[other]
        if first is not second:
            first += second
            for value in second:
                self.of[value] = first

    def groups(self) -> list[list[SSAValue]]:
        return list({id(group): group for group in self.of.values()}.values())
