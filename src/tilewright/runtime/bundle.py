"""Compiled models as files: `save(model, "block.twb")`, `load("block.twb")`.

A bundle is an uncompressed zip of JSON, MLIR text, safetensors and the files of a machine's artifact,
in a folder named as the family of machines (docs/bundles.md). Equal models give equal bytes. A file
of unknown origin is safe to load: it holds no code that runs on the host other than MLIR for the
reference executor, and everything in it is checked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.json_tables import member_text, read_document
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.runtime.manifest import VERSION, manifest_of, read_manifest, version_of
from tilewright.runtime.old_bundles import upgraded
from tilewright.targets import registry
from tilewright.targets.checking import require
from tilewright.targets.compiled_model import CompiledModel

SUFFIX = ".twb"
_MANIFEST = "manifest.json"
_HOST, _HOST_WEIGHTS = "host.mlir", "host_weights.safetensors"


def save(model: CompiledModel[Any], path: str | Path) -> None:
    """Write a model as one file, all of it or nothing."""
    require(model)
    write_archive(path, _members(model))


def _members(model: CompiledModel[Any]) -> list[Member]:
    manifest = json.dumps(manifest_of(model), indent=1, sort_keys=True, allow_nan=False)
    members = [Member(_MANIFEST, [manifest.encode() + b"\n"])]
    folder = model.artifact.family
    members += [Member(f"{folder}/{one.name}", one.pieces) for one in model.artifact.members()]
    if model.host_module:
        members.append(Member(_HOST, [model.host_module.encode()]))
    if model.host_weights:
        members.append(Member(_HOST_WEIGHTS, tensor_pieces(model.host_weights, _HOST_WEIGHTS)))
    for number, (name, text) in enumerate(model.phases.items()):
        members.append(Member(_phase_name(number, name), [text.encode()]))
    return members


def _phase_name(number: int, name: str) -> str:
    return f"phases/{number:02}-{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:80]}.mlir"


# --- loading ----------------------------------------------------------------------------


def load(path: str | Path) -> CompiledModel[Any]:
    """The model of a bundle; its weights are mapped, not read into memory."""
    members = read_archive(path, "a Tilewright bundle")
    place = Location(str(path))
    if _MANIFEST not in members:
        raise TilewrightError("TW3101", "this is a zip file, but not a Tilewright bundle", place)
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
    require(model, place)
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
