"""A network as the VPU takes it: calls on typed tensors, with scales beside i8.

This is what the encoded level says, in the formats of this machine: i8 with a scale per tensor
(weights: per output channel), f16 and f32. Images are NHWC, filters [OC, KY, KX, IC], the second
operand of a product [N, K].

| family | operands | attributes |
|---|---|---|
| linear | x [.., K], weight [N, K], [bias], [residual] | relu, clamp, transposed |
| matmul | x [.., M, K], y [.., N, K] | factor |
| convolution | x, weight, [bias], [residual] | strides, padding, dilations, groups, relu, clamp |
| pool | x | function, kernel, strides, padding, count_padding |
| attention | q [S, H·E], k [T, G·E], v [G·Ev, T], [mask] | heads, groups, scale, causal, valid_keys, path |
| rope | x [.., heads·E], cos, sin [.., E/2] | width, interleaved |
| softmax, rms_norm, layer_norm, reduce | x [.., C], [weight], [bias] | epsilon; function |
| unary, binary, cast, scale, select, silu_gate | broadcast as numpy does | function, factor |
| reshape, transpose, slice, concat, pad | x, or parts | permutation; offsets, sizes, steps; axis |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.operations.numbers import DTYPES

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor; `scale` is what one step of i8 is worth, per output channel for weights."""

    name: str
    shape: Shape
    dtype: str
    scale: float | np.ndarray | None = None
    data: np.ndarray | None = None  # of a constant

    @property
    def rows(self) -> int:
        """How many rows of the last axis there are."""
        return prod(self.shape[:-1])

    @property
    def width(self) -> int:
        return self.shape[-1] if self.shape else 1

    @property
    def size(self) -> int:
        return DTYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class Call:
    """One operation: operands by role, one result."""

    name: str
    family: str
    operands: Mapping[str, str]
    result: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()  # operations of the model it stands for


@dataclass(slots=True)
class Network:
    """Values and calls in program order."""

    values: dict[str, Value] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)

    def value(
        self, name: str, shape: Shape, dtype: str, scale: float | np.ndarray | None = None
    ) -> str:
        """Declare a tensor that some call makes."""
        return self._declare(Value(name, tuple(shape), dtype, scale))

    def input(self, name: str, shape: Shape, dtype: str, scale: float | None = None) -> str:
        self.inputs.append(self.value(name, shape, dtype, scale))
        return name

    def constant(self, name: str, data: np.ndarray, scale: float | np.ndarray | None = None) -> str:
        kinds = {dtype: label for label, dtype in DTYPES.items()}
        if data.dtype not in kinds:
            raise TilewrightError(
                "TW7082", f"constant {name!r} has no format of the VPU: {data.dtype}"
            )
        return self._declare(Value(name, data.shape, kinds[data.dtype], scale, data))

    def call(
        self,
        family: str,
        result: str,
        operands: Mapping[str, str],
        name: str | None = None,
        sources: tuple[str, ...] = (),
        **attributes: Any,
    ) -> str:
        for role, operand in operands.items():
            if operand not in self.values:
                raise TilewrightError(
                    "TW7082", f"{family}: {role} is {operand!r}, which is no value"
                )
        self.calls.append(Call(name or result, family, dict(operands), result, attributes, sources))
        return result

    def _declare(self, value: Value) -> str:
        if value.name in self.values:
            raise TilewrightError("TW7082", f"two values are called {value.name!r}")
        if any(extent < 1 for extent in value.shape):
            raise TilewrightError("TW7082", f"{value.name!r} has no elements: {value.shape}")
        self.values[value.name] = value
        return value.name
