"""Eager runs: what every machine's have in common. What is computed is there at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np

from tilewright.tile.arrays import Cell
from tilewright.tile.backend import Backend
from tilewright.tile.blocks import Block, Single
from tilewright.tile.layouts import Layout
from tilewright.tile.machine import TileMachine
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec


class EagerBackend(Backend):
    """Runs the author's function step by step on arrays of padded tensors."""

    def __init__(self, machine: TileMachine, code: CodeType) -> None:
        super().__init__(machine, code)
        self.arrays: dict[str, np.ndarray] = {}  # padded
        self.constants: dict[str, Tensor] = {}
        self.scratches = 0

    def bind(self, tensor: Tensor, array: np.ndarray | None) -> None:
        """Give a tensor its numbers; None: zeros."""
        raise NotImplementedError

    def lazily(self, compute: Callable[[], Any]) -> Cell:
        return Cell(compute())

    def use(self, cell: Cell) -> Any:
        return cell.value

    def constant_tensor(
        self, name: str, array: Callable[[], np.ndarray], order: str = "tiles"
    ) -> Tensor:
        if name not in self.constants:
            numbers = array()
            spec = TensorSpec(self.value, numbers.shape, order)
            layout = Layout(numbers.shape, self.value, order, side=self.side)
            self.constants[name] = Tensor(self, name, spec, layout)
            self.bind(self.constants[name], numbers)
        return self.constants[name]

    def scratch_tensor(
        self, kind: TensorSpec, shape: tuple[int, ...] | None = None, on_chip: bool = False
    ) -> Tensor:
        shape = shape or tuple(int(n) for n in kind.sizes)
        self.scratches += 1
        name = f"scratch_{self.scratches}"
        dtype = self.machine.formats.of(name, kind.dtype)
        layout = Layout(shape, dtype, kind.order, kind.arrangement, self.side)
        tensor = Tensor(self, name, kind, layout, output=True, on_chip=on_chip)
        self.bind(tensor, None)
        return tensor

    def blocks(
        self, extent: int, size: int, unroll: bool | int, padded: bool = False
    ) -> Iterator[Block]:
        tiles, count = -(-extent // self.side), size // self.side
        for start in range(0, tiles, count):
            yield Block(start, min(count, tiles - start), extent, side=self.side)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        for k in range(extent):
            yield Single(k, (), k)
