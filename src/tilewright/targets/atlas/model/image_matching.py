"""Which operations of a graph are layers over images.

Convolutions, poolings, sums, joins and gates are layers where they stand; norms, products and
changes of the order of dimensions are where they meet an image.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.errors import TilewrightError
from tilewright.model.capture import Graph, Node, dtype_of, scalars, shape_of
from tilewright.targets.atlas.kernels.images import SIDE, Window, round_up
from tilewright.targets.atlas.model.image_activations import (
    THROUGH_ZERO,
    activation_of,
    channel_numbers,
    factor_of,
    take_followers,
    turns,
)
from tilewright.targets.atlas.model.image_layers import (
    Layer,
    looked_up_pixels,
    plain_image,
    repeated_pixels,
    sizes_of,
)
from tilewright.targets.atlas.model.image_means import mean_order, only_means
from tilewright.targets.atlas.model.image_phases import is_stored_anew
from tilewright.targets.atlas.model.matching import find_linear

FLOATS = ("f32", "bf16", "f16", "f64")
LARGEST = 1 << 18  # numbers of a linear layer over pixels; larger ones are products of rows


def find_layers(graph: Graph, fuse: bool, skip: set[Node], reasons: dict[Node, str]) -> list[Layer]:
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
        if fuse:
            take_followers(graph, layer, skip)
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
        whole = mean_order(node) is not None and node.operands[0] in found
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
    if mean_order(node) is not None:
        return _mean(graph, node, found)
    if node.family in ("concat", "slice"):
        return _join(node, found)
    if node.family in ("layer_norm", "rms_norm"):
        return _norm(graph, node, found)
    if node.family == "matmul":
        return _product(graph, node, found)
    if node.family == "transpose":
        x = node.operands[0]
        if x not in found or not turns(node, found[x].first):
            return None
        return Layer("combine", (x,), node.result, (node,), not found[x].first)
    if node.family in ("elementwise_mul", "elementwise_add") and len(known) == 2:
        affine = _affine(graph, node, found)
        if affine is not None:
            return affine
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


def _norm(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """A norm of the channels of every pixel, which come last."""
    x = node.inputs["x"]
    if x not in found or found[x].first or node.call.axis(4) != 3:
        return None
    roles = [role for role in ("weight", "bias") if role in node.inputs]
    if any(graph.known(node.inputs[role]) is None for role in roles):
        return None
    if shape_of(x)[3] % SIDE:  # tiles have other columns too: rows of another kernel
        return None
    return Layer("norm", (x,), node.result, (node,), False)


def _product(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """A linear layer over the channels of every pixel: a convolution of single pixels."""
    x = node.inputs["lhs"]
    if x not in found or found[x].first:
        return None
    linear = find_linear(graph, node.result, fuse=False)
    if linear is None or linear.x is not x or linear.weight.size > LARGEST:
        return None
    weight = linear.weight[None, None]
    return Layer("conv", (x,), node.result, (node,), False, Window(1, 1), weight=weight)


def _affine(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """An image times known numbers per channel, or plus such: a convolution of single pixels whose
    filters see a channel each."""
    for x in node.operands:
        numbers = channel_numbers(graph, node, x, found[x].first) if x in found else None
        if numbers is None:
            continue
        times = node.family == "elementwise_mul"
        return Layer(
            "conv", (x,), node.result, (node,), found[x].first, Window(1, 1),
            weight=np.ones((1, 1, 1, len(numbers)), np.float32),
            gains=numbers if times else np.ones_like(numbers), bias=None if times else numbers,
        )  # fmt: skip
    return None


def _mean(graph: Graph, node: Node, found: dict[SSAValue, Layer]) -> Layer | None:
    """A mean of all pixels that is an image itself, not only a row for products."""
    x, order = node.operands[0], mean_order(node)
    if x not in found or order != found[x].first or only_means(graph, node):
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


def _filters(graph: Graph, node: Node, first: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Filters [KH, KW, C / groups, N] of a convolution, and its bias."""
    given = np.asarray(graph.known(node.inputs["w"]), np.float32)
    weight = given.transpose(2, 3, 1, 0) if first else given
    if "bias" not in node.inputs:
        return weight, None
    return weight, np.asarray(graph.known(node.inputs["bias"]), np.float32).reshape(-1)


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
    rows, columns = sizes_of(shape_of(node.result), first)[:2]
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
    if kind == "conv":
        layer.weight, layer.bias = _filters(graph, node, first)
    if kind == "conv" and x not in found and layer.groups == 1:
        taps, channels = height * width, image.channels
        if -(-taps * channels // SIDE) < taps * -(-channels // SIDE):
            # Whatever is fewer bytes to load.
            whole = rows * round_up(taps * channels)
            part = image.height * round_up(width * channels)
            layer.unfolded = "columns" if part < whole else True
    return layer
