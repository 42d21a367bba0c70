"""Number formats as parameters: what `tw.operand` and `tw.value` are on a machine.

Formats have names: `fp8`, `bf16`, `f16`, and `i8:0.05` for whole numbers that count in steps of
0.05. A machine has one format for values, one for operands of products where nothing else is
asked for, and pairs that its products take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tilewright.errors import TilewrightError

OPERAND, VALUE = "operand", "value"
# Numbers from here on round to infinity, and the largest number as text.
LARGEST = {"bf16": (3.3961775292304601e38, "3.39e38"), "f16": (65520.0, "65504")}
# What stands in for minus infinity: it survives the subtraction of anything that is not huge.
STAND_IN = {"bf16": -3.0e38, "f16": -3.0e4}


FINITE = ("fp8", "i8")  # formats that saturate: nothing becomes infinite in them


def family(name: str) -> str:
    """The format without its step: i8 of i8:0.05."""
    return name.partition(":")[0]


def step(name: str) -> float:
    """What one unit of a format of whole numbers stands for; 1 for all others."""
    text = name.partition(":")[2]
    return float(text) if text else 1.0


@dataclass(frozen=True)
class Formats:
    """The formats of a machine, and those chosen for single parameters."""

    operand: str
    value: str
    products: tuple[tuple[str, str], ...]  # families that a product takes
    chosen: tuple[tuple[str, str], ...] = ()  # parameter -> format

    @property
    def families(self) -> list[str]:
        """What a tensor may hold."""
        return list(dict.fromkeys([self.value, *(name for pair in self.products for name in pair)]))

    def of(self, name: str, dtype: str) -> str:
        """The format of a parameter that is annotated as `dtype`."""
        if dtype not in (OPERAND, VALUE):
            return dtype
        return dict(self.chosen).get(name, self.operand if dtype == OPERAND else self.value)

    def multiplies(self, first: str, second: str) -> bool:
        """Whether a product takes tiles of these formats."""
        return (family(first), family(second)) in self.products

    def is_operand(self, name: str) -> bool:
        return any(family(name) in pair for pair in self.products)

    def bound(self, formats: Mapping[str, str] | None) -> Formats:
        """With `operand` and parameters by name bound to formats."""
        made = self
        if formats is not None and not isinstance(formats, Mapping):
            raise TilewrightError(
                "TW1652",
                f"formats are a table by parameter, not {type(formats).__name__}",
                hint='such as {"q": "i8:0.05", "operand": "f16"}',
            )
        for name, given in (formats or {}).items():
            if not isinstance(given, str) or not self._known(given):
                raise TilewrightError(
                    "TW1652",
                    f"{given!r} is no format of this machine for {name}",
                    hint=f"formats are {', '.join(self.families)}; i8 has a step: i8:0.05",
                )
            if name == VALUE and given != self.value:
                raise TilewrightError("TW1652", f"values are {self.value} on this machine")
            if name == OPERAND:
                made = replace(made, operand=given)
            elif name != VALUE:
                made = replace(made, chosen=(*made.chosen, (name, given)))
        return made

    def _known(self, name: str) -> bool:
        if family(name) not in self.families:
            return False
        try:
            size = step(name)
        except ValueError:
            return False
        return (":" in name) == (family(name) == "i8") and math.isfinite(size) and size > 0
