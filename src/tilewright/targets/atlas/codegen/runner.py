"""Eager runs: the author's function on numpy arrays, with the machine's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.atlas.codegen.eager_tiles import EagerTiles
from tilewright.tile.arrays import Cell, TileArray
from tilewright.tile.backend import Backend, Launch
from tilewright.tile.blocks import Block, Single
from tilewright.tile.bodies import BODIES
from tilewright.tile.launches import launch_body
from tilewright.tile.layouts import NUMPY, SIDE, Layout
from tilewright.tile.tensors import Tensor
from tilewright.tile.types import TensorSpec

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.tile_machine import AtlasTileMachine


class Runner(Backend):
    """Computes at once. A tile is a uint16 (bf16) or uint8 (fp8) array of bit patterns."""

    def __init__(self, machine: AtlasTileMachine, code: CodeType) -> None:
        super().__init__(machine, code)
        self.tiles = EagerTiles(machine.profile)
        self.arrays: dict[str, np.ndarray] = {}  # padded, bit patterns
        self.accumulators: dict[int, Any] = {}
        self.constants: dict[str, Tensor] = {}
        self.scratches = 0

    def bind(self, tensor: Tensor, array: np.ndarray | None) -> None:
        """Give a tensor its numbers; None: zeros."""
        padded = np.zeros(tensor.layout.padded, np.uint16 if tensor.dtype == "bf16" else np.uint8)
        if array is not None:
            codes = tensor.layout.arranged(array)
            padded[tuple(slice(n) for n in codes.shape)] = codes
        self.arrays[tensor.name] = padded

    def result(self, tensor: Tensor) -> np.ndarray:
        codes = self.arrays[tensor.name][tuple(slice(n) for n in tensor.shape)]
        return np.ascontiguousarray(tensor.layout.restored(codes)).view(NUMPY[tensor.dtype])

    def launcher(self, family: str, dtype: str, kind: str, **attributes: Any) -> Launch:
        body = launch_body(family, {**attributes, "dtype": dtype})
        return lambda *inputs: body(self.tiles, *inputs)

    def multiply(
        self, a: Any, b: Any, start: Any, first: bool, last: bool, slot: int, unit: int, line: int
    ) -> Any:
        if first:
            body = launch_body("matmul_acc_first", {"unit": unit})
            inputs = (a, b) if start is None else (a, b, start)
            self.accumulators[slot] = body(self.tiles, *inputs)
        else:
            acc = self.accumulators[slot]
            self.accumulators[slot] = BODIES["matmul_acc_mid"](self.tiles, acc, a, b)
        return BODIES["matmul_pop"](self.tiles, self.accumulators[slot]) if last else None

    def lazily(self, compute: Callable[[], Any]) -> Cell:
        return Cell(compute())

    def use(self, cell: Cell) -> Any:
        return cell.value

    def read(self, target: Tensor, index: list[Any], kind: str) -> np.ndarray:
        array = self.arrays[target.name]
        place = [i.start if isinstance(i, Single) else i for i in index]
        if kind == "row":
            column = place[-1]
            tile = np.zeros((SIDE, SIDE), array.dtype)
            tile[0] = array[tuple(place[:-1])][column : column + SIDE]
            return self.tiles.columns("sum", tile)
        r, c = place[-2:]
        if target.layout.order == "halves":
            return np.tile(array[tuple(place[:-2])][r : r + SIDE], (1, 2))
        tile = array[tuple(place[:-2])][r : r + SIDE, c : c + SIDE].copy()
        # A column comes in the first column of its tiles; what a kernel wrote is in all of them.
        return self.tiles.rows("sum", tile) if kind == "column" and not target.output else tile

    def write(self, target: Tensor, index: list[Any], kind: str, value: np.ndarray) -> None:
        array = self.arrays[target.name]
        place = [i.start if isinstance(i, Single) else i for i in index]
        if kind == "row":
            array[tuple(place[:-1])][place[-1] : place[-1] + SIDE] = value[0]
            return
        r, c = place[-2:]
        if kind == "half":
            value = value[:, : SIDE // 2]
        array[tuple(place[:-2])][r : r + SIDE, c : c + SIDE] = value

    def constant_tensor(
        self, name: str, array: Callable[[], np.ndarray], order: str = "tiles"
    ) -> Tensor:
        if name not in self.constants:
            numbers = array()
            spec = TensorSpec("bf16", numbers.shape, order)
            tensor = Tensor(self, name, spec, Layout(numbers.shape, "bf16", order))
            self.constants[name] = tensor
            self.bind(tensor, numbers)
        return self.constants[name]

    def scratch_tensor(
        self, kind: TensorSpec, shape: tuple[int, ...] | None = None, on_chip: bool = False
    ) -> Tensor:
        shape = shape or tuple(int(n) for n in kind.sizes)
        self.scratches += 1
        name = f"scratch_{self.scratches}"
        dtype = self.machine.formats.of(name, kind.dtype)
        layout = Layout(shape, dtype, kind.order, kind.arrangement)
        tensor = Tensor(self, name, kind, layout, output=True, on_chip=on_chip)
        self.bind(tensor, None)
        return tensor

    def blocks(
        self, extent: int, size: int, unroll: bool | int, padded: bool = False
    ) -> Iterator[Block]:
        tiles, step = -(-extent // SIDE), size // SIDE
        for start in range(0, tiles, step):
            yield Block(start, min(step, tiles - start), extent)

    def indices(self, extent: int, unroll: bool | int) -> Iterator[Single]:
        for k in range(extent):
            yield Single(k, (), k)

    def numpy(self, tiles: TileArray) -> np.ndarray:
        joined = np.block([[self.use(cell) for cell in row] for row in tiles.cells])
        rows, columns = tiles.shape
        return np.ascontiguousarray(joined[:rows, :columns]).view(NUMPY[tiles.dtype])

    def shown(self, tiles: TileArray) -> str | None:
        return str(self.numpy(tiles).astype(np.float32))
