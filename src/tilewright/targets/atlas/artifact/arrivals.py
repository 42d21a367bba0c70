"""Looking for the results of steps in the device's memory until they are there.

A step has been issued when the next one begins, but its last transfers may still be under way. A
result that is not yet there is therefore looked at again after every following step, until its
bytes may be used for something else. Then the machine runs ahead a little, and back, to see whether
the result arrives before that. An element is right if it had the right value at any look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.reference.bits import equal_bits
from tilewright.targets.artifact import StepValues, Watch
from tilewright.targets.atlas.artifact.check import entry_spans, lifetime
from tilewright.targets.atlas.artifact.region_values import typed

if TYPE_CHECKING:
    from tilewright.targets.atlas.artifact.device import AtlasDevice

AHEAD_STEP, AHEAD_MOST = 256, 1 << 16  # ticks between two looks while running ahead


@dataclass
class _Result:
    """One result of a call, waiting to be seen."""

    call: int
    parameter: str
    region: str
    turn: int  # of the region
    expected: np.ndarray
    deadline: int  # the last call after which its bytes still have to be there
    arrived: np.ndarray | None = None  # elements that had the right value


class Arrivals:
    """What a watch expects of every step, and tells it what was found."""

    def __init__(self, device: AtlasDevice, watch: Watch) -> None:
        self.device, self.watch = device, watch
        self._pending: list[_Result] = []
        artifact = device.artifact
        self._calls = calls = list(artifact.calls())
        self._results: dict[int, list[_Result]] = {}
        spans = entry_spans(artifact)
        final = {(step, turn): number for number, (step, turn, _) in enumerate(calls)}
        last_of = {step: number for number, (step, _, _) in enumerate(calls)}
        overwritten: dict[tuple[str, int], int] = {}
        for number in range(len(calls) - 1, -1, -1):
            index, turn, step = calls[number]
            for parameter, expected in watch.expected(index, turn).items():
                region = artifact.regions[step.operands[parameter]]
                key = (region.name, turn if region.count > 1 else 0)
                _, time = lifetime(artifact, region, spans)
                last = min(time // 2, len(artifact.steps) - 1)
                end = final.get((last, turn), last_of[last])
                if key in overwritten:
                    end = min(end, overwritten[key] - 1)
                overwritten[key] = number
                self._results.setdefault(number, []).append(
                    _Result(number, parameter, *key, expected, max(number, end))
                )

    def after(self, number: int) -> None:
        """After call `number` was issued."""
        self._pending += self._results.pop(number, [])
        self._pending = [result for result in self._pending if not self._look(result, number)]

    def _look(self, result: _Result, now: int) -> bool:
        """Whether the result is settled: it is as expected, or it cannot be seen any more."""
        found = result.expected
        if not self._arrived(result):
            if now < result.deadline and now + 1 < len(self._calls):
                return False
            seen = self._read(result)
            if not self._arrives(result):
                found = seen
        index, turn, _ = self._calls[result.call]
        self.watch(StepValues(index, turn, {}, {result.parameter: found}))
        return True

    def _read(self, result: _Result) -> np.ndarray:
        region = self.device.artifact.regions[result.region]
        return typed(region, self.device.codes(region, result.turn))

    def _arrived(self, result: _Result) -> bool:
        """Whether every element has had its value by now."""
        right = equal_bits(result.expected, self._read(result))
        result.arrived = right if result.arrived is None else result.arrived | right
        return bool(result.arrived.all())

    def _arrives(self, result: _Result) -> bool:
        """Whether what is missing comes while the next step runs; the machine is put back."""
        machine = self.device.machine
        before, stops = machine.snapshot(), machine.breakpoints
        machine.breakpoints = set()
        found, ahead = False, AHEAD_STEP
        while not found and ahead < AHEAD_MOST:
            outcome = machine.run(until_cycle=machine.cycles + ahead)
            found = self._arrived(result)
            if outcome.reason != "until":
                break
            ahead += ahead // 4
        machine.breakpoints = stops
        machine.restore(before)
        return found
