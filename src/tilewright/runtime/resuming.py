"""A run in parts: stopped at a cycle, and gone on with later.

    half = session.run_until(100_000, {"x": x})
    session.run({"x": other})             # meanwhile something else
    whole = session.resume(half)          # as if nothing had happened
    whole.outputs, session.cycles

A snapshot holds everything that the rest of the run depends on, down to the machine's pipelines. It
stays good however often it is resumed, in any session of the same model in this process; as a file
(`snapshot_files`) it is good for the same bundle anywhere.

Error codes: TW3134 a run that cannot be stopped or gone on with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.targets.artifact import DevicePart, HostPart, Resumable
from tilewright.targets.compiled_model import CompiledModel

if TYPE_CHECKING:
    from tilewright.runtime.session import Session

NEVER = 1 << 61


@dataclass(frozen=True)
class RunSnapshot:
    """A run up to some cycle.

    outputs: of a run that came to its end, else None. values: of all ports, so far. part: which one
    of the model's is being run.
    """

    model: CompiledModel[Any] = field(repr=False)
    inputs: Mapping[str, np.ndarray] = field(repr=False)
    values: Mapping[str, np.ndarray] = field(repr=False)
    outputs: dict[str, np.ndarray] | None
    part: int
    cycle: int
    device: object = field(default=None, repr=False)

    @property
    def finished(self) -> bool:
        return self.outputs is not None


def first(session: Session, inputs: Mapping[str, np.ndarray]) -> RunSnapshot:
    """A run that has not begun."""
    return RunSnapshot(session.model, dict(inputs), dict(inputs), None, 0, 0)


def advanced(
    session: Session, begun: RunSnapshot, cycle: int, stop: Callable[[], bool] | None = None
) -> RunSnapshot:
    """The run, gone on with to a cycle, to its end, or until `stop` gives True."""
    model, values = session.model, dict(begun.values)
    if begun.model is not model:
        raise TilewrightError("TW3134", "the snapshot is of another program")
    if begun.finished:
        return begun
    inside = begun.device is not None  # of a part that is being run
    started = inside or any(isinstance(p, DevicePart) for p in model.parts[: begun.part])
    for number in range(begun.part, len(model.parts)):
        part = model.parts[number]
        if isinstance(part, HostPart):
            session.host.run(part, values)
            continue
        machine = resumable(session)
        if inside:
            machine.restore(begun.device)
            session.resident.forget()
        else:
            if not started:
                machine.begin()
            for name in part.inputs:
                session.resident.write(machine, model.ports[name], values[name])
        inside, started = False, True
        if not machine.run_until(part, cycle, stop):
            reached, state = machine.reached, machine.snapshot()
            return RunSnapshot(model, begun.inputs, values, None, number, reached, state)
        for name in part.outputs:
            values[name] = machine.read(model.ports[name])
    outputs = {name: values[name] for name in model.outputs}
    end = session.device().cycles if started else 0
    return RunSnapshot(model, begun.inputs, values, outputs, len(model.parts), end)


def resumable(session: Session) -> Resumable:
    """The session's device, where its runs can be stopped."""
    machine, options = session.device(), session.options
    if not isinstance(machine, Resumable) or options.sampled or options.window is not None:
        raise TilewrightError(
            "TW3134",
            f"runs on {session.model.artifact.target} cannot be stopped"
            if not isinstance(machine, Resumable)
            else "a run whose units are sampled or traced cannot be stopped",
            hint="run it as a whole",
        )
    return machine
