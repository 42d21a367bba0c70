"""How busy each unit was over time, measured while a model runs.

A machine is put into a `Sampler`, which runs it in pieces of equal length and reads its counters in
between; values and ticks are the same as without. Nothing is kept per instruction, so a run of any
length needs the same little memory: when there are too many pieces, two become one.
"""

from __future__ import annotations

from typing import Any

from tilewright.targets.atlas.machines import Machine
from tilewright.targets.atlas.outcome import Outcome
from tilewright.targets.atlas.program import Program
from tilewright.trace.model import Activity

MOST_PIECES = 4096
SHORTEST = 64  # ticks of a piece at first


class Sampler:
    """A machine that notes the busy ticks of its units now and then while it runs.

    Programs loaded one after the other follow each other on one time line.
    """

    def __init__(self, machine: Machine, most: int = MOST_PIECES, shortest: int = SHORTEST) -> None:
        self.__dict__.update(
            machine=machine,
            _most=most,
            _ticks=shortest,
            _offset=0,  # when the program in the machine began
            _before={},  # busy ticks of the programs before it
            _sums=[],  # busy ticks up to the end of each whole piece
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What a machine is told, the machine inside is told."""
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self.machine, name, value)

    def load(self, program: Program, keep_memory: bool = False) -> None:
        """Take the next program; without `keep_memory` the time line begins again."""
        if keep_memory:
            self._before = self._busy()
            self._offset += self.machine.statistics.cycles
        else:
            self.begin()
        self.machine.load(program, keep_memory)

    def begin(self) -> None:
        """Forget what was noted."""
        self._offset, self._before, self._sums = 0, {}, []

    def run(
        self, max_cycles: int | None = None, until_cycle: int | None = None, **limits: Any
    ) -> Outcome:
        """As the machine's own, with pauses."""
        if limits:
            return self.machine.run(max_cycles=max_cycles, until_cycle=until_cycle, **limits)
        while True:
            end = (len(self._sums) + 1) * self._ticks - self._offset
            if until_cycle is not None and until_cycle < end:
                return self.machine.run(max_cycles=max_cycles, until_cycle=until_cycle)
            outcome = self.machine.run(max_cycles=max_cycles, until_cycle=end)
            if outcome.reason != "until":
                return outcome
            self._sums.append(self._busy())
            if len(self._sums) >= self._most:
                self._sums = self._sums[1::2]
                self._ticks *= 2

    def _busy(self) -> dict[str, int]:
        return {
            unit: use.busy + self._before.get(unit, 0)
            for unit, use in self.machine.statistics.units.items()
        }

    def activity(self) -> Activity:
        """Busy ticks of each unit in each piece of the run so far."""
        cycles = self._offset + self.machine.statistics.cycles
        last = self._busy()
        sums = self._sums[: cycles // self._ticks]
        if cycles > len(sums) * self._ticks:
            sums = [*sums, last]
        elif sums:
            sums = [*sums[:-1], last]  # what is counted in the last tick belongs to it
        return Activity(
            self._ticks,
            {unit: spread([s[unit] for s in sums], self._ticks, cycles) for unit in last},
        )


def spread(sums: list[int], ticks: int, cycles: int) -> list[int]:
    """Busy ticks per piece from what was issued up to the end of each piece.

    The machine counts an operation when it is issued, a unit works on one at a time: what does
    not fit into a piece fills the next ones. A unit that overlaps its operations may have counted
    more than there is time for; that is cut off at the end.
    """
    pieces: list[int] = []
    waiting = before = 0
    for number, total in enumerate(sums):
        length = min(ticks, cycles - number * ticks)
        waiting += total - before
        before = total
        pieces.append(min(waiting, length))
        waiting -= pieces[-1]
    return pieces
