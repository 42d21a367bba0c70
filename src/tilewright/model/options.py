"""How to compile: what people can ask of every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.model.ranges import RangeRule
from tilewright.reference.microscaling import format_of

SCALES = ("channel", "tensor")
Progress = Callable[[str, str], None]  # phase, detail


@dataclass(frozen=True)
class CompileOptions:
    """How to compile.

    fuse: keep intermediate results in VMEM and chains of operations in one kernel.
    host: layers the host runs on request. no_host: nothing may run on the host.
    keep: layers whose products are as precise as bf16: operands are split into two fp8 parts.
    scales: of weights, one per "channel" or one per "tensor".
    layer_loops: identical layers become a loop with stacked weights; None: where that pays, which the
        machine decides.
    quantize: the number format that products are quantised to; None: what the machine does by itself.
    ranges: what codes of values cover, "max", "mse", "percentile" or "percentile:99.9" (`ranges.py`).
    smooth: how much of the range of activations moves into weights, from 0 to 1 (`smooth.py`).
    weights: the MX format of weights, such as "mxfp4" (`microscale.py`); None: as they are.
    accuracy: note how far every layer is from float32, on the first calibration sample.
    """

    fuse: bool = True
    host: tuple[str, ...] = ()
    no_host: bool = False
    keep: tuple[str, ...] = ()
    scales: str = "channel"
    layer_loops: bool | None = None
    instruction_memory: int = 32768
    seed: int = 0
    accuracy: bool = False
    quantize: str | None = None
    ranges: str = "max"
    smooth: float | None = None
    weights: str | None = None

    def __post_init__(self) -> None:
        if self.scales not in SCALES:
            raise TilewrightError(
                "TW1711",
                f"there are no scales per {self.scales}",
                hint=f"use {' or '.join(SCALES)}",
            )
        RangeRule.parse(self.ranges)
        if self.weights is not None:
            format_of(self.weights)
        if self.smooth is not None and not 0 <= self.smooth <= 1:
            raise TilewrightError(
                "TW1711",
                f"{self.smooth:g} is no part of a range that can move into weights",
                hint="use a number from 0 to 1, such as 0.5",
            )

    @property
    def range_rule(self) -> RangeRule:
        return RangeRule.parse(self.ranges)

    def to_json(self) -> dict[str, Any]:
        return {
            "fuse": self.fuse,
            "host": list(self.host),
            "no_host": self.no_host,
            "keep": list(self.keep),
            "scales": self.scales,
            "layer_loops": self.layer_loops,
            "seed": self.seed,
            "accuracy": self.accuracy,
            **({} if self.quantize is None else {"quantize": self.quantize}),
            **({} if self.ranges == "max" else {"ranges": self.ranges}),
            **({} if self.smooth is None else {"smooth": self.smooth}),
            **({} if self.weights is None else {"weights": self.weights}),
        }
