"""Where every value lies: inputs and outputs by symbol, constants, and planned buffers.

Buffers are planned by the project's memory planner and checked by its verifier; the result of an
elementwise group may lie on an operand that dies there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.planning.buffers import Buffer
from tilewright.planning.plan import Plan, plan
from tilewright.targets.coral.groups import OPEN_ENDED, Group, source_of
from tilewright.targets.coral.program import DTYPES, Node, Program, Value, identity

ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Scratch:
    """Bytes one group needs while it runs."""

    name: str
    size: int
    group: int
    last: int | None = None  # the last group it is needed by, if there are several


@dataclass
class Storage:
    """C names of values, and the plan behind those in the arena."""

    names: dict[Value, str]
    plan: Plan
    arena: int
    owners: dict[str, int]  # buffer -> group that writes it
    constants: dict[Value, str] = field(default_factory=dict)

    def offset(self, name: str) -> int:
        return self.plan.offsets[name]

    def buffers(self) -> list[Buffer]:
        return list(self.plan.buffers)


def finish_outputs(program: Program) -> None:
    """Every output a value of its own: what is an input, a constant or returned twice is copied."""
    definitions = program.definitions()
    taken: set[Value] = set()
    for index, value in enumerate(program.outputs):
        source = source_of(value, definitions)
        if source in program.inputs or source.data is not None or source in taken:
            made = Value(f"result_{index}", value.shape, value.dtype)
            made.scale, made.zero = value.scale, value.zero
            program.nodes.append(Node("copy", [value], made, {}, [identity(len(value.shape))]))
            program.outputs[index] = made
        taken.add(source_of(program.outputs[index], program.definitions()))


def allocate(
    program: Program,
    groups: list[Group],
    scratch: list[Scratch],
    spans: Mapping[int, tuple[int, int, set[Value]]] | None = None,
) -> Storage:
    """Names and places of all values of a program.

    spans: of groups that run again and again with others, the first and last of these, and which of
    their results are kept whole; the rest of their results lie in scratch memory.
    """
    spans = spans or {}
    definitions = program.definitions()
    names: dict[Value, str] = {}
    for index, value in enumerate(program.inputs):
        names[value] = f"input_{index}"
    for index, value in enumerate(program.outputs):
        names[source_of(value, definitions)] = f"output_{index}"
    last: dict[Value, int] = {}
    for index, group in enumerate(groups):
        for value in group.reads():
            source = source_of(value, definitions)
            last[source] = max(last.get(source, 0), spans[index][1] if index in spans else index)
    buffers: list[Buffer] = []
    owners: dict[str, int] = {}
    homes: dict[Value, str] = {}
    for index, group in enumerate(groups):
        for value in group.stored:
            if value in names:
                continue
            span = spans.get(index)
            if span is not None and value not in span[2]:
                continue
            name = f"t{len(buffers)}"
            names[value] = homes[value] = name
            lower = index if span is None else span[0]
            upper = max(last.get(value, index), lower if span is None else span[1]) + 1
            reuses = ()
            if span is None:
                reuses = _reusable(group, value, index, last, homes, definitions)
            buffers.append(Buffer(name, value.bytes, lower, upper, ALIGNMENT, reuses=reuses))
            owners[name] = index
    for item in scratch:
        upper = (item.group if item.last is None else item.last) + 1
        buffers.append(Buffer(item.name, item.size, item.group, upper, ALIGNMENT))
        owners[item.name] = item.group
    made = plan(buffers, alignment=ALIGNMENT)
    arena = max((made.offsets[b.name] + b.size for b in buffers), default=0)
    for node in program.nodes:
        source = source_of(node.output, definitions)
        if node.kind == "reshape" and source in names:
            names[node.output] = names[source]
    storage = Storage(names, made, arena, owners)
    for value in program.constants():
        storage.constants[value] = names[value] = f"c{len(storage.constants)}"
    for node in program.nodes:
        source = source_of(node.output, definitions)
        if node.kind == "reshape" and source in storage.constants:
            names[node.output] = names[source]
    return storage


def _reusable(
    group: Group,
    value: Value,
    index: int,
    last: dict[Value, int],
    homes: dict[Value, str],
    definitions: dict[Value, Node],
) -> tuple[str, ...]:
    """Buffers the value may lie on: read here for the last time, each element before it is written.

    A convolution's own operands are read again and again; what follows it reads its element once.
    """
    if len(group.stored) != 1 or not (group.root.elementwise or group.root.kind in OPEN_ENDED):
        return ()
    again = (
        set() if group.root.elementwise else {source_of(v, definitions) for v in group.root.inputs}
    )
    found = []
    size = DTYPES[value.dtype].itemsize
    for operand in group.reads():
        source = source_of(operand, definitions)
        if source not in homes or last.get(source) != index or source in again:
            continue
        if source.elements != value.elements or DTYPES[source.dtype].itemsize < size:
            continue
        accesses = [
            access
            for node in group.nodes
            if node.elementwise
            for read, access in zip(node.inputs, node.accesses, strict=True)
            if source_of(read, definitions) is source
        ]
        if all(a == identity(len(value.shape)) for a in accesses):
            found.append(homes[source])
    return tuple(dict.fromkeys(found))
