"""The program of a model as launches on stored tensors: what code is generated from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from tilewright.targets.atlas.artifact.atlas_artifact import Kind
from tilewright.targets.atlas.model.ways import Way, way_of
from tilewright.targets.port_encoding import Encoding
from tilewright.tile.layouts import Layout

AnyTensor = TypeVar("AnyTensor")


@dataclass
class LayerLoop(Generic[AnyTensor]):
    """Calls `first` to `end` (exclusive) of a program run `count` times."""

    count: int
    first: int
    end: int
    names: tuple[str, ...] = ()
    # Tensors of which every iteration has its own (weights, inputs, outputs): the one that stands for
    # them in the calls -> those of all iterations.
    own: dict[AnyTensor, list[AnyTensor]] = field(default_factory=dict)


@dataclass(eq=False)
class StoredTensor:
    """A tensor of the device."""

    name: str
    layout: Layout
    kind: Kind
    content: np.ndarray | None = (
        None  # of weights and constants: codes, in the shape they are given
    )

    def __repr__(self) -> str:
        return f"<{self.name} {'x'.join(map(str, self.layout.shape))} {self.layout.dtype}>"


@dataclass(eq=False)
class Launch:
    """A kernel on tensors, with the numbers in its code."""

    name: str
    kernel: str
    operands: dict[str, StoredTensor]
    output: StoredTensor
    options: dict[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    macs: int = 0
    scale: float | None = None  # of the result
    largest: float | None = None  # number of the result, in calibration
    others: dict[str, StoredTensor] = field(default_factory=dict)  # what it makes beside that

    @property
    def results(self) -> dict[str, StoredTensor]:
        return {"out": self.output, **self.others}

    @property
    def tensors(self) -> dict[str, StoredTensor]:
        return {**self.operands, **self.results}

    @property
    def way(self) -> Way:
        """The options that say how it goes through its operands."""
        return way_of(self.options)


@dataclass
class LaunchProgram:
    """All launches in order, loops over some of them, and which belong to which function."""

    launches: list[Launch] = field(default_factory=list)
    layer_loops: list[LayerLoop[StoredTensor]] = field(default_factory=list)
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # function -> launches
    ports: dict[str, str] = field(default_factory=dict)  # port -> name of its tensor
    turns: dict[str, int] = field(default_factory=dict)  # port -> iteration that has it for itself

    encodings: dict[str, Encoding] = field(default_factory=dict)  # of ports that have one

    def borders(self) -> list[int]:
        """Launches before which the host takes over."""
        return [first for first, _ in list(self.spans.values())[1:]]

    def insert(self, index: int, launch: Launch) -> None:
        """Add a launch before another one."""
        self.launches.insert(index, launch)
        for loop in self.layer_loops:
            loop.first += loop.first > index
            loop.end += loop.end > index
        self.spans = {
            name: (first + (first > index), end + (end > index))
            for name, (first, end) in self.spans.items()
        }
