"""From scheduled pieces to a program: gaps become delays, loops get their counters."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.targets.atlas.codegen.list_schedule import Issue
from tilewright.targets.atlas.program import Instruction, Program

MAX_DELAY = 4095


def fill(gap: int) -> list[Instruction]:
    """Instructions that take `gap` ticks of decode."""
    rows = []
    while gap > 0:
        ticks = min(gap, MAX_DELAY + 1)  # delay N takes N + 1 ticks
        rows.append(Instruction.of("delay", ticks - 1))
        gap -= ticks
    return rows


@dataclass
class Writer:
    """Instructions so far, with the author's line behind each."""

    rows: list[Instruction] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def add(self, instruction: Instruction, source: str = "") -> None:
        self.rows.append(instruction)
        self.sources.append(source)

    def piece(self, issues: list[Issue], length: int) -> None:
        """Issues at their ticks, then idle until the piece is `length` ticks long."""
        tick = 0
        for issue in issues:
            for row in fill(issue.tick - tick):
                self.add(row, issue.source)
            self.add(issue.instruction, issue.source)
            tick = issue.tick + 1
        for row in fill(length - tick):
            self.add(row)

    def program(self, source: str = "<kernel>") -> Program:
        """The program; sources are lines of the author's file."""
        program = Program.from_instructions(self.rows, source)
        lines = [int(s) if s.isdigit() else 0 for s in self.sources]
        program.lines = np.array(lines, np.int32)
        return program
