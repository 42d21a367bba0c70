"""Looking at what every step finds in memory when it begins, and at the weights when all is done.

The graph of values says what each operand is; the machine is stopped in front of the step, and the
bytes in its regions are compared with that. Nothing is taken from what the step before wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.runtime.device import Device, Observer
from tilewright.runtime.reference_run import ReferenceRun
from tilewright.runtime.value_graph import digest
from tilewright.runtime.values import stored_codes

MOST = 20  # findings that are kept


@dataclass(frozen=True)
class WrongInput:
    """An operand that a step finds with another content than its value has."""

    call: int
    step: int
    name: str
    parameter: str
    region: str
    value: str

    def __str__(self) -> str:
        return (
            f"step {self.step} ({self.name}) finds something else than {self.value} in its operand "
            f"{self.parameter} ({self.region})"
        )


@dataclass
class Watches:
    """Several observers as one."""

    every: Sequence[Observer]

    def before(self, number: int, device: Device) -> None:
        for one in self.every:
            one.before(number, device)

    def after(self, number: int, device: Device) -> None:
        for one in self.every:
            one.after(number, device)


@dataclass
class InputWatch:
    """An observer of a session; `run` is the reference run of the same inputs."""

    run: ReferenceRun
    wrong: list[WrongInput] = field(default_factory=list)

    def before(self, number: int, device: Device) -> None:
        """In front of call `number`: its operands that are no weights."""
        call = self.run.calls[number]
        step = device.model.steps[call.step]
        for parameter, (value, expected) in call.inputs.items():
            if len(self.wrong) >= MOST:
                return
            region = device.model.regions[step.operands[parameter]]
            raw = device.machine.read(region.space, region.at(call.turn), region.layout.bytes)
            if digest(stored_codes(region, raw)) != expected:
                self.wrong.append(
                    WrongInput(number, call.step, call.name, parameter, region.name, value)
                )

    def after(self, number: int, device: Device) -> None:
        """Results are read where they are used."""

    def weights(self, device: Device) -> list[str]:
        """Regions of weights whose bytes are not what they were."""
        model, changed = device.model, []
        for name, raw in model.weights.items():
            region = model.regions[name]
            if region.space != "dram":
                continue
            for turn, one in enumerate(raw.reshape(region.count, -1)):
                found = device.machine.read("dram", region.at(turn), one.size)
                if not np.array_equal(np.frombuffer(found, np.uint8), one):
                    changed.append(name)
                    break
        return changed
