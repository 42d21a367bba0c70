"""What a verification found, for people and for programs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.reference.bits import equal_bits


@dataclass(frozen=True)
class Difference:
    """Bits that differ: how many elements, and the first of them."""

    different: int
    elements: int
    index: tuple[int, ...]
    expected: float | int | bool
    actual: float | int | bool

    def to_json(self) -> dict[str, Any]:
        return {
            "different": self.different,
            "elements": self.elements,
            "index": list(self.index),
            "expected": number(self.expected),
            "actual": number(self.actual),
        }

    def __str__(self) -> str:
        return (
            f"{self.different:,} of {self.elements:,} elements differ, the first at "
            f"{list(self.index)}: expected {self.expected!r}, found {self.actual!r}"
        )


@dataclass(frozen=True)
class Accuracy:
    """How far an array is from what float32 gives."""

    max_absolute: float
    max_relative: float  # largest absolute error over the largest value
    relative: float  # length of the error vector over that of the values
    cosine: float

    def to_json(self) -> dict[str, Any]:
        return {
            "max_absolute": number(self.max_absolute),
            "max_relative": number(self.max_relative),
            "relative": number(self.relative),
            "cosine": number(self.cosine),
        }

    def __str__(self) -> str:
        return (
            f"cosine {self.cosine:.6f}, relative error {self.relative:.2e}, "
            f"largest error {self.max_absolute:.3g}"
        )


@dataclass(frozen=True)
class OutputCheck:
    """An output against the reference, and against float32 where that is known."""

    name: str
    elements: int
    difference: Difference | None
    accuracy: Accuracy | None = None
    limit: float | None = None  # the smallest cosine with float32 that is close enough
    limit_relative: float = math.inf  # the largest relative error

    @property
    def close(self) -> bool:
        """Whether nothing says that the output is too far from float32."""
        if self.accuracy is None or self.limit is None:
            return True
        return self.accuracy.cosine >= self.limit and self.accuracy.relative <= self.limit_relative


@dataclass(frozen=True)
class LayerCheck:
    """A result of one step.

    status: "equal"; "differs"; "inherits": it differs, but only as its inputs do; "unread": the
    run ended before it could be looked at.
    """

    call: int
    step: int
    turn: int
    name: str
    kernel: str
    region: str
    status: str
    difference: Difference | None = None
    accuracy: Accuracy | None = None


@dataclass
class Verification:
    """The result: `ok` says that every bit that was compared is as it should be, that no output is
    further from float32 than its limit, and that lint finds no hazard in the code."""

    model: str
    target: str
    machine: str
    inputs: str  # what it ran on
    cycles: int
    outputs: list[OutputCheck]
    layers: list[LayerCheck] = field(default_factory=list)
    first: LayerCheck | None = None  # the first step that computes something wrong
    original: str | None = None  # what float32 results come from
    notes: list[str] = field(default_factory=list)
    hazards: list[str] = field(default_factory=list)  # errors that lint finds in the code
    strays: list[str] = field(
        default_factory=list
    )  # operands and weights that are not as they should
    results: dict[str, np.ndarray] = field(default_factory=dict)  # outputs of the device
    exact: dict[str, np.ndarray] = field(default_factory=dict)  # those of the original in float32

    @property
    def cosine(self) -> float | None:
        """The smallest cosine of an output with float32, if that is known."""
        known = [output.accuracy.cosine for output in self.outputs if output.accuracy is not None]
        return min(known, key=lambda c: -math.inf if math.isnan(c) else c, default=None)

    @property
    def ok(self) -> bool:
        wrong = any(layer.status in ("differs", "inherits") for layer in self.layers)
        exact = all(output.difference is None for output in self.outputs)
        return exact and not wrong and not self.hazards and not self.strays and self.close

    @property
    def close(self) -> bool:
        """Whether every output that could be compared with float32 is within its limit."""
        return all(output.close for output in self.outputs)

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "model": self.model,
            "target": self.target,
            "machine": self.machine,
            "inputs": self.inputs,
            "cycles": self.cycles,
            "outputs": [
                {
                    "name": output.name,
                    "elements": output.elements,
                    "exact": output.difference is None,
                    "difference": _json(output.difference),
                    "accuracy": _json(output.accuracy),
                    "limit": output.limit,
                    "limit_relative": number(output.limit_relative),
                    "close": output.close,
                }
                for output in self.outputs
            ],
            "first_difference": _layer(self.first) if self.first else None,
            "layers": [_layer(layer) for layer in self.layers],
            "original": self.original,
            "hazards": self.hazards,
            "strays": self.strays,
            "notes": self.notes,
        }

    def __str__(self) -> str:
        return self.text()

    def text(self) -> str:
        """The findings in lines."""
        lines = [f"{self.model} on {self.target}, {self.inputs}: {self.cycles:,} cycles"]
        for output in self.outputs:
            verdict = "exact" if output.difference is None else f"DIFFERS: {output.difference}"
            lines.append(f"output {output.name}: {verdict}")
        lines += [f"hazard: {hazard}" for hazard in self.hazards[:5]] or ["code: no hazards"]
        lines += [f"astray: {stray}" for stray in self.strays[:5]]
        if self.first is not None:
            lines.append(
                f"first wrong step: {self.first.step} ({self.first.name}, kernel "
                f"{self.first.kernel}) in {self.first.region}: {self.first.difference}"
            )
        if self.layers:
            counts = {
                status: sum(layer.status == status for layer in self.layers)
                for status in ("equal", "differs", "inherits", "unread")
            }
            shown = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
            lines.append(f"steps: {shown}")
        if self.original is not None:
            lines.append(f"against float32 ({self.original}):")
            lines += [f"  {_judged(o)}" for o in self.outputs if o.accuracy is not None]
            ranked = [layer for layer in self.layers if layer.accuracy is not None]
            ranked.sort(key=lambda layer: _rank(layer.accuracy))
            if ranked:
                lines.append("  worst steps:")
                lines += [f"    {layer.name}: {layer.accuracy}" for layer in ranked[:8]]
        lines += [f"note: {note}" for note in self.notes]
        lines.append("verified" if self.ok else "NOT VERIFIED")
        return "\n".join(lines)


def _judged(output: OutputCheck) -> str:
    text = f"{output.name}: {output.accuracy}"
    if output.limit is None:
        return text
    verdict = "" if output.close else "TOO FAR FROM FLOAT32: "
    relative = f", relative error {output.limit_relative:.2g}"
    more = relative if math.isfinite(output.limit_relative) else ""
    return f"{verdict}{text}; limits: cosine {output.limit:.4f}{more}"


def compare_bits(expected: np.ndarray, actual: np.ndarray) -> Difference | None:
    """The difference of two arrays of one type and shape, bit by bit; any NaN equals any NaN."""
    wrong = ~equal_bits(expected, actual)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    return Difference(int(wrong.sum()), wrong.size, at, expected[at].item(), actual[at].item())


HUGE = 1e30  # numbers that hide something: beside them nothing else would count


def ordinary(expected: np.ndarray) -> np.ndarray:
    """Where numbers say something about a distance: finite, and no mask, unless all are so large."""
    with np.errstate(invalid="ignore"):
        found = np.abs(expected) < HUGE
    return found if found.any() else np.isfinite(expected)


def unlike(actual: np.ndarray, expected: np.ndarray) -> int:
    """How many numbers are infinite or NaN in one of both only."""
    a, b = (array.astype(np.float64) for array in (actual, expected))
    hidden = ~np.isfinite(a) & (np.abs(b) >= HUGE)  # narrow floats hide by infinity
    return int((~hidden & (np.isfinite(a) != np.isfinite(b))).sum())


SUBNORMAL = float(np.finfo(np.float32).tiny)


def accuracy(actual: np.ndarray, expected: np.ndarray) -> Accuracy:
    """How far `actual` is from `expected` where that is an ordinary number; NaN where `actual` is
    none there. Subnormal numbers count as zeros, in both: formats of machines end before them."""
    a, b = (array.astype(np.float64).reshape(-1) for array in (actual, expected))
    counted = ordinary(b)
    if not np.isfinite(b).all():  # near a pole rounding decides which numbers are infinite
        counted &= ~np.isinf(a)
    a, b = (np.where(np.abs(array) < SUBNORMAL, 0.0, array) for array in (a[counted], b[counted]))
    with np.errstate(all="ignore"):
        error = a - b
        largest = float(np.abs(error).max(initial=0.0))
        scale = float(np.abs(b).max(initial=0.0))
        length = float(np.linalg.norm(b))
        product = float(np.linalg.norm(a)) * length
        same = float(np.linalg.norm(error)) == 0
        cosine = float(a @ b) / product if product else float(same)
        return Accuracy(
            largest,
            _ratio(largest, scale),
            _ratio(float(np.linalg.norm(error)), length),
            min(1.0, cosine) if not math.isnan(cosine) else cosine,
        )


def _ratio(part: float, whole: float) -> float:
    if part == 0:
        return 0.0
    return part / whole if whole else math.inf


def _rank(value: Accuracy | None) -> float:
    assert value is not None
    return -math.inf if math.isnan(value.cosine) else value.cosine


def number(value: float | int | bool) -> float | int | bool | str:
    """A number as JSON can hold it; NaN and infinities as text."""
    return value if isinstance(value, int) or math.isfinite(value) else str(value)


def _json(value: Difference | Accuracy | None) -> dict[str, Any] | None:
    return None if value is None else value.to_json()


def _layer(layer: LayerCheck) -> dict[str, Any]:
    return {
        "call": layer.call,
        "step": layer.step,
        "iteration": layer.turn,
        "name": layer.name,
        "kernel": layer.kernel,
        "region": layer.region,
        "status": layer.status,
        "difference": _json(layer.difference),
        "accuracy": _json(layer.accuracy),
    }
