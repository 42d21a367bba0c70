"""Which operations of a graph work on images on the device, and how every image is stored.

Convolutions, poolings, sums of images and activations are layers. How an image is stored is a
question to all that read it: a stride wants phases, a window wants a border, and what one layer
reads and writes has the same pitch. So phases are found from the end of the graph to its beginning,
pitches for all images that are connected. A layer the library has no kernel for is left out, with
the reason, and the plan is made again without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Graph, Node, dtype_of, scalars, shape_of
from tilewright.targets.atlas.kernels.arrangements import written
from tilewright.targets.atlas.kernels.images import (
    SIDE,
    Image,
    Window,
    beyond,
    needed_border,
    round_up,
)
from tilewright.targets.atlas.model.image_layers import (
    Layer,
    looked_up_pixels,
    repeated_pixels,
)
from tilewright.targets.atlas.model.image_phases import (
    Phases,
    is_stored_anew,
    phases_of,
    store_anew,
)
from tilewright.targets.atlas.model.kernel_records import RECORDS

FLOATS = ("f32", "bf16", "f16", "f64")

_ACTIVATIONS = {
    "elementwise_relu": "relu", "relu": "relu", "silu": "silu", "elementwise_silu": "silu",
    "gelu_tanh": "gelu", "gelu_erf": "gelu", "sigmoid": "sigmoid",
    "elementwise_sigmoid": "sigmoid", "elementwise_tanh": "tanh", "tanh": "tanh",
}  # fmt: skip
NONNEGATIVE = ("relu", "relu6", "sigmoid", "hardsigmoid")
THROUGH_ZERO = (
    "none",
    "relu",
    "relu6",
    "silu",
    "gelu",
    "tanh",
    "hardswish",
)  # a border of zeros stays one


@dataclass
class ImagePlan:
    """Layers by what they compute, and every image: results, and what the host hands over."""

    graph: Graph
    layers: dict[SSAValue, Layer] = field(default_factory=dict)
    images: dict[SSAValue, Image] = field(default_factory=dict)
    nonnegative: set[SSAValue] = field(default_factory=set)
    reasons: dict[Node, str] = field(default_factory=dict)  # why an operation is no layer

    def source(self, layer: Layer) -> Image:
        """What a layer reads."""
        x = layer.inputs[0]
        return plain_image(x, layer.first) if layer.unfolded else self.images[x]

    def out(self, layer: Layer, dtype: str = "fp8") -> Image:
        """What a layer writes; results for the outside are bf16 and need no border."""
        image = self.images[layer.result]
        if dtype == "fp8":
            return image
        if layer.kind in ("combine", "gate"):
            return replace(image, dtype="bf16")
        return replace(image, dtype="bf16", border=(0, 0), spare=0, fill="zero")

    def options(self, layer: Layer, dtype: str = "fp8") -> tuple[str, dict[str, Any]]:
        """The kernel of a layer and its options, without numbers of scales."""
        both = {"image": written(self.source(layer)), "out": written(self.out(layer, dtype))}
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
        if layer.kind == "gate":
            return "gate", {**both, "gate": written(self.images[layer.inputs[1]])}
        both["window"] = written(layer.window)
        if layer.kind == "conv":
            filters, groups = self.images[layer.result].channels, layer.groups
            own: dict[str, Any] = {
                "filters": filters, "groups": groups,
                "bias": "bias" in layer.node.inputs, "scale": True,
                "activation": layer.activation, "unfolded": layer.unfolded,
            }  # fmt: skip
            if groups == filters == self.source(layer).channels > 1:
                own["diagonal"] = True
            return "conv2d", {**both, **own}
        counting = layer.node.call.flag("count_include_pad")
        kept = layer.inputs[0] in self.nonnegative
        own = {"kind": layer.kind, "nonnegative": kept, "counting": counting}
        return "pool", {**both, **own}


def plan_images(graph: Graph, fuse: bool, host: dict[Node, str]) -> ImagePlan:
    """The plan of a graph. host: operations that are not for the device, with the reason."""
    reasons: dict[Node, str] = {}
    while True:
        plan = ImagePlan(graph, reasons=reasons)
        found = _layers(graph, fuse, {*host, *reasons}, reasons)
        if store_anew(graph, found):
            continue
        plan.layers = {layer.result: layer for layer in found}
        wrong = _store(plan, found) or dict(_impossible(plan))
        if not wrong:
            return plan
        reasons.update(wrong)


def _impossible(plan: ImagePlan) -> Iterator[tuple[Node, str]]:
    """Layers that the library cannot make a kernel for."""
    for layer in plan.layers.values():
        kernel, options = plan.options(layer)
        try:
            RECORDS[kernel].make(options)
        except TilewrightError as error:
            yield layer.node, error.message


# --- finding layers ---------------------------------------------------------------------------


def _layers(graph: Graph, fuse: bool, skip: set[Node], reasons: dict[Node, str]) -> list[Layer]:
    """All layers, in the order of the graph."""
    found: dict[SSAValue, Layer] = {}
    taken: set[Node] = set()
    for node in graph.nodes:
        if node in skip or node in taken:
            continue
        if len(shape_of(node.result)) != 4 and node.family != "reshape":
            continue
        if dtype_of(node.result) not in FLOATS:
            continue
        layer = _layer(graph, node, found, reasons)
        if layer is None:
            continue
        if fuse and layer.kind in ("conv", "combine") and layer.activation == "none":
            _take_activation(graph, layer, skip)
        if layer.kind == "combine" and layer.activation not in THROUGH_ZERO:
            continue
        taken.update(layer.nodes)
        found[layer.result] = layer
    return list(found.values())


def _layer(
    graph: Graph, node: Node, found: dict[SSAValue, Layer], reasons: dict[Node, str]
) -> Layer | None:
    """The layer of a node, if it is one."""
    if node.family == "conv2d":
        filters = [graph.known(value) for role, value in node.inputs.items() if role != "x"]
        if any(array is None for array in filters):
            reasons[node] = "a convolution whose filters are computed"
            return None
        return _window_layer(graph, node, "conv", found, reasons)
    if node.family in ("pool_max", "pool_avg"):
        kind = "max" if node.family == "pool_max" else "average"
        whole = _mean_order(node) is not None and node.operands[0] in found
        if kind == "average" and whole:
            return _mean(graph, node, found)
        return _window_layer(graph, node, kind, found, reasons)
    activation = activation_of(node)
    known = [found.get(value) for value in node.operands]
    if node.family == "reshape" and not is_stored_anew(node):
        return repeated_pixels(graph, node, found)
    if is_stored_anew(node):
        if known[0] is None:
            return None
        return Layer("resample", (node.operands[0],), node.result, (node,), known[0].first)
    if _mean_order(node) is not None:
        return _mean(graph, node, found)
    if node.family in ("concat", "slice"):
        return _join(node, found)
    if node.family == "gather":
        return looked_up_pixels(graph, node, found)
    if node.family == "elementwise_mul" and len(known) == 2 and not scalars(node):
        return _gate(node, found)
    factor = factor_of(node)
    if factor is not None and len(known) == 1 and known[0] is not None:
        return Layer(
            "combine", (node.operands[0],), node.result, (node,), known[0].first, times=factor
        )
    if activation and len(known) == 1 and known[0] is not None:
        inputs, first = (node.operands[0],), known[0].first
        return Layer("combine", inputs, node.result, (node,), first, activation=activation)
    if node.family == "elementwise_add" and len(known) == 2 and not scalars(node):
        one, two = known
        alike = all(
            shape_of(value) == shape_of(node.result) and node.reads_plainly(index)
            for index, value in enumerate(node.operands)
        )
        if alike and one is not None and two is not None and one.first == two.first:
            return Layer("combine", tuple(node.operands), node.result, (node,), one.first)
    return None


def _mean(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """A mean of all pixels that is an image itself, not only a row for products."""
    x, order = node.operands[0], _mean_order(node)
    if x not in found or order != found[x].first or _only_means(graph, node):
        return None
    return Layer("mean", (x,), node.result, (node,), found[x].first)


def _gate(node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """An image times one number per channel of each image of a batch."""
    for index in (0, 1):
        x, numbers = node.operands[index], node.operands[1 - index]
        if x not in found or numbers not in found or not node.reads_plainly(index):
            continue
        first = found[x].first
        batch, channels = shape_of(x)[0], shape_of(x)[1 if first else 3]
        pixel = (batch, channels, 1, 1) if first else (batch, 1, 1, channels)
        reads = [d for d in (0, 1 if first else 3) if shape_of(x)[d] != 1]
        if (
            shape_of(x) == shape_of(node.result)
            and shape_of(numbers) == pixel
            and node.reads(1 - index) == reads
            and found[numbers].first == first
        ):
            return Layer("gate", (x, numbers), node.result, (node,), first)
    return None


def _join(node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """Images side by side along their channels, or a part of the channels of one."""
    if not all(x in found for x in node.operands) or not node.operands:
        return None
    first, rank = found[node.operands[0]].first, 4
    axis = 1 if first else 3
    if any(found[x].first != first for x in node.operands):
        return None
    if node.family == "concat":
        if node.call.axis(rank) != axis or len(set(node.operands)) != len(node.operands):
            return None
        starts = (0,) * len(node.operands)
        return Layer("join", tuple(node.operands), node.result, (node,), first, starts=starts)
    offsets, sizes = node.call.integers("offsets"), node.call.integers("sizes")
    steps, shape = node.call.integers("strides") or (1,) * rank, shape_of(node.operands[0])
    if offsets is None or sizes is None or len(sizes) != rank or set(steps) != {1}:
        return None
    if any(d != axis and sizes[d] != shape[d] for d in range(rank)) or len(node.operands) != 1:
        return None
    starts = (offsets[axis],)
    return Layer("join", (node.operands[0],), node.result, (node,), first, starts=starts)


def _window_layer(
    graph: Graph, node: Node, kind: str, found: dict[SSAValue, Layer], reasons: dict[Node, str]
) -> Layer | None:
    """A convolution or pooling."""
    x, call = node.inputs["x"], node.call
    first = not (call.string("layout") or "").startswith("nhwc")
    if graph.known(x) is not None or (x in found and found[x].first != first):
        reasons[node] = "an image that is constant or has its channels elsewhere"
        return None
    if kind == "conv":
        shape = shape_of(node.inputs["w"])
        height, width = shape[2:] if first else shape[:2]
    else:
        height, width = call.integers("kernel") or (1, 1)
    steps, spacing = (call.integers(name) or (1, 1) for name in ("strides", "dilations"))
    sides = call.integers("padding") or (0, 0, 0, 0)
    rows, columns = _sizes(shape_of(node.result), first)[:2]
    try:
        top, left, bottom, right = sides
        window = Window(
            height, width, (steps[0], steps[1]), (top, left, bottom, right),
            (spacing[0], spacing[1]),
        )  # fmt: skip
        image = plain_image(x, first)
        single = replace(window, stride=1)
        if single.result(image.height, image.width) == (rows, columns) == (1, 1):
            window = single  # there is only one place for it: it makes no steps
        if window.result(image.height, image.width) != (rows, columns):
            raise TilewrightError("TW1671", "a window that does not make its result")
    except TilewrightError as error:
        reasons[node] = error.message
        return None
    layer = Layer(kind, (x,), node.result, (node,), first, window)
    if kind == "conv" and x not in found and layer.groups == 1:
        taps, channels = height * width, image.channels
        if -(-taps * channels // SIDE) < taps * -(-channels // SIDE):
            # Whatever is fewer bytes to load.
            whole = rows * round_up(taps * channels)
            part = image.height * round_up(width * channels)
            layer.unfolded = "columns" if part < whole else True
    return layer


def _take_activation(graph: Graph, layer: Layer, skip: set[Node]) -> None:
    """Make an activation that alone reads the result part of the layer."""
    found = find_hard(graph, layer.result)
    if found is None and graph.used_once(layer.result):
        users = graph.users.get(layer.result, [])
        name = activation_of(users[0]) if users else None
        found = None if name is None else (name, (users[0],))
    if found is not None and not skip & set(found[1]):
        layer.activation, nodes = found
        layer.result = nodes[-1].result
        layer.nodes = (*layer.nodes, *nodes)
    users = graph.users.get(layer.result, [])
    while graph.used_once(layer.result) and users and users[0] not in skip:
        factor = factor_of(users[0])
        if factor is None:
            return
        layer.times *= factor
        layer.result, layer.nodes = users[0].result, (*layer.nodes, users[0])
        users = graph.users.get(layer.result, [])


def factor_of(node: Node) -> float | None:
    """What a node multiplies all of its operand by, if that is a positive number."""
    literal = scalars(node)
    if len(node.operands) != 1 or len(literal) != 1 or not node.reads_plainly():
        return None
    (side, number), *_ = literal.items()
    if not math.isfinite(number) or number <= 0:
        return None
    if node.family == "elementwise_mul":
        return number
    return 1 / number if (node.family, side) == ("elementwise_div", "scalar_rhs") else None


def find_hard(graph: Graph, x: SSAValue) -> tuple[str, tuple[Node, ...]] | None:
    """The hard sigmoid clamp(x + 3, 0, 6) / 6 of a value that nothing else reads, or the hard
    swish, which is x times that, and its nodes."""
    added = [n for n in graph.users.get(x, ()) if n.family == "elementwise_add"]
    if len(added) != 1 or 3.0 not in scalars(added[0]).values() or not added[0].reads_plainly():
        return None
    nodes = [added[0]]
    wanted = ["clamp", "share"] if graph.used_once(x) else ["clamp", "share", "product"]
    while wanted:
        here = nodes[-1].result
        users = graph.users.get(here, [])
        step = _hard_step(users[0], x) if graph.used_once(here) else None
        if step not in wanted or (step != "clamp" and "clamp" in wanted):
            return None
        wanted.remove(step)
        nodes.append(users[0])
    reads = sum(node.operands.count(x) for node in graph.users[x])
    outside = any(x is result for _, result in graph.outputs)
    if outside or reads != (1 if len(nodes) == 3 else 2):
        return None
    return ("hardsigmoid" if len(nodes) == 3 else "hardswish"), tuple(nodes)


def _hard_step(node: Node, x: SSAValue) -> str | None:
    """What a node does on the way of `find_hard`."""
    if not all(node.reads_plainly(k) for k in range(len(node.operands))):
        return None
    if node.family == "clamp":
        whole = (node.call.value("min"), node.call.value("max")) == (0, 6)
        return "clamp" if whole else None
    literal = scalars(node)
    if node.family == "elementwise_mul" and x in node.operands and not literal:
        return "product"
    share = {"elementwise_div": 6.0, "elementwise_mul": 1 / 6}.get(node.family)
    if share is None or len(literal) != 1 or len(node.operands) != 1:
        return None
    if node.family == "elementwise_div" and "scalar_rhs" not in literal:
        return None
    return "share" if np.isclose(next(iter(literal.values())), share, 1e-6) else None


def activation_of(node: Node) -> str | None:
    """The library's name of an activation."""
    if node.family == "clamp":
        low, high = node.call.value("min"), node.call.value("max")
        if not node.reads_plainly():
            return None
        if low == 0 and (high is None or high == 6):
            return "relu" if high is None else "relu6"
        return None
    if len(node.operands) != 1 or not node.reads_plainly():
        return None
    return _ACTIVATIONS.get(node.family)


