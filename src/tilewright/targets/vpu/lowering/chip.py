"""Where values are while a network becomes a tile graph: blocks in CMX, tensors in DDR.

A value is seen as rows of its last axis. A block holds some rows and columns of it on one tile.
Whoever needs a part of a value fetches it: as a view of a block that is there, or by way of DDR,
once for all tiles that need it. The memory scheduler decides what stays and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.network import Value
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import computing
from tilewright.targets.vpu.tile_graph import (
    DMA,
    NO_STREAM,
    Buffer,
    Operation,
    Outside,
    Task,
    Tensor,
    TileGraph,
    View,
)

Shape = tuple[int, ...]
CHANNELS = 16  # rows are padded to multiples of this many elements
EXACT = -1  # blocks of a value are as its tasks compute them
_RUN = 16  # bytes: operands of engines begin and step in multiples of it


def padded(extent: int) -> int:
    """Up to the next multiple of 16 elements."""
    return -(-extent // CHANNELS) * CHANNELS


@dataclass(frozen=True, slots=True)
class Block:
    """Rows and columns of a value in a buffer of its own; `pitch` elements from row to row."""

    value: str
    rows: range
    columns: range
    tile: int
    buffer: str
    dtype: str
    pitch: int

    def holds(self, rows: range, columns: range) -> bool:
        return (
            self.rows.start <= rows.start
            and rows.stop <= self.rows.stop
            and self.columns.start <= columns.start
            and columns.stop <= self.columns.stop
        )


@dataclass(frozen=True, slots=True)
class Operand:
    """What a task reads or writes: a buffer or a view of one, with format and shape."""

    name: str
    root: str
    dtype: str
    shape: Shape

    def shaped(self, *shape: int) -> Operand:
        return replace(self, shape=shape)


@dataclass(slots=True)
class Home:
    """Where a value lies in DDR: elements from the tensor's start, and from row to row."""

    tensor: str
    offset: int
    pitch: int
    block: int = 0  # columns that lie together, all rows of them, before the next ones


@dataclass(slots=True)
class Constant:
    """Bytes in DDR from the beginning, made when they are needed."""

    bytes: int
    build: Callable[[], np.ndarray]


