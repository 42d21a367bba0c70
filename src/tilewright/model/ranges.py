"""Which range of a value its codes cover: all that was seen, a percentile of it, or what errs least.

    max             nothing that was seen is cut off
    percentile:P    what is beyond the P-th percentile of magnitudes (of either end) saturates
    mse             the range in which codes have the least squared error over all that was seen

What was seen is kept as counts by size, in bins that are 256 to the octave: samples can be any
number, in any order, and values of identical layers be put together.

Error codes: TW1711 a rule that is none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tilewright.errors import TilewrightError

KINDS = ("max", "percentile", "mse")
PERCENTILE = 99.99
_SHIFT = 15  # of float32 patterns: what is left are sign, exponent and 8 bits of the fraction
_BINS = 1 << (32 - _SHIFT)
NOTHING = 2.0**-126  # what is smaller counts as 0
_STEPS = 64  # ranges that are tried, 8 to the octave: down to 1/256 of what was seen


@dataclass(frozen=True)
class RangeRule:
    """How ranges follow from what was seen."""

    kind: str = "max"
    percentile: float = PERCENTILE

    @staticmethod
    def parse(text: str) -> RangeRule:
        """max, mse, percentile or percentile:99.9"""
        kind, colon, number = str(text).partition(":")
        try:
            percentile = float(number) if colon else PERCENTILE
        except ValueError:
            percentile = np.nan
        if kind not in KINDS or (colon and kind != "percentile") or not 50 <= percentile <= 100:
            raise TilewrightError(
                "TW1711",
                f"there are no ranges by {text!r}",
                hint="use max, mse, percentile or percentile:P with P from 50 to 100",
            )
        return RangeRule(kind, percentile)

    def __str__(self) -> str:
        return f"{self.kind}:{self.percentile:g}" if self.kind == "percentile" else self.kind


MAXIMUM = RangeRule()


@dataclass
class Histogram:
    """How often numbers of every size were seen."""

    bins: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    counts: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def add(self, numbers: np.ndarray) -> None:
        """Count finite numbers."""
        limit = np.finfo(np.float32).max
        narrow = np.clip(numbers, -limit, limit).astype(np.float32).reshape(-1)
        self._insert(np.bincount(narrow.view(np.uint32) >> _SHIFT, minlength=_BINS))

    def merge(self, other: Histogram) -> None:
        self._insert(np.bincount(other.bins, other.counts, _BINS).astype(np.int64))

    def _insert(self, counts: np.ndarray) -> None:
        counts[self.bins] += self.counts
        self.bins = np.flatnonzero(counts)
        self.counts = counts[self.bins]

    def numbers(self) -> np.ndarray:
        """The middle of every bin."""
        patterns = (self.bins.astype(np.uint32) << _SHIFT) | np.uint32(1 << (_SHIFT - 1))
        return patterns.astype(np.uint32).view(np.float32).astype(np.float64)

    def quantile(self, numbers: np.ndarray, percentile: float) -> float:
        """The smallest of some numbers, one for every bin, that as many of all do not exceed.

        Zeros do not count: they are exact in any range, and may be most of what was seen.
        """
        order = np.argsort(numbers, kind="stable")
        order = order[np.abs(numbers[order]) >= NOTHING]
        if not order.size:
            return 0.0
        reached = np.cumsum(self.counts[order])
        place = int(np.searchsorted(reached, percentile / 100 * reached[-1]))
        return float(numbers[order[min(place, len(order) - 1)]])

    def magnitude(self, percentile: float) -> float:
        """What as many of the magnitudes do not exceed."""
        return self.quantile(np.abs(self.numbers()), percentile)

    def squared_error(self, rounded: Callable[[np.ndarray], np.ndarray]) -> float:
        """Of a way to round, over all that was seen."""
        numbers = self.numbers()
        return float(self.counts @ (rounded(numbers) - numbers) ** 2)


@dataclass
class Range:
    """What calibration saw of a value; 0 is always part of it."""

    low: float = 0.0
    high: float = 0.0
    rule: RangeRule = MAXIMUM
    seen: Histogram = field(default_factory=Histogram, repr=False)

    def observe(self, array: np.ndarray) -> None:
        wide = array.astype(np.float64)  # other types than numpy's own know no infinity
        finite = wide[np.isfinite(wide)]
        if finite.size:
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))
            if self.rule.kind != "max":
                self.seen.add(finite)

    def merge(self, other: Range) -> None:
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.seen.merge(other.seen)

    def limits(self, symmetric: bool) -> tuple[float, float]:
        """The ends of the range that 8-bit codes are made for; both of one size if `symmetric`."""
        low, high = self.low, self.high
        if symmetric:
            low, high = -max(-low, high), max(-low, high)
        if self.rule.kind == "max" or not self.seen.bins.size:
            return low, high
        if self.rule.kind == "percentile":
            return self._percentiles(low, high, symmetric)
        return self._least_error(low, high, symmetric)

    def _percentiles(self, low: float, high: float, symmetric: bool) -> tuple[float, float]:
        numbers, part = self.seen.numbers(), self.rule.percentile
        if symmetric:
            end = min(high, self.seen.magnitude(part))
            return -end, end
        first, last = -self.seen.quantile(-numbers, part), self.seen.quantile(numbers, part)
        return min(0.0, max(low, first)), max(0.0, min(high, last))

    def _least_error(self, low: float, high: float, symmetric: bool) -> tuple[float, float]:
        """Both ends are drawn in together, then each by itself as far as that is better still."""

        def error(ends: tuple[float, float]) -> float:
            return self.seen.squared_error(lambda x: rounded_to_codes(x, *ends, symmetric))

        parts = [2.0 ** (-k / 8) for k in range(_STEPS + 1)]
        best = min(((low * p, high * p) for p in parts), key=error)
        if not symmetric:
            best = min(((best[0], high * p) for p in (*parts, best[1] / (high or 1))), key=error)
            best = min(((low * p, best[1]) for p in (*parts, best[0] / (low or 1))), key=error)
        return best


def rounded_to_codes(
    numbers: np.ndarray, low: float, high: float, symmetric: bool = True
) -> np.ndarray:
    """Numbers as the nearest of 8-bit codes from `low` to `high`: what is beyond saturates."""
    step = high / 127 if symmetric else (high - low) / 255
    if step == 0:
        return np.zeros_like(numbers)
    first = 0.0 if symmetric else np.rint(-128 - low / step)
    codes = np.clip(np.rint(numbers / step) + first, -128, 127)
    return (codes - first) * step


def channel_peaks(weights: np.ndarray, axis: int | None, rule: RangeRule = MAXIMUM) -> np.ndarray:
    """What becomes the largest 8-bit code of every channel of weights; axis None: of all together.

    Weights are known, so nothing of them is cut off by a percentile: only the rule of the least
    squared error takes anything but the largest.
    """
    wide = np.abs(weights.astype(np.float64))
    others = None if axis is None else tuple(d for d in range(wide.ndim) if d != axis % wide.ndim)
    peaks = wide.max(axis=others, keepdims=True)
    if rule.kind == "mse":
        steps = np.where(peaks > 0, peaks, 1.0) / 127
        parts = [2.0 ** (-k / 16) for k in range(33)]
        errors = []
        for part in parts:
            rounded = np.minimum(np.rint(wide / (steps * part)), 127) * steps * part
            errors.append(((rounded - wide) ** 2).sum(axis=others, keepdims=True))
        peaks = peaks * np.asarray(parts)[np.argmin(errors, axis=0)]
    return peaks.reshape(()) if axis is None else peaks.reshape(-1)