def _sizes(shape: Sequence[int], first: bool) -> tuple[int, int, int]:
    """Height, width, channels of [B, C, H, W] or [B, H, W, C]."""
    return (shape[2], shape[3], shape[1]) if first else (shape[1], shape[2], shape[3])


def plain_image(value: SSAValue, first: bool, phases: Phases = (1, 1)) -> Image:
    """A value as an image, stored in the simplest way."""
    shape = shape_of(value)
    return Image(*_sizes(shape, first), phases=phases, batch=shape[0], first=first)


# --- means ------------------------------------------------------------------------------------


def mean_of(graph: Graph, value: SSAValue) -> tuple[SSAValue, bool, tuple[Node, ...]] | None:
    """The image whose mean over all pixels the value [B, C] is, whether its channels come first,
    and the operations in between."""
    if len(shape_of(value)) != 2:
        return None
    node, nodes = graph.definition.get(value), []
    if node is not None and node.family == "reshape":
        inner = graph.definition.get(node.operands[0])
        if inner is None or not _keeps_channels(inner, shape_of(value)):
            return None
        nodes, node = [node], inner
    first = _mean_order(node) if node is not None else None
    if node is None or first is None:
        return None
    return node.operands[0], first, (node, *nodes)


def _keeps_channels(node: Node, rows: Sequence[int]) -> bool:
    shape = shape_of(node.result)
    return shape in ((*rows, 1, 1), (rows[0], 1, 1, rows[1]))


