"""What a compiled model computes, apart from where and in which order of bytes: its values.

Every value has a name and is made once: by an operation, from a port, or as a weight. There are no
regions, rounds and addresses here; the same layer sixteen times is sixteen times its operations.
Checks hold the model against this (`check_values`, `reference_run`). Content of weights is known by
its digest, so that it need not be kept twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

# Options that say how a kernel is carried out, not what it computes.
MANNER = frozenset({"together", "rows", "depth", "resident", "stacked", "matrices"})


@dataclass(frozen=True)
class Operation:
    """A kernel on values."""

    name: str
    kernel: str
    operands: dict[str, str]  # parameter -> value
    output: str
    options: dict[str, Any] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)  # further results -> value

    @property
    def results(self) -> dict[str, str]:
        """All that it makes: parameter -> value."""
        return {"out": self.output, **self.others}


@dataclass
class ValueGraph:
    """All values of a model.

    operations: in the order in which they are carried out. ports: the value that goes through
    each port of the device. stored: for each region of weights, the value of every round.
    digests: of the weights. scales: what fp8 values are multiples of.
    """

    operations: list[Operation] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)
    stored: dict[str, tuple[str, ...]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)

    def places(self) -> dict[str, tuple[str, int]]:
        """Where the content of each weight is: region and round."""
        return {
            value: (region, turn)
            for region, values in self.stored.items()
            for turn, value in enumerate(values)
        }


def digest(codes: np.ndarray) -> str:
    """A digest of bit patterns of bf16 (uint16) or fp8 (uint8); all NaN are alike."""
    codes = np.ascontiguousarray(codes)
    wide = codes.dtype == np.uint16
    unknown = (codes & 0x7FFF) > 0x7F80 if wide else (codes & 0x7F) == 0x7F
    if unknown.any():
        codes = np.where(unknown, codes.dtype.type(0x7FC0 if wide else 0x7F), codes)
    return hashlib.blake2b(codes.reshape(-1).view(np.uint8).data, digest_size=16).hexdigest()
