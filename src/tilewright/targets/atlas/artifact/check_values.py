"""Whether every step finds the values it should: the steps followed through memory, on names.

Each step reads places and writes places; the graph of values says what should be in them. Bytes are
followed by address, iteration by iteration, so a region that is used again too early, a loop that
overwrites what is read later, or weights of another iteration are found whatever the live ranges say.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.artifact import DevicePart, Finding, Port
from tilewright.targets.atlas.artifact.atlas_artifact import (
    AtlasArtifact,
    Region,
    Step,
    copy_of,
    is_result,
)
from tilewright.targets.atlas.artifact.value_graph import MANNER, Operation, ValueGraph
from tilewright.tile.layouts import Layout

CODE = "TW3117"


def check_values(
    model: AtlasArtifact, parts: Sequence[DevicePart], ports: Mapping[str, Port]
) -> Iterator[Finding]:
    """The first place where the steps and the graph of values part."""
    if model.graph is not None:
        found = _Walk(model, model.graph, ports).run(parts)
        if found is not None:
            yield Finding(CODE, found)


@dataclass(frozen=True)
class _Content:
    """A value that lies in memory, whole."""

    value: str
    layout: Layout


@dataclass
class _Memory:
    """Which values are intact, by their bytes."""

    starts: list[int] = field(default_factory=list)
    rows: list[tuple[int, int, _Content]] = field(default_factory=list)

    def read(self, start: int, end: int) -> _Content | None:
        at = bisect_left(self.starts, start)
        if at < len(self.rows) and self.rows[at][:2] == (start, end):
            return self.rows[at][2]
        return None

    def write(self, start: int, end: int, content: _Content) -> None:
        low = bisect_left(self.starts, start)
        if low and self.rows[low - 1][1] > start:
            low -= 1
        high = bisect_left(self.starts, end, low)
        self.starts[low:high] = [start]
        self.rows[low:high] = [(start, end, content)]


class _Walk:
    def __init__(self, model: AtlasArtifact, graph: ValueGraph, ports: Mapping[str, Port]) -> None:
        self.model, self.graph, self.ports = model, graph, ports
        self.memory = {"dram": _Memory(), "vmem": _Memory()}
        self.operations = iter(graph.operations)

    def run(self, parts: Sequence[DevicePart]) -> str | None:
        """What is wrong, in words."""
        for name, values in self.graph.stored.items():
            region = self.model.regions.get(name)
            if region is None or region.count != len(values):
                return f"the weights {name} have no region of {len(values)} iterations"
            for turn, value in enumerate(values):
                self._write(region, turn, value)
        sequence = list(self.model.calls())
        for part in parts:
            segments = self.model.entries[part.entry].segments
            found = self._part(part, [c for c in sequence if c[2].segment in segments])
            if found is not None:
                return found
        left = next(self.operations, None)
        return None if left is None else f"no step computes {left.output} ({left.name})"

    def _part(self, part: DevicePart, calls: list[tuple[int, int, Step]]) -> str | None:
        for name in part.inputs:
            if name not in self.graph.ports:
                return f"the graph knows no value of the port {name}"
            self._write(*self._port(name), self.graph.ports[name])
        for index, turn, step in calls:
            found = self._step(turn, step)
            if found is not None:
                return f"step {index} ({step.name}), iteration {turn}: {found}"
        for name in part.outputs:
            wanted = self.graph.ports.get(name)
            if self._read(*self._port(name)) != wanted:
                return f"the port {name} does not hold {wanted} when its part has ended"
        return None

    def _step(self, turn: int, step: Step) -> str | None:
        if step.kernel == "copy":
            copied = self._read(self.model.regions[step.operands["x"]], turn)
            if copied is None:
                return f"it copies {step.operands['x']}, which holds nothing whole"
            made = {"out": copied}
        else:
            operation = next(self.operations, None)
            if operation is None:
                return "the graph has no operation for it"
            found = self._operands(turn, step, operation)
            if found is not None:
                return found
            made = operation.results
        found = self._prefetched(turn, step)
        if found is not None:
            return found
        for result, value in made.items():
            for parameter in (result, copy_of(result)):
                if parameter in step.operands:
                    self._write(self.model.regions[step.operands[parameter]], turn, value)
        return None

    def _operands(self, turn: int, step: Step, operation: Operation) -> str | None:
        if step.kernel != operation.kernel:
            return f"it runs {step.kernel}, the graph has {operation.kernel} there"
        names = (step.options.keys() | operation.options.keys()) - MANNER
        changed = [
            n for n in names if _named(step.options.get(n)) != _named(operation.options.get(n))
        ]
        if changed:
            wrong = min(changed)
            return (
                f"its option {wrong} is {step.options.get(wrong)}, in the graph "
                f"{operation.options.get(wrong)}"
            )
        if {p for p in step.operands if not is_result(p)} != operation.operands.keys():
            return "it has other operands than its operation"
        made = set(operation.results)
        if not made <= step.operands.keys() or any(
            is_result(p) and p not in made and p not in map(copy_of, made) for p in step.operands
        ):
            return "it leaves other results than its operation"
        for parameter, value in operation.operands.items():
            name = step.operands[parameter]
            found = self._read(self.model.regions[name], turn)
            if found != value:
                holds = "nothing whole" if found is None else found
                return f"its operand {parameter} is {value}, but {name} holds {holds}"
        return None

    def _prefetched(self, turn: int, step: Step) -> str | None:
        """Copies of weights that a step finds are those of this iteration; so are those it makes."""
        for name in (*step.finds, *step.brings):
            region = self.model.regions[name]
            rows = region.copied
            assert rows is not None, "the steps were checked"
            source = self._read(self.model.regions[rows.region], turn)
            if source is None:
                return f"{rows.region} holds nothing whole to make {name} of"
            wanted = f"{source}{[rows.offset, rows.bytes, rows.rows, rows.stride]}"
            if name in step.brings:
                self._write(region, turn, wanted)
            elif (holds := self._read(region, turn)) != wanted:
                return f"{name} should hold {wanted}, but holds {holds or 'nothing whole'}"
        return None

    # --- memory -------------------------------------------------------------------------

    def _port(self, name: str) -> tuple[Region, int]:
        """Where the value of a port lies: the region, and the iteration."""
        port = self.ports[name]
        assert port.tensor is not None, "the parts were checked"
        return self.model.regions[port.tensor], port.iteration or 0

    def _read(self, region: Region, turn: int) -> str | None:
        at = region.at(turn)
        found = self.memory[region.space].read(at, at + region.layout.bytes)
        return found.value if found is not None and found.layout == region.layout else None

    def _write(self, region: Region, turn: int, value: str) -> None:
        at = region.at(turn)
        content = _Content(value, region.layout)
        self.memory[region.space].write(at, at + region.layout.bytes, content)


def _named(options: Any) -> Any:
    """Options with a name for what is no number, which is not equal to itself."""
    if isinstance(options, dict):
        return {name: _named(value) for name, value in options.items()}
    if isinstance(options, list | tuple):
        return [_named(value) for value in options]
    return "nan" if isinstance(options, float) and math.isnan(options) else options
