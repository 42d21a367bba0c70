"""Heads of attention as values: where they come from, and what is stored of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Node
from tilewright.targets.atlas.model.calls import ONE, Factor
from tilewright.targets.atlas.model.head_sources import Columns


@dataclass(frozen=True)
class Source:
    """Where heads [B, H, M, D] come from.

    apart: the heads before the rotation `rope`, which the host has to put side by side if they are
    columns of nothing. columns: the flat value they are cut out of; beside: the same for one that
    is these heads and nothing else. turned: rows and columns of the value are swapped.
    """

    shape: tuple[int, int, int, int]
    apart: SSAValue
    rope: Node | None = None
    columns: Columns | None = None
    beside: Columns | None = None
    turned: bool = False

    @property
    def places(self) -> tuple[int, ...]:
        """Of each column its place in the rotation."""
        return self.columns.places if self.columns is not None else tuple(range(self.shape[3]))


@dataclass(frozen=True)
class FromHeads:
    """The value of heads, from what is stored: column `columns[k]` is in place `places[k]`, times
    the factor; turned: rows and columns are swapped."""

    columns: tuple[int, ...]
    places: tuple[int, ...]
    turned: bool = False
    factor: Factor = ONE
    shape: tuple[int, ...] = ()
    swapped: bool = False  # the value itself has rows and columns swapped

    def __call__(self, numbers: np.ndarray) -> np.ndarray:
        apart = numbers.swapaxes(2, 3) if self.turned else numbers
        natural = np.empty((*apart.shape[:-1], len(self.columns)), apart.dtype)
        natural[..., list(self.columns)] = apart[..., list(self.places)] / self.factor.number()
        natural = natural.swapaxes(2, 3) if self.swapped else natural
        return natural.reshape(self.shape) if self.shape else natural
