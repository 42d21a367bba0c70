"""A design: what is configured on the array and what the controller does at run time.

Object FIFOs carry objects from one tile to others; links tie FIFOs together in a memory tile
(forward, split, join); cores run small programs of acquire, call and release; the runtime
sequence moves walks of host buffers into and out of FIFOs. Checker, value simulation, time
simulation and MLIR text all start from this one object.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError
from tilewright.targets.xdna.device import MEMORY_ROW, SHIM_ROW, ArrayDevice
from tilewright.targets.xdna.patterns import Pattern, row_major

if TYPE_CHECKING:
    from tilewright.targets.xdna.problem import Gemm

ELEMENT_BYTES = {"i8": 1, "i16": 2, "i32": 4, "bf16": 2, "f32": 4}

Dimensions = tuple[tuple[int, int], ...]  # (size, stride) of each loop, outermost first


@dataclass(frozen=True, order=True)
class Tile:
    column: int
    row: int

    def __str__(self) -> str:
        return f"({self.column}, {self.row})"


@dataclass(frozen=True)
class ObjectType:
    """What one slot of a FIFO holds."""

    shape: tuple[int, ...]
    element: str

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def element_bytes(self) -> int:
        return ELEMENT_BYTES[self.element]

    @property
    def bytes(self) -> int:
        return self.count * self.element_bytes


@dataclass(frozen=True)
class Fifo:
    """A FIFO of objects from one tile to one or more others (then it is a broadcast).

    `to_stream` reorders an object (or the linked part of one) as it leaves, `from_stream` as it
    arrives, one per consumer; empty means as it lies.
    """

    name: str
    producer: Tile
    consumers: tuple[Tile, ...]
    depth: int
    object: ObjectType
    to_stream: Dimensions = ()
    from_stream: tuple[Dimensions, ...] = ()

    def arriving(self, consumer: int) -> Dimensions:
        return self.from_stream[consumer] if self.from_stream else ()


@dataclass(frozen=True)
class Residency:
    """A panel that stays in a memory tile and is sent `sweeps` times before it is given up.

    The panel lies contiguous in slots of whole objects; `slots` counts the objects of each. `room`
    is for so many objects, where designs with other panels share a configuration (0: no more).
    """

    slots: tuple[int, ...]
    sweeps: int
    room: int = 0

    @property
    def objects(self) -> int:
        return sum(self.slots)


@dataclass(frozen=True)
class Link:
    """FIFOs joined or split in a memory tile; offsets are elements of the larger object."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    offsets: tuple[int, ...] = ()
    residency: Residency | None = None

    @property
    def join(self) -> bool:
        return len(self.inputs) > 1


@dataclass(frozen=True)
class Kernel:
    """A function cores call, with everything its meaning and time depend on."""

    name: str
    kind: str  # "zero" or "multiply"
    m: int
    k: int
    n: int
    block: tuple[int, int, int]  # r, s, t
    inputs: str  # element of A: i8 or bf16
    weights: str  # of B: i8, int4, ternary or bf16
    output: str
    b_layout: str = "row"
    c_layout: str = "row"
    shift: int = 0
    rounding: str = "half_even"
    saturate: bool = True
    zero_point: str = "sub"
    numbers: str = "exact"  # exact, or bfp16: operands rounded to block floating point
    wide_sum: bool = False  # float sums stay f32 between the steps


@dataclass(frozen=True)
class Parameter:
    """A number the controller writes before the cores start."""

    index: int


@dataclass(frozen=True)
class Acquire:
    fifo: str
    count: int = 1


@dataclass(frozen=True)
class Release:
    fifo: str
    count: int = 1


@dataclass(frozen=True)
class Call:
    """Run a kernel on objects held: (fifo, position among the held ones)."""

    kernel: str
    operands: tuple[tuple[str, int], ...]
    last_step: bool = False  # whether it is told that the innermost loop is in its last round


@dataclass(frozen=True)
class Loop:
    count: int | Parameter
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Barrier:
    """Wait until the controller has written the parameters."""


