"""Parts of a model: which work the host does and which the device, in an order that always exists.

Work is of three kinds. A host operation reads values and makes one; handing over reads a value and
fills a tensor of the device; a kernel call reads tensors and fills one. A tensor may hold several
values: one that was computed, and views of it with other shapes. All of them are there as soon as
the call is done, so what a piece of work waits for is always an earlier value of the model, or an
earlier form of the same one. The relation has no cycles, and every piece gets a level:

    as high as all it waits for, and one higher than what is done on the other side

Levels of the host are even, those of the device odd; a level is a part. No order takes fewer parts.
A call that only later parts read goes to the first of them: what belongs to a layer stays with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, Node
from tilewright.targets.atlas.model.call_order import by_layers
from tilewright.targets.atlas.model.calls import Call, Tensor

if TYPE_CHECKING:
    from tilewright.targets.atlas.model.lowering import HostValue, Lowered


@dataclass
class HostWork:
    """One function of the host."""

    nodes: list[Node] = field(default_factory=list)
    converted: list[HostValue] = field(default_factory=list)  # made ready for the device here
    copied: list[tuple[str, SSAValue]] = field(default_factory=list)  # outputs that need no work


@dataclass
class DeviceWork:
    """Calls without the host in between."""

    calls: list[Call] = field(default_factory=list)


@dataclass(eq=False)
class _Work:
    """A piece of work: what it needs and makes, values (host) and tensors (device)."""

    what: Node | HostValue | Call | tuple[str, SSAValue]
    reads: Iterable[SSAValue | Tensor]
    makes: Iterable[SSAValue | Tensor]
    device: bool = False


def partition(graph: Graph, lowered: Lowered, direct: set[Tensor]) -> list[HostWork | DeviceWork]:
    """The parts in order. direct: tensors that take an input of the model as it is."""
    work = _all_work(graph, lowered, direct)
    maker = {made: one for one in work for made in one.makes}
    waits = {one: [maker[read] for read in one.reads if read in maker] for one in work}
    level: dict[_Work, int] = {}
    for one in TopologicalSorter(waits).static_order():
        least = int(one.device)
        level[one] = max(
            [least, *(level[other] + (other.device != one.device) for other in waits[one])]
        )
    _sink(work, waits, level)
    parts: dict[int, HostWork | DeviceWork] = {}
    for one in sorted(work, key=lambda one: level[one]):  # in the order they had, level by level
        part = parts.setdefault(level[one], DeviceWork() if one.device else HostWork())
        _add(part, one.what)
    for part in parts.values():
        if isinstance(part, DeviceWork):
            part.calls = by_layers(part.calls)
    return list(parts.values())


def _sink(work: list[_Work], waits: dict[_Work, list[_Work]], level: dict[_Work, int]) -> None:
    """Move calls that nobody reads in their own part to the first part that does."""
    readers: dict[_Work, list[_Work]] = {one: [] for one in work}
    for one, sources in waits.items():
        for source in sources:
            readers[source].append(one)
    for one in reversed(list(TopologicalSorter(waits).static_order())):
        # What the host reads, and what leaves the model, is not waited for here.
        if one.device and readers[one] and all(other.device for other in readers[one]):
            level[one] = min(level[other] for other in readers[one])


def _all_work(graph: Graph, lowered: Lowered, direct: set[Tensor]) -> list[_Work]:
    """Every piece of work, each kind in an order in which it could be done."""
    holds: dict[Tensor, list[SSAValue]] = {}
    for value, tensor in lowered.outputs.items():
        holds.setdefault(tensor, []).append(value)
    hosted = [node for node in graph.nodes if node in lowered.host]
    return [
        *(_Work(node, node.operands, [node.result]) for node in hosted),
        *(
            _Work(entry, [entry.value], [entry.tensor])
            for entry in lowered.inputs
            if entry.tensor not in direct
        ),
        *(_Work(row, [row[1]], []) for row in _copies(graph)),
        *(
            _Work(
                call,
                call.operands.values(),
                [one for made in call.results.values() for one in (made, *holds.get(made, ()))],
                True,
            )
            for call in lowered.calls
        ),
    ]  # fmt: skip


def _copies(graph: Graph) -> list[tuple[str, SSAValue]]:
    """Outputs that are an input, a constant, or the same as another output."""
    seen, copies = {*graph.inputs, *graph.constants}, []
    for name, value in graph.outputs:
        if value in seen:
            copies.append((name, value))
        seen.add(value)
    return copies


def _add(part: HostWork | DeviceWork, what: Any) -> None:
    if isinstance(part, DeviceWork):
        part.calls.append(what)
    elif isinstance(what, Node):
        part.nodes.append(what)
    elif isinstance(what, tuple):
        part.copied.append(what)
    else:
        part.converted.append(what)
