"""Writing tile graphs: tensors in DDR, buffers in CMX, transfers and tasks with their costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.vpu import costs
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import computing
from tilewright.targets.vpu.tile_graph import Buffer, Operation, Outside, Task, Tensor, TileGraph

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """A tensor in DDR, row-major."""

    name: str
    dtype: str
    shape: Shape

    @property
    def bytes(self) -> int:
        return size_of(self.dtype, self.shape)


@dataclass(frozen=True, slots=True)
class Tile:
    """A dense buffer in CMX."""

    name: str
    dtype: str
    shape: Shape


def size_of(dtype: str, shape: Shape) -> int:
    size = DTYPES[dtype].itemsize
    for extent in shape:
        size *= extent
    return size


@dataclass(slots=True)
class Builder:
    """A graph that grows; names of tasks and buffers count up."""

    machine: Machine
    tensors: list[Tensor] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def tensor(self, name: str, dtype: str, shape: Shape) -> Whole:
        whole = Whole(name, dtype, shape)
        self.tensors.append(Tensor(name, whole.bytes))
        return whole

    def buffer(self, label: str, dtype: str, shape: Shape, tile: int = 0) -> Tile:
        name = f"{label}.{len(self.buffers)}"
        size = size_of(dtype, shape)
        spill = costs.dma_cycles(self.machine, costs.CMX, costs.DRAM, size)
        self.buffers.append(Buffer(name, size, spill, tile=tile))
        return Tile(name, dtype, shape)

    def load(self, source: Whole, rows: range, columns: range, tile: int = 0) -> Tile:
        """A block of a matrix, or of a vector seen as one row, in a buffer of its own."""
        flat = len(source.shape) == 1
        shape = (len(columns),) if flat else (len(rows), len(columns))
        made = self.buffer(source.name, source.dtype, shape, tile)
        cycles = costs.dma_cycles(self.machine, costs.DRAM, costs.CMX, size_of(source.dtype, shape))
        part = self._part(source, rows, columns)
        self.tasks.append(
            Task(
                f"load {made.name}", "dma", (), (made.name,), cycles, source="ddr", outside=(part,)
            )
        )
        return made

    def store(self, made: Tile, target: Whole, rows: range, columns: range) -> None:
        cycles = costs.dma_cycles(
            self.machine, costs.CMX, costs.DRAM, size_of(made.dtype, made.shape)
        )
        part = self._part(target, rows, columns)
        self.tasks.append(
            Task(f"store {made.name}", "dma", (made.name,), (), cycles, sink="ddr", outside=(part,))
        )

    def task(
        self,
        name: str,
        inputs: Sequence[Tile],
        outputs: Sequence[Tile],
        cycles: int,
        tile: int = 0,
        in_place: tuple[tuple[str, str], ...] = (),
        **options: Any,
    ) -> None:
        """A DPU or SHAVE task that computes an operation of the table."""
        self.tasks.append(computing(name, inputs, outputs, cycles, tile, in_place, **options))

    def graph(self) -> TileGraph:
        return TileGraph(self.machine, self.buffers, self.tasks, tensors=self.tensors)

    def operations(self) -> dict[str, Operation]:
        """What the value machine needs to know of the tasks."""
        return {task.id: task.operation for task in self.tasks if task.operation is not None}

    def _part(self, whole: Whole, rows: range, columns: range) -> Outside:
        size = DTYPES[whole.dtype].itemsize
        if len(whole.shape) == 1:
            return Outside(whole.name, columns.start * size, len(columns) * size)
        width = whole.shape[1] * size
        first = rows.start * width + columns.start * size
        if len(columns) == whole.shape[1]:
            return Outside(whole.name, first, len(rows) * width)
        return Outside(whole.name, first, len(columns) * size, len(rows), width)
