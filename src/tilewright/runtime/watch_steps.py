"""Looking into the device's memory after every step and comparing with the reference.

A step has been issued when the next one begins, but its last transfers may still be under way. A
result that is not yet there is therefore looked at again after every following step, until its
bytes may be used for something else. Then the machine runs ahead a little, and back, to see whether
the result arrives before that. An element is right if it had the right value at any look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.runtime.check import lifetime, part_spans
from tilewright.runtime.device import Device
from tilewright.runtime.reference_run import ReferenceRun, compute
from tilewright.runtime.verification import LayerCheck, compare_codes, equal_codes

AHEAD_STEP, AHEAD_MOST = 256, 1 << 16  # ticks between two looks while running ahead


@dataclass
class _Result:
    """One result of a call, waiting to be seen."""

    call: int
    parameter: str
    deadline: int  # the last call after which its bytes still have to be there
    arrived: np.ndarray | None = None  # elements that had the right value


@dataclass
class StepWatch:
    """An observer of a session; `run` is the reference, with its results kept."""

    run: ReferenceRun
    seen: dict[tuple[int, str], np.ndarray] = field(default_factory=dict)  # what differed
    status: dict[tuple[int, str], str] = field(default_factory=dict)
    _pending: list[_Result] = field(default_factory=list)
    _deadlines: dict[tuple[int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        model, calls = self.run.model, self.run.calls
        spans = part_spans(model)
        final: dict[tuple[int, int], int] = {}  # (step, round) -> call
        last_of: dict[int, int] = {}  # step -> its last call
        for number, call in enumerate(calls):
            final[call.step, call.turn] = last_of[call.step] = number
        overwritten: dict[tuple[str, int], int] = {}
        for number in range(len(calls) - 1, -1, -1):
            call = calls[number]
            for parameter, key in call.writes.items():
                _, time = lifetime(model, model.regions[key[0]], spans)
                step = min(time // 2, len(model.steps) - 1)
                end = final.get((step, call.turn), last_of[step])
                if key in overwritten:
                    end = min(end, overwritten[key] - 1)
                self._deadlines[number, parameter] = max(number, end)
                overwritten[key] = number

    def before(self, number: int, device: Device) -> None:
        """Inputs are the business of others."""

    def after(self, number: int, device: Device) -> None:
        """After call `number` was issued."""
        for parameter in self.run.calls[number].writes:
            self._pending.append(_Result(number, parameter, self._deadlines[number, parameter]))
        self._pending = [
            result for result in self._pending if not self._look(result, number, device)
        ]

    def _look(self, result: _Result, now: int, device: Device) -> bool:
        """Whether the result is settled: it is as expected, or it cannot be seen any more."""
        key = (result.call, result.parameter)
        if self._arrived(result, device):
            self.status[key] = "equal"
            return True
        if now < result.deadline and now + 1 < len(self.run.calls):
            return False
        call = self.run.calls[result.call]
        region, turn = call.writes[result.parameter]
        self.seen[key] = device.read(device.model.regions[region], turn)
        self.status[key] = "equal" if self._arrives(result, device) else "differs"
        return True

    def _arrived(self, result: _Result, device: Device) -> bool:
        """Whether every element has had its value by now."""
        call = self.run.calls[result.call]
        region, turn = call.writes[result.parameter]
        assert call.results is not None
        expected = call.results[result.parameter]
        right = equal_codes(expected, device.read(device.model.regions[region], turn))
        result.arrived = right if result.arrived is None else result.arrived | right
        return bool(result.arrived.all())

    def _arrives(self, result: _Result, device: Device) -> bool:
        """Whether what is missing comes while the next step runs; the machine is put back."""
        machine = device.machine
        before, stops = machine.snapshot(), machine.breakpoints
        machine.breakpoints = set()
        found, ahead = False, AHEAD_STEP
        while not found and ahead < AHEAD_MOST:
            outcome = machine.run(until_cycle=machine.cycles + ahead)
            found = self._arrived(result, device)
            if outcome.reason != "until":
                break
            ahead += ahead // 4
        machine.breakpoints = stops
        machine.restore(before)
        return found

    # --- afterwards ---------------------------------------------------------------------

    def layers(self) -> list[LayerCheck]:
        """Every result of every step, in order."""
        found = []
        for number, call in enumerate(self.run.calls):
            step = self.run.model.steps[call.step]
            for parameter, (region, _) in call.writes.items():
                key = (number, parameter)
                status = self.status.get(key, "unread")
                difference = None
                if status == "differs":
                    assert call.results is not None
                    difference = compare_codes(call.results[parameter], self.seen[key])
                    if not self._own_fault(number, parameter):
                        status = "inherits"
                found.append(
                    LayerCheck(
                        number,
                        call.step,
                        call.turn,
                        call.name,
                        step.kernel,
                        region,
                        status,
                        difference,
                    )
                )
        return found

    def _own_fault(self, number: int, parameter: str) -> bool:
        """Whether the reference, on the device's own inputs, gives something else as well."""
        model, call = self.run.model, self.run.calls[number]
        operands, changed = {}, False
        for name, (key, writer) in call.reads.items():
            operands[name], other = self._device_value(key, writer, call.part)
            changed |= other
        if not changed:
            return True
        step = model.steps[call.step]
        results = compute(model, step, step.options, call.name, operands, self.run.references)
        return compare_codes(results[parameter], self.seen[number, parameter]) is not None

    def _device_value(
        self, key: tuple[str, int], writer: int, part: int
    ) -> tuple[np.ndarray, bool]:
        """What the device had in a region, and whether the reference had something else."""
        if writer >= 0:
            source = self.run.calls[writer]
            parameter = next(p for p, place in source.writes.items() if place == key)
            if self.status.get((writer, parameter)) == "differs":
                return self.seen[writer, parameter], True
            assert source.results is not None
            return source.results[parameter], False
        for number in range(part, -1, -1):
            if (number, *key) in self.run.placed:
                return self.run.placed[number, *key], False
        return self.run.value(key), False
