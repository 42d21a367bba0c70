"""Eager runs: the author's function on numpy arrays, with the machine's arithmetic."""

from __future__ import annotations

from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.targets.atlas.codegen.eager_tiles import EagerTiles
from tilewright.tile.arrays import TileArray
from tilewright.tile.backend import Launch
from tilewright.tile.blocks import Single
from tilewright.tile.bodies import BODIES
from tilewright.tile.eager import EagerBackend
from tilewright.tile.launches import launch_body
from tilewright.tile.layouts import NUMPY, SIDE
from tilewright.tile.tensors import Tensor

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.tile_machine import AtlasTileMachine


class Runner(EagerBackend):
    """Computes at once. Tiles and arrays hold bit patterns: uint16 for bf16, uint8 for fp8."""

    def __init__(self, machine: AtlasTileMachine, code: CodeType) -> None:
        super().__init__(machine, code)
        self.tiles = EagerTiles(machine.profile)
        self.accumulators: dict[int, Any] = {}

    def bind(self, tensor: Tensor, array: np.ndarray | None) -> None:
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

    def numpy(self, tiles: TileArray) -> np.ndarray:
        joined = np.block([[self.use(cell) for cell in row] for row in tiles.cells])
        rows, columns = tiles.shape
        return np.ascontiguousarray(joined[:rows, :columns]).view(NUMPY[tiles.dtype])

    def shown(self, tiles: TileArray) -> str | None:
        return str(self.numpy(tiles).astype(np.float32))
