"""Rotary position embedding that is not behind a projection.

For any even width both halves of a head are stored as tiles of their own, each filled up to a multiple of 32 with zeros
(a width of 40 as [low 20, zeros, high 20, zeros]), so that the two numbers of a pair lie at the same
place of two tiles. Widths that are multiples of 64 are stored that way anyhow: `rope`, `rope_angles`.
A projection in front of it writes this layout by itself when its columns are ordered so.
"""

# pyright: reportInvalidTypeForm=false, reportUndefinedVariable=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# pyright: reportGeneralTypeIssues=false

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


@tw.kernel
def rope(
    x: tw.bf16["M", "D"], cosines: tw.bf16["M", "D"], sines: tw.bf16["M", "D"],
    out: tw.bf16["M", "D"],
):  # fmt: skip
    """rotate each pair (x[i], x[i + D/2]) by the angle whose cosine and sine the tables hold"""
    low, high = tw.steps(out.D, out.D // 2)
    for m in tw.grid(out.M):
        out[m, low] = x[m, low] * cosines[m, low] - x[m, high] * sines[m, low]
        out[m, high] = x[m, high] * cosines[m, high] + x[m, low] * sines[m, high]


@tw.kernel
def rope_angles(x: tw.bf16["M", "D"], angles: tw.bf16["M", "H"], out: tw.bf16["M", "D"]):
    """rope with cosines and sines computed from the angles of the D/2 pairs"""
    low, high = tw.steps(out.D, out.D // 2)
    for m in tw.grid(out.M):
        cosines, sines = tw.cos(angles[m, :]), tw.sin(angles[m, :])
        out[m, low] = x[m, low] * cosines - x[m, high] * sines
        out[m, high] = x[m, high] * cosines + x[m, low] * sines


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
