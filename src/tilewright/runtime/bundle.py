"""Compiled models as files: `save(model, "block.twb")`, `load("block.twb")`.

A bundle is an uncompressed zip of JSON, machine words, safetensors and MLIR text (docs/bundles.md).
Equal models give equal bytes. A file of unknown origin is safe to load: it holds no code that
runs on the host other than MLIR for the reference executor, and everything in it is checked.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member, read_archive, write_archive
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.runtime.check import require
from tilewright.runtime.compiled_model import CompiledModel
from tilewright.runtime.manifest import manifest_of, read_manifest
from tilewright.targets.atlas.encoding import decode, encode
from tilewright.targets.atlas.program import Data, Program
from tilewright.targets.atlas.program_json import load_document

SUFFIX = ".twb"
_MANIFEST, _WEIGHTS = "manifest.json", "weights.safetensors"
_HOST, _HOST_WEIGHTS = "host.mlir", "host_weights.safetensors"
_MAX_MANIFEST = 256 << 20


def save(model: CompiledModel, path: str | Path) -> None:
    """Write a model as one file, all of it or nothing."""
    require(model)
    write_archive(path, _members(model))


def _members(model: CompiledModel) -> list[Member]:
    manifest = json.dumps(manifest_of(model), indent=1, sort_keys=True, allow_nan=False)
    members = [Member(_MANIFEST, [manifest.encode() + b"\n"])]
    for number, program in enumerate(model.segments):
        members.append(Member(_code_name(number), [_words(model, number)]))
        if program.data:
            members.append(Member(_data_name(number), [d.bytes for d in program.data]))
    members.append(Member(_WEIGHTS, tensor_pieces(model.weights, _WEIGHTS)))
    if model.host_module:
        members.append(Member(_HOST, [model.host_module.encode()]))
    if model.host_weights:
        members.append(Member(_HOST_WEIGHTS, tensor_pieces(model.host_weights, _HOST_WEIGHTS)))
    for number, (name, text) in enumerate(model.phases.items()):
        members.append(Member(_phase_name(number, name), [text.encode()]))
    return members


def _words(model: CompiledModel, number: int) -> bytes:
    """The code of a segment; reading it back gives the same instructions."""
    program = model.segments[number]
    words = encode(program, model.profile)
    again = decode(words, model.profile)
    if not again.same_code(program):
        differs = (again.opcodes != program.opcodes) | (again.operands != program.operands).any(1)
        at = int(np.flatnonzero(differs)[0])
        raise TilewrightError(
            "TW3108",
            f"instruction {at} of segment {number} reads back as {again[at]}, it is {program[at]}",
        )
    return words.astype("<u4").tobytes()


def _code_name(number: int) -> str:
    return f"code/segment-{number}.bin"


def _data_name(number: int) -> str:
    return f"code/segment-{number}.data"


def _phase_name(number: int, name: str) -> str:
    return f"phases/{number:02}-{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:80]}.mlir"


# --- loading ----------------------------------------------------------------------------


def load(path: str | Path) -> CompiledModel:
    """The model of a bundle; its weights are mapped, not read into memory."""
    members = read_archive(path, "a Tilewright bundle")
    place = Location(str(path))
    if _MANIFEST not in members:
        raise TilewrightError("TW3101", "this is a zip file, but not a Tilewright bundle", place)
    if len(members[_MANIFEST]) > _MAX_MANIFEST:
        raise TilewrightError("TW3104", "the manifest is too large", place)
    try:
        document = load_document(_text(members, _MANIFEST, place), str(path))
    except TilewrightError as error:
        message = f"the manifest is malformed: {error.message}"
        raise TilewrightError("TW3104", message, place) from None
    model, segments, phases = read_manifest(document, place)
    _check_names(members, model, segments, phases, place)
    model.segments = [
        _segment(members, number, entry, model, place) for number, entry in enumerate(segments)
    ]
    model.weights = read_tensors(members[_WEIGHTS], _WEIGHTS, place)
    if _HOST in members:
        model.host_module = _text(members, _HOST, place)
    if _HOST_WEIGHTS in members:
        model.host_weights = read_tensors(members[_HOST_WEIGHTS], _HOST_WEIGHTS, place)
    for number, name in enumerate(phases):
        model.phases[name] = _text(members, _phase_name(number, name), place)
    require(model, place)
    return model


def _check_names(
    members: dict[str, np.ndarray],
    model: CompiledModel,
    segments: list[dict[str, Any]],
    phases: list[str],
    place: Location,
) -> None:
    """The members are exactly those the manifest speaks of."""
    if len(set(phases)) != len(phases):
        raise TilewrightError("TW3105", "two phases have the same name", place)
    wanted = {_MANIFEST, _WEIGHTS}
    wanted.update(_code_name(number) for number in range(len(segments)))
    wanted.update(_data_name(n) for n, segment in enumerate(segments) if segment["data"])
    wanted.update(_phase_name(number, name) for number, name in enumerate(phases))
    optional = {_HOST, _HOST_WEIGHTS}
    missing = sorted(wanted - members.keys())
    if missing:
        raise TilewrightError("TW3105", f"the bundle lacks {missing[0]}", place)
    unknown = sorted(members.keys() - wanted - optional)
    if unknown:
        raise TilewrightError(
            "TW3105",
            f"the bundle has a member {unknown[0]!r} that its manifest does not name",
            place,
        )


def _segment(
    members: dict[str, np.ndarray],
    number: int,
    entry: dict[str, Any],
    model: CompiledModel,
    place: Location,
) -> Program:
    name = _code_name(number)
    raw = members[name]
    if len(raw) != 4 * entry["words"]:
        raise TilewrightError(
            "TW3105", f"{name} has {len(raw)} bytes, its {entry['words']} words need 4 each", place
        )
    words = raw.view("<u4").astype(np.uint32)
    try:
        program = decode(words, model.profile, f"{place.file}#{name}")
    except TilewrightError as error:
        raise TilewrightError("TW3109", f"{name}: {error.message}", place, error.hint) from None
    program.source, program.labels = entry["source"], entry["labels"]
    if entry["data"]:
        content = members[_data_name(number)].tobytes()
        at = 0
        for space, address, count in entry["data"]:
            program.data.append(Data(space, address, content[at : at + count]))
            at += count
        if at != len(content):
            raise TilewrightError(
                "TW3105", f"{_data_name(number)} has {len(content)} bytes, {at} are placed", place
            )
    return program


def _text(members: dict[str, np.ndarray], name: str, place: Location) -> str:
    try:
        return members[name].tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"{name} is not UTF-8 text at byte {error.start}"
        raise TilewrightError("TW3105", message, place) from None
