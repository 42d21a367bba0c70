"""The tile graph: tasks of DMA, DPU and SHAVE over buffers and views of them.

Tasks stand in program order. A buffer is a root of its own; a view is a part of one, possibly in
several runs. Nothing here has an address or a time: that is what the scheduler adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.vpu.machine import Machine

DMA, DPU, SHAVE = "dma", "dpu", "shave"
ENGINES = (DMA, DPU, SHAVE)
NO_STREAM = -1  # of a task that belongs to all of them


@dataclass(frozen=True, slots=True)
class Buffer:
    """A root: bytes in the CMX of one tile while they are resident."""

    id: str
    bytes: int
    spill_cycles: int = 1
    align: int = 0  # 0: the machine's
    tile: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A part of a buffer: `count` runs of `bytes`, `stride` apart."""

    id: str
    of: str
    offset: int
    bytes: int
    count: int = 1
    stride: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """Bytes in DDR that belong to the program: an input, constants, an output."""

    id: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Outside:
    """The part of a DDR tensor that a load reads or a store writes: `count` runs, `stride` apart."""

    tensor: str
    offset: int
    bytes: int
    count: int = 1
    stride: int = 0

    @property
    def end(self) -> int:
        return self.offset + (self.count - 1) * self.stride + self.bytes


@dataclass(frozen=True, slots=True)
class Operation:
    """What a task computes: the name of a task operation and its parameters."""

    name: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work of an engine; reads and writes name buffers or views."""

    id: str
    engine: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    cycles: int
    source: str | None = None  # "ddr": a load
    sink: str | None = None  # "ddr": a store
    ports: int = 1
    in_place: tuple[tuple[str, str], ...] = ()
    slots: int = 1
    tile: int = 0
    operation: Operation | None = None
    outside: tuple[Outside, ...] = ()  # of a load or store: the tensor part behind each operand

    @property
    def kind(self) -> str:
        """What a task list calls it."""
        if self.engine != DMA:
            return self.engine
        if self.source:
            return "load"
        return "store" if self.sink else "copy"


@dataclass(frozen=True, slots=True)
class Span:
    """The bytes of a buffer that a task touches."""

    root: int  # index of the buffer
    offset: int
    bytes: int
    count: int = 1
    stride: int = 0

    def runs(self) -> list[tuple[int, int]]:
        """(first, end) of every run, adjacent runs joined."""
        if self.count == 1 or self.stride == self.bytes:
            return [(self.offset, self.offset + self.bytes * self.count)]
        first = self.offset
        return [
            (first + k * self.stride, first + k * self.stride + self.bytes)
            for k in range(self.count)
        ]

    @property
    def end(self) -> int:
        return self.offset + (self.count - 1) * self.stride + self.bytes


@dataclass(slots=True)
class TileGraph:
    """Buffers, views and tasks for one machine."""

    machine: Machine
    buffers: list[Buffer]
    tasks: list[Task]
    views: list[View] = field(default_factory=list)
    after: list[tuple[str, str]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    # Per task the stream it belongs to, if memory was planned for this program order. Streams are
    # pieces of work that go the same way one after the other; the scheduler may interleave them.
    streams: list[int] = field(default_factory=list)
