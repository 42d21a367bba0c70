"""In which numbers a machine computes an operation: what it says, and what scales follow.

A machine gives every operation one of three formats:

    Floats("f16")           operands and result in a float type
    Codes()                 8-bit codes in, 8-bit codes out
    Product("i8", …)        a product with constant weights: codes in, exact 32-bit sums, rescaled
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.dialects.encodings import ScaleAttr
from tilewright.model.capture import Graph, Node
from tilewright.model.ranges import MAXIMUM, Range, RangeRule, channel_peaks


@dataclass(frozen=True)
class Floats:
    """Operands and result of one float type; integers and booleans stay as they are.

    wide: the type of a result that is only read as codes, so that it is rounded once.
    """

    element: str = "f32"
    wide: str = ""


@dataclass(frozen=True)
class Codes:
    """8-bit codes throughout, where there is an exact definition for that: movement, bounds,
    maxima, sums of two tensors, means, and functions of one code as tables.

    otherwise: the float type for what has none. tables: whether functions may become tables.
    """

    otherwise: str = "f32"
    tables: bool = False


@dataclass(frozen=True)
class Product:
    """A product of an activation with constant weights.

    weights: i8, with a scale per output channel, or ternary, with one scale.
    activations: codes per "tensor", with a scale from calibration, or per "row" (token), with a
    scale that is computed when it runs.
    result: "codes", "floats", or "auto": codes if nobody reads anything else.
    floats: the float type of results, and of the whole product where the weights are not constant.
    """

    weights: str = "i8"
    activations: str = "tensor"
    result: str = "auto"
    floats: str = "f32"


Format = Floats | Codes | Product
Formats = Callable[[Node, Graph], Format]


@dataclass(frozen=True)
class CodeRules:
    """How a machine's codes are made, for all operations.

    symmetric: no zero points. arithmetic: of rescaling, see `reference/codes.py`.
    method: quantise by multiplying with the reciprocal of a scale, or by dividing.
    """

    symmetric: bool = True
    arithmetic: str = "float"
    method: str = "multiply"


def code_scale(seen: Range, rules: CodeRules) -> ScaleAttr:
    """The scale, and perhaps zero point, of 8-bit codes for a range."""
    low, high = seen.limits(rules.symmetric)
    if rules.symmetric:
        return ScaleAttr.of(_representable(high / 127.0))
    exact = (high - low) / 255.0
    if _representable(exact) == 1.0 and exact != 1.0:
        return ScaleAttr.of(1.0, -128)
    zero = int(np.clip(np.rint(-128.0 - low / exact), -128, 127))
    return ScaleAttr.of(exact, zero)


def _representable(scale: float) -> float:
    """A scale that is a positive float32 number whose reciprocal is one too; 1 for nothing."""
    with np.errstate(over="ignore"):
        rounded = float(np.float32(scale))
    return rounded if 2.0**-120 <= rounded <= 2.0**120 else 1.0


FINE = 2.0**-12  # the largest step of weights that are all 0


@dataclass(frozen=True)
class QuantisedWeights:
    """Codes, their scales (one, or one per channel), and the channel dimension."""

    codes: np.ndarray
    scales: np.ndarray  # float32
    axis: int | None  # None: one scale
    element: str

    def widest_sum(self, axis: int) -> np.ndarray:
        """The sum of magnitudes of the codes of each output channel."""
        moved = np.moveaxis(self.codes, axis, 0).astype(np.int64)
        return np.abs(moved).reshape(moved.shape[0], -1).sum(1)


def quantise_weights(
    weights: np.ndarray,
    axis: int,
    kind: str = "i8",
    per_channel: bool = True,
    rule: RangeRule = MAXIMUM,
) -> QuantisedWeights:
    """Symmetric codes of weights; `axis` is the output channel.

    i8: s = peak / 127, of channels that are 0 the smallest of the others, since biases are whole
    numbers of steps; codes = clip(rint(w / s), -127, 127); the peak is max|w|,
    or less by the rule of the least squared error.
    ternary: s = mean|w| of all, codes = clip(rint(w / s), -1, 1).
    """
    wide = weights.astype(np.float64)
    if kind == "ternary":
        gamma = float(np.float32(np.abs(wide).mean())) if wide.size else 1.0
        scale = np.float32(_representable(gamma))
        codes = np.clip(np.rint(wide / float(scale)), -1, 1).astype(np.int8)
        return QuantisedWeights(codes, np.asarray(scale), None, "i2")
    peak = channel_peaks(wide, axis if per_channel else None, rule)
    scales = np.vectorize(_representable, otypes=[np.float64])(peak / 127.0)
    scales = np.where(peak > 0, scales, scales.min(where=peak > 0, initial=FINE))
    spread = scales
    if per_channel:
        spread = scales.reshape([-1 if d == axis else 1 for d in range(wide.ndim)])
    codes = np.clip(np.rint(wide / spread), -127, 127).astype(np.int8)
    return QuantisedWeights(codes, scales.astype(np.float32), axis if per_channel else None, "i8")
