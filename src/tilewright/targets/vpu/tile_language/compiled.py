"""Compiled tile kernels on the VPU: a task list with its tensors, ready to run and to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.artifact import VpuProgram
from tilewright.targets.vpu.checker.findings import Finding
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import kernels
from tilewright.targets.vpu.scheduling.schedule import Schedule
from tilewright.targets.vpu.simulator import Options, jittered
from tilewright.targets.vpu.tile_graph import TileGraph
from tilewright.targets.vpu.tile_language.eager import padded
from tilewright.targets.vpu.tile_language.strands import Image
from tilewright.targets.vpu.values import run_values
from tilewright.tile.formats import family as family_of
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import ModuleOp
    from tilewright.tile.kernel import Kernel


@dataclass(frozen=True)
class Checked:
    """What the verifier found."""

    findings: list[Finding]

    @property
    def clean(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings)) or "clean"


@dataclass
class CompiledVpuKernel:
    """A kernel for one set of shapes, one machine and one set of formats."""

    kernel: Kernel
    layouts: dict[str, Layout]
    outputs: list[str]
    images: Mapping[str, Image]  # what lies in DDR, by the name it has there
    constants: Mapping[str, np.ndarray]
    graph: TileGraph
    schedule: Schedule
    program: VpuProgram
    module: ModuleOp = field(repr=False)

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.layouts if name not in self.outputs]

    @property
    def cycles(self) -> int:
        """The modelled time of the whole list."""
        return self.schedule.makespan

    @cached_property
    def ir(self) -> str:
        """The npu_schedule module as text, before loops are written out."""
        return str(self.module)

    @cached_property
    def asm(self) -> str:
        """The queues as text: tasks with what they wait for and post."""
        lines = []
        tasks = self.program.tasks
        for queue, names in tasks.queues.items():
            lines.append(f"{queue}:")
            for name in names:
                item = tasks.tasks[name]
                label = item.task or f"{item.kind} {item.buffer}"
                waits, posts = (" ".join(map(str, n)) or "-" for n in (item.waits, item.posts))
                lines.append(f"  {name:8} {label:40} waits {waits:12} posts {posts}")
        return "\n".join(lines) + "\n"

    def run(self, *arrays: np.ndarray, timing: int = 0) -> Any:
        """Run on the simulator; the results, one array or a tuple of them.

        timing: 0 for modelled times, other numbers for others; results do not depend on it.
        """
        tasks, layouts = self.program.tasks, self.layouts
        if len(arrays) != len(self.inputs):
            raise TilewrightError(
                "TW1619",
                f"{self.kernel.name} takes {len(self.inputs)} arrays: {', '.join(self.inputs)}",
            )
        given = {n: self._padded(n, a) for n, a in zip(self.inputs, arrays, strict=True)}
        memory = np.zeros(max((at + n for at, n in tasks.ddr.values()), default=0), np.uint8)
        for name, (address, size) in tasks.ddr.items():
            image = self.images.get(name)
            if image is None or image.name in self.outputs:
                continue
            whole = given.get(image.name)
            whole = self.constants[image.name] if whole is None else whole
            memory[address : address + size] = packed(image, whole).reshape(-1).view(np.uint8)
        options = Options(durations=jittered(tasks, timing)) if timing else None
        outcome = run_values(tasks, options, self.program.operations, kernels(), memory, timing)
        if outcome.torn:
            raise TilewrightError("TW7098", f"torn reads of {', '.join(outcome.torn[:4])}")
        results = []
        for name in self.outputs:
            address, size = tasks.ddr[name]
            # What no task stores stays as it was.
            memory[: len(outcome.ddr)] = outcome.ddr[: len(memory)]
            found = unpacked(self.images[name], memory[address : address + size], layouts[name])
            results.append(found)
        return results[0] if len(results) == 1 else tuple(results)

    def _padded(self, name: str, array: Any) -> np.ndarray:
        array, layout = np.asarray(array), self.layouts[name]
        if array.shape != layout.shape:
            have, want = ("x".join(map(str, shape)) for shape in (array.shape, layout.shape))
            raise TilewrightError(
                "TW1602", f"{name} has shape {have}, the kernel was compiled for {want}"
            )
        return padded(layout, array)

    def timeline(self, path: str | Path) -> Path:
        """Write a picture of the queues: .svg, or a Perfetto trace (.pftrace, .json)."""
        from tilewright.targets.vpu import pictures

        target = Path(path)
        write = pictures.write_timeline if target.suffix == ".svg" else pictures.write_trace
        write(self.schedule, str(target))
        return target

    def lint(self) -> Checked:
        """What the independent verifier says about the list."""
        from tilewright.targets.vpu.checker.verify import verify

        return Checked(verify(self.program.tasks, self.graph, jitter=3, strict=True))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}: {'x'.join(map(str, x.shape))}" for n, x in self.layouts.items())
        machine, count = self.graph.machine.preset, len(self.program.tasks.tasks)
        return f"<{self.kernel.name} for {machine} ({shapes}), {count} tasks>"


def image_of(name: str, layout: Layout, column: bool) -> Image:
    """The tiles of a tensor; a column has one number for each row."""
    side = layout.side
    ones = (1,) * len(layout.leading)
    down, across = layout.grid
    if layout.is_vector:
        return Image(name, layout.dtype, (*layout.leading, across), (*ones, side), (side,))
    tile = (side, 1) if column else (side, side)
    grid, strides = (*layout.leading, down, across), (*ones, side, side)
    return Image(name, layout.dtype, grid, strides, tile)


def packed(image: Image, whole: np.ndarray) -> np.ndarray:
    """The tiles of a padded array, one after the other."""
    if not image.grid:  # a constant is one tile
        tiles = whole[None]
    elif len(image.tile) == 1:
        tiles = whole.reshape(-1, image.tile[0])
    else:
        down, across = image.grid[-2:]
        side = image.tile[0]
        blocks = whole.reshape(-1, down, side, across, side).swapaxes(2, 3)
        tiles = blocks.reshape(-1, side, side)[:, :, : image.tile[1]]
    return np.ascontiguousarray(tiles.swapaxes(-1, -2) if image.flipped else tiles)


def unpacked(image: Image, raw: np.ndarray, layout: Layout) -> np.ndarray:
    """The array of an output from its tiles."""
    tiles = np.ascontiguousarray(raw).view(DTYPES[family_of(image.dtype)])
    if len(image.tile) == 1:
        whole = tiles.reshape(layout.padded)
    else:
        down, across = image.grid[-2:]
        side, width = image.tile
        blocks = tiles.reshape(-1, down, across, side, width).swapaxes(2, 3)
        whole = blocks.reshape(*layout.leading, down * side, across * width)
    return np.ascontiguousarray(whole[tuple(slice(n) for n in layout.shape)])
