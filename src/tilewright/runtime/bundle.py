"""Compiled models as files: `save(model, "block.twb")`, `load("block.twb")`.

A bundle is an uncompressed zip of JSON, MLIR text, safetensors and the files of a machine's artifact,
in a folder named as the family of machines (docs/bundles.md). Equal models give equal bytes. A file
of unknown origin is safe to load: it holds no code that runs on the host other than MLIR for the
reference executor, and everything in it is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.json_tables import member_text, read_document
from tilewright.io.pieces import Content
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.runtime.manifest import (
    VERSION,
    entries_manifest_of,
    has_entries,
    manifest_of,
    read_entries_manifest,
    read_manifest,
    version_of,
)
from tilewright.runtime.old_bundles import upgraded
from tilewright.runtime.shared_members import assembled, digest, share
from tilewright.targets import registry
from tilewright.targets.checking import require, require_entries
from tilewright.targets.compiled_model import CompiledEntries, CompiledModel

_MANIFEST = "manifest.json"
_ENTRIES = "entries"
_HOST, _HOST_WEIGHTS = "host.mlir", "host_weights.safetensors"


def save(model: CompiledModel[Any] | CompiledEntries, path: str | Path) -> None:
    """Write a model, or several entry points, as one file, all of it or nothing."""
    if isinstance(model, CompiledEntries):
        require_entries(model)
        write_archive(path, _entry_members(model))
        return
    require(model)
    write_archive(path, _members(model))


def _entry_members(program: CompiledEntries) -> list[Member]:
    """The files of all entry points, each in a folder of its own, what is the same stored once."""
    own = [
        Member(f"{_ENTRIES}/{name}/{member.name}", member.pieces)
        for name, model in program.entries.items()
        for member in _members(model)
    ]
    members, recipes, derived = share(own)
    return [_json_member(entries_manifest_of(program, recipes, derived)), *members]


def _json_member(document: dict[str, Any]) -> Member:
    text = json.dumps(document, indent=1, sort_keys=True, allow_nan=False)
    return Member(_MANIFEST, [text.encode() + b"\n"])


def _members(model: CompiledModel[Any]) -> list[Member]:
    members = [_json_member(manifest_of(model))]
    folder = model.artifact.family
    members += [Member(f"{folder}/{one.name}", one.pieces) for one in model.artifact.members()]
    if model.host_module:
        members.append(Member(_HOST, [model.host_module.encode()]))
    if model.host_weights:
        members.append(Member(_HOST_WEIGHTS, tensor_pieces(model.host_weights, _HOST_WEIGHTS)))
    for number, (name, text) in enumerate(model.phases.items()):
        members.append(Member(_phase_name(number, name), [text.encode()]))
    return members


def model_digest(model: CompiledModel[Any]) -> str:
    """What tells a model from others: a digest of all that its bundle holds."""
    pieces: list[bytes | np.ndarray] = []
    for member in _members(model):
        pieces += [f"{member.name}\0{member.size}\0".encode(), *member.pieces]
    return digest(pieces)


def _phase_name(number: int, name: str) -> str:
    return f"phases/{number:02}-{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:80]}.mlir"


# --- loading ----------------------------------------------------------------------------


def load(path: str | Path) -> CompiledModel[Any]:
    """The model of a bundle; its weights are mapped, not read into memory."""
    found = load_any(path)
    if isinstance(found, CompiledEntries):
        return entry_of(found, None, Location(str(path)))
    return found


def load_any(path: str | Path) -> CompiledModel[Any] | CompiledEntries:
    """The model of a bundle, or the entry points of one that has several."""
    members = read_archive(path, "a Tilewright bundle")
    place = Location(str(path))
    if _MANIFEST not in members:
        raise TilewrightError("TW3101", "this is a zip file, but not a Tilewright bundle", place)
    document = read_document(members, _MANIFEST, place)
    if not has_entries(document, place):
        model = _read_model(members, place)
        require(model, place)
        return model
    name, names, state, recipes, derived = read_entries_manifest(document, place)
    members = assembled(members, recipes, derived, place)
    del members[_MANIFEST]
    entries = {}
    for entry in names:
        folder = f"{_ENTRIES}/{entry}/"
        mine = {n.removeprefix(folder): x for n, x in members.items() if n.startswith(folder)}
        members = {n: x for n, x in members.items() if not n.startswith(folder)}
        inner = read_document(mine, _MANIFEST, place)
        single = version_of(inner, place) >= VERSION and not has_entries(inner, place)
        if not single:
            raise TilewrightError("TW3104", f"the entry point {entry} is no single model", place)
        entries[entry] = _read_model(mine, place)
    if members:
        raise TilewrightError(
            "TW3105",
            f"the bundle has a member {min(members)!r} that its manifest does not name",
            place,
        )
    program = CompiledEntries(name, entries, state)
    require_entries(program, place)
    return program


def entry_of(
    program: CompiledEntries, name: str | None, place: Location | None = None
) -> CompiledModel[Any]:
    """One entry point by its name, which may be left out where there is only one."""
    shown = ", ".join(program.entries)
    if name is None:
        if len(program.entries) == 1:
            return next(iter(program.entries.values()))
        raise TilewrightError(
            "TW3150", f"{program.name} has several entry points", place, f"choose one of {shown}"
        )
    if name not in program.entries:
        raise TilewrightError(
            "TW3150", f"{program.name} has no entry point {name!r}", place, f"it has {shown}"
        )
    return program.entries[name]


def _read_model(members: Mapping[str, Content], place: Location) -> CompiledModel[Any]:
    """The model of its members; nothing has looked at whether it fits together."""
    document = read_document(members, _MANIFEST, place)
    if version_of(document, place) < VERSION:
        document, members = upgraded(document, members, place)
    model, (family, target), phases = read_manifest(document, place)
    folder = f"{family}/"
    mine = {n.removeprefix(folder): x for n, x in members.items() if n.startswith(folder)}
    _check_names({n for n in members if not n.startswith(folder)}, phases, place)
    model.artifact = registry.read(family, target, mine, place)
    if _HOST in members:
        model.host_module = member_text(members, _HOST, place)
    if _HOST_WEIGHTS in members:
        model.host_weights = read_tensors(members[_HOST_WEIGHTS], _HOST_WEIGHTS, place)
    for number, name in enumerate(phases):
        model.phases[name] = member_text(members, _phase_name(number, name), place)
    return model


def _check_names(names: set[str], phases: list[str], place: Location) -> None:
    """The members besides the artifact's are exactly those the manifest speaks of."""
    if len(set(phases)) != len(phases):
        raise TilewrightError("TW3105", "two phases have the same name", place)
    wanted = {_MANIFEST, *(_phase_name(number, name) for number, name in enumerate(phases))}
    missing = sorted(wanted - names)
    if missing:
        raise TilewrightError("TW3105", f"the bundle lacks {missing[0]}", place)
    unknown = sorted(names - wanted - {_HOST, _HOST_WEIGHTS})
    if unknown:
        raise TilewrightError(
            "TW3105",
            f"the bundle has a member {unknown[0]!r} that its manifest does not name",
            place,
        )
