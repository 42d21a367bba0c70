"""Lowering of images: calls of convolutions, poolings and sums, and the way in and out.

An image travels as fp8 with a scale, stored as `image_plan` says. The host hands it over scaled;
products behind it take rows, one per image, and the outside gets bf16 in the model's order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Node, shape_of
from tilewright.targets.atlas.kernels.arrangements import read, written
from tilewright.targets.atlas.kernels.convolution import GATE
from tilewright.targets.atlas.kernels.convolution_pooling import IMAGE
from tilewright.targets.atlas.kernels.images import SIDE, Image, round_up
from tilewright.targets.atlas.model.calls import (
    ONE,
    Factor,
    LargestScale,
    RangeObserver,
    Tensor,
    inverse_of,
    scale_of,
)
from tilewright.targets.atlas.model.image_layers import Layer
from tilewright.targets.atlas.model.image_means import mean_of
from tilewright.targets.atlas.model.image_plan import plan_images
from tilewright.targets.atlas.model.kernel_records import build
from tilewright.targets.atlas.model.kernels_images import gathered_columns
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import Lowering

# Activations that may be scaled before or after: the result's scale goes into the product's.
HOMOGENEOUS = ("none", "relu")
LONGEST = 12800  # columns of pixels side by side
SMALLEST = 2.0**-100  # of an epsilon: pixels of zeros have a norm, whatever their scale


@dataclass(frozen=True)
class FromPixels:
    """The value of pixels side by side, from what is stored."""

    image: Image
    shape: tuple[int, int]
    factor: Factor

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        image = self.image
        wide = numbers.reshape(-1, image.height, image.width, round_up(image.channels))
        pixels = wide[..., : image.channels]
        pixels = np.moveaxis(pixels, -1, 1) if image.first else pixels
        return pixels.reshape(self.shape) * self.factor.number()


def _macs(layer: Layer, image: Image) -> int:
    """Multiplications of a convolution that makes an image."""
    assert layer.weight is not None
    return (image.batch or 1) * image.height * image.width * layer.weight.size


class Images:
    """Makes calls for images that are asked for."""

    def __init__(self, lowering: Lowering, host: dict[Node, str]) -> None:
        self.lowering, self.graph = lowering, lowering.graph
        self.kept: dict[SSAValue, Tensor] = {}  # images that are made beside what is pooled of them
        self.plan = plan_images(
            lowering.graph, lowering.profile, lowering.fuse, host, lowering.refused
        )

    def reason(self, node: Node) -> str | None:
        """Why an operation on images is not on the device."""
        return self.plan.reasons.get(node)

    def __contains__(self, value: SSAValue) -> bool:
        """Whether the device computes the value as an image."""
        return value in self.plan.layers

    # --- images -------------------------------------------------------------------------------

    def image(self, value: SSAValue) -> Tensor:
        """The value as an fp8 image."""
        return self.lowering.remembered((value, "image"), lambda: self._make(value))

    def _make(self, value: SSAValue) -> Tensor:
        layer = self.plan.layers.get(value)
        if layer is None:
            return self._handed_over(value, self.plan.images[value], "image")
        if value is not layer.result:  # made beside the result
            self.image(layer.result)
            return self.kept[value]
        return self._emit(layer, "fp8")

    def _handed_over(self, value: SSAValue, arrangement: Any, conversion: str) -> Tensor:
        """An image that the host gives."""
        lowering = self.lowering
        name = self.graph.inputs.get(value) or lowering.hint(value)
        layout = Layout(arrangement.stored, "fp8", "panels", arrangement)
        tensor = Tensor(
            lowering.unique(f"{name}.{conversion}"), layout, "input",
            value=value, scale=lowering.magnitude(value),
        )  # fmt: skip
        lowering.take_from_host(value, conversion, tensor)
        return tensor

    def outside(self, value: SSAValue) -> Tensor:
        """The value as a bf16 image, for the host."""
        return self.lowering.remembered((value, "bf16 image"), lambda: self._make_outside(value))

    def _make_outside(self, value: SSAValue) -> Tensor:
        layer = self.plan.layers[value]
        readers = [one for one in self.plan.layers.values() if value in one.inputs]
        alone = not readers and (value, "image") not in self.lowering.forms and not layer.pool
        if (layer.bands or layer.kind in ("conv", "combine", "gate", "norm")) and alone:
            return self._emit(layer, "bf16")
        x = self.image(value)
        copied = Layer("combine", (value,), value, (), layer.first)
        deferred = {"first": scale_of(x.scale)}
        return self._call(copied, "bf16", f"{x.name} to bf16", {"a": x}, deferred)

    def _emit(self, layer: Layer, dtype: str) -> Tensor:
        if layer.kind == "conv":
            return self._convolution(layer, dtype)
        if layer.kind == "chain":
            return self._chain(layer, dtype)
        if layer.kind == "combine":
            return self._combination(layer, dtype)
        if layer.kind == "join":
            return self._joined(layer, dtype)
        if layer.kind == "norm":
            return self._norm(layer, dtype)
        x = self.image(layer.inputs[0])
        name = layer.node.layer or layer.kind
        if layer.kind in ("mean", "gate"):
            target = self.lowering.magnitude(layer.result) if dtype == "fp8" else None
            factor = scale_of(x.scale) * inverse_of(target)
            if layer.kind == "mean":
                return self._call(layer, dtype, name, {"x": x}, {"factor": factor}, scale=target)
            numbers = self.image(layer.inputs[1])
            deferred = {"factor": factor * scale_of(numbers.scale)}
            operands = {"a": x, "gate": numbers}
            return self._call(layer, dtype, name, operands, deferred, scale=target)
        return self._call(layer, dtype, name, {"x": x}, {}, scale=x.scale)

    def _call(
        self,
        layer: Layer,
        dtype: str,
        name: str,
        operands: dict[str, Tensor],
        deferred: dict[str, Factor],
        macs: int = 0,
        noted: tuple[RangeObserver, ...] = (),
        **more: Any,
    ) -> Tensor:
        """A call of a layer's kernel."""
        kernel, options = self.plan.options(layer, dtype)
        layouts = build(kernel, options).layouts({})

        def made(value: SSAValue, role: str) -> Tensor:
            label = self.lowering.unique(self.lowering.hint(value))
            return Tensor(label, layouts[role], "activation", value=value, **more)

        others = {IMAGE: made(layer.image, IMAGE)} if layer.kept else {}
        if others:
            self.kept[layer.image] = others[IMAGE]
        return self.lowering.call(
            name, kernel, operands, made(layer.result, "out"), layer.nodes, macs, deferred, noted,
            others, **options,
        )  # fmt: skip

    def _given(self, layer: Layer, layout: Layout) -> Tensor:
        """What a convolution or a chain of some reads."""
        value, arrangement = layer.inputs[0], layout.arrangement
        if not layer.unfolded:
            return self.image(value)
        return self.lowering.remembered(
            (value, "unfolded", arrangement),
            lambda: self._handed_over(value, arrangement, "unfolded"),
        )

    def _convolution(self, layer: Layer, dtype: str) -> Tensor:
        lowering, node = self.lowering, layer.node
        kernel, options = self.plan.options(layer, dtype)
        layouts = build(kernel, options).layouts({})
        given = self._read(layer, layouts)
        parts = [part.scale for part in given.values() if part.scale is not None]
        target = lowering.magnitude(layer.image) if dtype == "fp8" else None
        name = node.layer or "conv2d"
        alone = _scale_of_all(parts)
        gates = ONE
        if layer.gate is not None:
            given["gate"] = self.image(layer.gate)
            gates = scale_of(given["gate"].scale) * Factor(1 / GATE)
        operands, deferred = self._filters(layer, layouts, "", alone, target, parts, gates)
        more, share = self._added(layer, target)
        operands |= more
        macs = _macs(layer, self.plan.images[layer.image])
        return self._call(
            layer, dtype, name, {**given, **operands}, deferred | share, macs, scale=target
        )  # fmt: skip

    def _added(
        self, layer: Layer, target: RangeObserver | None
    ) -> tuple[dict[str, Tensor], dict[str, Factor]]:
        """The image that a convolution adds, and its factor; target: the scale of the result."""
        if layer.added is None:
            return {}, {}
        image = self.image(layer.added)
        early = target is not None and layer.activation in HOMOGENEOUS
        share = inverse_of(target) * Factor(layer.times) if early else ONE
        return {"added": image}, {"share": scale_of(image.scale) * share}

    def _read(self, layer: Layer, layouts: dict[str, Layout]) -> dict[str, Tensor]:
        """What a convolution reads."""
        if not layer.enlarged:
            return {"x": self._given(layer, layouts["x"])}
        return {f"x{k}": self.image(x) for k, x in enumerate(layer.inputs)}

    def _chain(self, layer: Layer, dtype: str) -> Tensor:
        """Convolutions in a row; what is between them is rounded as if it were stored."""
        lowering = self.lowering
        kernel, options = self.plan.options(layer, dtype)
        layouts = build(kernel, options).layouts({})
        operands, deferred, macs = self._read(layer, layouts), {}, 0
        several = [x.scale for x in operands.values() if x.scale is not None]
        scale = _scale_of_all(several)
        noted = []
        for k, part in enumerate(layer.parts):
            last = k + 1 == len(layer.parts)
            target = lowering.magnitude(part.result) if dtype == "fp8" or not last else None
            shares = () if k else several
            more, factor = self._filters(part, layouts, str(k), scale, target, shares)
            operands |= more
            deferred |= factor
            scale = target
            more, share = self._added(part, target)
            operands |= more
            deferred |= share
            macs += _macs(part, read(options["parts"][k]["out"]))
            noted += [] if last or target is None else [target]
        name = layer.parts[-1].node.layer or "chain"
        return self._call(
            layer, dtype, name, operands, deferred, macs, tuple(noted), scale=scale
        )  # fmt: skip

    def _filters(
        self,
        layer: Layer,
        layouts: dict[str, Layout],
        number: str,
        given: RangeObserver | LargestScale | None,
        target: RangeObserver | None,
        several: Sequence[RangeObserver] = (),
        gates: Factor = ONE,
    ) -> tuple[dict[str, Tensor], dict[str, Factor]]:
        """Filters, scales and terms of a convolution of what has the scale `given`, whose result gets
        the scale `target`, as operands with a number behind their names. several: scales of images
        that are read as one, of which `given` is the largest: filters make up for the others. gates: what
        sums are multiplied by for what filters are."""
        lowering, weight, node = self.lowering, layer.weight, layer.node
        assert weight is not None
        if layer.gains is None:
            channel = lowering.channel_scales(weight.reshape(-1, weight.shape[-1]))
        else:  # exact: filters of 1, and the numbers themselves as scales
            channel = layer.gains
        early = target is not None and layer.activation in HOMOGENEOUS
        times = Factor(layer.times)
        share = inverse_of(target) * times if early else ONE
        name = node.layer or "conv2d"
        if lowering.kept(name):
            raise TilewrightError(
                "TW1709",
                f"{name} cannot be kept in bf16: images are fp8",
                node.location,
                "have the host compute it, or keep other layers",
            )
        w, scale, bias = (f"{kind}{number}" for kind in ("w", "scale", "bias"))
        operands = {
            w: lowering.weight(
                f"{name}.weight",
                layouts[w],
                weight,
                channel if layer.gains is None else None,
                parts=self._shares(layer, given, several),
            ),
            scale: lowering.weight(
                f"{name}.scale", layouts[scale], channel, factor=scale_of(given) * gates * share
            ),
        }
        if layer.bias is not None:
            operands[bias] = lowering.weight(
                f"{name}.bias", layouts[bias], layer.bias, factor=share
            )
        deferred = {}
        if not early and (target is not None or layer.times != 1.0):
            deferred[f"factor{number}"] = inverse_of(target) * times
        return operands, deferred

    def _shares(
        self,
        layer: Layer,
        given: RangeObserver | LargestScale | None,
        several: Sequence[RangeObserver],
    ) -> tuple[tuple[int, Factor], ...]:
        """How many channels each of several images has, and its scale over the largest."""
        if len(several) < 2:
            return ()
        counts = [self.plan.images[x].channels for x in layer.inputs]
        over = scale_of(given).times
        shares = [Factor(times=(scale,), over=over) for scale in several]
        return tuple(zip(counts, shares, strict=True))

    def _norm(self, layer: Layer, dtype: str) -> Tensor:
        """A norm of every pixel: of what is stored, so its epsilon is in units of that."""
        lowering, node, x = self.lowering, layer.node, self.image(layer.inputs[0])
        kernel, options = self.plan.options(layer, dtype)
        layouts = build(kernel, options).layouts({})
        name = node.layer or node.family
        target = lowering.magnitude(layer.result) if dtype == "fp8" else None
        share, operands = inverse_of(target), {"x": x}
        count = self.plan.images[layer.result].channels
        for role in ("weight", "bias"):
            if options[role]:
                given = self.graph.known(node.inputs[role]) if role in node.inputs else None
                row = np.ones(count) if given is None else given
                row = np.asarray(row, np.float32).reshape(-1)
                operands[role] = lowering.weight(f"{name}.{role}", layouts[role], row, factor=share)
        over = () if x.scale is None else (x.scale, x.scale)
        epsilon = max(node.call.floating("epsilon") or 0.0, SMALLEST)
        deferred = {"epsilon": Factor(epsilon, over=over)}
        if not options["weight"] and target is not None:
            deferred["factor"] = share
        return self._call(layer, dtype, name, operands, deferred, scale=target)

    def _combination(self, layer: Layer, dtype: str) -> Tensor:
        parts = [self.image(value) for value in layer.inputs]
        target = self.lowering.magnitude(layer.result) if dtype == "fp8" else None
        early = layer.activation in HOMOGENEOUS
        share = inverse_of(target) * Factor(layer.times)
        deferred = {}
        for name, part in zip(("first", "second"), parts, strict=False):
            deferred[name] = scale_of(part.scale) * (share if early else ONE)
        if not early and share != ONE:
            deferred["factor"] = share
        operands: dict[str, Tensor] = dict(zip(("a", "b"), parts, strict=False))
        name = layer.node.layer or layer.node.family.removeprefix("elementwise_")
        return self._call(layer, dtype, name, operands, deferred, scale=target)

    def _joined(self, layer: Layer, dtype: str) -> Tensor:
        """Images side by side; a part of one keeps its scale."""
        parts = [self.image(value) for value in layer.inputs]
        name = layer.node.layer or layer.node.family
        operands = {f"x{k}": part for k, part in enumerate(parts)}
        if len(parts) == 1:
            return self._call(layer, dtype, name, operands, {}, scale=parts[0].scale)
        target = self.lowering.magnitude(layer.result)
        deferred = {
            f"scale{k}": scale_of(part.scale) * inverse_of(target) for k, part in enumerate(parts)
        }
        return self._call(layer, dtype, name, operands, deferred, scale=target)

    # --- rows ---------------------------------------------------------------------------------

    def mean(self, value: SSAValue, dtype: str) -> Tensor | None:
        """The value [1, B, C] if it is the mean of images."""
        found = mean_of(self.graph, value)
        if found is None or found[0] not in self:
            return None
        source, first, nodes = found
        if self.plan.layers[source].first != first:
            return None
        x = self.image(source)
        target = self.lowering.magnitude(value) if dtype == "fp8" else None
        deferred = {"factor": scale_of(x.scale) * inverse_of(target)}
        return self._gather(x, "mean", dtype, value, nodes, deferred, scale=target)

    def flattened(self, value: SSAValue, weight: np.ndarray) -> tuple[Tensor, np.ndarray] | None:
        """All pixels of images side by side, if that is what a product's operand is, and the
        weight in the order of what is stored."""
        reshape = self.graph.node_of(value, "reshape")
        if reshape is None or reshape.operands[0] not in self:
            return None
        source = reshape.operands[0]
        image = self.plan.images[source]
        whole = (shape_of(source)[0], math.prod(shape_of(source)[1:]))
        if shape_of(value) != whole or image.fill != "zero" or not self._worth(source):
            return None

        def make() -> Tensor:
            x = self.image(source)
            undo = FromPixels(image, whole, scale_of(x.scale))
            return self._gather(x, "flat", "fp8", value, (reshape,), {}, scale=x.scale, undo=undo)

        x = self.lowering.remembered((value, "flat"), make)
        sizes = (image.height, image.width, image.channels)
        if image.first:
            rows = weight.reshape(image.channels, *sizes[:2], -1).transpose(1, 2, 0, 3)
        else:
            rows = weight.reshape(*sizes, -1)
        wide = np.zeros((*sizes[:2], round_up(image.channels), rows.shape[-1]), np.float32)
        wide[:, :, : image.channels] = rows
        return x, wide.reshape(-1, rows.shape[-1])

    def _worth(self, value: SSAValue) -> bool:
        """Whether pixels side by side are not much longer than without padding, and what lies
        beyond the last channel is zero."""
        image = self.plan.images[value]
        columns = gathered_columns(image, "flat")
        given = round_up(image.height * image.width * image.channels)
        if columns > LONGEST or columns > 2 * given:
            return False
        return image.channels % SIDE == 0 or not self._beyond(value)

    def _beyond(self, value: SSAValue) -> bool:
        """Whether other numbers than zero lie beyond the last channel: a sigmoid's of zero."""
        layer = self.plan.layers.get(value)
        if layer is None or layer.kind in ("conv", "chain"):
            return layer is not None and layer.activation in ("sigmoid", "hardsigmoid")
        return any(self._beyond(x) for x in layer.inputs)

    def _gather(
        self,
        x: Tensor,
        kind: str,
        dtype: str,
        value: SSAValue,
        nodes: tuple[Node, ...],
        deferred: dict[str, Factor],
        **more: Any,
    ) -> Tensor:
        image = x.layout.arrangement
        assert isinstance(image, Image)
        shape = (1, image.batch or 1, gathered_columns(image, kind))
        name = self.lowering.hint(value)
        out = self.lowering.activation(name, shape, dtype, value=value, **more)
        label = nodes[0].layer or kind
        return self.lowering.call(
            label, "gather", {"x": x}, out, nodes, 0, deferred,
            image=written(image), kind=kind, out=dtype,
        )  # fmt: skip


def _scale_of_all(parts: Sequence[RangeObserver]) -> RangeObserver | LargestScale | None:
    """The scale of images that are read as one."""
    return parts[0] if len(parts) == 1 else LargestScale(tuple(parts)) if parts else None
