"""A compiled model: code, memory map, weights, the steps the code carries out, and where it came from.

Everything here is plain data; `runtime/bundle.py` writes and reads it, `runtime/session.py` runs
it, `graph/` makes it. Tensors on the device have a region: a place in DRAM or VMEM and a layout
of whole tiles. A model is a list of parts, run in order: the host computes some values, the device
the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from tilewright.runtime.value_graph import ValueGraph
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program
from tilewright.tile.layouts import Layout

COPY = "out copy"  # operand of a step whose result goes to VMEM and to DRAM: the second place
Space = Literal["dram", "vmem"]
Kind = Literal["input", "output", "weight", "constant", "activation"]


@dataclass(frozen=True)
class Region:
    """A tensor's place on the device.

    With `count` > 1 it is one tensor per round of the loop its steps are in: round i finds its
    own at `address + i * stride`.
    """

    name: str
    space: Space
    address: int
    layout: Layout
    kind: Kind
    first: int = 0  # steps during which its content matters, inclusive
    last: int = 0
    count: int = 1
    stride: int = 0

    @property
    def bytes(self) -> int:
        """From its first byte to its last, all rounds included."""
        return self.stride * (self.count - 1) + self.layout.bytes

    def at(self, turn: int) -> int:
        """The address in one round."""
        return self.address + (turn * self.stride if self.count > 1 else 0)


@dataclass(frozen=True)
class Step:
    """One kernel call: what the instructions `first_word` to `end_word` of its segment do."""

    name: str  # the layer, as the model names it
    kernel: str  # in graph/kernels
    operands: dict[str, str]  # parameter of the kernel -> region
    options: dict[str, Any] = field(default_factory=dict)  # JSON values
    segment: int = 0
    first_word: int = 0
    end_word: int = 0
    sources: tuple[str, ...] = ()  # operations of the model it stands for
    macs: int = 0  # multiplications, without padding
    bound: int = 0  # cycles no program for this step can beat, from its transfers and units


@dataclass(frozen=True)
class Rounds:
    """Steps `first` to `end` (exclusive) are carried out `count` times: identical layers."""

    count: int
    first: int
    end: int
    names: tuple[str, ...] = ()  # of the rounds, such as layers.0, layers.1


@dataclass(frozen=True)
class Port:
    """A value between the outside, the host parts and the device."""

    name: str
    shape: tuple[int, ...]
    dtype: str  # as MLIR spells it: f32, bf16, i64, i1
    region: str | None = None  # its place when the device reads or writes it


@dataclass(frozen=True)
class HostPart:
    """A function of the host module, run by the reference executor."""

    function: str
    inputs: tuple[str, ...]  # ports
    outputs: tuple[str, ...]
    reasons: tuple[str, ...] = ()  # why this is not on the device, one per operation


@dataclass(frozen=True)
class DevicePart:
    """Segments of code run one after the other on the device, memory kept in between."""

    segments: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class CompiledModel:
    """All of it."""

    name: str
    profile: Profile
    segments: list[Program]
    regions: dict[str, Region]
    steps: list[Step]
    rounds: list[Rounds]
    ports: dict[str, Port]
    inputs: tuple[str, ...]  # ports, in the order of the model's arguments
    outputs: tuple[str, ...]
    parts: list[HostPart | DevicePart]
    weights: dict[str, np.ndarray]  # region -> bytes (uint8) of its tensors, one after the other
    host_module: str = ""  # MLIR text
    host_weights: dict[str, np.ndarray] = field(default_factory=dict)
    state: dict[str, str] = field(
        default_factory=dict
    )  # input port -> output port of the next call
    provenance: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)  # IR after each phase
    quantisation: dict[str, Any] = field(default_factory=dict)  # per layer: formats, scales, error
    timing: dict[str, float] = field(default_factory=dict)  # seconds of each phase of compilation
    graph: ValueGraph | None = None  # what it computes, apart from where; not of hand-made models

    def calls(self) -> Iterator[tuple[int, int, Step]]:
        """(step index, round, step) in the order of execution."""
        starts = {r.first: r for r in self.rounds}
        index = 0
        while index < len(self.steps):
            if index in starts:
                rounds = starts[index]
                for turn in range(rounds.count):
                    for k in range(rounds.first, rounds.end):
                        yield k, turn, self.steps[k]
                index = rounds.end
            else:
                yield index, 0, self.steps[index]
                index += 1
