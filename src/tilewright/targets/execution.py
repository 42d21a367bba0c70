"""Carrying out a compiled model: host parts by the reference executor, device parts on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.reference.bits import equal_bits
from tilewright.targets.artifact import Device, HostPart, Keeps, Port, Watch
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.port_types import PORT_TYPES, rounded

if TYPE_CHECKING:
    from tilewright.reference.executor import Executor

Values = dict[str, np.ndarray]  # by port


class HostFunctions:
    """The host module of a model, read once."""

    def __init__(self, model: CompiledModel[Any]) -> None:
        self.model = model
        self._executor: Executor | None = None

    def run(self, part: HostPart, values: Values) -> None:
        """Add the outputs of a host part to the values."""
        results = self.executor().run([values[name] for name in part.inputs], part.function)
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

    def executor(self) -> Executor:
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


class Resident:
    """What a device holds of a model's state, so that only rows that have changed are handed over.

    Arrays are compared bit by bit with what was handed over before: state that callers change in
    place, go back to or load from a file needs no care.
    """

    def __init__(self) -> None:
        self._device: Device | None = None
        self._held: Values = {}
        self.rows_written = 0  # of all calls, where only some were

    def forget(self) -> None:
        """The device may hold something else."""
        self._device, self._held = None, {}

    def write(self, device: Device, port: Port, value: np.ndarray) -> None:
        """Have the device hold a value in a port."""
        if not isinstance(device, Keeps) or not device.keeps(port):
            device.write(port, value)
            return
        if self._device is not device:
            self._device, self._held = device, {}
        held = self._held.pop(port.name, None)  # not known if writing fails
        if held is None:
            device.write(port, value)
            held = np.array(value)
        else:
            self._update(device, port, value, held)
        self._held[port.name] = held

    def _update(self, device: Keeps, port: Port, value: np.ndarray, held: np.ndarray) -> None:
        """Hand over the rows from the first to the last that differ."""
        differs = ~equal_bits(held, value)
        if not differs.any():
            return
        dimension = device.row_dimension(port)
        if dimension is None:
            device.write(port, value)
            held[...] = value
            return
        others = tuple(d for d in range(value.ndim) if d != dimension)
        rows = np.flatnonzero(differs.any(others))
        first, end = int(rows[0]), int(rows[-1]) + 1
        device.write_rows(port, value, first, end)
        self.rows_written += end - first
        part = (slice(None),) * dimension + (slice(first, end),)
        held[part] = value[part]


def first_state(model: CompiledModel[Any], name: str) -> np.ndarray:
    """The first value of a state: the model's own, else zeros."""
    port = model.ports[name]
    if name in model.host_weights:
        return rounded(model.host_weights[name], port.dtype).reshape(port.shape)
    return np.zeros(port.shape, PORT_TYPES[port.dtype])


def execute(
    model: CompiledModel[Any],
    inputs: Values,
    host: HostFunctions,
    device: Callable[[], Device],
    watch: Watch | None = None,
    resident: Resident | None = None,
) -> Values:
    """The values of all ports for complete inputs, state included.

    device: asked for when the first part needs one; a new run of it begins then. resident: what it
    holds from runs before.
    """
    values, machine = dict(inputs), None
    resident = resident or Resident()
    for part in model.parts:
        if isinstance(part, HostPart):
            host.run(part, values)
            continue
        if machine is None:
            machine = device()
            machine.begin()
        for name in part.inputs:
            resident.write(machine, model.ports[name], values[name])
        machine.run(part, watch)
        for name in part.outputs:
            values[name] = machine.read(model.ports[name])
    return values
