"""Eager runs of tile kernels in the arithmetic of the VPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations.numbers import DTYPES
from tilewright.targets.vpu.operations.table import OPERATIONS
from tilewright.targets.vpu.tile_language.launches import Shape, codes_of, launch, multiply
from tilewright.tile.arrays import TileArray
from tilewright.tile.backend import Launch
from tilewright.tile.blocks import Single
from tilewright.tile.eager import EagerBackend
from tilewright.tile.formats import family as family_of
from tilewright.tile.formats import step
from tilewright.tile.layouts import Layout
from tilewright.tile.machine import TileMachine
from tilewright.tile.tensors import Tensor


@dataclass(frozen=True, eq=False)
class Numbers:
    """A tile that has been computed."""

    array: np.ndarray
    dtype: str


class Calculator:
    """Computes operations of the task table at once."""

    def kind(self, tile: Numbers) -> tuple[str, Shape]:
        return tile.dtype, tile.array.shape

    def seen_as(self, tile: Numbers, shape: Shape) -> Numbers:
        return Numbers(tile.array.reshape(shape), tile.dtype)

    def transposed(self, tile: Numbers) -> Numbers:
        return Numbers(np.ascontiguousarray(tile.array.T), tile.dtype)

    def constant(self, array: np.ndarray, dtype: str) -> Numbers:
        return Numbers(array, dtype)

    def operate(
        self, name: str, inputs: Sequence[Numbers], dtype: str, shape: Shape, **options: Any
    ) -> Numbers:
        options["output"] = family_of(dtype)
        (made,) = OPERATIONS[name].function([tile.array for tile in inputs], options)
        if made.shape != shape or made.dtype != DTYPES[family_of(dtype)]:
            raise AssertionError(f"{name} gives {made.dtype} {made.shape}, not {dtype} {shape}")
        return Numbers(made, dtype)


class EagerRun(EagerBackend):
    """Runs the author's function step by step on padded arrays."""

    def __init__(self, machine: TileMachine, code: CodeType) -> None:
        super().__init__(machine, code)
        self.calculator = Calculator()
        self.sums: dict[int, tuple[Numbers, int, Numbers | None]] = {}  # by slot
        side = self.side
        self.shapes = {"full": (side, side), "row": (side,), "column": (side, 1)}
        self.shapes["number"] = self.shapes["column"]

    def bind(self, tensor: Tensor, array: np.ndarray | None) -> None:
        check_layout(tensor.name, tensor.layout)
        self.arrays[tensor.name] = padded(tensor.layout, array)

    def result(self, tensor: Tensor) -> np.ndarray:
        return self.arrays[tensor.name][tuple(slice(n) for n in tensor.shape)].copy()

    def launcher(self, family: str, dtype: str, kind: str, **attributes: Any) -> Launch:
        shape = self.shapes[kind]
        return lambda *inputs: launch(self.calculator, family, attributes, inputs, dtype, shape)

    def multiply(
        self, a: Any, b: Any, start: Any, first: bool, last: bool, slot: int, unit: int, line: int
    ) -> Any:
        sums, count, begun = (None, 0, start) if first else self.sums[slot]
        made = multiply(self.calculator, a, b, self.value, sums, begun, count, last)
        self.sums[slot] = made, count + 1, begun
        return made if last else None

    def _part(self, target: Tensor, index: list[Any], kind: str) -> np.ndarray:
        """The numbers of a tile in its tensor, without copying."""
        place = [i.start if isinstance(i, Single) else i for i in index]
        array, side = self.arrays[target.name], self.side
        if kind == "row":
            return array[tuple(place[:-1])][place[-1] : place[-1] + side]
        r, c = place[-2:]
        across = 1 if kind == "column" else side
        return array[tuple(place[:-2])][r : r + side, c : c + across]

    def read(self, target: Tensor, index: list[Any], kind: str) -> Numbers:
        return Numbers(self._part(target, index, kind).copy(), target.dtype)

    def write(self, target: Tensor, index: list[Any], kind: str, value: Numbers) -> None:
        if value.array.shape == (self.side, 1):
            kind = "column"
        self._part(target, index, kind)[...] = value.array

    def numpy(self, tiles: TileArray) -> np.ndarray:
        joined = np.block([[np.atleast_2d(self.use(c).array) for c in row] for row in tiles.cells])
        rows, columns = tiles.shape
        part = joined[:rows, :columns]
        return part * step(tiles.dtype) if family_of(tiles.dtype) == "i8" else part.copy()

    def shown(self, tiles: TileArray) -> str | None:
        return str(self.numpy(tiles).astype(np.float32))


def check_layout(name: str, layout: Layout) -> None:
    """Tensors lie in whole tiles; what other machines rearrange is refused."""
    if layout.arrangement is not None or layout.order == "halves":
        raise TilewrightError(
            "TW7096",
            f"{name} is rearranged, or stored in halves, which the VPU does not do",
            hint="give it as it is; one number for each row is a tensor [M, 1]",
        )


def padded(layout: Layout, array: np.ndarray | None) -> np.ndarray:
    """An array in the format of a tensor, grown to whole tiles with zeros; None: only zeros."""
    result = np.zeros(layout.padded, DTYPES[family_of(layout.dtype)])
    if array is not None:
        codes = codes_of(array, layout.dtype)
        result[tuple(slice(n) for n in codes.shape)] = codes
    return result
