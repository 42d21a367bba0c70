"""Compiled kernels: programs with their tensors' places, ready to run and to look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Data, Program
from tilewright.tile.layouts import Layout

if TYPE_CHECKING:
    from tilewright.dialects.xdsl_api import ModuleOp
    from tilewright.tile.kernel import Kernel


@dataclass
class CompiledKernel:
    """A kernel for one set of shapes and one machine."""

    kernel: Kernel
    profile: Profile
    program: Program
    layouts: dict[str, Layout]
    bases: dict[str, int]
    data: list[tuple[int, bytes]]  # constants and masks to place in DRAM
    outputs: list[str]
    module: ModuleOp | None = None
    constants: dict[str, np.ndarray] = field(default_factory=dict)  # further arguments of the IR
    statistics: Any = None  # of the last run
    least: int | None = None  # fewest cycles of any order of its instructions, where proven
    _cycles: int | None = None

    @property
    def inputs(self) -> list[str]:
        return [name for name in self.layouts if name not in self.outputs]

    # --- running ------------------------------------------------------------------------

    def run(self, *arrays: np.ndarray, machine: str | None = None) -> Any:
        """Run on the simulator; the results, one array or a tuple of them."""
        device = self._device(machine)
        if len(arrays) != len(self.inputs):
            raise TilewrightError(
                "TW1619",
                f"{self.kernel.name} takes {len(self.inputs)} arrays: {', '.join(self.inputs)}",
            )
        for name, array in zip(self.inputs, arrays, strict=True):
            device.write("dram", self.bases[name], self._packed(name, np.asarray(array)))
        self._finish(device)
        results = []
        for name in self.outputs:
            layout = self.layouts[name]
            results.append(layout.unpack(device.read("dram", self.bases[name], layout.bytes)))
        return results[0] if len(results) == 1 else tuple(results)

    def _packed(self, name: str, array: np.ndarray) -> bytes:
        if array.shape not in (self.layouts[name].given, self.layouts[name].shape):
            wanted = "x".join(map(str, self.layouts[name].given))
            raise TilewrightError(
                "TW1602",
                f"{name} has shape {'x'.join(map(str, array.shape))}, the kernel was compiled "
                f"for {wanted}",
            )
        return self.layouts[name].pack(array)

    def _device(self, machine: str | None) -> Any:
        from tilewright.targets.atlas.machines import make_machine
        from tilewright.targets.atlas.policy import Policy

        device = make_machine(self.profile, Policy(), machine)
        device.load(self.program)
        for address, raw in self.data:
            device.write("dram", address, raw)
        return device

    def _finish(self, device: Any) -> None:
        outcome = device.run()
        if outcome.fault is not None:
            raise TilewrightError("TW1620", f"the program faulted: {outcome.fault.message}")
        self._cycles, self.statistics = outcome.cycles, device.statistics

    @property
    def cycles(self) -> int:
        """Ticks of a run; they do not depend on the numbers."""
        if self._cycles is None:
            self._finish(self._device(None))
        assert self._cycles is not None
        return self._cycles

    # --- looking ------------------------------------------------------------------------

    @cached_property
    def ir(self) -> str:
        """The npu_schedule module as text."""
        return str(self.module)

    @cached_property
    def asm(self) -> str:
        """The program as assembly text."""
        from tilewright.targets.atlas.disassembler import disassemble

        return disassemble(self.program)

    def timeline(self, path: str | Path) -> Path:
        """Write a picture of a run: .svg, or a Perfetto trace (.pftrace, .json)."""
        from tilewright.targets.atlas.simulate import simulate
        from tilewright.trace.perfetto import write_trace
        from tilewright.trace.timeline import write_timeline

        target = Path(path)
        program = Program(
            self.program.opcodes,
            self.program.operands,
            self.program.lines,
            self.program.source,
            self.program.labels,
            [Data("dram", address, raw) for address, raw in self.data],
        )
        model = simulate(program, profile=self.profile, trace=True).trace
        (write_timeline if target.suffix == ".svg" else write_trace)(model, target)
        return target

    def lint(self) -> Any:
        """The report of the independent checker on the program."""
        from tilewright.targets.atlas.lint.analysis import lint

        return lint(self.program, self.profile)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{n}: {'x'.join(map(str, x.shape))}" for n, x in self.layouts.items())
        count = len(self.program)
        return f"<{self.kernel.name} for {self.profile.name} ({shapes}), {count} instructions>"
