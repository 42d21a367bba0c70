"""Who runs an operation of a model: the device, or the host with a reason that people can read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.model.angles import angles_of
from tilewright.model.capture import Graph, Node
from tilewright.model.options import CompileOptions
from tilewright.model.positions import positions_of

POSITIONS = "positions of what is looked up stay in float32: rounded, they are other ones"

Supports = Callable[[Node], str | None]  # None: the machine runs it; else why it does not
Reasons = Mapping[Node, str]


@dataclass(frozen=True)
class _Component:
    nodes: tuple[Node, ...]
    near_host: bool  # reads from or is read by the host


def places(
    graph: Graph, supports: Supports, options: CompileOptions, exact_angles: bool = False
) -> dict[Node, str]:
    """The operations of the host with their reasons, in program order.

    exact_angles: what sin and cos are taken of, and where something is looked up, stays with the host,
    in float32; for machines that would compute it in fewer bits.
    """
    angles = angles_of(graph) if exact_angles else frozenset()
    positions = positions_of(graph) if exact_angles else frozenset()
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if named(node.layer, options.host):
            found[node] = "asked for"
        elif node in angles:
            found[node] = "angles of sin and cos stay in float32: rounded, they are off by radians"
        elif node in positions:
            found[node] = POSITIONS
        else:
            reason = supports(node)
            if reason is not None:
                found[node] = reason
    _check_host_names(graph, options)
    if found:
        _leave_movement(graph, found)
    if options.no_host and found:
        refuse_host(found)
    return {node: found[node] for node in graph.nodes if node in found}


def named(layer: str, names: tuple[str, ...]) -> bool:
    """Whether a layer is one of the names, or inside of one."""
    return any(layer == name or layer.startswith(f"{name}.") for name in names if layer)


def _check_host_names(graph: Graph, options: CompileOptions) -> None:
    for name in options.host:
        if not any(named(node.layer, (name,)) for node in graph.nodes):
            layers = sorted({node.layer.split(".")[0] for node in graph.nodes if node.layer})
            raise TilewrightError(
                "TW1712",
                f"the model has no layer {name}, which the host should run",
                hint=f"its layers are in: {', '.join(layers)}" if layers else "no layer has a name",
            )


def refuse_host(reasons: Reasons) -> None:
    """The error of --no-host."""
    node, reason = next(iter(reasons.items()))
    raise TilewrightError(
        "TW1707",
        f"{node.layer or node.family} would run on the host: {reason}",
        node.location,
        f"{len(reasons)} operations would; compile without --no-host to allow it",
    )


def _leave_movement(graph: Graph, host: dict[Node, str]) -> None:
    """Operations that only move data and hang on nothing but the host are the host's too."""
    for component in _components(graph, host):
        if component.near_host and all(_moves(node) for node in component.nodes):
            for node in component.nodes:
                host[node] = "it only moves data between operations of the host"


def _moves(node: Node) -> bool:
    return node.call.family.kind == "movement" or node.family == "cast"


def _components(graph: Graph, host: dict[Node, str]) -> list[_Component]:
    """The device's operations, in groups that hang together by values."""
    leader = {node: node for node in graph.nodes if node not in host}

    def find(node: Node) -> Node:
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    touched: set[Node] = set()
    for node in graph.nodes:
        for value in node.operands:
            maker = graph.definition.get(value)
            if maker is None:
                continue
            if node in leader and maker in leader:
                leader[find(node)] = find(maker)
            elif node in leader:
                touched.add(node)
            elif maker in leader:
                touched.add(maker)
    groups: dict[Node, list[Node]] = {}
    for node in leader:
        groups.setdefault(find(node), []).append(node)
    return [_Component(tuple(g), any(node in touched for node in g)) for g in groups.values()]
