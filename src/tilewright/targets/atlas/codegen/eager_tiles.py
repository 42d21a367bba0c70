"""The tile operations on numpy arrays, with the arithmetic of one profile.

The same interface as `Tiles`, so one kernel body both compiles and runs eagerly. bf16 tiles
are uint16 patterns [32, 32], fp8 tiles uint8 patterns [32, 32].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.reference import arithmetic as arith
from tilewright.targets.atlas.profile import Profile

HALF = 16


@dataclass(eq=False)
class EagerAccumulator:
    unit: int
    value: np.ndarray | None = None


class EagerTiles:
    """Computes tile operations at once."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile

    def constant(self, value: float) -> np.ndarray:
        pattern = arith.f64_to_bf16(np.array([float(value)]))[0]
        return np.full((32, 32), pattern, np.uint16)

    def pinned_ones(self) -> np.ndarray:
        return self.pack(self.constant(1.0))

    def unary(self, name: str, a: np.ndarray) -> np.ndarray:
        if name == "relu":
            return arith.relu(a)
        return arith.unary_table(f"v{name}")[a]

    def add(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return arith.add(a, b)

    def sub(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return arith.subtract(a, b)

    def mul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return arith.multiply(a, b)

    def maximum(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return arith.extreme(a, b, larger=True)

    def minimum(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return arith.extreme(a, b, larger=False)

    def square(self, a: np.ndarray) -> np.ndarray:
        return arith.multiply(a, a)

    def cube(self, a: np.ndarray) -> np.ndarray:
        return arith.multiply(arith.multiply(a, a), a)

    def rows(self, kind: str, a: np.ndarray) -> np.ndarray:
        if self.profile.tile_registers == 2:
            return self._row(kind, a)
        left, right = self._row(kind, a[:, :HALF]), self._row(kind, a[:, HALF:])
        combine = {"sum": self.add, "max": self.maximum, "min": self.minimum}[kind]
        half = combine(left, right)
        return np.concatenate([half, half], axis=1)

    def _row(self, kind: str, a: np.ndarray) -> np.ndarray:
        if kind == "sum":
            return arith.row_sum(a, self.profile.row_sum)
        return arith.reduce_extreme(a, 1, larger=kind == "max")

    def columns(self, kind: str, a: np.ndarray) -> np.ndarray:
        if kind == "sum":
            return arith.column_sum(a, self.profile.column_sum)
        return arith.reduce_extreme(a, 0, larger=kind == "max")

    def move(self, a: np.ndarray) -> np.ndarray:
        return a

    def pack(self, a: np.ndarray, scale: int | None = None) -> np.ndarray:
        return arith.pack(a, self.profile.unit_scale if scale is None else scale)

    def unpack(self, a: np.ndarray, scale: int | None = None) -> np.ndarray:
        return arith.unpack(a, self.profile.unit_scale if scale is None else scale)

    def transpose(self, a: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(a.T)

    def weight(self, b: np.ndarray, unit: int) -> np.ndarray:
        return b

    def accumulator(self, unit: int = 1) -> EagerAccumulator:
        return EagerAccumulator(unit)

    def multiply(
        self, acc: EagerAccumulator, a: np.ndarray, weight: np.ndarray, first: bool
    ) -> None:
        acc.value = arith.matmul(a, weight, None if first else acc.value)

    def preset(self, acc: EagerAccumulator, a: np.ndarray) -> None:
        acc.value = a if a.dtype == np.uint16 else arith.f32_to_bf16(arith.fp8_to_f32(a))

    def pop(self, acc: EagerAccumulator) -> np.ndarray:
        assert acc.value is not None
        return acc.value
