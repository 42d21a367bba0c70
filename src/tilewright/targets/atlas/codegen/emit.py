"""From a schedule to a program: gaps become delays."""

from __future__ import annotations

from tilewright.targets.atlas.codegen.list_schedule import FIRST_TICK, Issue, Schedule
from tilewright.targets.atlas.program import Instruction, Program

MAX_DELAY = 4095


def to_program(schedule: Schedule, source: str = "<kernel>") -> Program:
    """The schedule as instructions whose dispatch ticks are exactly the planned ones."""
    rows: list[Instruction] = []
    next_tick = FIRST_TICK
    for issue in schedule.issues:
        rows += fill(issue.tick - next_tick)
        rows.append(issue.instruction)
        next_tick = issue.tick + 1
    return Program.from_instructions(rows, source)


def fill(gap: int) -> list[Instruction]:
    """Instructions that take `gap` ticks of decode."""
    rows = []
    while gap > 0:
        # delay N takes N + 1 ticks.
        ticks = min(gap, MAX_DELAY + 1)
        rows.append(Instruction.of("delay", ticks - 1))
        gap -= ticks
    return rows


__all__ = ["Issue", "fill", "to_program"]
