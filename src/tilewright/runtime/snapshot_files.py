"""Runs that were stopped, as files.

    session.save_snapshot(session.run_until(100_000, x=x), "half.twr")
    session = Session(load("block.twb"))                  # later, elsewhere
    session.resume(session.load_snapshot("half.twr")).outputs

A file is an uncompressed zip, written whole or not at all:

    snapshot.json        format, version, whose run it is, where it stands
    values.safetensors   inputs, what the host has computed and is still needed, declared state
    device/…             the machine's own files (`Packs` in targets/artifact.py)

It fits the program it was made with and no other: weights and code are the bundle's.

Error codes: TW3135 a file that is no snapshot of the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.json_tables import Table, read_document
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.runtime.resuming import NEVER, RunSnapshot, resumable
from tilewright.runtime.values import fitting
from tilewright.targets.artifact import DevicePart, Packs
from tilewright.targets.compiled_model import CompiledModel

if TYPE_CHECKING:
    from tilewright.runtime.session import Session

FORMAT = "tilewright.snapshot"
VERSION = 1
_HEADER, _VALUES, _DEVICE = "snapshot.json", "values.safetensors", "device/"
_INPUT, _VALUE, _MEMORY = "input/", "value/", "state/"


@dataclass(frozen=True)
class Header:
    """Whose run a file holds, and where it stands."""

    program: str  # digest
    name: str
    entry: str | None  # of a program that has several
    target: str
    part: int
    cycle: int


# --- writing ----------------------------------------------------------------------------


def write_snapshot(session: Session, snapshot: RunSnapshot, path: str | Path) -> None:
    """Write a run that was stopped."""
    model = session.model
    if snapshot.model is not model:
        raise TilewrightError("TW3134", "the snapshot is of another program")
    if snapshot.device is None:
        state = "has ended" if snapshot.finished else "has not begun"
        raise TilewrightError("TW3134", f"the run {state}: there is nothing to go on with")
    try:
        device = list(_packs(session).pack(snapshot.device))
    except ValueError as error:
        raise TilewrightError("TW3134", f"the run cannot be written to a file: {error}") from None
    alive = _alive(model, snapshot.part)
    values = {_INPUT + name: snapshot.inputs[name] for name in model.inputs}
    values |= {_VALUE + name: snapshot.values[name] for name in sorted(alive)}
    values |= {_MEMORY + name: array for name, array in session.memory().items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "program": session.identity(),
        "name": model.name,
        "entry": entry_name(session),
        "target": model.artifact.target,
        "part": snapshot.part,
        "cycle": snapshot.cycle,
    }
    text = json.dumps(header, indent=1, sort_keys=True).encode() + b"\n"
    members = [Member(_HEADER, [text]), Member(_VALUES, tensor_pieces(values, _VALUES))]
    members += [Member(_DEVICE + member.name, member.pieces) for member in device]
    write_archive(path, members)


def require_savable(session: Session) -> None:
    """Refuse at once what could not be written when it is stopped."""
    if any(isinstance(part, DevicePart) for part in session.model.parts):
        _packs(session)


def entry_name(session: Session) -> str | None:
    """Of a session that is one entry point among several."""
    return getattr(session, "name", None)


def _alive(model: CompiledModel[Any], part: int) -> set[str]:
    """Values from before a part that later ones, the outputs or the state take, but for inputs."""
    made = {name for one in model.parts[:part] for name in one.outputs}
    wanted = {*model.outputs, *model.state.values()}
    for one in model.parts[part + 1 :]:
        wanted |= set(one.inputs)
    return (made & wanted) - set(model.inputs)


def _packs(session: Session) -> Packs:
    machine = resumable(session)
    if not isinstance(machine, Packs) or not machine.packs:
        raise TilewrightError(
            "TW3134",
            f"runs on {session.model.artifact.target} cannot be written to a file",
            hint="a snapshot stays good as long as this process runs",
        )
    return machine


# --- reading ----------------------------------------------------------------------------


def read_header(path: str | Path) -> Header:
    """What a file says of itself; all of its bytes are checked against their checksums."""
    return _header_of(_members(path), Location(str(path)))


def read_snapshot(session: Session, path: str | Path) -> RunSnapshot:
    """The run of a file, for the session's program; its declared state becomes the session's."""
    place, members, model = Location(str(path)), _members(path), session.model
    header = _header_of(members, place)
    if (header.entry, header.target) != (entry_name(session), model.artifact.target):
        raise _foreign(header, place)
    if header.program != session.identity():
        raise _foreign(header, place)
    if header.part >= len(model.parts):
        raise _bad("it stands at a part that the program has not", place)
    part = model.parts[header.part]
    if not isinstance(part, DevicePart):
        raise _bad("it stands at a part that the host computes", place)
    if not {_HEADER, _VALUES} < set(members):
        raise _bad("it lacks values or the state of the device", place)
    tensors = read_tensors(members[_VALUES], "the values", place)
    inputs = _ports(model, tensors, _INPUT, set(model.inputs), place)
    values = _ports(model, tensors, _VALUE, _alive(model, header.part), place)
    memory = _split(tensors, _MEMORY)
    if len(inputs) + len(values) + len(memory) != len(tensors):
        raise _bad("it holds values of no kind", place)
    own = {n.removeprefix(_DEVICE): x for n, x in members.items() if n not in (_HEADER, _VALUES)}
    try:
        state = _packs(session).unpack(part, own, place)
    except ValueError as error:
        raise _bad(str(error), place) from None
    session.set_memory(memory, place)
    return RunSnapshot(model, inputs, {**inputs, **values}, None, header.part, header.cycle, state)


def _members(path: str | Path) -> dict[str, np.ndarray]:
    members = read_archive(path, "a snapshot of a run")
    if _HEADER not in members:
        raise _bad("it is an archive of something else", Location(str(path)))
    return members


def _header_of(members: Mapping[str, np.ndarray], place: Location) -> Header:
    table = Table(read_document(members, _HEADER, place), "the header", place)
    if table.take("format") != FORMAT:
        raise _bad("it is an archive of something else", place)
    version = table.integer("version", 1)
    if version > VERSION:
        raise _bad(f"it has version {version} of the format, this release reads {VERSION}", place)
    entry = table.take("entry")
    if entry is not None:
        entry = table.text("entry")
    header = Header(
        table.text("program"),
        table.text("name"),
        entry,
        table.text("target"),
        table.integer("part"),
        table.integer("cycle", 0, NEVER),
    )
    table.done()
    return header


def _ports(
    model: CompiledModel[Any],
    tensors: Mapping[str, np.ndarray],
    kind: str,
    wanted: set[str],
    place: Location,
) -> dict[str, np.ndarray]:
    found = _split(tensors, kind)
    if set(found) != wanted:
        raise _bad(f"it has no, or other, values of {min(set(found) ^ wanted)}", place)
    return {name: fitting(model.ports[name], array, place) for name, array in found.items()}


def _split(tensors: Mapping[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    return {n.removeprefix(kind): x for n, x in tensors.items() if n.startswith(kind)}


def _foreign(header: Header, place: Location) -> TilewrightError:
    whose = header.name if header.entry is None else f"{header.name}, entry {header.entry}"
    return TilewrightError(
        "TW3135",
        f"the snapshot is that of another program, {whose} on {header.target}",
        place,
        "a run goes on with the bundle it began with, byte for byte",
    )


def _bad(reason: str, place: Location) -> TilewrightError:
    return TilewrightError("TW3135", f"this is no snapshot to go on from: {reason}", place)
