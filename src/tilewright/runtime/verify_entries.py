"""Verifying entry points: each one by itself, on the state that the ones before it left.

Entry points run in their order. What one writes is the state that the next one reads, so that a
reader is verified on values as they occur. Beside the bits of every entry point it is looked at
whether state arrives as it was written, and how far the whole is from float32 that carries its own
state, where the original models are at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import TilewrightError
from tilewright.reference.bits import equal_bits
from tilewright.runtime.entry_session import SharedState
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.original import run_original
from tilewright.runtime.values import named_inputs
from tilewright.runtime.verification import Accuracy, Verification, accuracy
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import DeviceOptions
from tilewright.targets.compiled_model import CompiledEntries
from tilewright.targets.port_types import FLOATS


@dataclass
class EntriesVerification:
    """What was found of every entry point, and of the memory between them."""

    name: str
    target: str
    entries: dict[str, Verification]
    lost: list[str] = field(default_factory=list)  # state that does not arrive as it was written
    chained: dict[str, Accuracy] = field(default_factory=dict)  # entry.output -> against float32

    @property
    def ok(self) -> bool:
        return not self.lost and all(found.ok for found in self.entries.values())

    @property
    def close(self) -> bool:
        return all(found.close for found in self.entries.values())

    @property
    def cosine(self) -> float | None:
        """The smallest cosine of an output with float32, if that is known."""
        known = [f.cosine for f in self.entries.values() if f.cosine is not None]
        return min(known, default=None)

    @property
    def cycles(self) -> int:
        """Of every entry point once."""
        return sum(found.cycles for found in self.entries.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "name": self.name,
            "target": self.target,
            "cycles": self.cycles,
            "entries": {name: found.to_json() for name, found in self.entries.items()},
            "lost": self.lost,
            "chained": {name: found.to_json() for name, found in self.chained.items()},
        }

    def text(self) -> str:
        lines = []
        for name, found in self.entries.items():
            lines += [f"entry point {name}", *(f"  {row}" for row in found.text().splitlines())]
        lines += [f"state lost: {row}" for row in self.lost]
        if self.chained:
            lines.append("against float32 with its own state:")
            lines += [f"  {name}: {found}" for name, found in self.chained.items()]
        lines.append("all entry points verified" if self.ok else "NOT VERIFIED")
        return "\n".join(lines)


def verify_entries(
    program: CompiledEntries,
    inputs: Mapping[str, Mapping[str, Any]] | None = None,
    seed: int = 0,
    per_layer: bool = False,
    originals: Mapping[str, Any] | None = None,
    **options: Any,
) -> EntriesVerification:
    """Verify all entry points in their order; `inputs` and `originals` are by entry point.

    Options are those of `runtime.verify.verify`.
    """
    state = SharedState(program)
    result = EntriesVerification(program.name, program.target, {})
    exact: dict[str, np.ndarray] = {}  # state as float32 has it
    for name, model in program.entries.items():
        given = dict((inputs or {}).get(name, {}))
        for port, key in program.read_by(name).items():
            if port not in given:
                given[port] = state[key]
        result.lost += _lost(program, name, state)
        original = (originals or {}).get(name)
        found = verify(model, given, seed, per_layer, original, **options)
        result.entries[name] = found
        for port, key in program.written_by(name).items():
            state.values[key] = found.results[port]
        if original is not None:
            _follow(result, program, name, original, seed, given, exact)
    return result


def _follow(
    result: EntriesVerification,
    program: CompiledEntries,
    name: str,
    original: Any,
    seed: int,
    given: dict[str, Any],
    exact: dict[str, np.ndarray],
) -> None:
    """Run the original on state that float32 made itself, and note how far the machine is."""
    model = program.entries[name]
    reads, writes = program.read_by(name), program.written_by(name)
    own = {port: exact[key] for port, key in reads.items() if key in exact}
    if own:
        values = {**example_inputs(model, "random", seed), **given, **own}
        outputs = run_original(model, original, named_inputs(model, values), None).outputs
        for port, array in outputs.items():
            if model.ports[port].dtype in FLOATS:
                measured = accuracy(result.entries[name].results[port], array)
                result.chained[f"{name}.{port}"] = measured
    else:
        outputs = result.entries[name].exact
    exact |= {key: outputs[port] for port, key in writes.items() if port in outputs}


def _lost(program: CompiledEntries, name: str, state: SharedState) -> list[str]:
    """State that the machine does not hold as it was written: a port with fewer bits than it has."""
    model, lost = program.entries[name], []
    kept = {port: key for port, key in program.read_by(name).items() if key in state.values}
    ports = [port for port in kept if model.ports[port].tensor is not None]
    if not ports:
        return []
    try:
        device = model.artifact.device(DeviceOptions())
        for port in ports:
            device.write(model.ports[port], state[kept[port]])
            again = device.read(model.ports[port])
            if model.ports[port].encoding is not None:
                # It is rounded as the device reads it: once, and not a second time.
                device.write(model.ports[port], again)
                first, again = again, device.read(model.ports[port])
            else:
                first = state[kept[port]]
            wrong = ~equal_bits(first, again)
            if wrong.any():
                lost.append(
                    f"{int(wrong.sum()):,} of {wrong.size:,} numbers of {kept[port]} change when "
                    f"{name} takes them as {port}"
                )
    except (TilewrightError, KeyError):
        return []  # a machine whose inputs cannot be read back
    return lost
