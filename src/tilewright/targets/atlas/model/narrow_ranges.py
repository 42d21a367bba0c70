"""Scales of fp8 values: for the largest one seen, or for less where that is more precise.

fp8 has four binary digits whatever the scale, so a smaller range does not make steps smaller: it
keeps more of the small values from falling below the smallest number, 2^-9. That matters where a
few values are hundreds of times larger than the rest. What is then beyond 448 saturates.

Sums of products pass through fp16, which ends at 65504 and then is infinite. A scale is therefore
only as small as sums allow, whatever the weights are. Rows of a norm have a length that no input
changes, which bounds their sums for good; of other rows, those that were seen may become eight
times as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tilewright.dialects.xdsl_api import SSAValue
from tilewright.model.capture import Graph, shape_of
from tilewright.model.quantise_products import transposes
from tilewright.model.ranges import NOTHING, Histogram, RangeRule
from tilewright.reference.rounding import column_peaks

# fp8 values are scaled to at most this. Sums of products pass through fp16 in the matrix units,
# which ends at 65504: 16 leaves room for thousands of terms, and 28 times the largest value seen
# in calibration still fits fp8.
TARGET = 16.0
LARGEST = 448.0
END = 65504.0  # of fp16
MARGIN = 8.0  # by which rows of other inputs may have larger sums than those that were seen
OCTAVES = 12  # by which a scale may be smaller


def power_of_two(x: float) -> float:
    """The smallest power of two not below x; 1 for 0."""
    return 2.0 ** math.ceil(math.log2(x)) if x > 0 and math.isfinite(x) else 1.0


@dataclass(eq=False)
class NarrowRange:
    """What was seen of a value that only products with weights read.

    axis: what the products sum along; taps: over how many places of it, as a convolution does.
    row: the largest sum of magnitudes that a product could run over, as far as was seen, with a
    margin; or `bound`, if nothing can make it larger.
    """

    rule: RangeRule
    axis: int = -1
    taps: int = 1
    bound: float | None = None
    row: float = 0.0
    seen: Histogram = field(default_factory=Histogram, repr=False)
    chosen: dict[tuple[float, ...], float] = field(default_factory=dict, repr=False)

    def observe(self, numbers: np.ndarray) -> None:
        sizes = np.abs(numbers.astype(np.float64))
        self.seen.add(sizes[np.isfinite(sizes)])
        if self.bound is not None:
            self.row = self.bound
        else:
            sums = float(sizes.sum(self.axis).max(initial=0.0))
            self.row = max(self.row, sums * self.taps * MARGIN)


def narrower_of(
    graph: Graph, value: SSAValue, rule: RangeRule, kept: Callable[[str], bool], plain: bool
) -> NarrowRange | None:
    """How a value may saturate: only if nothing but products with weights reads it, none of which
    is in a layer that is kept more precise.

    plain: the value is stored without the weight and bias of the norm that makes it.
    """
    found: set[tuple[int, int]] = set()
    for user in graph.users.get(value, ()):
        if kept(user.layer) or user.operands.count(value) != 1:
            return None
        if user.family == "matmul" and user.inputs["lhs"] is value:
            if user.inputs["rhs"] not in graph.constants or transposes(user)[0]:
                return None
            found.add((-1, 1))
        elif user.family == "conv2d" and user.inputs["x"] is value:
            weight = user.inputs["w"]
            if graph.known(weight) is None:
                return None
            last = user.call.string("layout") == "nhwc_hwcf"
            window = shape_of(weight)[:2] if last else shape_of(weight)[2:]
            found.add((-1 if last else 1, math.prod(window)))
        else:
            return None
    if len({axis for axis, _ in found}) != 1:
        return None
    return NarrowRange(rule, *max(found), _bound_of_norm(graph, value, plain))


def _bound_of_norm(graph: Graph, value: SSAValue, plain: bool) -> float | None:
    """What the magnitudes in a row of a norm add up to at most: its length is the root of how many
    there are, and no vector of a length has a larger sum with weights than the one along them."""
    norm = graph.node_of(value, "rms_norm", "layer_norm")
    if norm is None or norm.call.axis(len(shape_of(value))) != len(shape_of(value)) - 1:
        return None
    count = shape_of(value)[-1]
    rows = {
        role: graph.constants.get(norm.inputs[role])
        for role in ("weight", "bias")
        if role in norm.inputs
    }
    if plain or not rows:
        return float(count)
    if any(row is None for row in rows.values()):
        return None
    known = {role: np.asarray(row, np.float64) for role, row in rows.items()}
    length = np.linalg.norm(known["weight"]) if "weight" in known else math.sqrt(count)
    return float(math.sqrt(count) * length + np.abs(known.get("bias", np.zeros(1))).sum())


def narrowed(widest: float, ranges: Sequence[NarrowRange]) -> float:
    """The scale that values share for which these ranges were seen; `widest` is the one for the
    largest of them."""
    first, row = ranges[0], max(one.row for one in ranges)
    total = float(sum(one.seen.counts.sum() for one in ranges))
    key = (widest, row, total, *(float(id(one)) for one in ranges))
    if key not in first.chosen:
        seen = Histogram()
        for one in ranges:
            seen.merge(one.seen)
        first.chosen[key] = _narrowed(widest, seen, row, first.rule)
    return first.chosen[key]


def _narrowed(widest: float, seen: Histogram, row: float, rule: RangeRule) -> float:
    if not np.isfinite(row) or not seen.bins.size or seen.numbers()[-1] < NOTHING:
        return widest
    least = power_of_two(row * TARGET / END)
    if rule.kind == "percentile":
        found = power_of_two(seen.magnitude(rule.percentile) / TARGET)
    else:
        scales = [widest / 2.0**k for k in range(OCTAVES)]
        found = min(scales, key=lambda s: seen.squared_error(lambda x: _rounded(x, s)))
    return min(widest, max(least, found))


def _rounded(numbers: np.ndarray, scale: float | np.ndarray) -> np.ndarray:
    """Numbers as fp8 multiples of a scale."""
    inside = np.clip(numbers / scale, -LARGEST, LARGEST)
    return inside.astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale


def channel_scales(weight: np.ndarray, rule: RangeRule) -> np.ndarray:
    """One scale per column, exact in bf16, so that the largest weight of it becomes TARGET; by the
    rule of the least squared error, something from half of it up. Columns of which fp8 has every
    weight, as multiples of a power of two, have that: weights in narrow formats are not rounded again."""
    kept = weight.ndim > 2
    if weight.dtype == np.float32 and not kept:
        largest = column_peaks(weight)
    else:
        largest = np.maximum(weight.max(-2, keepdims=kept), -weight.min(-2, keepdims=kept))
    powers, whole = _exact_powers(weight, largest, kept)
    return np.where(whole, powers, _rounding_scales(weight, largest, rule))


def _exact_powers(
    weight: np.ndarray, largest: np.ndarray, kept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The power of two for every column with which its largest weight is TARGET at most, and where fp8
    has all of its weights then."""
    safe = np.where((largest > 0) & np.isfinite(largest), largest, TARGET).astype(np.float64)
    powers = np.exp2(np.ceil(np.log2(safe / TARGET))).astype(np.float32)
    whole = np.isfinite(largest)
    # What has more digits than fp8 is found in the first rows of nearly all weights.
    rows = weight.shape[-2]
    for first, end in ((0, min(rows, 4)), (4, rows)):
        if first < end and whole.any():
            part = weight[..., first:end, :].astype(np.float32)
            codes = part / (powers if kept else powers[None])
            same = codes.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) == codes
            whole = whole & same.all(-2, keepdims=kept)
    return powers, whole


def _rounding_scales(weight: np.ndarray, largest: np.ndarray, rule: RangeRule) -> np.ndarray:
    """Scales of columns whose weights are rounded."""
    kept = weight.ndim > 2
    exact = np.where(largest > 0, largest / TARGET, 1.0).astype(np.float32)
    best = _up_to_bf16(exact)
    if rule.kind != "mse":
        return best

    def error(scales: np.ndarray) -> np.ndarray:
        spread = scales if kept else scales[None]
        wide = weight.astype(np.float64)
        return ((_rounded(wide, spread) - wide) ** 2).sum(-2, keepdims=kept)

    least = error(best)
    for step in range(1, 8):
        other = _up_to_bf16((exact * 2.0 ** (step / 8)).astype(np.float32))
        found = error(other)
        best, least = np.where(found < least, other, best), np.minimum(found, least)
    return best


def _up_to_bf16(numbers: np.ndarray) -> np.ndarray:
    """Positive float32 numbers, or the next larger ones that bf16 has."""
    bits = (numbers.view(np.uint32) + 0xFFFF) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)
