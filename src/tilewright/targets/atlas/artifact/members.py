"""The files of an Atlas program in a bundle: contents, machine words, data, weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member
from tilewright.io.json_tables import Table, read_document
from tilewright.io.pieces import Content
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.artifact.contents import contents_of, read_contents
from tilewright.targets.atlas.encoding import decode, encode
from tilewright.targets.atlas.program import Data, Program

_CONTENTS, _WEIGHTS = "contents.json", "weights.safetensors"


def members_of(artifact: AtlasArtifact) -> list[Member]:
    """The files; equal programs give equal bytes."""
    contents = json.dumps(contents_of(artifact), indent=1, sort_keys=True, allow_nan=False)
    members = [Member(_CONTENTS, [contents.encode() + b"\n"])]
    for number, program in enumerate(artifact.segments):
        members.append(Member(_code_name(number), [_words(artifact, number)]))
        if program.data:
            members.append(Member(_data_name(number), [d.bytes for d in program.data]))
    members.append(Member(_WEIGHTS, tensor_pieces(artifact.weights, _WEIGHTS)))
    return members


def _words(artifact: AtlasArtifact, number: int) -> bytes:
    """The code of a segment; reading it back gives the same instructions."""
    program = artifact.segments[number]
    words = encode(program, artifact.profile)
    again = decode(words, artifact.profile)
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


# --- reading ----------------------------------------------------------------------------


def read(members: Mapping[str, Content], place: Location) -> AtlasArtifact:
    """The program of its files; weights are mapped, not read into memory."""
    top = Table(read_document(members, _CONTENTS, place), "its program", place)
    artifact, segments = read_contents(top)
    wanted = {_CONTENTS, _WEIGHTS}
    wanted.update(_code_name(number) for number in range(len(segments)))
    wanted.update(_data_name(n) for n, segment in enumerate(segments) if segment["data"])
    missing, unknown = sorted(wanted - members.keys()), sorted(members.keys() - wanted)
    if missing:
        raise TilewrightError("TW3105", f"the bundle lacks {missing[0]}", place)
    if unknown:
        raise TilewrightError(
            "TW3105",
            f"the bundle has a member {unknown[0]!r} that its contents do not name",
            place,
        )
    artifact.segments = [
        _segment(members, number, entry, artifact, place) for number, entry in enumerate(segments)
    ]
    artifact.weights = read_tensors(members[_WEIGHTS], _WEIGHTS, place)
    return artifact


def _segment(
    members: Mapping[str, Content],
    number: int,
    entry: dict[str, Any],
    artifact: AtlasArtifact,
    place: Location,
) -> Program:
    name = _code_name(number)
    raw = members[name]
    if len(raw) != 4 * entry["words"]:
        raise TilewrightError(
            "TW3105", f"{name} has {len(raw)} bytes, its {entry['words']} words need 4 each", place
        )
    words = raw[:].view("<u4").astype(np.uint32)
    try:
        program = decode(words, artifact.profile, f"{place.file}#{name}")
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
