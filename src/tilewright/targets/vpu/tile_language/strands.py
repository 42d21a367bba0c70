"""From steps to a tile graph: strands of steps that hang together, dealt out to the tiles.

Steps that share a computed tile run on the tile of the machine where it lies. Strands that share
nothing but inputs are independent, so each goes where least work waits; a few of them take turns
on every tile, so that its engines work on different ones. A part of an input is loaded once on
each tile that needs it; how long it stays is decided by the memory scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from tilewright.targets.vpu import costs
from tilewright.targets.vpu.lowering.rows import BINARY_COSTS, UNARY_COSTS
from tilewright.targets.vpu.machine import Machine
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.tile_language import builder as building
from tilewright.targets.vpu.tile_language.launches import Shape
from tilewright.targets.vpu.tile_language.unroll import Made, Part, Step, Steps, Tile
from tilewright.tile.formats import family as family_of
from tilewright.tile.formats import step as step_of

STRANDS = 3  # that take turns on a tile


@dataclass(frozen=True, slots=True)
class Image:
    """How a tensor lies in DDR: its tiles one after the other, each dense."""

    name: str
    dtype: str
    grid: tuple[int, ...]  # tiles along each dimension, leading dimensions first
    strides: tuple[int, ...]  # elements from one to the next, along each dimension
    tile: Shape
    flipped: bool = False

    @property
    def size(self) -> int:
        """Elements of a tile."""
        return int(np.prod(self.tile))

    @property
    def count(self) -> int:
        return int(np.prod(self.grid))

    def number(self, place: tuple[int, ...]) -> int:
        """Which tile starts at an element."""
        index = 0
        for extent, stride, at in zip(self.grid, self.strides, place, strict=True):
            assert at % stride == 0 and at // stride < extent
            index = index * extent + at // stride
        return index


def cycles_of(machine: Machine, step: Step) -> int:
    """The modelled time of a step."""
    formats = [tile.root.dtype for tile in step.inputs] + [step.made.dtype]
    bits = max(8 * DTYPES[family_of(dtype)].itemsize for dtype in formats)
    size, rows = step.made.size, step.inputs[0].shape[0]
    if step.name == "matmul":
        width = DTYPES[family_of(formats[0])].itemsize
        inner = step.inputs[0].shape[1]
        return costs.matmul_cycles(machine, rows, inner, step.shape[1], width, width)
    if step.name == "elementwise":
        return costs.elementwise_cycles(machine, size)
    if step.name == "row_reduce":
        name = "row_sum" if step.options["function"] == "sum" else "row_max"
        return costs.vector_cycles(machine, name, rows * step.inputs[0].shape[1], bits, rows)
    if step.name == "unary":
        name = UNARY_COSTS[step.options["function"]]
    elif step.name == "binary":
        name = BINARY_COSTS[step.options["function"]]
    elif step.name == "cast":
        name = "quantise" if family_of(step.made.dtype) == "i8" else "dequantise"
    else:
        name = step.name
    return costs.vector_cycles(machine, name, size, bits)


def needed(steps: Steps) -> list[int]:
    """The steps that some output depends on, in order."""
    open_ = [t.root for tiles in steps.outputs.values() for t in tiles.values()]
    found: set[int] = set()
    while open_:
        root = open_.pop()
        if isinstance(root, Made) and root.number not in found:
            found.add(root.number)
            open_ += [tile.root for tile in steps.steps[root.number].inputs]
    return sorted(found)


def strands(steps: Steps, order: list[int]) -> list[list[int]]:
    """Groups of steps that hang together by what they compute, in program order."""
    parent = {number: number for number in order}

    def leader(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for number in order:
        for tile in steps.steps[number].inputs:
            if isinstance(tile.root, Made):
                parent[leader(number)] = leader(tile.root.number)
    groups: dict[int, list[int]] = {}
    for number in order:
        groups.setdefault(leader(number), []).append(number)
    return list(groups.values())


def dealt(machine: Machine, cycles: Mapping[int, int], groups: list[list[int]]) -> dict[int, int]:
    """Step -> tile of the machine, in the order in which steps are to be written down."""
    lanes = [(0, lane) for lane in range(machine.tiles * STRANDS)]
    queues: list[list[int]] = [[] for _ in lanes]
    for group in groups:
        load, lane = heappop(lanes)
        queues[lane] += group
        heappush(lanes, (load + sum(cycles[number] for number in group), lane))
    placed: dict[int, int] = {}
    turns = [(0, lane, 0) for lane, queue in enumerate(queues) if queue]
    heapify(turns)
    while turns:
        time, lane, at = heappop(turns)
        number = queues[lane][at]
        placed[number] = lane % machine.tiles
        if at + 1 < len(queues[lane]):
            heappush(turns, (time + cycles[number], lane, at + 1))
    return placed


class GraphWriter:
    """Writes the tile graph: loads where a tile first needs them, tasks, stores behind them."""

    def __init__(self, machine: Machine, steps: Steps, images: Mapping[str, Image]) -> None:
        self.steps, self.images = steps, images
        self.builder = building.Builder(machine)
        self.used: dict[str, Image] = {}  # what lies in DDR, by the name it has there
        self.wholes: dict[str, building.Whole] = {}
        self.loaded: dict[tuple[Part, int], building.Tile] = {}
        self.buffers: dict[int, building.Tile] = {}  # by step
        self.uses: dict[int, list[tuple[str, tuple[int, ...]]]] = {}  # step -> outputs it makes
        for name, tiles in steps.outputs.items():
            self._whole(images[name])
            for place, tile in tiles.items():
                if isinstance(tile.root, Made):
                    self.uses.setdefault(tile.root.number, []).append((name, place))

    def write(self) -> building.Builder:
        """The graph of all outputs."""
        machine = self.builder.machine
        order = needed(self.steps)
        cycles = {number: cycles_of(machine, self.steps.steps[number]) for number in order}
        for number, tile in dealt(machine, cycles, strands(self.steps, order)).items():
            self._step(self.steps.steps[number], cycles[number], tile)
        for name, tiles in self.steps.outputs.items():
            for place, found in tiles.items():
                if isinstance(found.root, Part):  # a copy of an input
                    self._store(self._operand(found, 0), name, place)
        return self.builder

    def _step(self, step: Step, cycles: int, tile: int) -> None:
        inputs = [self._operand(found, tile) for found in step.inputs]
        dtype = family_of(step.made.dtype)
        made = self.builder.buffer(step.name, dtype, step.shape, tile)
        options = dict(step.options)
        if dtype == "i8" and step.name == "cast":
            options.setdefault("output_scale", step_of(step.made.dtype))
        self.builder.task(step.name, inputs, [made], cycles, tile, **options)
        self.buffers[step.made.number] = made
        for name, place in self.uses.get(step.made.number, ()):
            self._store(made, name, place)

    def _operand(self, tile: Tile, where: int) -> building.Tile:
        if isinstance(tile.root, Made):
            found = self.buffers[tile.root.number]
        else:
            found = self._part(tile.root, where)
        return building.Tile(found.name, found.dtype, tile.shape)

    def _part(self, part: Part, where: int) -> building.Tile:
        key = part, where
        if key not in self.loaded:
            image = replace(self.images[part.tensor], flipped=part.flipped)
            number = image.number(part.place)
            whole, rows = self._whole(image), range(number, number + 1)
            self.loaded[key] = self.builder.load(whole, rows, range(image.size), where)
        return self.loaded[key]

    def _whole(self, image: Image) -> building.Whole:
        name = f"{image.name}.T" if image.flipped else image.name
        if name not in self.wholes:
            self.used[name] = image
            shape = (image.count, image.size)
            self.wholes[name] = self.builder.tensor(name, family_of(image.dtype), shape)
        return self.wholes[name]

    def _store(self, made: building.Tile, name: str, place: tuple[int, ...]) -> None:
        number = self.images[name].number(place)
        size = range(self.images[name].size)
        self.builder.store(made, self.wholes[name], range(number, number + 1), size)
        last = self.builder.tasks[-1]
        self.builder.tasks[-1] = replace(last, id=f"{last.id} {name}+{number}")
