"""Fusion: which nodes share one pass over memory.

An elementwise node joins the group that makes its latest operand, when it reads that group's values
at the same index and the group can finish element by element. Groups run in order, so everything
else it reads is complete by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.coral.program import Node, Program, Value, identity

# Nodes that hand over one finished element at a time.
OPEN_ENDED = frozenset(["conv", "pool", "reduce", "batch_matmul"])
# Elementwise nodes with a vector kernel of their own.
ALONE = frozenset(["q_add", "q_table"])


@dataclass(eq=False)
class Group:
    """Nodes computed together; the first is the root, the rest follow element by element."""

    root: Node
    nodes: list[Node] = field(default_factory=list)
    stored: list[Value] = field(default_factory=list)  # values somebody else reads

    @property
    def kind(self) -> str:
        return self.root.kind if not self.root.elementwise else "elementwise"

    @property
    def members(self) -> set[Value]:
        return {n.output for n in self.nodes}

    def reads(self) -> list[Value]:
        """Values from outside, constants not counted."""
        inner = self.members
        seen = dict.fromkeys(v for n in self.nodes for v in n.inputs)
        return [v for v in seen if v not in inner and v.data is None]


def source_of(value: Value, definitions: dict[Value, Node]) -> Value:
    """What a value is stored as: reshapes share their operand's bytes."""
    while (node := definitions.get(value)) is not None and node.kind == "reshape":
        value = node.inputs[0]
    return value


def make_groups(program: Program, fuse: bool = True) -> list[Group]:
    """Groups in the order they run; reshapes belong to none."""
    definitions = program.definitions()
    groups: list[Group] = []
    group_of: dict[Value, int] = {}
    for node in program.nodes:
        if node.kind == "reshape":
            source = source_of(node.output, definitions)
            if source in group_of:
                group_of[node.output] = group_of[source]
            continue
        place = None
        if fuse and node.elementwise and node.kind not in ALONE:
            place = _joinable(node, groups, group_of)
        if place is None:
            groups.append(Group(node))
            place = len(groups) - 1
        groups[place].nodes.append(node)
        group_of[node.output] = place
    _mark_stored(program, groups, definitions)
    return groups


def _joinable(node: Node, groups: list[Group], group_of: dict[Value, int]) -> int | None:
    places = [group_of[v] for v in node.inputs if v in group_of]
    if not places:
        return None
    last = max(places)
    group = groups[last]
    root = group.root
    if root.kind in ALONE or not (root.elementwise or root.kind in OPEN_ENDED):
        return None
    if root.output.shape != node.output.shape:
        return None
    inner = group.members
    for value, access in zip(node.inputs, node.accesses, strict=True):
        if group_of.get(value) != last:
            continue
        # A reshape of the group's own value, or another index, needs the finished tensor.
        if value not in inner or access != identity(len(node.output.shape)):
            return None
    return last


def _mark_stored(program: Program, groups: list[Group], definitions: dict[Value, Node]) -> None:
    outside: set[Value] = {source_of(v, definitions) for v in program.outputs}
    for node in program.nodes:
        if node.kind == "reshape":
            continue
        for value in node.inputs:
            source = source_of(value, definitions)
            home = next((g for g in groups if source in g.members), None)
            if home is not None and (node not in home.nodes or value is not source):
                outside.add(source)
    for group in groups:
        group.stored = [n.output for n in group.nodes if n.output in outside]
