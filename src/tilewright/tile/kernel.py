"""Kernels: functions of tensors written with tiles, traced, compiled, or run on numpy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.atlas.codegen.lower_nest import ConstantPool, lower
from tilewright.targets.atlas.codegen.nest import Affine
from tilewright.targets.atlas.profile import Profile, load_profile
from tilewright.targets.atlas.program import Program
from tilewright.tile.backend import Backend, Patterns, Runner, Tracer, block_of
from tilewright.tile.blocks import Block, Single
from tilewright.tile.cells import PARK, Cell, TileArray, as_tiles
from tilewright.tile.layouts import SIDE, Layout
from tilewright.tile.types import TensorSpec

_active: list[Backend] = []


def active() -> Backend:
    """The trace or run in progress."""
    if not _active:
        raise TilewrightError("TW1606", "tile operations work inside a @tw.kernel function only")
    return _active[-1]


@dataclass(frozen=True)
class Tensor:
    """A kernel parameter while the kernel runs."""

    backend: Tracer | Runner
    name: str
    spec: TensorSpec
    layout: Layout
    base: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    def __getattr__(self, name: str) -> int:
        sizes = object.__getattribute__(self, "spec").sizes
        if name in sizes:
            return self.shape[sizes.index(name)]
        raise AttributeError(f"{self.name} has no size named {name}")

    def _blocks(self, index: Any) -> tuple[list[Single], Block | None, Block]:
        index = index if isinstance(index, tuple) else (index,)
        if len(index) != len(self.shape):
            raise self.backend.error(
                "TW1607",
                f"{self.name} has {len(self.shape)} dimensions, {len(index)} indices given",
            )
        leading = []
        for position, extent in zip(index[:-2], self.shape[:-2], strict=True):
            if isinstance(position, int):
                position = Single(position, extent)
            if not isinstance(position, Single) or position.extent > extent:
                raise self.backend.error("TW1608", f"{self.name}: use tw.each for its first index")
            leading.append(position)
        rows = None
        if len(self.shape) > 1:
            rows = block_of(index[-2], self.shape[-2], self.backend)
        return leading, rows, block_of(index[-1], self.shape[-1], self.backend)

    def _offset(self, leading: list[Single], rows: Block | None, columns: Block, r: int, c: int):
        strides = self.layout.strides
        constant, terms = self.base, []
        for single, stride in zip(leading, strides, strict=False):
            constant += single.start * stride
            if single.variable is not None:
                terms.append((single.variable, stride))
        for block, place, stride in ((rows, r, strides[-2]), (columns, c, strides[-1])):
            if block is None:
                continue
            constant += (block.start + place) * stride
            if block.variable is not None:
                terms.append((block.variable, block.step * stride))
        return Affine(constant, tuple(terms))

    def __getitem__(self, index: Any) -> TileArray:
        leading, rows, columns = self._blocks(index)
        is_row, halves = rows is None, self.layout.order == "halves"
        down = 1 if rows is None else rows.tiles

        def cell(r: int, c: int) -> Cell:
            offset = self._offset(leading, rows, columns, r, c)
            read = lambda: self.backend.read(self.layout, offset, is_row)  # noqa: E731
            return Cell(fetch=read, caches=down * columns.tiles <= PARK)

        cells = [[cell(r, c) for c in range(columns.tiles)] for r in range(down)]
        return TileArray(
            self.backend,
            cells,
            self.spec.dtype,
            [SIDE if rows is None else rows.valid(r) for r in range(down)],
            [SIDE if halves else columns.valid(c) for c in range(columns.tiles)],
            "row" if is_row else "column" if halves else "full",
        )

    def __setitem__(self, index: Any, value: Any) -> None:
        leading, rows, columns = self._blocks(index)
        value = as_tiles(value)
        if value.dtype != self.spec.dtype:
            raise self.backend.error(
                "TW1609", f"{self.name} holds {self.spec.dtype}, the tile is {value.dtype}"
            )
        down = 1 if rows is None else rows.tiles
        fits = value.kind == "column" or value.grid[1] == columns.tiles
        if value.grid[0] != down or not fits:
            raise self.backend.error(
                "TW1618",
                f"a tile of {value.shape[0]}x{value.shape[1]} does not fill "
                f"{down * SIDE}x{columns.tiles * SIDE} of {self.name}",
            )
        for r in range(down):
            for c in range(columns.tiles):
                source = value.cells[r][0 if value.kind == "column" else c]
                offset = self._offset(leading, rows, columns, r, c)
                self.backend.write(self.layout, offset, self.backend.use(source))


@dataclass
class Compiled:
    """A kernel for one set of shapes and one machine."""

    kernel: Kernel
    profile: Profile
    program: Program
    layouts: dict[str, Layout]
    bases: dict[str, int]
    data: list[tuple[int, bytes]]  # constants and masks to place in DRAM
    outputs: list[str]
    cycles: int | None = None
    statistics: Any = None

    def run(self, *arrays: np.ndarray, machine: str = "native") -> Any:
        """Run on the simulator; the results, one array or a tuple of them."""
        from tilewright.targets.atlas.machine import PythonMachine
        from tilewright.targets.atlas.native import NativeMachine

        kind = NativeMachine if machine == "native" else PythonMachine
        device = kind(self.profile)
        device.load(self.program)
        names = [n for n in self.layouts if n not in self.outputs]
        if len(arrays) != len(names):
            raise TilewrightError(
                "TW1619", f"the kernel takes {len(names)} arrays: {', '.join(names)}"
            )
        for name, array in zip(names, arrays, strict=True):
            device.write("dram", self.bases[name], self.layouts[name].pack(np.asarray(array)))
        for address, raw in self.data:
            device.write("dram", address, raw)
        outcome = device.run()
        if outcome.fault is not None:
            raise TilewrightError("TW1620", f"the program faulted: {outcome.fault.message}")
        self.cycles, self.statistics = outcome.cycles, device.statistics
        results = []
        for name in self.outputs:
            layout = self.layouts[name]
            results.append(layout.unpack(device.read("dram", self.bases[name], layout.bytes)))
        return results[0] if len(results) == 1 else tuple(results)


@dataclass
class Kernel:
    """A kernel; call it with arrays to compile (once per shape) and run it."""

    function: Callable[..., None]
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    _cache: dict[Any, Compiled] = field(default_factory=dict)

    def __post_init__(self) -> None:
        functools.update_wrapper(self, self.function)
        hints = inspect.get_annotations(self.function, eval_str=True)
        for name in inspect.signature(self.function).parameters:
            spec = hints.get(name)
            if not isinstance(spec, TensorSpec):
                code = self.function.__code__
                raise TilewrightError(
                    "TW1621",
                    f"parameter {name} needs a tensor type",
                    Location(code.co_filename, code.co_firstlineno),
                    'write it as name: tw.bf16["M", "N"]',
                )
            self.specs[name] = spec
        self.outputs = self._written()

    def _written(self) -> list[str]:
        """Outputs are the parameters that the kernel assigns to; by convention the last ones,
        named out or out_…"""
        named = [n for n in self.specs if n == "out" or n.startswith("out_")]
        return named or list(self.specs)[-1:]

    def _layouts(self, shapes: dict[str, tuple[int, ...]]) -> dict[str, Layout]:
        known: dict[str, int] = {}
        for name, shape in shapes.items():
            self.specs[name].bind(name, tuple(shape), known)
        layouts = {}
        for name, spec in self.specs.items():
            shape = spec.resolve(known)
            if shape is None:
                raise TilewrightError(
                    "TW1622", f"the shape of {name} does not follow from the inputs"
                )
            layouts[name] = Layout(shape, spec.dtype, spec.order)
        return layouts

    def _bound(
        self, backend: Tracer | Runner, layouts: dict[str, Layout]
    ) -> tuple[dict, dict, int]:
        bases, tensors, place = {}, {}, 0
        for name, layout in layouts.items():
            bases[name] = place
            tensors[name] = Tensor(backend, name, self.specs[name], layout, place)
            place += -(-layout.bytes // 4096) * 4096
        return bases, tensors, place

    def _execute(self, backend: Backend, tensors: dict[str, Tensor]) -> None:
        _active.append(backend)
        try:
            self.function(**tensors)
        finally:
            _active.pop()

    def shapes_of(self, arrays: tuple[Any, ...]) -> dict[str, tuple[int, ...]]:
        names = [n for n in self.specs if n not in self.outputs]
        if len(arrays) != len(names):
            raise TilewrightError(
                "TW1619", f"the kernel takes {len(names)} arrays: {', '.join(names)}"
            )
        return {n: tuple(np.shape(a)) for n, a in zip(names, arrays, strict=True)}

    def compile(self, target: str | Profile = "atlas-v1", **shapes: tuple[int, ...]) -> Compiled:
        """The program for these input shapes, `kernel.compile(a=(64, 32), b=(32, 96))`."""
        profile = load_profile(target) if isinstance(target, str) else target
        layouts = self._layouts(shapes)
        end = sum(-(-x.bytes // 4096) * 4096 for x in layouts.values())
        patterns = Patterns(end)
        tracer = Tracer(profile, self.function.__code__, patterns)
        bases, tensors, _ = self._bound(tracer, layouts)
        self._execute(tracer, tensors)
        pool = ConstantPool(end + 2048 * len(patterns.rows))
        routine = lower(tracer.statements, profile, pool)
        program = routine.compile(self.function.__code__.co_filename)
        data = [(patterns.base, patterns.data()), (pool.dram, pool.data())]
        return Compiled(
            self, profile, program, layouts, bases, [d for d in data if d[1]], self.outputs
        )

    def eager(self, *arrays: np.ndarray, profile: str | Profile = "atlas-v1") -> Any:
        """Run the function on numpy arrays, step by step, with the machine's arithmetic."""
        machine = load_profile(profile) if isinstance(profile, str) else profile
        layouts = self._layouts(self.shapes_of(arrays))
        runner = Runner(machine, self.function.__code__)
        bases, tensors, end = self._bound(runner, layouts)
        runner.memory = np.zeros(end, np.uint8)
        inputs = [n for n in self.specs if n not in self.outputs]
        for name, array in zip(inputs, arrays, strict=True):
            raw = np.frombuffer(layouts[name].pack(np.asarray(array)), np.uint8)
            runner.memory[bases[name] : bases[name] + len(raw)] = raw
        self._execute(runner, tensors)
        results = []
        for name in self.outputs:
            layout = layouts[name]
            raw = runner.memory[bases[name] : bases[name] + layout.bytes]
            results.append(layout.unpack(raw.tobytes()))
        return results[0] if len(results) == 1 else tuple(results)

    def __call__(self, *arrays: np.ndarray, target: str | Profile = "atlas-v1") -> Any:
        shapes = self.shapes_of(arrays)
        key = (str(target), tuple(shapes.items()))
        if key not in self._cache:
            self._cache[key] = self.compile(target, **shapes)
        return self._cache[key].run(*arrays)


def kernel(function: Callable[..., None]) -> Kernel:
    """Make a kernel of a function over typed tensors."""
    return Kernel(function)


def grid(extent: int, size: int = SIDE, unroll: bool = False) -> Iterator[Block]:
    """Blocks of `size` elements along a dimension: a loop of the program, and the rest."""
    backend = active()
    if size < SIDE or size % SIDE:
        raise backend.error("TW1623", f"a block of {size} is not a multiple of {SIDE}")
    assert isinstance(backend, (Tracer, Runner))
    return backend.blocks(extent, size, unroll)


def steps(extent: int, size: int = SIDE) -> Iterator[Block]:
    """Blocks along a dimension, one after the other in the same body: for sums and states."""
    return grid(extent, size, unroll=True)


def each(extent: int, unroll: bool = False) -> Iterator[Single]:
    """Every index of a leading dimension."""
    backend = active()
    assert isinstance(backend, (Tracer, Runner))
    return backend.indices(extent, unroll)
