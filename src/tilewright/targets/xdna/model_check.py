"""Whether an artifact can be right: designs, weights, and how layers fit each other and the ports.

Designs are judged by the checker of designs, weights by decoding them with the reference's own
decoder and comparing with the digest the compiler took of the codes before packing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tilewright.targets.artifact import DevicePart, Finding, HostPart, Port
from tilewright.targets.xdna.checker import check_design
from tilewright.targets.xdna.gemm import gemm_behind
from tilewright.targets.xdna.layer_program import configuration
from tilewright.targets.xdna.layer_weights import digest
from tilewright.targets.xdna.model_artifact import XdnaArtifact
from tilewright.targets.xdna.model_reference import decoded


def check_artifact(
    artifact: XdnaArtifact, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
) -> Iterator[Finding]:
    found = False
    for findings in (
        _designs(artifact), _layers(artifact), check_weights(artifact),
        _parts(artifact, parts, ports),
    ):  # fmt: skip
        for finding in findings:
            found = True
            yield finding
        if found:
            return  # later checks rely on what earlier ones found in order


def _bad(message: str, hint: str | None = None) -> Finding:
    return Finding("TW8095", message, hint=hint)


def _designs(artifact: XdnaArtifact) -> Iterator[Finding]:
    """Every design is legal, and all of them are one configuration."""
    for number, design in enumerate(artifact.designs):
        if design.gemm is None:
            yield _bad(f"design {number} does not say which product it computes")
            return
        gemm = gemm_behind(design)
        wanted = ("i8", artifact.weight_kind, "i32", artifact.weight_kind == "i8")
        if (gemm.inputs, gemm.weights, gemm.output, gemm.pretiled) != wanted:
            yield _bad(f"design {number} multiplies other number formats than the layers have")
        if gemm.c_layout != "row" or gemm.zero_point != "sub":
            yield _bad(f"design {number} leaves its sums otherwise than the driver reads them")
        for check in check_design(design, deadlock=False):
            if not check.ok:
                yield _bad(f"design {number}: {check.name}: {check.detail or check.used}")
        if configuration(design) != configuration(artifact.designs[0]):
            yield _bad(f"design {number} needs another configuration of the array than design 0")


def _layers(artifact: XdnaArtifact) -> Iterator[Finding]:
    made: dict[str, str] = {}
    for layer in artifact.layers:
        if not 0 <= layer.design < len(artifact.designs):
            yield _bad(f"{layer.name} uses design {layer.design}, which does not exist")
            continue
        gemm = artifact.gemm(layer)
        if layer.shape != (gemm.M, gemm.K, gemm.N):
            yield _bad(f"{layer.name} is {layer.shape}, its design is for another shape")
        if int(np.prod(layer.result_shape, dtype=np.int64)) != layer.shape[0] * layer.shape[2]:
            yield _bad(f"the result of {layer.name} has not the size of its product")
        if layer.exact != (layer.dtype == "i32"):
            yield _bad(f"{layer.name} gives {layer.dtype}: int32 exactly where nothing is scaled")
        weight = artifact.weights.get(layer.weight)
        if weight is None:
            yield _bad(f"{layer.name} uses the weights {layer.weight!r}, which do not exist")
            continue
        _, K, N = gemm.padded
        if weight.packed.dtype != np.int8 or weight.packed.shape != (gemm.weight_bytes(K * N),):
            yield _bad(f"the weights {layer.weight} have not the size of their design")
        if weight.scales.dtype != np.float32 or weight.scales.shape != (gemm.N,):
            yield _bad(f"the weights {layer.weight} have not one scale per column")
        elif not (np.isfinite(weight.scales).all() and (weight.scales >= 0).all()):
            yield _bad(f"a scale of the weights {layer.weight} is not a number or negative")
        if layer.y in made:
            yield _bad(f"both {made[layer.y]} and {layer.name} compute {layer.y}")
        made[layer.y] = layer.name


def check_weights(artifact: XdnaArtifact) -> Iterator[Finding]:
    """Packed weights hold the codes the compiler meant."""
    seen: set[str] = set()
    for layer in artifact.layers:
        if layer.weight in seen:
            continue
        seen.add(layer.weight)
        gemm, weight = artifact.gemm(layer), artifact.weights[layer.weight]
        _, K, N = gemm.padded
        padded = decoded(weight.packed, gemm.weights, K, N, K, gemm.k, gemm.n, gemm.block)
        codes = padded[: gemm.K, : gemm.N]
        if digest(codes, weight.scales) != weight.digest:
            yield _bad(f"the weights {layer.weight} are not what the compiler packed")
        elif np.count_nonzero(padded) != np.count_nonzero(codes):
            yield _bad(f"the weights {layer.weight} are padded with something else than zeros")


def _parts(
    artifact: XdnaArtifact, parts: Sequence[HostPart | DevicePart], ports: Mapping[str, Port]
) -> Iterator[Finding]:
    """Every value a layer reads is a port of its part or made by an earlier layer of it."""
    for part in parts:
        if not isinstance(part, DevicePart):
            continue
        steps = artifact.entries.get(part.entry)
        if steps is None:
            yield _bad(f"the program has no entry {part.entry!r}")
            continue
        shapes = {
            name: (ports[name].shape, ports[name].dtype) for name in part.inputs if name in ports
        }
        for index in steps:
            layer = artifact.layers[index]
            if layer.x not in shapes:
                yield _bad(f"{layer.name} reads {layer.x!r} before it is there")
                continue
            shape, dtype = shapes[layer.x]
            M, K, _ = layer.shape
            if not shape or shape[-1] != K or int(np.prod(shape[:-1], dtype=np.int64)) != M:
                yield _bad(f"{layer.name} reads {layer.x} of {shape} as {M} rows of {K}")
            if layer.exact != (dtype == "i8"):
                yield _bad(f"{layer.name} reads {layer.x} of type {dtype}")
            shapes[layer.y] = (layer.result_shape, layer.dtype)
        for name in part.outputs:
            port = ports.get(name)
            if port is not None and shapes.get(name) != (port.shape, port.dtype):
                yield _bad(f"{part.entry} does not give {name} as the model expects it")
