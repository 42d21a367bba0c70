"""In which order and in multiples of what the numbers of a port lie in its tensor.

Keys of a cache [1, M, H, D] that a machine wants transposed, each head apart, as multiples of 1/4:

    Encoding(4.0, (1, M, H, D), (0, 2, 3, 1))       the tensor has the shape [1, H, D, M]

Rounding to the tensor's number format is the machine's. A factor is a power of two, so that it rounds
nothing by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Encoding:
    """An array's numbers times `factor`, in the shape `shape`, its dimensions in `order`."""

    factor: float
    shape: tuple[int, ...]
    order: tuple[int, ...]

    @property
    def stored(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return tuple(self.shape[dimension] for dimension in self.order)

    def wrong(self, given: tuple[int, ...]) -> str | None:
        """What is wrong with it for arrays of a shape, in words."""
        if sorted(self.order) != list(range(len(self.shape))):
            return f"order {list(self.order)} of {len(self.shape)} dimensions"
        if min(self.shape, default=1) < 1 or math.prod(self.shape) != math.prod(given):
            return f"shape {list(self.shape)} for an array of {list(given)}"
        if not 0 < self.factor < math.inf or math.frexp(self.factor)[0] != 0.5:
            return f"factor {self.factor}, which is no power of two"
        return None

    def encoded(self, array: np.ndarray) -> np.ndarray:
        """The numbers of an array, as they lie in the tensor."""
        numbers = array.astype(np.float32) * np.float32(self.factor)
        return np.ascontiguousarray(numbers.reshape(self.shape).transpose(self.order))

    def decoded(self, numbers: np.ndarray) -> np.ndarray:
        """The array, in `shape`, of numbers as they lie in the tensor."""
        back = np.argsort(self.order)
        array = numbers.reshape(self.stored).transpose(back).astype(np.float32)
        return np.ascontiguousarray(array / np.float32(self.factor))

    def of_rows(self, dimension: int, count: int) -> Encoding:
        """The encoding of some rows: `count` along a dimension."""
        shape = (*self.shape[:dimension], count, *self.shape[dimension + 1 :])
        return replace(self, shape=shape)

    def to_json(self) -> dict[str, Any]:
        return {"factor": self.factor, "shape": self.shape, "order": self.order}

    @staticmethod
    def of(table: Mapping[str, Any]) -> Encoding:
        """What `to_json` gave."""
        return Encoding(float(table["factor"]), tuple(table["shape"]), tuple(table["order"]))
