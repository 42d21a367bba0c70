"""What a run yields: why it stopped, faults, statistics, trace rows. Both machines fill these."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

CAUSES = ("delay", "dma_wait", "unit_busy", "channel_busy", "dependency")

# One row per instruction, in dispatch order. `unit` indexes Profile.units, -1 is decode.
# start: the tick after dispatch (for DMA, when the engine starts on it); end: completion.
TRACE_ROW = np.dtype(
    [
        ("index", "i4"),
        ("unit", "i1"),
        ("channel", "i1"),
        ("claim", "i8"),
        ("dispatch", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("bytes", "i8"),
    ]
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A rule of the machine broken by the program."""

    kind: str
    index: int  # of the instruction
    pc: int
    cycle: int
    message: str

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "pc": self.pc,
            "index": self.index,
            "cycle": self.cycle,
            "message": self.message,
        }


@dataclass(slots=True)
class UnitUse:
    """What one unit did."""

    operations: int = 0
    busy: int = 0


@dataclass
class Statistics:
    """Counters of a run.

    busy counts latency per operation (DMA: engine time; SCALAR: one per instruction, delays
    not counted). lost counts the ticks an instruction sat in decode, by cause.
    """

    cycles: int = 0
    instructions: int = 0
    units: dict[str, UnitUse] = field(default_factory=dict)
    dma_loaded: int = 0
    dma_stored: int = 0
    lost: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CAUSES, 0))
    executions: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    issue_ticks: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def same(self, other: Statistics) -> bool:
        """Whether two runs counted alike."""
        return (
            (self.cycles, self.instructions) == (other.cycles, other.instructions)
            and self.units == other.units
            and (self.dma_loaded, self.dma_stored) == (other.dma_loaded, other.dma_stored)
            and self.lost == other.lost
            and np.array_equal(self.executions, other.executions)
            and np.array_equal(self.issue_ticks, other.issue_ticks)
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """Why and when a run stopped.

    reason: end (program finished), halt (ecall, ebreak), fault, limit (max_cycles),
    until (until_cycle, until_pc, max_instructions or a step), breakpoint, watch.
    """

    reason: str
    cycles: int
    fault: Fault | None = None
