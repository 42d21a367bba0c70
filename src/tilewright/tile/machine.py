"""What the tile language asks of a machine: arithmetic to run eagerly, and a compiler.

Names of machines are looked up by the registry of targets, which is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tilewright import extensions

if TYPE_CHECKING:
    from types import CodeType

    from tilewright.tile.formats import Formats
    from tilewright.tile.kernel import Kernel
    from tilewright.tile.layouts import Layout
    from tilewright.tile.recorder import Recorder
    from tilewright.tile.row_products import Costs
    from tilewright.tile.tensors import Tensor

DEFAULT = "atlas-v1"


class CompiledKernel(Protocol):
    """A kernel for one set of shapes and one machine."""

    @property
    def cycles(self) -> int: ...
    @property
    def ir(self) -> str: ...
    @property
    def asm(self) -> str: ...
    def run(self, *arrays: np.ndarray) -> Any: ...
    def timeline(self, path: str | Path) -> Path: ...
    def lint(self) -> Any: ...


class EagerRun(Protocol):
    """A backend that computes at once."""

    def bind(self, tensor: Tensor, array: np.ndarray | None) -> None: ...
    def result(self, tensor: Tensor) -> np.ndarray: ...


class TileMachine(Protocol):
    """A machine that tile kernels can be compiled for."""

    @property
    def name(self) -> str: ...
    @property
    def side(self) -> int:
        """The side of a tile."""
        ...

    @property
    def formats(self) -> Formats: ...
    def bound(self, formats: Mapping[str, str] | None, side: int | None) -> TileMachine:
        """The same machine with formats and the side of tiles bound."""
        ...

    @property
    def units(self) -> tuple[int, ...]:
        """The matrix unit of each of a few products that share an operand."""
        ...

    @property
    def presets_accumulators(self) -> bool:
        """Whether a sum that starts as a mask spares the vector unit."""
        ...

    def product_costs(self, rows: int) -> Costs:
        """What products of `rows` rows of tiles cost on each matrix unit."""
        ...

    def eager(self, code: CodeType) -> Any:
        """An `EagerRun` that is a `Backend`."""
        ...

    def trace(self, kernel: Kernel, layouts: dict[str, Layout]) -> Recorder: ...
    def compile_kernel(self, kernel: Kernel, layouts: dict[str, Layout], exact: bool) -> Any:
        """A `CompiledKernel`, with what the machine's own tools know about it."""
        ...


def machine_of(target: Any) -> TileMachine:
    """The machine by its name, the name of its file, or an object that stands for it."""
    assert extensions.tile_machine is not None, "the registry of targets was not loaded"
    return extensions.tile_machine(target)
