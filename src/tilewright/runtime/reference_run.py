"""A compiled model computed without its code: every step by the reference of its kernel.

Regions are variables here, by name and round; where they lie and how long they live plays no part.
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
from tilewright.runtime.values import port_array, region_codes, weight_codes

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

    @property
    def model(self) -> CompiledModel:
        return self.session.model

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs for complete inputs."""
        self.ports = dict(inputs)
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
                codes = [self.value((region.name, turn)) for turn in range(region.count)]
                self.ports[name] = port_array(self.model.ports[name], region, codes)
        return {name: self.ports[name] for name in self.model.outputs}

    def _give(self, number: int, part: DevicePart) -> None:
        """Put the inputs of a part into their regions."""
        for name in part.inputs:
            region = self.model.regions[self.model.ports[name].region or ""]
            for turn, codes in enumerate(region_codes(region, self.ports[name])):
                self._values[region.name, turn] = codes
                self._writer[region.name, turn] = -1
                if self.keep:
                    self.placed[number, region.name, turn] = codes

    def _call(self, part: int, index: int, turn: int, step: Step) -> None:
        name = call_name(self.model, index, turn)
        operands, reads = {}, {}
        for parameter, region in step.operands.items():
            key = (region, turn if self.model.regions[region].count > 1 else 0)
            if self._known(key):
                operands[parameter] = self.value(key)
                reads[parameter] = (key, self._writer.get(key, -1))
        results = compute(self.model, step, name, operands, self.references)
        writes = {}
        for parameter, codes in results.items():
            region = step.operands[parameter]
            key = (region, turn if self.model.regions[region].count > 1 else 0)
            self._values[key], self._writer[key] = codes, len(self.calls)
            writes[parameter] = key
        kept = results if self.keep else None
        self.calls.append(ReferenceCall(index, turn, name, part, reads, writes, kept))

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


def compute(
    model: CompiledModel,
    step: Step,
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
    results = dict(reference(model.profile, step.options, operands))
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
    from tilewright.graph.references import REFERENCES
    from tilewright.runtime.kernel_model import PREFIX, kernel_references

    references: dict[str, Reference] = {}
    if any(step.kernel.startswith(PREFIX) for step in model.steps):
        references.update(kernel_references())
    if not all(step.kernel.startswith(PREFIX) for step in model.steps):
        references.update(REFERENCES)
    return references
