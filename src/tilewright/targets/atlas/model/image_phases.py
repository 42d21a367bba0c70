"""In how many phases images are stored, and where they are stored anew in others.

A stride wants as many phases of what it reads, so phases multiply from the end of a network to its
beginning. Images whose phases would have only a few pixels, and therefore tiles with little in
them, are not wanted: before a later stride, an image is stored anew.

before: conv (stride 2) -> add -> conv (stride 2)
after:  conv (stride 2) -> add -> reshape {tw.stored_anew} -> conv (stride 2)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilewright.dialects.npu_kernel import UKernelGenericOp
from tilewright.dialects.xdsl_api import SSAValue, UnitAttr
from tilewright.model.capture import Graph, Node, node_of, shape_of
from tilewright.targets.atlas.model.image_levels import edges_of

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.image_layers import Layer

TRIES = 8  # passes over a graph until the phases of all sums agree
LEAST = 400  # pixels of a phase that is not the last stride's own
STORED_ANEW = "tw.stored_anew"
Phases = tuple[int, int]
Needs = dict[SSAValue, Phases]


def is_stored_anew(node: Node) -> bool:
    """Whether a node only says that an image is stored another way."""
    return STORED_ANEW in node.op.attributes


def _ask(need: Needs, value: SSAValue, phases: Phases) -> None:
    known = need.get(value, (1, 1))
    need[value] = (math.lcm(known[0], phases[0]), math.lcm(known[1], phases[1]))


def _ask_all(need: Needs, layers: list[Layer]) -> None:
    """What strides want, from the end to the beginning."""
    for layer in reversed(layers):
        _ask(need, layer.result, (1, 1))
        for x in layer.alike:
            _ask(need, x, layer.wanted(x, need[layer.result]))
        for x in layer.apart:
            _ask(need, x, (1, 1))


def phases_of(layers: list[Layer]) -> tuple[Needs, dict[Node, str]]:
    """Phases of every image: so many that all strides on the way to the end have their own."""
    need: Needs = {}
    uneven: Layer | None = None
    for _ in range(TRIES):
        _ask_all(need, layers)
        found: Needs = {}
        uneven = None
        for layer in layers:
            for x in layer.apart:
                found.setdefault(x, need[x])
            if not layer.alike:
                found[layer.result] = need[layer.result]
                continue
            given = [layer.made(x, found.setdefault(x, need[x])) for x in layer.alike]
            if len(set(given)) > 1:
                uneven = layer
                for x in layer.alike:
                    for phases in given:
                        _ask(need, x, layer.wanted(x, phases))
            found[layer.result] = given[0]
        if uneven is None:
            return found, {}
    assert uneven is not None
    return {}, {uneven.node: "a sum of images that come by different strides"}


# --- storing anew -----------------------------------------------------------------------------


def store_anew(graph: Graph, layers: list[Layer]) -> bool:
    """Put an image that is stored anew into the graph where phases get too small; True if one had
    to be."""
    need: Needs = {}
    _ask_all(need, layers)
    readers: dict[SSAValue, list[Layer]] = {}
    for layer in layers:
        for x in layer.alike:
            readers.setdefault(x, []).append(layer)
    for layer in reversed(layers):
        if not layer.alike or layer.steps == (1, 1) or need[layer.result] == (1, 1):
            continue
        wanted = math.prod(layer.steps) * math.prod(need[layer.result])
        rows, columns = _rows_and_columns(layer.inputs[0], layer.given_first)
        if rows * columns >= LEAST * wanted:
            continue
        cuts = _later_strides(layer.result, readers)
        if cuts:
            for value, strided in cuts.items():
                around = edges_of(layers, value, strided)
                for place in around or [_earliest(graph, layers, value, strided)]:
                    _insert(graph, *place)
            return True
    return False


def _rows_and_columns(value: SSAValue, first: bool) -> tuple[int, int]:
    shape = shape_of(value)
    return (shape[2], shape[3]) if first else (shape[1], shape[2])


def _later_strides(
    value: SSAValue, readers: dict[SSAValue, list[Layer]]
) -> dict[SSAValue, list[Layer]]:
    """The next strides after a value, by what they read."""
    found: dict[SSAValue, list[Layer]] = {}
    seen, waiting = {value}, [value]
    while waiting:
        here = waiting.pop()
        for layer in readers.get(here, ()):
            if layer.steps != (1, 1):
                found.setdefault(here, []).append(layer)
            elif layer.result not in seen:
                seen.add(layer.result)
                waiting.append(layer.result)
    return found


def _earliest(
    graph: Graph, layers: list[Layer], value: SSAValue, readers: list[Layer]
) -> tuple[SSAValue, list[Layer]]:
    """Where fewer channels are stored anew for the same readers: before layers that make more."""
    made = {layer.result: layer for layer in layers}
    while True:
        maker = made.get(value)
        if maker is None or maker.steps != (1, 1) or len(maker.alike) != 1 or maker.apart:
            return value, readers
        before = maker.inputs[0]
        private = all(
            user in {node for reader in readers for node in reader.nodes}
            for user in graph.users.get(value, ())
        ) and not any(value is result for _, result in graph.outputs)
        if not private or before not in made:
            return value, readers
        if _channels(before, made[before].first) >= _channels(value, maker.first):
            return value, readers
        value, readers = before, [maker]


def _channels(value: SSAValue, first: bool) -> int:
    return shape_of(value)[1 if first else 3]


def _insert(graph: Graph, value: SSAValue, readers: list[Layer]) -> None:
    """Have some layers read a value that is stored anew."""
    source = graph.definition[value]
    op = UKernelGenericOp("npu_uk_reshape", [value], value.type, {STORED_ANEW: UnitAttr()})
    op.location = source.op.location
    if "tw.layer" in source.op.attributes:
        op.attributes["tw.layer"] = source.op.attributes["tw.layer"]
    block = source.op.parent
    assert block is not None
    block.insert_op_after(op, source.op)
    op.result.name_hint = f"{value.name_hint}_anew" if value.name_hint else None
    node = node_of(op)
    graph.nodes.insert(graph.nodes.index(source) + 1, node)
    graph.definition[op.result] = node
    moved = [reader.nodes[0] for reader in readers]
    for user in moved:
        for index, operand in enumerate(user.op.operands):
            if operand is value:
                user.op.operands[index] = op.result
        user.inputs = dict(user.call.operands_by_role(list(user.op.operands)))
    graph.users[op.result] = moved
    rest = [user for user in graph.users[value] if user not in moved]
    graph.users[value] = [*rest, node]
