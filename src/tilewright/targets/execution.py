"""Carrying out a compiled model: host parts by the reference executor, device parts on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.artifact import Device, HostPart, Watch
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
) -> Values:
    """The values of all ports for complete inputs, state included.

    device: asked for when the first part needs one; a new run of it begins then.
    """
    values, machine = dict(inputs), None
    for part in model.parts:
        if isinstance(part, HostPart):
            host.run(part, values)
            continue
        if machine is None:
            machine = device()
            machine.begin()
        for name in part.inputs:
            machine.write(model.ports[name], values[name])
        machine.run(part, watch)
        for name in part.outputs:
            values[name] = machine.read(model.ports[name])
    return values