Statement = Acquire | Release | Call | Loop | Barrier


@dataclass(frozen=True)
class CoreProgram:
    tile: Tile
    body: tuple[Statement, ...]
    stack_bytes: int
    parameters: int = 0  # how many numbers it reads


@dataclass(frozen=True)
class HostBuffer:
    name: str
    count: int
    element: str

    @property
    def bytes(self) -> int:
        return self.count * ELEMENT_BYTES[self.element]


@dataclass(frozen=True)
class Transfer:
    """Write a shim descriptor and push its task: a fill of a FIFO, or a drain out of it.

    The walk has four loops: the iteration, then d2, d1, d0.
    """

    fifo: str
    buffer: str
    offset: int
    sizes: tuple[int, int, int, int]
    strides: tuple[int, int, int, int]
    descriptor: int
    token: bool = False

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.sizes, self.strides, self.offset)


@dataclass(frozen=True)
class Await:
    """Wait for the next token of a FIFO's shim channel."""

    fifo: str


@dataclass(frozen=True)
class SetParameter:
    tile: Tile
    index: int
    value: int


@dataclass(frozen=True)
class Start:
    """Open the barrier of a core."""

    tile: Tile


@dataclass(frozen=True)
class Replay:
    """Push the memory-tile tasks that send one resident panel `sweeps` times."""

    fifo: str
    sweeps: int


Step = Transfer | Await | SetParameter | Start | Replay


@dataclass(frozen=True)
class Design:
    device_name: str
    fifos: tuple[Fifo, ...]
    links: tuple[Link, ...]
    kernels: tuple[Kernel, ...]
    cores: tuple[CoreProgram, ...]
    buffers: tuple[HostBuffer, ...]
    runtime: tuple[Step, ...]
    gemm: Gemm | None = None
    device: ArrayDevice = field(compare=False, repr=False, kw_only=True)

    @cached_property
    def by_name(self) -> dict[str, Fifo]:
        return {fifo.name: fifo for fifo in self.fifos}

    @cached_property
    def kernel_by_name(self) -> dict[str, Kernel]:
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def buffer_by_name(self) -> dict[str, HostBuffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def link_into(self) -> dict[str, Link]:
        """FIFO -> the link it feeds."""
        return {name: link for link in self.links for name in link.inputs}

    @cached_property
    def link_out_of(self) -> dict[str, Link]:
        """FIFO -> the link that feeds it."""
        return {name: link for link in self.links for name in link.outputs}

    def fifo(self, name: str) -> Fifo:
        found = self.by_name.get(name)
        if found is None:
            raise TilewrightError("TW8040", f"there is no FIFO @{name}")
        return found

    def memory_fifo(self, link: Link) -> Fifo:
        """The FIFO whose objects and depth the buffers of a link have: the one with whole objects."""
        return self.fifo(link.outputs[0] if link.join else link.inputs[0])

    def transfers(self, fifo: str) -> list[Transfer]:
        return [s for s in self.runtime if isinstance(s, Transfer) and s.fifo == fifo]

    def is_fill(self, fifo: Fifo) -> bool:
        return fifo.producer.row == SHIM_ROW

    def segments(self, link: Link) -> tuple[int, ...]:
        """Elements of each part of a split or join."""
        whole = self.memory_fifo(link).object.count
        many = max(len(link.inputs), len(link.outputs))
        if many == 1:
            return (whole,)
        bounds = [*link.offsets, whole]
        return tuple(b - a for a, b in itertools.pairwise(bounds))


def stream_order(dimensions: Dimensions, count: int) -> Pattern:
    """Dimensions of a FIFO as a pattern; none given means in order."""
    if not dimensions:
        return row_major(count)
    return Pattern(tuple(n for n, _ in dimensions), tuple(s for _, s in dimensions))


def statements(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement of a program, loops opened."""
    for statement in body:
        yield statement
        if isinstance(statement, Loop):
            yield from statements(statement.body)


def is_memory(tile: Tile) -> bool:
    return tile.row == MEMORY_ROW
