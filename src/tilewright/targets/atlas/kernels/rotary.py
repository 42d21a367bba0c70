"""Rotary position embedding for heads of any even width.

Both halves of a head are stored as tiles of their own, each filled up to a multiple of 32 with zeros
(a width of 40 as [low 20, zeros, high 20, zeros]), so that the two numbers of a pair lie at the same
place of two tiles. Widths that are multiples of 64 are stored that way anyhow: `elementwise.rope`.
A projection in front of it writes this layout by itself when its columns are ordered so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tilewright.tile as tw
from tilewright.errors import TilewrightError
from tilewright.targets.atlas.kernels.images import round_up
from tilewright.tile.kernel import Kernel, kernel_of


@dataclass(frozen=True)
class SplitHead:
    """[rows, width], stored with both halves of the columns in whole tiles."""

    rows: int
    width: int

    def __post_init__(self) -> None:
        if self.width < 2 or self.width % 2 or self.rows < 1:
            raise TilewrightError(
                "TW1677", f"a head of {self.rows}x{self.width}", hint="the width is an even number"
            )

    @property
    def half(self) -> int:
        """Stored columns of one half."""
        return round_up(self.width // 2)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.rows, self.width)

    @property
    def stored(self) -> tuple[int, ...]:
        return (self.rows, 2 * self.half)

    def _columns(self) -> np.ndarray:
        pair = np.arange(self.width // 2)
        return np.concatenate([pair, self.half + pair])

    def arranged(self, codes: np.ndarray) -> np.ndarray:
        result = np.zeros(self.stored, codes.dtype)
        result[:, self._columns()] = codes
        return result

    def restored(self, codes: np.ndarray) -> np.ndarray:
        return codes[:, self._columns()]


def rope_split(rows: int, width: int) -> Kernel:
    """x * cos + (-high, low) * sin for x, cosines and sines of [rows, width]."""
    head = SplitHead(rows, width)
    spec = tw.bf16[head.stored].arranged(head)

    def run(x: Any, cosines: Any, sines: Any, out: Any) -> None:
        """Rotate each pair (x[i], x[i + D/2])."""
        low, high = tw.steps(2 * head.half, head.half)
        for m in tw.grid(rows):
            out[m, low] = x[m, low] * cosines[m, low] - x[m, high] * sines[m, low]
            out[m, high] = x[m, high] * cosines[m, high] + x[m, low] * sines[m, high]

    return kernel_of("rope_split", {name: spec for name in ("x", "cosines", "sines", "out")}, run)
