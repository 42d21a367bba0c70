"""Kernel calls before they have places and numbers: what lowering makes of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.targets.atlas.artifact.atlas_artifact import Kind
from tilewright.tile.layouts import Layout, to_codes

# fp8 values are scaled to at most this. Sums of products pass through fp16 in the matrix units,
# which ends at 65504: 16 leaves room for thousands of terms, and 28 times the largest value seen
# in calibration still fits fp8.
TARGET = 16.0
LARGEST = 448.0


@dataclass(eq=False)
class RangeObserver:
    """The largest absolute value of a tensor, seen in calibration.

    Tensors of layers that share code share their magnitude, so that constants in the code agree.
    """

    value: SSAValue
    function: Callable[[np.ndarray], np.ndarray] | None = None  # of what is observed, applied first
    amax: float = 0.0
    peers: list[RangeObserver] = field(default_factory=list)
    fixed: bool = False  # the numbers are fp8 as they are: multiples of 1

    def observe(self, array: np.ndarray) -> None:
        numbers = np.asarray(array, np.float32)
        if self.function is not None:
            numbers = self.function(numbers)
        if numbers.size:
            self.amax = max(self.amax, float(np.nanmax(np.abs(numbers))))

    @property
    def largest(self) -> float:
        if _reads is not None:
            _reads.append(self)
        return max([self.amax, *(peer.amax for peer in self.peers)])

    def scale(self) -> float:
        """What fp8 values are multiples of: a power of two, so scaling rounds nothing."""
        if self.fixed:
            return 1.0
        return power_of_two(self.largest / TARGET)


_reads: list[RangeObserver] | None = None  # observers read while somebody wants to know


def share_range(observers: Iterable[RangeObserver]) -> None:
    """Let these, and all they shared with before, observe the largest of their ranges."""
    every = dict.fromkeys(peer for m in observers for peer in (m, *m.peers) if not peer.fixed)
    for magnitude in every:
        magnitude.peers = list(every)


def power_of_two(x: float) -> float:
    """The smallest power of two not below x; 1 for 0."""
    return 2.0 ** math.ceil(math.log2(x)) if x > 0 and math.isfinite(x) else 1.0


def channel_scales(weight: np.ndarray) -> np.ndarray:
    """One scale per column, exact in bf16, so that the largest weight of it becomes TARGET."""
    largest = np.abs(weight).max(axis=-2, keepdims=weight.ndim > 2)
    exact = np.where(largest > 0, largest / TARGET, 1.0).astype(np.float32)
    bits = (exact.view(np.uint32) + 0xFFFF) & 0xFFFF0000  # up to the next bf16
    return bits.astype(np.uint32).view(np.float32)


@dataclass(eq=False)
class Tensor:
    """A tensor of the device program."""

    name: str
    layout: Layout
    kind: Kind
    content: Callable[[], np.ndarray] | None = (
        None  # of weights and constants, once scales are known
    )
    value: SSAValue | None = None  # what it holds a form of
    scale: RangeObserver | None = None  # of fp8 tensors
    # What the numbers in it say about the value, where that is more than a factor of `scale`.
    undo: Callable[[np.ndarray], np.ndarray] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {'x'.join(map(str, self.layout.shape))} {self.layout.dtype}>"


def content_codes(tensor: Tensor) -> np.ndarray:
    """The bit patterns of a weight or constant, in the shape in which it is given."""
    assert tensor.content is not None
    array = np.asarray(tensor.content(), np.float32).reshape(tensor.layout.given)
    return to_codes(array, tensor.layout.dtype)


@dataclass(eq=False)
class Call:
    """A kernel on tensors."""

    name: str
    kernel: str
    operands: dict[str, Tensor]
    output: Tensor
    options: dict[str, Any] = field(default_factory=dict)
    deferred: dict[str, Callable[[], float]] = field(default_factory=dict)  # numbers of scales
    sources: tuple[str, ...] = ()
    macs: int = 0
    value: SSAValue | None = None  # the model's value the output stands for
    noted: tuple[RangeObserver, ...] = ()  # more that rounds have to agree about

    def all_options(self) -> dict[str, Any]:
        return {**self.options, **{name: number() for name, number in self.deferred.items()}}

    def observers(self) -> list[RangeObserver]:
        """What the numbers in the code are made from, and the scale of the result."""
        global _reads
        _reads = []
        try:
            self.all_options()
            found = [*self.noted, *_reads]
        finally:
            _reads = None
        return found if self.output.scale is None else [*found, self.output.scale]

    @property
    def tensors(self) -> dict[str, Tensor]:
        return {**self.operands, "out": self.output}


class Unsupported(Exception):
    """Why an operation is not for the device."""
