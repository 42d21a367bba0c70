"""The files of an artifact in a bundle, and reading them from a bundle of unknown origin.

layers.json, design_<n>.mlir and descriptors_<n>.txt for each shape, kernels.cc, weights.safetensors,
and device.json if the array is a user's own.
Descriptors and kernel source are for other tools: they have to be what the design says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.io.archive import Member
from tilewright.io.pieces import Content
from tilewright.io.tensor_blob import read_tensors, tensor_pieces
from tilewright.targets.xdna.device import (
    ArrayDevice,
    device_names,
    device_of,
    device_table,
    load_device,
)
from tilewright.targets.xdna.kernel_source import kernel_source
from tilewright.targets.xdna.layer_weights import KINDS
from tilewright.targets.xdna.mlir_emit import emit_mlir
from tilewright.targets.xdna.mlir_parse import parse_design
from tilewright.targets.xdna.model_artifact import LayerCall, PackedWeight, XdnaArtifact
from tilewright.targets.xdna.registers import descriptor_listing
from tilewright.targets.xdna.structure import structure_problems

LAYERS, WEIGHTS, KERNELS = "layers.json", "weights.safetensors", "kernels.cc"
DEVICE = "device.json"
VERSION = 1
_MOST_DESIGNS, _MOST_LAYERS = 4096, 1 << 16
_LARGEST_TEXT = 64 << 20
_LAYER_FIELDS = {
    "name": str, "entry": str, "x": str, "y": str, "shape": list, "result_shape": list,
    "dtype": str, "weight": str, "exact": bool, "design": int, "source": str,
}  # fmt: skip


def members_of(artifact: XdnaArtifact) -> list[Member]:
    document = {
        "version": VERSION,
        "target": artifact.target,
        "device": artifact.array.name,
        "weights": artifact.weight_kind,
        "designs": len(artifact.designs),
        "layers": [
            {name: _plain(getattr(layer, name)) for name in _LAYER_FIELDS}
            for layer in artifact.layers
        ],
        "digests": {name: [w.digest, w.rule] for name, w in artifact.weights.items()},
    }
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    members = [Member(LAYERS, [text.encode()])]
    if not _is_built_in(artifact.array):
        table = json.dumps(device_table(artifact.array), indent=1) + "\n"
        members.append(Member(DEVICE, [table.encode()]))
    for number, design in enumerate(artifact.designs):
        members.append(Member(f"design_{number}.mlir", [emit_mlir(design).encode()]))
        listing = descriptor_listing(design)
        members.append(Member(f"descriptors_{number}.txt", [listing.encode()]))
    if artifact.designs:
        members.append(Member(KERNELS, [kernel_source(artifact.designs[0]).encode()]))
    tensors: dict[str, np.ndarray] = {}
    for name, weight in artifact.weights.items():
        tensors[f"{name}:packed"] = weight.packed
        tensors[f"{name}:scales"] = weight.scales
    members.append(Member(WEIGHTS, tensor_pieces(tensors, WEIGHTS)))
    return members


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def read_artifact(members: Mapping[str, Content], place: Location) -> XdnaArtifact:
    """The artifact of these files; whether it fits together is for `check` to say."""
    wrong = _Wrong(place)
    document = _table(members, LAYERS, wrong)
    if document.get("version") != VERSION:
        raise wrong(f"its version is {document.get('version')!r}, this program reads {VERSION}")
    device, kind, target = (document.get(name) for name in ("device", "weights", "target"))
    if kind not in KINDS or not isinstance(kind, str) or not isinstance(target, str):
        raise wrong("it names no kind of weights or no target")
    many = document.get("designs")
    if type(many) is not int or not 0 <= many <= _MOST_DESIGNS:
        raise wrong("the number of designs is no number, or too large")
    array = _array(device, members, wrong, place)
    designs = []
    for number in range(many):
        name = f"design_{number}.mlir"
        design = parse_design(_text(members, name, wrong), f"{place.file} ({name})", array)
        problems = structure_problems(design)
        if problems or design.gemm is None:
            raise wrong(f"{name}: {problems[0] if problems else 'it computes no product'}")
        if _text(members, f"descriptors_{number}.txt", wrong) != descriptor_listing(design):
            raise wrong(f"descriptors_{number}.txt is not what {name} says")
        designs.append(design)
    expected = {LAYERS, WEIGHTS, *([KERNELS] if many else [])}
    expected |= set() if _is_built_in(array) else {DEVICE}
    expected |= {f"{stem}_{i}.{end}" for i in range(many) for stem, end in _PER_DESIGN}
    unknown = sorted(set(members) - expected)
    if unknown:
        raise wrong(f"it has a file {unknown[0]!r} that nothing names")
    if many and _text(members, KERNELS, wrong) != kernel_source(designs[0]):
        raise wrong(f"{KERNELS} is not what the designs call")
    weights = _weights(document, members, wrong, place)
    return XdnaArtifact(target, array, kind, tuple(designs), _layers(document, wrong), weights)


_PER_DESIGN = (("design", "mlir"), ("descriptors", "txt"))


class _Wrong:
    """The error of an artifact that cannot be read."""

    def __init__(self, place: Location) -> None:
        self.place = place

    def __call__(self, reason: str) -> TilewrightError:
        return TilewrightError(
            "TW8096", f"the program for the array cannot be used: {reason}", self.place
        )


def _text(members: Mapping[str, Content], name: str, wrong: _Wrong) -> str:
    if name not in members:
        raise wrong(f"{name} is missing")
    if members[name].size > _LARGEST_TEXT:
        raise wrong(f"{name} is too large")
    try:
        return members[name].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise wrong(f"{name} is not UTF-8 text") from None


def _is_built_in(array: ArrayDevice) -> bool:
    return array.name in device_names() and array == load_device(array.name)


def _array(
    name: object, members: Mapping[str, Content], wrong: _Wrong, place: Location
) -> ArrayDevice:
    """The array of a bundle: a built-in one by its name, or the one it brings."""
    if DEVICE not in members:
        if name not in device_names() or not isinstance(name, str):
            raise wrong(f"there is no array {str(name)[:80]!r}")
        return load_device(name)
    array = device_of(_table(members, DEVICE, wrong), Location(f"{place.file} ({DEVICE})"))
    if array.name != name:
        raise wrong(f"it is for the array {str(name)[:80]!r} and brings another")
    return array


def _table(members: Mapping[str, Content], name: str, wrong: _Wrong) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        found = json.loads(_text(members, name, wrong), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise wrong(f"{name} is not usable JSON: {str(error)[:120]}") from None
    if not isinstance(found, dict):
        raise wrong(f"{name} is not a table")
    return found


def _layers(document: dict[str, Any], wrong: _Wrong) -> tuple[LayerCall, ...]:
    rows = document.get("layers")
    if not isinstance(rows, list) or len(rows) > _MOST_LAYERS:
        raise wrong("there is no list of layers")
    layers = []
    for number, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != set(_LAYER_FIELDS):
            raise wrong(f"layer {number} has not the fields of a layer")
        for name, kind in _LAYER_FIELDS.items():
            if type(row[name]) is not kind:
                raise wrong(f"{name} of layer {number} is not a {kind.__name__}")
        sizes = [*row["shape"], *row["result_shape"]]
        if len(row["shape"]) != 3 or len(sizes) > 32:
            raise wrong(f"layer {number} has not three sizes")
        if any(type(size) is not int or not 0 < size < 1 << 40 for size in sizes):
            raise wrong(f"a size of layer {number} is no positive number")
        if row["dtype"] not in ("f32", "f16", "bf16", "i32"):
            raise wrong(f"layer {number} gives numbers of an unknown type")
        if not 0 <= row["design"] < document["designs"]:
            raise wrong(f"layer {number} uses a design that is not there")
        layers.append(
            LayerCall(
                **{**row, "shape": tuple(row["shape"]), "result_shape": tuple(row["result_shape"])}
            )
        )
    return tuple(layers)


def _weights(
    document: dict[str, Any], members: Mapping[str, Content], wrong: _Wrong, place: Location
) -> dict[str, PackedWeight]:
    notes = document.get("digests")
    if not isinstance(notes, dict):
        raise wrong("there is no table of weights")
    if WEIGHTS not in members:
        raise wrong(f"{WEIGHTS} is missing")
    tensors = read_tensors(members[WEIGHTS], WEIGHTS, place)
    weights: dict[str, PackedWeight] = {}
    for name, note in notes.items():
        if (
            not isinstance(note, list)
            or len(note) != 2
            or not all(isinstance(text, str) for text in note)
            or not re.fullmatch(r"[0-9a-f]{64}", note[0])
        ):
            raise wrong(f"the weights {name[:80]!r} have no digest")
        packed, scales = tensors.pop(f"{name}:packed", None), tensors.pop(f"{name}:scales", None)
        if packed is None or scales is None:
            raise wrong(f"the weights {name[:80]!r} are missing")
        weights[name] = PackedWeight(packed, scales, note[0], note[1][:200])
    if tensors:
        raise wrong(f"there are weights {min(tensors)[:80]!r} that nothing names")
    return weights
