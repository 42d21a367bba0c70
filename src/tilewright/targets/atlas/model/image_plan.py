"""Which operations of a graph work on images on the device, and how every image is stored.

Convolutions, poolings, sums of images and activations are layers. How an image is stored is a
question to all that read it: a stride wants phases, a window wants a border, and what one layer
reads and writes has the same pitch. So phases are found from the end of the graph to its beginning,
pitches for all images that are connected. A layer the library has no kernel for is left out, with
the reason, and the plan is made again without it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Graph, Node
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.convolution_bands import rows_of_steps
from tilewright.targets.atlas.kernels.convolution_parts import deep_of
from tilewright.targets.atlas.kernels.image_sources import Source, joined
from tilewright.targets.atlas.kernels.images import SIDE, Image
from tilewright.targets.atlas.kernels.narrow_images import MOST, NarrowImage, narrow
from tilewright.targets.atlas.model.image_bands import bands_between, with_bands
from tilewright.targets.atlas.model.image_borders import seen_borders
from tilewright.targets.atlas.model.image_chains import between, with_chains
from tilewright.targets.atlas.model.image_gates import with_gates
from tilewright.targets.atlas.model.image_layers import Layer, plain_image
from tilewright.targets.atlas.model.image_matching import find_layers
from tilewright.targets.atlas.model.image_phases import store_anew
from tilewright.targets.atlas.model.image_pools import with_pools
from tilewright.targets.atlas.model.image_sources import reading_parts
from tilewright.targets.atlas.model.image_storage import store_images
from tilewright.targets.atlas.model.image_sums import with_sums
from tilewright.targets.atlas.model.kernel_options_images import parts_of
from tilewright.targets.atlas.model.kernel_records import RECORDS
from tilewright.targets.atlas.model.kernels_images import check_room, convolved
from tilewright.targets.atlas.model.typed_options import needed
from tilewright.targets.atlas.profile import Profile

SHARE, TILE = 8, 1024  # of VMEM for filters of results side by side in tiles; bytes of one
Made = tuple[SSAValue, str]  # a result, and the kind of layer that makes it
NO_ROOM = "a convolution whose code needs more VMEM than there is"


@dataclass
class ImagePlan:
    """Layers by what they compute, and every image: results, and what the host hands over."""

    graph: Graph
    layers: dict[SSAValue, Layer] = field(default_factory=dict)
    images: dict[SSAValue, Image] = field(default_factory=dict)
    nonnegative: set[SSAValue] = field(default_factory=set)
    reasons: dict[Node, str] = field(default_factory=dict)  # why an operation is no layer
    even: frozenset[SSAValue] = frozenset()  # images whose tiles all begin alike, for loops
    rows: dict[SSAValue, int] = field(default_factory=dict)  # of the bands of chains
    deep: dict[SSAValue, int] = field(default_factory=dict)  # tiles of channels added up at a time
    placed: int = 0  # tiles of filters, at most, of results that are stored side by side
    places: dict[Made, int] = field(default_factory=dict)  # of these, fewer side by side

    def source(self, layer: Layer) -> Image:
        """What a layer reads."""
        x = layer.inputs[0]
        if layer.enlarged:
            return joined(self.sources(layer))
        return plain_image(x, layer.given_first) if layer.unfolded else self.images[x]

    def sources(self, layer: Layer) -> list[Source]:
        """The images that a convolution reads as one."""
        pairs = zip(layer.inputs, layer.enlarged, strict=True)
        return [Source(self.images[x], enlarged) for x, enlarged in pairs]

    def out(self, layer: Layer, dtype: str = "fp8") -> Image:
        """What a layer writes; results for the outside are bf16 and need no border."""
        image = self.images[layer.image]
        if dtype == "fp8":
            return image
        if layer.kind in ("combine", "gate"):
            return replace(image, dtype="bf16")
        image = replace(image, dtype="bf16", border=(0, 0), spare=0, fill="zero")
        products = self._products(layer)
        most = self.places.get((layer.result, layer.kind), MOST)
        return narrow(image, products, self.placed, most) if products else image

    def _products(self, layer: Layer) -> int:
        """Tiles of filters of a result that may be stored side by side with others, else 0."""
        last = layer.parts[-1] if layer.parts else layer
        whole = layer.kind == "conv" or layer.bands
        alone = last.added is None and last.gate is None and last.gains is None
        alone = alone and layer.pool is None
        if not whole or not alone or layer.result in self.deep:
            return 0
        if last.groups != 1 or last.weight is None:
            return 0
        taps, channels = math.prod(last.weight.shape[:2]), last.weight.shape[2]
        sources = [self.images[x].channels for x in layer.inputs] if last.enlarged else [channels]
        if last.unfolded:
            return -(-taps * channels // SIDE)
        return taps * sum(-(-one // SIDE) for one in sources)

    def options(self, layer: Layer, dtype: str = "fp8") -> tuple[str, dict[str, Any]]:
        """The kernel of a layer and its options, without numbers of scales."""
        source, out = self.source(layer), self.out(layer, dtype)
        both: dict[str, Any] = {"image": written(source), "out": written(out)}
        if layer.kind == "chain":
            given = self.images[layer.alike[0]] if layer.unfolded else source
            images = [source, *(bands_between if layer.bands else between)(layer, given), out]
            parts = [
                self._convolution(part, images[k], images[k + 1])
                for k, part in enumerate(layer.parts)
            ]
            parts[-1] |= self._pool(layer)
            if layer.bands:
                parts[0] |= self._several(layer)
                parts[0]["unfolded"] = "around" if layer.unfolded else False
                both["rows"] = self.rows.get(layer.result, 1)
            return "chain", {**both, "parts": parts}
        if layer.kind == "combine":
            two = len(layer.inputs) == 2
            return "combine", {**both, "activation": layer.activation, "two": two}
        if layer.kind == "mean":
            return "mean", both
        if layer.kind == "resample":
            names = zip(("rows", "columns"), layer.places, strict=True)
            return "resample", {**both, **{n: list(p) for n, p in names if p is not None}}
        if layer.kind == "join":
            images = [written(self.images[x]) for x in layer.inputs]
            return "join", {**both, "images": images, "starts": list(layer.starts)}
        if layer.kind == "norm":
            inputs = layer.node.inputs
            own = {"weight": "weight" in inputs or "bias" in inputs, "bias": "bias" in inputs}
            return "image_norm", {**both, "kind": layer.node.family.removesuffix("_norm"), **own}
        if layer.kind == "gate":
            return "gate", {**both, "gate": written(self.images[layer.inputs[1]])}
        if layer.kind == "conv":
            own = {**self._several(layer), **self._pool(layer)}
            return "conv2d", {**self._convolution(layer, source, out), **own}
        both["window"] = written(layer.window)
        counting = layer.node.call.flag("count_include_pad")
        kept = layer.inputs[0] in self.nonnegative
        own = {"kind": layer.kind, "nonnegative": kept, "counting": counting}
        return "pool", {**both, **own}

    def _several(self, layer: Layer) -> dict[str, Any]:
        """Options of what a convolution reads as one image."""
        if not layer.enlarged:
            return {}
        images = [written(self.images[x]) for x in layer.inputs]
        return {"images": images, "enlarged": [list(one) for one in layer.enlarged]}

    def _pool(self, layer: Layer) -> dict[str, Any]:
        """Options of what a convolution makes of its image."""
        if layer.pool is None:
            return {}
        pooled = written(self.images[layer.result])
        return {"pool": written(layer.pool.window), "pooled": pooled, "kept": layer.kept}

    def _convolution(self, layer: Layer, image: Image, out: Image) -> dict[str, Any]:
        """The options of a convolution."""
        groups, more = layer.groups, dict[str, Any]()
        if groups == out.channels == image.channels > 1:
            more["diagonal"] = True
        if layer.gains is not None:
            more["diagonal"] = "ones"
        if layer.gate is not None:
            more["gate"] = written(self.images[layer.gate])
        if layer.added is not None:
            more["added"] = written(self.images[layer.added])
        return {
            "image": written(image), "out": written(out), "window": written(layer.window),
            "filters": out.channels, "groups": groups, "bias": layer.bias is not None,
            "scale": True, "activation": layer.activation, "unfolded": layer.unfolded,
            "deep": self.deep.get(layer.result, 0), **more,
        }  # fmt: skip


def plan_images(
    graph: Graph,
    profile: Profile,
    fuse: bool,
    host: dict[Node, str],
    refused_before: Counter[SSAValue] | None = None,
) -> ImagePlan:
    """The plan of a graph. host: operations that are not for the device, with the reason;
    refused_before: results of layers that had no room when their code was made, and how often: they are
    no chain, then convolutions in parts, then for the host."""
    refused_before = refused_before or Counter()
    reasons: dict[Node, str] = {}
    even: frozenset[SSAValue] = frozenset()
    deep: dict[SSAValue, int] = {}
    apart = set(refused_before)
    places = {(x, kind): 1 for x in refused_before for kind in ("conv", "chain")}
    while True:
        found = find_layers(graph, fuse, {*host, *reasons}, reasons)
        if store_anew(graph, found):
            continue
        if fuse:
            found = with_gates(graph, with_sums(graph, reading_parts(graph, found), apart), apart)
            found = with_bands(graph, with_chains(graph, found, profile, apart), profile, apart)
        loops = even | {layer.result for layer in found if layer.bands}
        plan = ImagePlan(graph, reasons=reasons, even=loops, deep=deep, places=places)
        plan.placed = profile.vmem_bytes // SHARE // TILE
        wrong = store_images(plan, found)
        found = with_pools(graph, found, apart, deep) if fuse and not wrong else found
        plan.layers = {layer.result: layer for layer in found}
        plan.layers |= {layer.image: layer for layer in found if layer.kept}
        if not wrong:
            wrong = {
                layer.node: NO_ROOM
                for layer in plan.layers.values()
                if layer.kind == "conv" and refused_before[layer.result] > 1
            }
        if not wrong:
            own = dict(_impossible(plan, profile))
            refused = own | _too_large(plan, refused_before)
            if not refused:
                plan.images = seen_borders(plan)
                return plan
            fewer = {
                (x.result, x.kind): n // 2 for x in refused if (n := _side_by_side(plan, x)) > 1
            }
            if fewer:
                places |= fewer
                continue
            fused = {x.result for x in refused if x.kind == "chain" or x.added or x.gate or x.pool}
            if fused:
                apart |= fused
                continue
            # What has no room for all of an image may have it for a loop over its tiles.
            tried = {x.result for x, error in refused.items() if error.code == "TW1674"} - even
            if tried:
                even |= tried
                continue
            # What was in parts already when its code had no room is for the host.
            left = {
                x: e for x, e in refused.items() if x not in own or x.result not in refused_before
            }
            parts = _in_parts(plan, left, profile)
            if parts:
                deep |= parts
                continue
            wrong = {layer.node: error.message for layer, error in refused.items()}
        reasons.update(wrong)


def _dtype(plan: ImagePlan, layer: Layer) -> str:
    """The numbers of the result of a convolution: wider where only the host reads it."""
    reads = (
        any(layer.result in other.inputs for other in plan.layers.values())
        or layer.pool is not None
    )
    return "bf16" if not reads and layer.kind in ("conv", "chain") else "fp8"


def _side_by_side(plan: ImagePlan, layer: Layer) -> int:
    """Tiles of pixels of a result that share a stored one."""
    out = plan.out(layer, _dtype(plan, layer))
    return out.places if isinstance(out, NarrowImage) else 1


def _rows(plan: ImagePlan, layer: Layer, profile: Profile) -> int:
    """Rows of the bands of a chain; an error where there is no way."""
    kernel, options = plan.options(layer, _dtype(plan, layer))
    parts = parts_of(RECORDS[kernel].given(options))
    rows = rows_of_steps([needed(convolved(part).plan, "a plan") for part in parts], profile)
    if not rows:
        raise TilewrightError("TW1674", "convolutions in a row have no room for a band of rows")
    return rows


def _too_large(plan: ImagePlan, refused: Collection[SSAValue]) -> dict[Layer, TilewrightError]:
    """Convolutions whose code had no room, and that are not in parts yet."""
    error = TilewrightError("TW1674", NO_ROOM)
    return {
        layer: error for layer in plan.layers.values()
        if layer.kind == "conv" and layer.result in refused and layer.result not in plan.deep
    }  # fmt: skip


def _in_parts(
    plan: ImagePlan, refused: dict[Layer, TilewrightError], profile: Profile
) -> dict[SSAValue, int]:
    """Tiles of channels at a time for convolutions that have no room for all of them, where they have it
    for some."""
    found: dict[SSAValue, int] = {}
    for layer, error in refused.items():
        if error.code != "TW1674" or layer.kind != "conv" or layer.result in plan.deep:
            continue
        kernel, options = plan.options(layer)
        if options.get("diagonal") or options.get("gate"):
            continue
        given = RECORDS[kernel].given({**options, "deep": 1})
        deep = deep_of(needed(convolved(given).plan, "a plan"), profile)
        found |= {layer.result: deep} if deep else {}
    return found


def _impossible(plan: ImagePlan, profile: Profile) -> Iterator[tuple[Layer, TilewrightError]]:
    """Layers that the library cannot make a kernel for, or none that fits on the machine."""
    for layer in plan.layers.values():
        try:
            if layer.bands:
                plan.rows[layer.result] = _rows(plan, layer, profile)
            kernel, options = plan.options(layer, _dtype(plan, layer))
            record = RECORDS[kernel]
            record.build(options)
            check_room(kernel, record.given(options), profile)
        except TilewrightError as error:
            yield layer, error
