"""Running a compiled model: host parts by the reference executor, device parts on a simulator.

    session = Session(load("block.twb"))
    session.run(x=array)                 -> {"y": array}
    session.run([array])                 -> [array]
    session.cycles, session.step_cycles, session.statistics

Weights are placed once. Inputs that are the model's own memory (`state`) keep their value from one
run to the next unless they are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.runtime.compiled_model import CompiledModel, DevicePart, HostPart
from tilewright.runtime.device import Device, Observer, Progress, SegmentRun, StepCall, total
from tilewright.runtime.port_types import PORT_TYPES
from tilewright.runtime.values import as_port, named_inputs, port_array, region_codes
from tilewright.targets.atlas.outcome import Statistics
from tilewright.targets.atlas.policy import Policy

if TYPE_CHECKING:
    from tilewright.reference.executor import Executor
    from tilewright.trace.model import TraceModel


class Session:
    """A model ready to run, with its weights in the memory of a simulated machine."""

    def __init__(
        self,
        model: CompiledModel,
        machine: str | None = None,
        policy: Policy | None = None,
        progress: Progress | None = None,
        max_cycles: int | None = None,
    ) -> None:
        """`machine` is "native" or "python"; by default the native one if it is built."""
        self.model, self.machine_kind = model, machine
        self.policy = policy or Policy()
        self.progress, self.max_cycles = progress, max_cycles
        self.state: dict[str, np.ndarray] = {}
        self._device: Device | None = None
        self._executor: Executor | None = None
        self._last: dict[str, np.ndarray] | None = None  # inputs of the last run, state included
        self._calls: list[StepCall] = []
        self._runs: list[SegmentRun] = []

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
                values[name] = self.state[name] if name in self.state else self._first(name)
        return values

    def _first(self, name: str) -> np.ndarray:
        """The first value of a state: the model's own, else zeros."""
        port = self.model.ports[name]
        if name in self.model.host_weights:
            return as_port(port, self.model.host_weights[name])
        return np.zeros(port.shape, PORT_TYPES[port.dtype])

    def reset_state(self) -> None:
        """Forget what earlier runs left in the model's memory."""
        self.state = {}

    def compute(
        self, values: dict[str, np.ndarray], observer: Observer | None = None
    ) -> dict[str, np.ndarray]:
        """The outputs for complete inputs; `observer` looks at the device after every step."""
        self._last = dict(values)
        results = self._execute(dict(values), observer)
        for name, source in self.model.state.items():
            self.state[name] = results[source]
        return {name: results[name] for name in self.model.outputs}

    def _execute(
        self, values: dict[str, np.ndarray], observer: Observer | None
    ) -> dict[str, np.ndarray]:
        device = self.device() if any(isinstance(p, DevicePart) for p in self.model.parts) else None
        if device is not None:
            device.begin()
        try:
            for part in self.model.parts:
                if isinstance(part, HostPart):
                    self.run_host(part, values)
                else:
                    assert device is not None
                    self._run_device(device, part, values, observer)
        except BaseException:
            self._device = None  # a program that went astray may have hit the weights
            raise
        if device is not None:
            self._calls, self._runs = device.calls, device.runs
        return values

    def run_host(self, part: HostPart, values: dict[str, np.ndarray]) -> None:
        """Add the outputs of a host part to the values."""
        inputs = [values[name] for name in part.inputs]
        results = self.executor().run(inputs, part.function)
        if len(results) != len(part.outputs):
            raise TilewrightError(
                "TW3133",
                f"the host function {part.function} has {len(results)} results, the model "
                f"expects {len(part.outputs)}",
            )
        for name, result in zip(part.outputs, results, strict=True):
            port = self.model.ports[name]
            if result.shape != port.shape or result.dtype != PORT_TYPES[port.dtype]:
                raise TilewrightError(
                    "TW3133",
                    f"the host function {part.function} gives {name} as {result.dtype} of shape "
                    f"{list(result.shape)}, the model expects {port.dtype} of {list(port.shape)}",
                )
            values[name] = result

    def _run_device(
        self,
        device: Device,
        part: DevicePart,
        values: dict[str, np.ndarray],
        observer: Observer | None,
    ) -> None:
        for name in part.inputs:
            region = self.model.regions[self._region(name)]
            device.write(region, region_codes(region, values[name]))
        mine = set(part.segments)
        steps = sum(step.segment in mine for _, _, step in self.model.calls())
        done = len(device.calls)
        for segment in part.segments:
            device.run(segment, observer, self.progress, self.max_cycles)
        device.expect_calls(done + steps)
        for name in part.outputs:
            region = self.model.regions[self._region(name)]
            codes = [device.read(region, turn) for turn in range(region.count)]
            values[name] = port_array(self.model.ports[name], region, codes)

    def _region(self, port: str) -> str:
        region = self.model.ports[port].region
        assert region is not None, "the model was checked"
        return region

    def device(self) -> Device:
        """The machine with the weights in place."""
        if self._device is None:
            self._device = Device(self.model, self.policy, self.machine_kind)
        return self._device

    def executor(self) -> Executor:
        """The host module, read once."""
        if self._executor is None:
            from tilewright.dialects.parsing import parse_text, verify_module
            from tilewright.reference.executor import Executor

            module = parse_text(self.model.host_module, f"{self.model.name} (host.mlir)")
            verify_module(module)
            self._executor = Executor(module, self.model.host_weights)
            for part in self.model.parts:
                if isinstance(part, HostPart) and part.function not in self._executor.functions:
                    raise TilewrightError(
                        "TW3133",
                        f"the host module has no function {part.function}",
                        Location(f"{self.model.name} (host.mlir)"),
                    )
        return self._executor

    # --- what happened ------------------------------------------------------------------

    @property
    def ran(self) -> bool:
        return self._last is not None

    @property
    def cycles(self) -> int:
        """Ticks the device took for the last run."""
        return self._runs[-1].end if self._runs else 0

    @property
    def step_cycles(self) -> list[StepCall]:
        """Every execution of a step in the last run, in order."""
        return self._calls

    @property
    def statistics(self) -> Statistics:
        """Counters of the last run, all segments together."""
        return total(self._runs)

    @property
    def segment_runs(self) -> list[SegmentRun]:
        """The segments of the last run: when they ran, and their own counters."""
        return self._runs

    def trace(self, window: tuple[int, int] | None = None) -> TraceModel:
        """What happened when in the last run, or in some of its ticks; the run is repeated."""
        from tilewright.runtime.session_trace import trace_run

        if self._last is None:
            raise TilewrightError("TW4001", "there is no run to trace", hint="call run first")
        return trace_run(self, dict(self._last), window)
