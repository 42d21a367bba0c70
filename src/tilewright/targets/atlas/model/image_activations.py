"""What belongs to a layer over images because it works on its result: activations, factors."""

from __future__ import annotations

import math

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node, scalars, shape_of
from tilewright.targets.atlas.model.image_layers import Layer

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


def take_followers(graph: Graph, layer: Layer, skip: set[Node]) -> None:
    """Make what alone reads the result part of the layer: an activation, factors, numbers per
    channel, another order of dimensions."""
    taken = True
    while taken:
        taken = (
            _take_activation(graph, layer, skip)
            or _take_factor(graph, layer, skip)
            or _take_channels(graph, layer, skip)
            or _take_order(graph, layer, skip)
        )


def _only_reader(graph: Graph, layer: Layer, skip: set[Node]) -> Node | None:
    users = graph.users.get(layer.result, [])
    alone = graph.used_once(layer.result) and users and users[0] not in skip
    return users[0] if alone else None


def _take_activation(graph: Graph, layer: Layer, skip: set[Node]) -> bool:
    if layer.kind not in ("conv", "combine") or layer.activation != "none" or layer.times != 1.0:
        return False
    found = find_hard(graph, layer.result)
    reader = _only_reader(graph, layer, skip)
    if found is None and reader is not None:
        name = activation_of(reader)
        found = None if name is None else (name, (reader,))
    if found is None or skip & set(found[1]):
        return False
    layer.activation, nodes = found
    layer.result, layer.nodes = nodes[-1].result, (*layer.nodes, *nodes)
    return True


def _take_factor(graph: Graph, layer: Layer, skip: set[Node]) -> bool:
    reader = _only_reader(graph, layer, skip)
    factor = None if reader is None else factor_of(reader)
    if reader is None or factor is None or layer.kind not in ("conv", "combine"):
        return False
    layer.times *= factor
    layer.result, layer.nodes = reader.result, (*layer.nodes, reader)
    return True


def _take_channels(graph: Graph, layer: Layer, skip: set[Node]) -> bool:
    """Numbers per channel that a convolution's result is multiplied by, or that are added to it."""
    reader = _only_reader(graph, layer, skip)
    if reader is None or layer.kind != "conv" or layer.activation != "none" or layer.times != 1.0:
        return False
    numbers = channel_numbers(graph, reader, layer.result, layer.first)
    if numbers is None or layer.weight is None:
        return False
    if reader.family == "elementwise_mul":
        if layer.gains is None:
            layer.weight = layer.weight * numbers
        else:
            layer.gains = layer.gains * numbers
        layer.bias = None if layer.bias is None else layer.bias * numbers
    else:
        layer.bias = numbers if layer.bias is None else layer.bias + numbers
    layer.result, layer.nodes = reader.result, (*layer.nodes, reader)
    return True


def _take_order(graph: Graph, layer: Layer, skip: set[Node]) -> bool:
    """The result with its channels elsewhere: images are stored the same way in both orders."""
    reader = _only_reader(graph, layer, skip)
    if reader is None or layer.kind not in ("conv", "combine", "norm"):
        return False
    if not turns(reader, layer.first):
        return False
    layer.first = not layer.first
    layer.result, layer.nodes = reader.result, (*layer.nodes, reader)
    return True


def turns(node: Node, first: bool) -> bool:
    """Whether a node brings the channels of an image to the other end."""
    wanted = (0, 2, 3, 1) if first else (0, 3, 1, 2)
    return node.family == "transpose" and node.call.integers("permutation") == wanted


def channel_numbers(graph: Graph, node: Node, x: SSAValue, first: bool) -> np.ndarray | None:
    """The known numbers, one per channel, that a node multiplies an image by or adds to it."""
    if node.family not in ("elementwise_mul", "elementwise_add") or len(node.operands) != 2:
        return None
    index = 0 if node.operands[0] is x else 1
    known = graph.known(node.operands[1 - index])
    shape = shape_of(node.result)
    channel = 1 if first else 3
    if known is None or scalars(node) or node.operands[index] is not x or len(shape) != 4:
        return None
    along = [channel] if shape[channel] != 1 else []
    if shape_of(x) != shape or not node.reads_plainly(index) or node.reads(1 - index) != along:
        return None
    numbers = np.asarray(known, np.float32).reshape(-1)
    return numbers if numbers.size == shape[channel] and np.isfinite(numbers).all() else None


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
