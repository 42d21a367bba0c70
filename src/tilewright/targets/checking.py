"""Whether a compiled model fits together: an independent look at what a compiler planned.

Nothing here knows how the model was made, or for what machine: it sees ports, parts and the host
module. What the machine made is looked at by its own checker, `Artifact.check`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tilewright.errors import Location, TilewrightError, TilewrightErrors
from tilewright.targets.artifact import DevicePart, Finding, HostPart
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel
from tilewright.targets.port_types import PORT_TYPES

MAX_FINDINGS = 20
MAX_ENTRY_POINTS = 64
ENTRY_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")  # to call as a method, safe in a file


def check(model: CompiledModel[Any]) -> list[TilewrightError]:
    """Everything that is wrong with a model, at most 20 findings; empty if it fits together."""
    findings: list[TilewrightError] = []
    for part in (_ports, _parts, lambda m: m.artifact.check(m.parts, m.ports)):
        for finding in part(model):
            if finding.error:
                findings.append(TilewrightError(finding.code, finding.message, hint=finding.hint))
            if len(findings) == MAX_FINDINGS:
                return findings
        if findings:
            break  # later parts rely on what earlier ones found in order
    return findings


def require(model: CompiledModel[Any], place: Location | None = None) -> None:
    """Raise what is wrong with a model."""
    findings = check(model)
    if findings:
        for finding in findings:
            if place is not None:
                finding.at(place)
        raise findings[0] if len(findings) == 1 else TilewrightErrors(findings)


def require_entries(program: CompiledEntries, place: Location | None = None) -> None:
    """Raise what is wrong with how entry points fit together, then what is wrong with one of them."""
    finding = next(_entries(program), None)
    if finding is not None:
        raise TilewrightError(finding.code, finding.message, place, finding.hint)
    for name, model in program.entries.items():
        try:
            require(model, place)
        except TilewrightError as error:
            error.message = f"entry point {name}: {error.message}"
            raise


def _entries(program: CompiledEntries) -> Iterator[Finding]:
    """Entry points of one machine; state whose ports are there, alike, and state of the models."""
    models = program.entries
    if not 1 <= len(models) <= MAX_ENTRY_POINTS:
        yield _bad(f"there are {len(models)} entry points, 1 to {MAX_ENTRY_POINTS} can be")
    for name, model in models.items():
        if not ENTRY_NAME.fullmatch(name):
            yield _bad(f"{name!r} is no name of an entry point")
        if model.artifact.target != program.target or model.artifact.family != program.family:
            yield _bad(f"{name} is for {model.artifact.target}, others for {program.target}")
    claimed: set[tuple[str, str]] = set()
    for name, state in program.state.items():
        if not state.readers or not state.writers:
            yield _bad(f"the state {name} is not both read and written")
        shapes = set()
        for noun, ports in (("input", state.readers), ("output", state.writers)):
            for entry, port in ports.items():
                known = models.get(entry)
                listed = () if known is None else known.inputs if noun == "input" else known.outputs
                if known is None or port not in listed or port not in known.ports:
                    yield _bad(f"the state {name} is in {entry}.{port}, which is no {noun}")
                    return
                if (entry, port) in claimed:
                    yield _bad(f"{entry}.{port} belongs to two states")
                claimed.add((entry, port))
                shapes.add((known.ports[port].shape, known.ports[port].dtype))
        if len(shapes) > 1:
            shown = " and ".join(f"{'x'.join(map(str, s))}x{d}" for s, d in sorted(shapes))
            yield _bad(f"the ports of the state {name} differ: {shown}")
        for entry, port in state.readers.items():
            if models[entry].state.get(port) != state.writers.get(entry, port):
                yield _bad(f"{entry} does not keep its input {port}, which is the state {name}")


def _ports(model: CompiledModel[Any]) -> Iterator[Finding]:
    tensors = model.artifact.tensors
    for name, port in model.ports.items():
        if port.name != name or port.dtype not in PORT_TYPES:
            yield _bad(f"the port {name} has type {port.dtype!r} or another name than its key")
        if port.tensor is not None and port.tensor not in tensors:
            yield _bad(f"the port {name} lies in region {port.tensor!r}, which does not exist")
        elif port.iteration is not None:
            count = 0 if port.tensor is None else tensors[port.tensor].count
            if not 0 <= port.iteration < count:
                yield _bad(
                    f"the port {name} is for iteration {port.iteration} of {port.tensor}, which "
                    f"has {count}"
                )
        if port.encoding is not None:
            wrong = port.encoding.wrong(port.shape)
            if wrong is not None:
                yield _bad(f"the port {name} has an encoding with {wrong}")
            elif port.tensor is None or (
                port.tensor in tensors and tensors[port.tensor].kind != "state"
            ):
                yield _bad(f"the port {name} has an encoding, but is no state on the device")
    for names, noun in ((model.inputs, "input"), (model.outputs, "output")):
        for name in names:
            if name not in model.ports:
                yield _bad(f"the {noun} {name!r} is not a port")
        if noun == "input" and len(set(names)) != len(names):
            yield _bad("an input has the name of another")
    for into, out in model.state.items():
        first, second = model.ports.get(into), model.ports.get(out)
        if into not in model.inputs or second is None or first is None:
            yield _bad(f"the state {into!r} is no input or {out!r} is no port")
        elif (first.shape, first.dtype) != (second.shape, second.dtype):
            yield _bad(f"the state {into} and its next value {out} differ in shape or type")


def _parts(model: CompiledModel[Any]) -> Iterator[Finding]:
    """Every value is there before it is needed."""
    known = set(model.inputs)
    for number, part in enumerate(model.parts):
        for name in (*part.inputs, *part.outputs):
            port = model.ports.get(name)
            if port is None:
                yield _bad(f"part {number} has no port {name!r}")
            elif isinstance(part, DevicePart) and port.tensor is None:
                yield _bad(f"part {number} runs on the device, {name} has no place there")
        for name in part.inputs:
            if name not in known:
                yield _bad(f"part {number} needs {name} before it is computed")
        known.update(part.outputs)
        if isinstance(part, HostPart) and not model.host_module:
            yield _bad(f"part {number} runs {part.function} on the host, there is no host module")
    for name in (*model.outputs, *model.state.values()):
        if name not in known:
            yield _bad(f"nothing computes the output {name}")


def _bad(message: str) -> Finding:
    return Finding("TW3115", message)
