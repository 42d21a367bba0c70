"""Running a compiled model: host parts by the reference executor, device parts on a simulator.

    session = Session(load("block.twb"))
    session.run(x=array)                 -> {"y": array}
    session.run([array])                 -> [array]
    session.cycles, session.step_cycles, session.statistics

    half = session.run_until(1000, x=array); session.resume(half).outputs
    session.save_snapshot(half, "half.twr"); session.load_snapshot("half.twr")

Weights are placed once. Inputs that are the model's own memory (`state`) keep their value from one
run to the next unless they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.runtime.resuming import NEVER, RunSnapshot, advanced, first
from tilewright.runtime.values import named_inputs
from tilewright.targets.artifact import (
    Counters,
    Device,
    DeviceOptions,
    DevicePart,
    Progress,
    StepCall,
    Watch,
)
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.execution import HostFunctions, Resident, execute, first_state

if TYPE_CHECKING:
    from tilewright.trace.model import TraceModel

FOREVER = 1 << 61  # beyond the last cycle of any run


class Session:
    """A model ready to run, with its weights in the memory of a simulated machine."""

    def __init__(
        self,
        model: CompiledModel[Any],
        machine: str | None = None,
        progress: Progress | None = None,
        max_cycles: int | None = None,
        *,
        poisoned: bool = False,
        sampled: bool = False,
    ) -> None:
        """`machine` is one of the target's simulators; by default the fastest that is there."""
        self.model = model
        self.options = DeviceOptions(machine, poisoned, max_cycles, progress, sampled=sampled)
        self.state: dict[str, np.ndarray] = {}
        self.host = HostFunctions(model)
        self.resident = Resident()
        self._device: Device | None = None
        self._last: dict[str, np.ndarray] | None = None  # inputs of the last run, state included
        self._counters = Counters()
        self._calls: Sequence[StepCall] = ()

    # --- running ------------------------------------------------------------------------

    @overload
    def run(self, inputs: Sequence[Any], /) -> list[np.ndarray]: ...
    @overload
    def run(
        self, inputs: Mapping[str, Any] | None = None, /, **named: Any
    ) -> dict[str, np.ndarray]: ...
    def run(self, inputs: Any = None, /, **named: Any) -> Any:
        """The outputs: by name for inputs by name, a list for a list."""
        if inputs is not None and named:
            raise TilewrightError("TW3120", "inputs were given both by name and as a list or table")
        given = named if inputs is None else inputs
        if not isinstance(given, Mapping | Sequence) or isinstance(given, str | bytes):
            raise TilewrightError(
                "TW3120",
                f"inputs were given as {type(given).__name__}",
                hint="pass run(x=array), run({'x': array}) or run([array])",
            )
        results = self.compute(self.complete(named_inputs(self.model, given)))
        if isinstance(given, Mapping):
            return results
        return [results[name] for name in self.model.outputs]

    def complete(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs with the state that was not given: its last value, or its first."""
        for name in self.model.state:
            if name not in values:
                values[name] = (
                    self.state[name] if name in self.state else first_state(self.model, name)
                )
        return values

    def reset_state(self) -> None:
        """Forget what earlier runs left in the model's memory."""
        self.state = {}

    def compute(
        self, values: dict[str, np.ndarray], watch: Watch | None = None
    ) -> dict[str, np.ndarray]:
        """The outputs for complete inputs; `watch` looks at every step."""
        self._last = dict(values)
        try:
            results = execute(self.model, values, self.host, self.device, watch, self.resident)
        except BaseException:
            self._device = None  # a program that went astray may have hit the weights
            raise
        self._note(results)
        return {name: results[name] for name in self.model.outputs}

    def _note(self, results: Mapping[str, np.ndarray]) -> None:
        """Counters and state after a run."""
        if self._device is not None and any(isinstance(p, DevicePart) for p in self.model.parts):
            self._calls, self._counters = self._device.calls, self._device.counters
            self._counters.cycles = self._device.cycles
        for name, source in self.model.state.items():
            self.state[name] = results[source]

    # --- runs that stop -------------------------------------------------------------------

    def start(self, inputs: Any = None, /, **named: Any) -> RunSnapshot:
        """A run that has not begun, for `resume`."""
        given = named if inputs is None else inputs
        return first(self, self.complete(named_inputs(self.model, given)))

    def run_until(self, cycle: int, inputs: Any = None, /, **named: Any) -> RunSnapshot:
        """A run up to a cycle, to be gone on with by `resume`; one that ended before has outputs."""
        return self.resume(self.start(inputs, **named), cycle)

    def resume(
        self, snapshot: RunSnapshot, cycle: int = NEVER, stop: Callable[[], bool] | None = None
    ) -> RunSnapshot:
        """Go on with a run, to another cycle or to its end.

        stop: asked now and then; when it gives True the run stops where it is.
        """
        try:
            result = advanced(self, snapshot, cycle, stop)
        except BaseException:
            self._device = None  # as in `compute`
            raise
        if result.finished and not snapshot.finished:
            self._last = dict(result.inputs)
            self._note(result.values)
        return result

    def save_snapshot(self, snapshot: RunSnapshot, path: str | Path) -> None:
        """Write a run that was stopped as a file, to go on from in another process."""
        from tilewright.runtime.snapshot_files import write_snapshot

        write_snapshot(self, snapshot, path)

    def load_snapshot(self, path: str | Path) -> RunSnapshot:
        """The run of a file; that of another program is refused, and then nothing changes."""
        from tilewright.runtime.snapshot_files import read_snapshot

        return read_snapshot(self, path)

    def identity(self) -> str:
        """What tells this program from others, down to the last byte."""
        from tilewright.runtime.bundle import model_digest

        return model_digest(self.model)

    def memory(self) -> dict[str, np.ndarray]:
        """Values of earlier runs that later ones depend on, besides the inputs of the next."""
        return {}

    def set_memory(self, values: Mapping[str, np.ndarray], place: Location) -> None:
        """Take what `memory` gave, from a file; all of it or, when it does not fit, nothing."""
        if values:
            raise TilewrightError("TW3152", f"the program has no state {min(values)!r}", place)

    def device(self) -> Device:
        """The machine with the weights in place."""
        found = self._device
        if found is None:
            found = self._device = self.model.artifact.device(self.options)
        return found

    # --- what happened ------------------------------------------------------------------

    @property
    def ran(self) -> bool:
        return self._last is not None

    @property
    def cycles(self) -> int:
        """Cycles the device took for the last run."""
        return self._counters.cycles

    @property
    def step_cycles(self) -> Sequence[StepCall]:
        """Every execution of a step in the last run, in order."""
        return self._calls

    @property
    def statistics(self) -> Counters:
        """Counters of the last run."""
        return self._counters

    def trace(self, window: tuple[int, int] | None = None) -> TraceModel:
        """What happened when in the last run, or in some of its cycles; the run is repeated."""
        if self._last is None:
            raise TilewrightError("TW4001", "there is no run to trace", hint="call run first")
        first, last = window or (0, FOREVER)
        if not 0 <= first <= last:
            raise TilewrightError("TW4003", f"the window {first} to {last} holds no cycle")
        device = self.model.artifact.device(replace(self.options, window=(first, last)))
        execute(self.model, self._last, self.host, lambda: device)
        found = device.trace()
        if found is None:
            raise TilewrightError(
                "TW4004", f"{self.model.artifact.target} says nothing about when things happen"
            )
        found.title = self.model.name
        return found
