"""Looking at every step of a run: noting what the reference does, comparing what the device does.

The reference device goes first and `Expected` notes its values; then the device runs, and `Compared`
holds what it tells of every step against that: operands where the device knows them when a step
begins, results where it can see them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.reference.bits import digest_bits
from tilewright.runtime.verification import LayerCheck, compare_bits
from tilewright.targets.artifact import Artifact, Progress, Recomputes, StepValues, call_name, calls

MOST = 20  # findings that are kept
Key = tuple[int, int]  # step and layer iteration
Arrays = Mapping[str, np.ndarray]


@dataclass
class Expected:
    """What the reference did: digests of what steps read and, with `keep`, all values."""

    artifact: Artifact
    keep: bool
    progress: Progress | None = None
    order: list[Key] = field(default_factory=list)
    values: dict[Key, StepValues] = field(default_factory=dict)
    reads: dict[Key, dict[str, tuple[str, str]]] = field(default_factory=dict)  # digest, name

    def __post_init__(self) -> None:
        self._steps = sum(1 for _ in calls(self.artifact))

    def __call__(self, values: StepValues) -> None:
        key = (values.step, values.iteration)
        self.order.append(key)
        self.reads[key] = {
            parameter: (digest_bits(x), values.names.get(parameter, "it should"))
            for parameter, x in values.reads.items()
        }
        if self.keep:
            self.values[key] = values
        if self.progress is not None:
            self.progress(len(self.order), self._steps, 0)

    def expected(self, step: int, iteration: int) -> Arrays:
        return {}


@dataclass
class Compared:
    """What the device did, against that."""

    wanted: Expected
    strays: list[str] = field(default_factory=list)  # operands that are not as they should be
    equal: set[tuple[Key, str]] = field(default_factory=set)
    seen: dict[tuple[Key, str], np.ndarray] = field(default_factory=dict)  # results that differ

    def __call__(self, values: StepValues) -> None:
        key = (values.step, values.iteration)
        for parameter, found in values.reads.items():
            digest, name = self.wanted.reads.get(key, {}).get(parameter, (None, ""))
            if digest is not None and digest_bits(found) != digest and len(self.strays) < MOST:
                self.strays.append(self._stray(key, parameter, name))
        for parameter, expected in self.expected(*key).items():
            if parameter in values.writes:
                found = values.writes[parameter]
                if compare_bits(expected, found) is None:
                    self.equal.add((key, parameter))
                else:
                    self.seen[key, parameter] = found

    def expected(self, step: int, iteration: int) -> Arrays:
        values = self.wanted.values.get((step, iteration))
        return {} if values is None else values.writes

    def _stray(self, key: Key, parameter: str, name: str) -> str:
        artifact = self.wanted.artifact
        tensor = artifact.steps[key[0]].operands.get(parameter, "")
        return (
            f"step {key[0]} ({call_name(artifact, *key)}) finds something else than {name} in "
            f"its operand {parameter} ({tensor})"
        )

    # --- afterwards ---------------------------------------------------------------------

    def layers(self) -> list[LayerCheck]:
        """Every result of every step, in order; values were kept."""
        artifact, found = self.wanted.artifact, []
        counts = {name: tensor.count for name, tensor in artifact.tensors.items()}
        writer: dict[tuple[str, int], tuple[Key, str]] = {}  # the last result in a tensor
        for number, key in enumerate(self.wanted.order):
            step, values = artifact.steps[key[0]], self.wanted.values[key]

            def place(parameter: str, step: Any = step, turn: int = key[1]) -> tuple[str, int]:
                tensor = step.operands.get(parameter, parameter)
                return tensor, turn if counts.get(tensor, 1) > 1 else 0

            reads = {name: writer.get(place(name)) for name in values.reads}
            for parameter, expected in values.writes.items():
                status, difference = "unread", None
                if (key, parameter) in self.equal:
                    status = "equal"
                elif (key, parameter) in self.seen:
                    difference = compare_bits(expected, self.seen[key, parameter])
                    status = "differs" if self._own_fault(key, parameter, reads) else "inherits"
                name = call_name(artifact, *key)
                found.append(
                    LayerCheck(
                        number, *key, name, step.kernel, place(parameter)[0], status, difference
                    )
                )
            for parameter in values.writes:
                writer[place(parameter)] = (key, parameter)
        return found

    def _own_fault(
        self, key: Key, parameter: str, reads: Mapping[str, tuple[Key, str] | None]
    ) -> bool:
        """Whether the reference, on the device's own operands, gives something else as well."""
        artifact = self.wanted.artifact
        changed = {n: self.seen[w] for n, w in reads.items() if w is not None and w in self.seen}
        if not changed:
            return True
        operands = {**self.wanted.values[key].reads, **changed}
        if not isinstance(artifact, Recomputes):
            return False
        results = artifact.recompute(*key, operands)
        return compare_bits(results[parameter], self.seen[key, parameter]) is not None
