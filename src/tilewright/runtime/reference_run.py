"""A compiled model computed without its code: every step by the reference of its kernel.

What is computed from what is said by the model's graph of values: regions, rounds and addresses
play no part, so a value that lies in the wrong place, or no longer where it is read, is not wrong
here. Models made by hand have no such graph; there, regions are variables, by name and round.
Values are bit patterns, as the machine would hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.runtime.compiled_model import COPY, CompiledModel, DevicePart, HostPart, Step
from tilewright.runtime.device import Progress, call_name
from tilewright.runtime.session import Session
from tilewright.runtime.value_graph import Operation, ValueGraph, digest
from tilewright.runtime.values import comparable, port_array, region_codes, weight_codes

# (profile, options, operands by parameter) -> results by parameter, all bit patterns.
Reference = Callable[[Any, dict[str, Any], dict[str, np.ndarray]], dict[str, np.ndarray]]
Key = tuple[str, int]  # region and round


@dataclass
class ReferenceCall:
    """One step as the reference carried it out."""

    step: int
    turn: int
    name: str
    part: int  # which part of the model it belongs to
    reads: dict[str, tuple[Key, int]]  # parameter -> what it read, and the call that wrote that
    writes: dict[str, Key]
    inputs: dict[str, tuple[str, str]] = field(default_factory=dict)  # value and digest by operand
    output: str | None = None  # the value it makes, of those of the graph
    results: dict[str, np.ndarray] | None = None  # by parameter, where asked to be kept


@dataclass
class ReferenceRun:
    """What the model computes by its references."""

    session: Session  # for host parts
    references: Mapping[str, Reference]
    keep: bool = False  # the results of every step
    progress: Progress | None = None
    calls: list[ReferenceCall] = field(default_factory=list)
    ports: dict[str, np.ndarray] = field(default_factory=dict)
    placed: dict[tuple[int, str, int], np.ndarray] = field(default_factory=dict)
    _values: dict[Key, np.ndarray] = field(default_factory=dict)
    _writer: dict[Key, int] = field(default_factory=dict)
    _graph: GraphValues | None = None

    @property
    def model(self) -> CompiledModel:
        return self.session.model

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for complete inputs."""
        self.ports = dict(inputs)
        if self.model.graph is not None:
            self._graph = GraphValues(self.model, self.model.graph)
        sequence = list(self.model.calls())
        for number, part in enumerate(self.model.parts):
            if isinstance(part, HostPart):
                self.session.run_host(part, self.ports)
                continue
            self._give(number, part)
            for index, turn, step in sequence:
                if step.segment in part.segments:
                    self._call(number, index, turn, step)
                    if self.progress is not None:
                        self.progress(len(self.calls), len(sequence), 0)
            for name in part.outputs:
                region = self.model.regions[self.model.ports[name].region or ""]
                if self._graph is not None:
                    codes = [self._graph.at_port(name)]
                else:
                    codes = [self.value((region.name, turn)) for turn in range(region.count)]
                self.ports[name] = port_array(self.model.ports[name], region, codes)
        return {name: self.ports[name] for name in self.model.outputs}

    def _give(self, number: int, part: DevicePart) -> None:
        """Put the inputs of a part into their regions."""
        for name in part.inputs:
            region = self.model.regions[self.model.ports[name].region or ""]
            for turn, codes in enumerate(region_codes(region, self.ports[name])):
                if self._graph is not None:
                    self._graph.give(name, codes)
                self._values[region.name, turn] = codes
                self._writer[region.name, turn] = -1
                if self.keep:
                    self.placed[number, region.name, turn] = codes

    def _call(self, part: int, index: int, turn: int, step: Step) -> None:
        name = call_name(self.model, index, turn)
        operands, reads, inputs, output = {}, {}, {}, None
        for parameter, region in step.operands.items():
            key = (region, turn if self.model.regions[region].count > 1 else 0)
            if self._known(key):
                if self._graph is None:
                    operands[parameter] = self.value(key)
                reads[parameter] = (key, self._writer.get(key, -1))
        if self._graph is None:
            results = compute(self.model, step, step.options, name, operands, self.references)
        elif step.kernel == "copy":
            codes = self.value(reads["x"][0])
            results = {p: codes for p in ("out", COPY) if p in step.operands}
        else:
            operation, operands = self._graph.next(name)
            inputs = {
                parameter: (value, digest(self._placed(step, parameter, operands[parameter])))
                for parameter, value in operation.operands.items()
                if value not in self._graph.graph.digests and parameter in step.operands
            }
            options = operation.options
            results = compute(self.model, step, options, name, operands, self.references)
            self._graph.made(operation, results["out"])
            output = operation.output
        writes = {}
        for parameter, codes in results.items():
            region = step.operands[parameter]
            key = (region, turn if self.model.regions[region].count > 1 else 0)
            self._values[key], self._writer[key] = codes, len(self.calls)
            writes[parameter] = key
        kept = results if self.keep else None
        self.calls.append(
            ReferenceCall(index, turn, name, part, reads, writes, inputs, output, kept)
        )

    def _placed(self, step: Step, parameter: str, codes: np.ndarray) -> np.ndarray:
        """A value as it is read back from the region a step has it in."""
        return comparable(self.model.regions[step.operands[parameter]], codes)

    def _known(self, key: Key) -> bool:
        return key in self._values or key[0] in self.model.weights

    def value(self, key: Key) -> np.ndarray:
        """The bit patterns a region holds now."""
        if key not in self._values:
            region = self.model.regions[key[0]]
            if region.name not in self.model.weights:
                raise TilewrightError("TW3141", f"no step computes {region.name}")
            # Not kept: weights are large, and most are read once.
            return weight_codes(region, self.model.weights[region.name], key[1])
        return self._values[key]


