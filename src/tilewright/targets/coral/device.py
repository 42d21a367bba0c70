"""Devices of Coral's artifacts: the simulated core, and the reference beside it.

Values between parts are the model's: what a quantised program takes and gives as int8 is converted
at its edge. A value lives here until it is written again, whatever the core does to its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import Counters, DeviceOptions, DevicePart, Port, StepCall, Watch
from tilewright.targets.coral.edges import dequantised, quantised
from tilewright.targets.coral.evaluate import evaluate
from tilewright.targets.coral.profile_text import profile_text
from tilewright.targets.coral.program import DTYPES
from tilewright.targets.coral.simulator import DEFAULT_LIMIT, CoralSimulator, Outcome, RunOptions
from tilewright.trace.model import TraceModel

if TYPE_CHECKING:
    from tilewright.targets.coral.artifact import CoralArtifact, Entry

SIMULATORS = ("core", "fast")  # with and without the cycle model


class _Memory:
    """Values by port, and the counts of a run."""

    def __init__(self, artifact: CoralArtifact) -> None:
        self.artifact = artifact
        self.values: dict[str, np.ndarray] = {}
        self.begin()

    def begin(self) -> None:
        self.cycles = 0
        self.calls: Sequence[StepCall] = []
        self.counters = Counters()

    def write(self, port: Port, value: np.ndarray) -> None:
        self.values[port.name] = np.array(value)

    def read(self, port: Port) -> np.ndarray:
        if port.name not in self.values:
            raise TilewrightError("TW5031", f"{port.name} has not been computed")
        return self.values[port.name]

    def trace(self) -> TraceModel | None:
        return None

    def entry(self, part: DevicePart) -> Entry:
        if part.entry not in self.artifact.entries:
            raise TilewrightError("TW5052", f"there is no program {part.entry}")
        return self.artifact.entries[part.entry]

    def inputs(self, part: DevicePart, entry: Entry) -> list[np.ndarray]:
        return [
            quantised(value, self.values[name])
            for name, value in zip(part.inputs, entry.program.inputs, strict=True)
        ]

    def keep(self, part: DevicePart, entry: Entry, outputs: Sequence[np.ndarray]) -> None:
        for name, value, array in zip(part.outputs, entry.program.outputs, outputs, strict=True):
            self.values[name] = dequantised(value, array)


class ReferenceDevice(_Memory):
    """The program's meaning on numpy, without the ELF."""

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        entry = self.entry(part)
        try:
            outputs = evaluate(entry.program, self.inputs(part, entry))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            said = f"{type(error).__name__}: {error}"[:160]
            raise TilewrightError(
                "TW5051", f"the reference of {part.entry} cannot be computed: {said}"
            ) from None
        self.keep(part, entry, outputs)


class CoralDevice(_Memory):
    """The simulated core; every part starts it anew with its own program."""

    def __init__(self, artifact: CoralArtifact, options: DeviceOptions) -> None:
        chosen = options.simulator or SIMULATORS[0]
        if chosen not in SIMULATORS:
            raise TilewrightError(
                "TW5006",
                f"there is no simulator {chosen} of the core",
                hint=f"use {' or '.join(SIMULATORS)}",
            )
        self.simulator = chosen
        self.options = options
        self.outcomes: dict[str, Outcome] = {}
        self.cores: dict[str, CoralSimulator] = {}  # as they stood at the end of a run
        super().__init__(artifact)

    def run(self, part: DevicePart, watch: Watch | None = None) -> None:
        entry = self.entry(part)
        machine = self.artifact.machine
        outside = any(s.address >= machine.far for s in entry.image.segments)
        run_options = RunOptions(
            timing=self.simulator == "core" and not outside,
            check_uninitialised=self.options.poisoned,
            check_readonly=self.options.poisoned,
            external=machine.external,
        )
        simulator = CoralSimulator(entry.image, machine, run_options)
        for index, array in enumerate(self.inputs(part, entry)):
            simulator.write(f"input_{index}", array)
        limit = DEFAULT_LIMIT
        if self.options.max_cycles is not None:  # no instruction takes less than a quarter cycle
            limit = min(limit, 4 * max(0, self.options.max_cycles - self.cycles) + 4)
        outcome = self.outcomes[part.entry] = simulator.run(limit)
        self.cores[part.entry] = simulator
        most = self.options.max_cycles
        if most is not None and (self.cycles + (outcome.cycles or 0) > most or not outcome.halted):
            raise TilewrightError(
                "TW5034", f"the program takes more than the {most:,} cycles it was given"
            )
        if not outcome.ok:
            raise TilewrightError("TW5032", f"the program failed: {outcome.fault or outcome.ret}")
        outputs = [
            simulator.read(f"output_{k}", DTYPES[v.dtype], v.shape)
            for k, v in enumerate(entry.program.outputs)
        ]
        self.keep(part, entry, outputs)
        self._count(entry, outcome)
        if self.options.progress is not None:
            self.options.progress(len(self.calls), len(self.artifact.steps), self.cycles)

    def profiles(self) -> dict[str, str]:
        """Budget, cycles per op, hot lines and annotated instructions of every program that ran."""
        found = {}
        for name, core in self.cores.items():
            entry = self.artifact.entries[name]
            text = profile_text(entry.sizes, core, self.outcomes[name], entry.source)
            found[f"time and instructions of {name}.txt"] = text
        return found

    def _count(self, entry: Entry, outcome: Outcome) -> None:
        """Add a part's counts: one call per step, in the order of execution."""
        first = list(self.artifact.steps).index(entry.steps[0]) if entry.steps else 0
        calls, at = list(self.calls), self.cycles
        for index, step in enumerate(entry.steps):
            instructions, cycles = outcome.steps.get(step.name, (0, 0))
            calls.append(
                StepCall(
                    first + index,
                    0,
                    step.name,
                    at,
                    at + cycles,
                    {"core": cycles},
                    instructions=instructions,
                )
            )
            at += cycles
        self.calls = calls
        spent = outcome.cycles or 0
        self.cycles += spent
        self.counters.cycles += spent
        self.counters.instructions += outcome.instructions
        self.counters.busy["core"] = self.counters.busy.get("core", 0) + spent
        self.counters.loaded += sum(read for read, _ in outcome.traffic.values())
        self.counters.stored += sum(written for _, written in outcome.traffic.values())