@dataclass(slots=True)
class Chip:
    """A tile graph that grows."""

    machine: Machine
    values: Mapping[str, Value]
    tensors: dict[str, int] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    views: dict[tuple[str, int, int, int, int], View] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    homes: dict[str, Home] = field(default_factory=dict)
    blocks: dict[str, list[Block]] = field(default_factory=dict)  # as they were computed
    copies: dict[tuple[str, int], list[Block]] = field(default_factory=dict)  # loaded, per tile
    stored: set[str] = field(default_factory=set)  # buffers whose content is in DDR
    steps: list[tuple[str, int]] = field(default_factory=list)  # call, its first task
    several: bool = False  # whether groups of rows share CMX while a region is lowered
    stream: int = NO_STREAM  # the group of rows that is being lowered
    streams: list[int] = field(default_factory=list)  # per task
    column_blocks: dict[str, int] = field(default_factory=dict)  # width; EXACT: as computed
    targets: dict[str, tuple[str, range, range]] = field(default_factory=dict)  # by operand
    row_blocks: tuple[tuple[range, int], ...] = ()  # of the group that is being lowered
    home_blocks: dict[str, int] = field(
        default_factory=dict
    )  # of values that only this graph reads
    _sizes: dict[str, int] = field(default_factory=dict)
    _tiles: dict[str, int] = field(default_factory=dict)
    _views_by_name: dict[str, View] = field(default_factory=dict)

    # --- DDR -----------------------------------------------------------------------------------

    def tensor(self, name: str, size: int) -> str:
        self.tensors[name] = size
        return name

    def constant(self, name: str, size: int, build: Callable[[], np.ndarray]) -> str:
        """Bytes that are part of the program; the same name is the same bytes."""
        if name not in self.constants:
            self.constants[name] = Constant(size, build)
            self.tensor(name, size)
        return name

    def home(self, name: str) -> Home:
        """The place of a value in DDR; one is made for values that had none."""
        found = self.homes.get(name)
        if found is None:
            value = self.values[name]
            size = value.rows * value.width * value.size
            data = value.data
            if data is not None:
                self.constant(name, size, lambda: np.ascontiguousarray(data))
            else:
                self.tensor(name, size)
            block = self.home_blocks.get(name, 0)
            found = self.homes[name] = Home(name, 0, block or value.width, block)
        return found

    def part(self, name: str, rows: range, columns: range) -> Outside:
        home, size = self.home(name), self.values[name].size
        start = columns.start
        if home.block:  # a head of keys, say: its rows follow each other
            number, start = divmod(columns.start, home.block)
            assert start + len(columns) <= home.block, f"{name} is read across its blocks"
            start += number * home.block * self.values[name].rows
        first = (home.offset + rows.start * home.pitch + start) * size
        if len(rows) == 1 or len(columns) == home.pitch:
            return Outside(home.tensor, first, len(rows) * len(columns) * size)
        return Outside(home.tensor, first, len(columns) * size, len(rows), home.pitch * size)

    # --- CMX -----------------------------------------------------------------------------------

    def buffer(self, label: str, size: int, tile: int) -> str:
        name = f"{label}@{len(self.buffers)}"
        cycles = costs.dma_cycles(self.machine, costs.CMX, costs.DRAM, size)
        self.buffers.append(Buffer(name, size, cycles, tile=tile))
        self._sizes[name], self._tiles[name] = size, tile
        return name

    def scratch(self, label: str, dtype: str, shape: Shape, tile: int) -> Operand:
        """A buffer that belongs to no value; its rows are padded like those of values."""
        size, rows = DTYPES[dtype].itemsize, shape[0]
        width = prod(shape[1:])
        if len(shape) == 1 or width % CHANNELS == 0:
            name = self.buffer(label, rows * width * size, tile)
            return Operand(name, name, dtype, shape)
        pitch = padded(width)
        name = self.buffer(label, rows * pitch * size, tile)
        return self.sub_view(name, 0, width * size, rows, pitch * size, dtype, shape)

    def make(self, name: str, rows: range, columns: range, tile: int) -> Block:
        """Room for a part of a value."""
        value = self.values[name]
        pitch = padded(len(columns)) if len(rows) > 1 else len(columns)
        buffer = self.buffer(name, len(rows) * pitch * value.size, tile)
        return Block(name, rows, columns, tile, buffer, value.dtype, pitch)

    def target(self, name: str, rows: range, columns: range, tile: int) -> Operand:
        """Where to put a part of a value that is being computed.

        Its block has all rows of the tile's current block of rows, and the columns of its block
        of columns: other tasks fill the rest.
        """
        own = self.blocks.setdefault(name, [])
        for block in reversed(own):
            if block.tile == tile and block.holds(rows, columns):
                return self._target(block, rows, columns)
        width, step = self.values[name].width, self.column_blocks.get(name, 0)
        around = columns
        if step > 0 and columns.start // step == (columns.stop - 1) // step:
            first = columns.start // step * step
            around = range(first, min(width, first + step))
        elif step == 0:
            around = range(width)
        hull = rows
        for part, owner in self.row_blocks:
            if owner == tile and part.start <= rows.start and rows.stop <= part.stop:
                hull = part
        block = self.make(name, hull, around, tile)
        own.append(block)
        return self._target(block, rows, columns)

    def _target(self, block: Block, rows: range, columns: range) -> Operand:
        operand = self.view(block, rows, columns)
        self.targets[operand.name] = (block.value, rows, columns)
        return operand

    def view(self, block: Block, rows: range, columns: range) -> Operand:
        size = DTYPES[block.dtype].itemsize
        down = rows.start - block.rows.start
        across = columns.start - block.columns.start
        run, stride = len(columns) * size, block.pitch * size
        offset, count = down * stride + across * size, len(rows)
        if count == 1 or run == stride:
            run, count, stride = run * count, 1, 0
        return self.sub_view(block.buffer, offset, run, count, stride, block.dtype,
                             (len(rows), len(columns)))  # fmt: skip

    def sub_view(
        self, buffer: str, offset: int, run: int, count: int, stride: int, dtype: str, shape: Shape
    ) -> Operand:
        """Bytes of a buffer as an operand."""
        if offset == 0 and count == 1 and run == self._sizes[buffer]:
            return Operand(buffer, buffer, dtype, shape)
        key = (buffer, offset, run, count, stride)
        if key not in self.views:
            view = View(f"%{len(self.views)}", buffer, offset, run, count, stride)
            self.views[key] = view
            self._views_by_name[view.id] = view
        return Operand(self.views[key].id, buffer, dtype, shape)

    def narrowed(self, operand: Operand, rows: range, columns: range) -> Operand:
        """Some rows and columns of a two-dimensional operand."""
        size = DTYPES[operand.dtype].itemsize
        offset, stride = 0, operand.shape[1] * size
        if operand.name != operand.root:
            view = self._views_by_name[operand.name]
            offset = view.offset
            if view.count > 1:
                stride = view.stride
        offset += rows.start * stride + columns.start * size
        run, count = len(columns) * size, len(rows)
        if count == 1 or run == stride:
            run, count, stride = run * count, 1, 0
        shape = (len(rows), len(columns))
        return self.sub_view(operand.root, offset, run, count, stride, operand.dtype, shape)

    # --- Moving --------------------------------------------------------------------------------

    def fetch(self, name: str, rows: range, columns: range, tile: int) -> Operand:
        return self.fetch_all(name, rows, columns, [tile])[tile]

    def fetch_all(
        self, name: str, rows: range, columns: range, tiles: Sequence[int]
    ) -> dict[int, Operand]:
        """A part of a value on each of some tiles; what is missing comes from DDR in one transfer."""
        found: dict[int, Operand] = {}
        missing = []
        for tile in tiles:
            block = self.present(name, rows, columns, tile)
            if block is None:
                missing.append(tile)
            else:
                found[tile] = self.view(block, rows, columns)
        if missing:
            self._store_parts(name, rows, columns)
            made = [self.make(name, rows, columns, tile) for tile in missing]
            targets = [self.view(block, rows, columns) for block in made]
            self.load(self.part(name, rows, columns), targets)
            for block, target in zip(made, targets, strict=True):
                self.copies.setdefault((name, block.tile), []).append(block)
                found[block.tile] = target
        return found

    def load(self, part: Outside, targets: Sequence[Operand]) -> None:
        """One transfer from DDR, to one tile or the same to several."""
        cycles = costs.dma_cycles(self.machine, costs.DRAM, costs.CMX, part.bytes * part.count)
        self._add(
            Task(
                f"load {targets[0].name}", DMA, (), tuple(t.name for t in targets), cycles,
                source="ddr", outside=(part,) * len(targets),
            )
        )  # fmt: skip

    def store(self, source: Operand, part: Outside) -> None:
        cycles = costs.dma_cycles(self.machine, costs.CMX, costs.DRAM, part.bytes * part.count)
        self._add(
            Task(
                f"store {source.name} {part.tensor}+{part.offset}", DMA, (source.name,), (), cycles,
                sink="ddr", outside=(part,),
            )
        )  # fmt: skip

    def flush(self, name: str) -> None:
        """Everything of a value that was computed goes to DDR."""
        if name in self.blocks:
            value = self.values[name]
            self._store_parts(name, range(value.rows), range(value.width))

    def bytes_of(self, block: Block) -> int:
        return self._sizes[block.buffer]

    def forget(self, name: str) -> None:
        """A value that is in DDR is fetched from there again."""
        self.blocks.pop(name, None)

    def present(self, name: str, rows: range, columns: range, tile: int) -> Block | None:
        """A block on a tile that holds a part of a value, where engines can read it."""
        for block in (*self.blocks.get(name, ()), *self.copies.get((name, tile), ())):
            if block.tile == tile and block.holds(rows, columns):
                shift = (columns.start - block.columns.start) * DTYPES[block.dtype].itemsize
                if shift % _RUN == 0:
                    return block
        return None

    def _store_parts(self, name: str, rows: range, columns: range) -> None:
        """Blocks that hold some of a part go to DDR, unless they are there already."""
        own = self.blocks.get(name)
        if own is None:
            if name not in self.homes and self.values[name].data is None:
                raise AssertionError(f"{name} is needed before it is computed")
            return
        for block in own:
            apart = (
                block.rows.stop <= rows.start
                or rows.stop <= block.rows.start
                or block.columns.stop <= columns.start
                or columns.stop <= block.columns.start
            )
            if not apart and block.buffer not in self.stored:
                self.stored.add(block.buffer)
                whole = self.view(block, block.rows, block.columns)
                self.store(whole, self.part(name, block.rows, block.columns))

    # --- Computing -----------------------------------------------------------------------------

    def task(
        self,
        name: str,
        inputs: Sequence[Operand],
        outputs: Sequence[Operand],
        cycles: int,
        tile: int,
        in_place: tuple[tuple[str, str], ...] = (),
        **options: Any,
    ) -> None:
        """A DPU or SHAVE task that computes an operation of the table."""
        read, written = {item.name for item in inputs}, {item.name for item in outputs}
        shared = tuple(pair for pair in in_place if pair[0] in read and pair[1] in written)
        self._add(computing(name, inputs, outputs, cycles, tile, shared, **options))

    def _add(self, task: Task) -> None:
        needed: dict[int, int] = {}
        roots = {self._root(name) for name in (*task.reads, *task.writes)}
        for root in roots:
            tile = self._tiles[root]
            needed[tile] = needed.get(tile, 0) + -(-self._sizes[root] // 64) * 64
        most = max(needed.values(), default=0)
        if most > self.machine.cmx_bytes:
            raise TilewrightError(
                "TW7080",
                f"{task.id} needs {most} bytes of CMX at once, the machine has "
                f"{self.machine.cmx_bytes}",
                hint="the smallest tile does not fit; a machine with more CMX would take it",
            )
        self.tasks.append(task)
        self.streams.append(self.stream)

    def _root(self, name: str) -> str:
        view = self._views_by_name.get(name)
        return name if view is None else view.of

    # --- Done ----------------------------------------------------------------------------------

    def graph(self) -> TileGraph:
        tensors = [Tensor(name, size) for name, size in self.tensors.items()]
        return TileGraph(
            self.machine,
            self.buffers,
            self.tasks,
            list(self.views.values()),
            tensors=tensors,
            streams=self.streams,
        )

    def operations(self) -> dict[str, Operation]:
        """What the value machine needs to know of the tasks."""
        return {task.id: task.operation for task in self.tasks if task.operation is not None}