@dataclass
class GraphValues:
    """The values of a graph as they are computed, each until its last use."""

    model: CompiledModel
    graph: ValueGraph
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

    def made(self, operation: Operation, codes: np.ndarray) -> None:
        self.values[operation.output] = codes

    def _value(self, value: str, name: str) -> np.ndarray:
        if value in self.values:
            return self.values[value]
        if value not in self._places:
            raise TilewrightError("TW3141", f"{name} needs {value} before it is computed")
        region, turn = self._places[value]
        # Not kept: weights are large, and most are read once.
        codes = weight_codes(self.model.regions[region], self.model.weights[region], turn)
        if digest(codes) != self.graph.digests.get(value):
            raise TilewrightError(
                "TW3143", f"the weights {value} are not those the model was compiled with"
            )
        return codes


def compute(
    model: CompiledModel,
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
    results = dict(reference(model.profile, dict(options), operands))
    if COPY in step.operands:
        results[COPY] = results["out"]
    for parameter, codes in results.items():
        layout = model.regions[step.operands[parameter]].layout
        wanted = np.uint16 if layout.dtype == "bf16" else np.uint8
        if codes.dtype != wanted or codes.shape != layout.given:
            raise TilewrightError(
                "TW3141",
                f"the reference of {step.kernel} gives {parameter} as {codes.dtype} of "
                f"{list(codes.shape)}, {name} needs {wanted.__name__} of {list(layout.given)}",
            )
    return results


def library_references(model: CompiledModel) -> Mapping[str, Reference]:
    """The references of the kernels a model uses: those of whole models, and the library's own."""
    from tilewright.targets.atlas.model.kernel_model import PREFIX, kernel_references
    from tilewright.targets.atlas.model.references import REFERENCES

    references: dict[str, Reference] = {}
    if any(step.kernel.startswith(PREFIX) for step in model.steps):
        references.update(kernel_references())
    if not all(step.kernel.startswith(PREFIX) for step in model.steps):
        references.update(REFERENCES)
    return references
