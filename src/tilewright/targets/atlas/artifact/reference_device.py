"""An Atlas program computed without its code: every step by the reference of its kernel.

What is computed from what is said by the graph of values: regions, iterations and addresses play no
part, so a value that lies in the wrong place, or no longer where it is read, is not wrong here.
Programs made by hand have no such graph; there, regions are variables, by name and iteration.
Values are bit patterns, as the machine would hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import (
    Counters,
    DevicePart,
    Port,
    StepCall,
    StepValues,
    Watch,
    call_name,
)
from tilewright.targets.atlas.artifact.atlas_artifact import (
    AtlasArtifact,
    Step,
    copy_of,
    is_result,
)
from tilewright.targets.atlas.artifact.region_values import (
    codes_of,
    comparable,
    port_array,
    region_codes,
    turns_of,
    typed,
    weight_codes,
)
from tilewright.targets.atlas.artifact.value_graph import Operation, ValueGraph, digest

# (profile, options, operands by parameter) -> results by parameter, all bit patterns.
Reference = Callable[[Any, dict[str, Any], dict[str, np.ndarray]], dict[str, np.ndarray]]
Key = tuple[str, int]  # region and iteration
Arrays = dict[str, np.ndarray]


class ReferenceDevice:
    """Regions and values instead of memory; it takes no time."""

    def __init__(self, artifact: AtlasArtifact) -> None:
        self.artifact = artifact
        self.references = references_of(artifact)
        self._sequence = list(artifact.calls())
        self._checked: set[str] = set()  # weights that are those of the graph
        self.begin()

    def begin(self) -> None:
        self._values: dict[Key, np.ndarray] = {}
        graph = self.artifact.graph
        self._graph = None if graph is None else GraphValues(self.artifact, graph, self._checked)

    def write(self, port: Port, value: np.ndarray) -> None:
        region = self.artifact.regions[port.tensor or ""]
        for turn, codes in zip(
            turns_of(port, region), region_codes(port, region, value), strict=True
        ):
            if self._graph is not None:
                self._graph.give(port.name, codes)
            self._values[region.name, turn] = codes

    def read(self, port: Port) -> np.ndarray:
        region = self.artifact.regions[port.tensor or ""]
        if self._graph is not None:
            codes = [self._graph.at_port(port.name)]
        else:
            codes = [self._value((region.name, turn)) for turn in turns_of(port, region)]
        return port_array(port, region, codes)

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        segments = self.artifact.entries[part.entry].segments
        for index, turn, step in self._sequence:
            if step.segment in segments:
                values = self._call(index, turn, step)
                if watch is not None:
                    watch(values)

    def _call(self, index: int, turn: int, step: Step) -> StepValues:
        name = call_name(self.artifact, index, turn)
        reads: Arrays = {}
        names: dict[str, str] = {}
        scales: dict[str, float] = {}
        if self._graph is None:
            operands = self._region_operands(turn, step)
            results = compute(self.artifact, step, step.options, name, operands, self.references)
            reads = {p: codes for p, codes in operands.items() if self._is_read(step, p)}
        elif step.kernel == "copy":
            codes = self._value(self._key(step, "x", turn))
            results = {p: codes for p in step.operands if is_result(p)}
        else:
            operation, operands = self._graph.next(name)
            reads = {
                parameter: comparable(self._region(step, parameter), operands[parameter])
                for parameter, value in operation.operands.items()
                if value not in self._graph.graph.digests and parameter in step.operands
            }
            names, options = operation.operands, operation.options
            results = compute(self.artifact, step, options, name, operands, self.references)
            self._graph.made(operation, results)
            for result, value in operation.results.items():
                scale = self._graph.graph.scales.get(value)
                same = (p for p in (result, copy_of(result)) if p in results)
                scales |= {} if scale is None else dict.fromkeys(same, scale)
        for parameter, codes in results.items():
            self._values[self._key(step, parameter, turn)] = codes
        found = {} if self._graph is None else {n: self._copied(n, turn) for n in step.finds}
        return StepValues(
            index,
            turn,
            {p: typed(self._region(step, p), codes) for p, codes in reads.items()} | found,
            {p: typed(self._region(step, p), codes) for p, codes in results.items()},
            names,
            scales,
        )

    def _copied(self, name: str, turn: int) -> np.ndarray:
        """The bytes of a copy of weights."""
        rows = self.artifact.regions[name].copied
        assert rows is not None, "it is a copy"
        region, raw = self.artifact.regions[rows.region], self.artifact.weights[rows.region]
        own = raw.reshape(region.count, -1)[turn if region.count > 1 else 0]
        return rows.of(own)

    def _region_operands(self, turn: int, step: Step) -> Arrays:
        keys = {p: self._key(step, p, turn) for p in step.operands}
        known = {p: key for p, key in keys.items() if self._known(key)}
        return {parameter: self._value(key) for parameter, key in known.items()}

    def _is_read(self, step: Step, parameter: str) -> bool:
        name = step.operands[parameter]
        return not is_result(parameter) and name not in self.artifact.weights

    def _region(self, step: Step, parameter: str) -> Any:
        return self.artifact.regions[step.operands[parameter]]

    def _key(self, step: Step, parameter: str, turn: int) -> Key:
        region = self._region(step, parameter)
        return region.name, turn if region.count > 1 else 0

    def _known(self, key: Key) -> bool:
        return key in self._values or key[0] in self.artifact.weights

    def _value(self, key: Key) -> np.ndarray:
        """The bit patterns a region holds now."""
        if key not in self._values:
            region = self.artifact.regions[key[0]]
            if region.name not in self.artifact.weights:
                raise TilewrightError("TW3141", f"no step computes {region.name}")
            # Not kept: weights are large, and most are read once.
            return weight_codes(region, self.artifact.weights[region.name], key[1])
        return self._values[key]

    # --- nothing happens over time ------------------------------------------------------

    @property
    def cycles(self) -> int:
        return 0

    @property
    def calls(self) -> list[StepCall]:
        return []

    @property
    def counters(self) -> Counters:
        return Counters()

    def trace(self) -> None:
        return None


@dataclass
class GraphValues:
    """The values of a graph as they are computed, each until its last use.

    checked: weights whose digests have been compared, once for all runs of a device.
    """

    artifact: AtlasArtifact
    graph: ValueGraph
    checked: set[str] = field(default_factory=set)
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._operations = iter(enumerate(self.graph.operations))
        self._places = self.graph.places()
        self._last: dict[str, int] = {}  # the operation that reads a value last
        for number, operation in enumerate(self.graph.operations):
            self._last.update(dict.fromkeys(operation.operands.values(), number))
        self._kept = set(self.graph.ports.values())

    def give(self, port: str, codes: np.ndarray) -> None:
        self.values[self.graph.ports[port]] = codes

    def at_port(self, port: str) -> np.ndarray:
        return self.values[self.graph.ports[port]]

    def next(self, name: str) -> tuple[Operation, dict[str, np.ndarray]]:
        """The next operation and its operands."""
        number, operation = next(self._operations, (0, None))
        if operation is None:
            raise TilewrightError("TW3141", f"the graph of values ends before {name}")
        operands = {p: self._value(value, name) for p, value in operation.operands.items()}
        for value in operation.operands.values():
            if self._last[value] == number and value not in self._kept:
                self.values.pop(value, None)
        return operation, operands

    def made(self, operation: Operation, results: Mapping[str, np.ndarray]) -> None:
        for parameter, value in operation.results.items():
            self.values[value] = results[parameter]

    def _value(self, value: str, name: str) -> np.ndarray:
        if value in self.values:
            return self.values[value]
        if value not in self._places:
            raise TilewrightError("TW3141", f"{name} needs {value} before it is computed")
        region, turn = self._places[value]
        # Not kept: weights are large, and most are read once.
        codes = weight_codes(self.artifact.regions[region], self.artifact.weights[region], turn)
        if value not in self.checked and digest(codes) != self.graph.digests.get(value):
            raise TilewrightError(
                "TW3143", f"the weights {value} are not those the model was compiled with"
            )
        self.checked.add(value)
        return codes


def recompute(
    artifact: AtlasArtifact, index: int, turn: int, operands: Mapping[str, np.ndarray]
) -> Arrays:
    """The results of a step for other operands; its weights are those of the program."""
    step = artifact.steps[index]
    codes = {p: codes_of(x) for p, x in operands.items() if p in step.operands}
    for parameter, name in step.operands.items():
        if name in artifact.weights and parameter not in codes:
            region = artifact.regions[name]
            own = turn if region.count > 1 else 0
            codes[parameter] = weight_codes(region, artifact.weights[name], own)
    name = call_name(artifact, index, turn)
    found = compute(artifact, step, step.options, name, codes, references_of(artifact))
    return {p: typed(artifact.regions[step.operands[p]], x) for p, x in found.items()}


def compute(
    artifact: AtlasArtifact,
    step: Step,
    options: Mapping[str, Any],
    name: str,
    operands: dict[str, np.ndarray],
    references: Mapping[str, Reference],
) -> dict[str, np.ndarray]:
    """The results of one step, checked for shape and type."""
    reference = references.get(step.kernel)
    if reference is None:
        raise TilewrightError(
            "TW3140",
            f"{name} runs the kernel {step.kernel}, which has no reference",
            hint=f"known kernels are {', '.join(sorted(references)) or 'none'}",
        )
    results = dict(reference(artifact.profile, dict(options), operands))
    results |= {copy_of(p): codes for p, codes in results.items() if copy_of(p) in step.operands}
    for parameter, codes in results.items():
        layout = artifact.regions[step.operands[parameter]].layout
        wanted = np.uint16 if layout.dtype == "bf16" else np.uint8
        if codes.dtype != wanted or codes.shape != layout.given:
            raise TilewrightError(
                "TW3141",
                f"the reference of {step.kernel} gives {parameter} as {codes.dtype} of "
                f"{list(codes.shape)}, {name} needs {wanted.__name__} of {list(layout.given)}",
            )
    return results


def references_of(artifact: AtlasArtifact) -> Mapping[str, Reference]:
    """The references of the kernels a program uses: those of whole models, and the library's own."""
    from tilewright.targets.atlas.model.kernel_model import PREFIX, kernel_references
    from tilewright.targets.atlas.model.kernel_records import REFERENCES

    if artifact.references is not None:
        return artifact.references
    references: dict[str, Reference] = {}
    if any(step.kernel.startswith(PREFIX) for step in artifact.steps):
        references.update(kernel_references())
    if not all(step.kernel.startswith(PREFIX) for step in artifact.steps):
        references.update(REFERENCES)
    return references