def _mean_order(node: Node) -> bool | None:
    """Whether channels come first in what the node takes the mean of over rows and columns; None
    if it does something else."""
    shape = shape_of(node.operands[0]) if node.operands else ()
    if len(shape) != 4:
        return None
    if node.family == "reduction_mean" and len(node.operands) == 1:
        axes = sorted(axis % 4 for axis in node.call.integers("axes") or ())
        return True if axes == [2, 3] else False if axes == [1, 2] else None
    if node.family != "pool_avg" or any(node.call.integers("padding") or ()):
        return None
    first = not (node.call.string("layout") or "").startswith("nhwc")
    whole = _sizes(shape, first)[:2]
    return first if tuple(node.call.integers("kernel") or ()) == whole else None


def _only_means(graph: Graph, node: Node) -> bool:
    """Whether a pooling is only read as rows of means."""
    if any(node.result is value for _, value in graph.outputs):
        return False
    users = graph.users.get(node.result, ())
    return bool(users) and all(mean_of(graph, user.result) is not None for user in users)


# --- how images are stored --------------------------------------------------------------------


def _store(plan: ImagePlan, layers: list[Layer]) -> dict[Node, str]:
    """Fill in the images of a plan; layers that cannot be, with the reason."""
    phases, wrong = phases_of(layers)
    if wrong:
        return wrong
    orders = {x: layer.first for layer in layers for x in (*layer.inputs, layer.result)}
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
        border = np.max([_border(drafts[v], reader) for v in group for reader in readers[v]]
                        + [(0, 0)], axis=0)  # fmt: skip
        fills = {value: _fill(plan, drafts[value], readers[value]) for value in group}
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
        for value in group:
            drafts[value] = replace(drafts[value], pitch=model.pitch)
    for group in alike.groups():
        # A tile more, so that one can begin at any pixel.
        needs = [1] + [
            -(-beyond(drafts[v], reader.window) // SIDE)
            for v in group for reader in readers[v] if reader.window is not None
        ]  # fmt: skip
        for value in group:
            drafts[value] = replace(drafts[value], spare=max(needs))
    plan.images = drafts
    return {}


def _note_signs(plan: ImagePlan, layers: list[Layer]) -> None:
    """Find images that hold no negative number."""
    for layer in layers:
        pooled = (
            layer.kind in ("max", "average", "resample") and layer.inputs[0] in plan.nonnegative
        )
        if pooled or layer.activation in NONNEGATIVE:
            plan.nonnegative.add(layer.result)


def _border(image: Image, layer: Layer) -> tuple[int, int]:
    return (0, 0) if layer.window is None else needed_border(image, layer.window)


def _fill(plan: ImagePlan, image: Image, readers: list[Layer]) -> str | Layer:
    """What the border of an image holds; a layer that would need something else."""
    lowest = [
        layer for layer in readers
        if layer.kind == "max" and any(_border(image, layer))
        and layer.inputs[0] not in plan.nonnegative
    ]  # fmt: skip
    if not lowest:
        return "zero"
    others = [
        r
        for r in readers
        if r.kind in ("combine", "gate", "mean", "join")
        or (r.kind != "max" and any(_border(image, r)))
    ]
    users = plan.graph.users.get(lowest[0].inputs[0], ())
    means = any(_mean_order(user) is not None for user in users)
    return lowest[0] if others or means else "lowest"


class _Groups:
    """Values that belong together."""

    def __init__(self, values: Any) -> None:
        self.of = {value: [value] for value in values}

    def join(self, one: SSAValue, other: SSAValue) -> None:
        first, second = self.of[one], self.of[other]
        if first is not second:
            first += second
            for value in second:
                self.of[value] = first

    def groups(self) -> list[list[SSAValue]]:
        return list({id(group): group for group in self.of.values()}.values())
