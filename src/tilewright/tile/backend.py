"""Where tile operations go: into a trace, or straight to numpy. Here is what both share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.tile.arrays import Cell, TileArray
from tilewright.tile.blocks import Block, Single, Terms
from tilewright.tile.machine import TileMachine

if TYPE_CHECKING:
    from tilewright.tile.states import Carrier
    from tilewright.tile.tensors import Tensor
    from tilewright.tile.types import TensorSpec

STEPS = 64  # steps unrolled one after the other; more of them become a loop

_active: list[Backend] = []


def active() -> Backend:
    """The trace or run in progress."""
    if not _active:
        raise TilewrightError(
            "TW1606",
            "tile operations work inside a @tw.kernel function only",
            hint="call the kernel, its eager method or its compile method",
        )
    return _active[-1]


@contextmanager
def running(backend: Backend) -> Iterator[None]:
    """Make a backend the active one."""
    _active.append(backend)
    try:
        yield
    finally:
        _active.pop()


Launch = Callable[..., Any]


class Backend:
    """What a trace and an eager run share."""

    def __init__(self, machine: TileMachine, code: CodeType) -> None:
        self.machine, self.code = machine, code
        self.side = machine.side  # of a tile
        self.operand, self.value = machine.formats.operand, machine.formats.value
        self.units = machine.units
        self.stationary = "weights"
        self.depth = 2
        self.step_limit = STEPS
        self._slots = 4
        self.carriers: WeakSet[Carrier] = WeakSet()
        self.written: set[str] = set()  # outputs and scratch tensors written so far

    def new_slots(self, count: int) -> range:
        """Numbers for accumulators that stay in use for a while; the first few are for sums
        computed in one go."""
        self._slots += count
        return range(self._slots - count, self._slots)

    def made(self, value: Any) -> Cell:
        """A cell for a tile computed here."""
        return Cell(value, scope=self.scope())

    def frame(self) -> FrameType | None:
        """The author's function on the stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not self.code:
            frame = frame.f_back
        return frame

    def line(self) -> int:
        """The author's line that is running."""
        frame = self.frame()
        return frame.f_lineno if frame else self.code.co_firstlineno

    def error(self, code: str, message: str, hint: str | None = None) -> TilewrightError:
        return TilewrightError(code, message, Location(self.code.co_filename, self.line()), hint)

    # --- what each of them does its own way ---

    def launcher(self, family: str, dtype: str, kind: str, **attributes: Any) -> Launch:
        """The function that runs a family on tile values and gives a tile of this kind."""
        raise NotImplementedError

    def multiply(
        self,
        a: Any,
        b: Any,
        start: Any,
        first: bool,
        last: bool,
        slot: int,
        unit: int,
        line: int,
    ) -> Any:
        """One product of a chain in accumulator `slot`; the last one gives the tile."""
        raise NotImplementedError

    def lazily(self, compute: Callable[[], Any]) -> Cell:
        """A tile computed now, or when it is first used."""
        raise NotImplementedError

    def use(self, cell: Cell) -> Any:
        """The tile's value at this place of the program."""
        raise NotImplementedError

    def read(self, target: Tensor, index: list[Any], kind: str) -> Any:
        raise NotImplementedError

    def write(self, target: Tensor, index: list[Any], kind: str, value: Any) -> None:
        raise NotImplementedError

    def constant_tensor(
        self, name: str, array: Callable[[], np.ndarray], order: str = "tiles"
    ) -> Tensor:
        """A tensor of the kernel's own in DRAM."""
        raise NotImplementedError

    def scratch_tensor(
        self, kind: TensorSpec, shape: tuple[int, ...] | None = None, on_chip: bool = False
    ) -> Tensor:
        """A tensor of the kernel's own that it writes and reads, in DRAM or VMEM; a shape for sizes
        that are names."""
        raise NotImplementedError

    def blocks(
        self, extent: int, size: int, unroll: bool | int, padded: bool = False
    ) -> Iterator[Block]:
        raise NotImplementedError

    def blocks_before(self, block: Block, size: int) -> Iterator[Block]:
        """Blocks up to one that follows a loop of the program."""
        raise NotImplementedError

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        raise NotImplementedError

    def divided(self, index: Single, count: int) -> tuple[tuple[int, Terms], tuple[int, Terms]]:
        """An index that follows loops of the program, divided by a number: quotient and rest."""
        raise NotImplementedError

    def scope(self) -> Any:
        return None

    def open_loops(self) -> list[int]:
        return []

    def carry(self, carrier: Carrier) -> None:
        """Let the loops around carry it."""

    def numpy(self, tiles: TileArray) -> np.ndarray:
        raise self.error(
            "TW1628",
            "tiles have no numbers while a kernel is traced",
            "run kernel.eager(...) to look at values",
        )

    def shown(self, tiles: TileArray) -> str | None:
        return None

    # --- masks ---

    def edge(self, valid: int, inner: float, outer: float, axis: int) -> Any:
        """A tile with `inner` up to `valid` along the axis and `outer` beyond it."""
        line = np.where(np.arange(self.side) < valid, inner, outer)
        ends = f"{inner:g}_{outer:g}".replace("-", "minus").replace("+", "").replace(".", "p")
        name = f"edge_{axis}_{valid}_{ends}"
        if axis == 1:
            tensor = self.constant_tensor(name, lambda: line)
            return self.read(tensor, [0], "row")
        tensor = self.constant_tensor(name, lambda: np.repeat(line[:, None], self.side, axis=1))
        return self.read(tensor, [0, 0], "full")
