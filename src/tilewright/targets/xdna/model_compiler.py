"""From a model to the array: partition, weights, one program for all layers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.dialects.printing import print_module
from tilewright.errors import TilewrightError
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions, Progress
from tilewright.model.prepare import Machine, Prepared, prepare
from tilewright.targets.artifact import DevicePart, HostPart, Port
from tilewright.targets.compiled_model import CompiledModel
from tilewright.targets.xdna.device import ArrayDevice
from tilewright.targets.xdna.layer_program import Program, plan_program
from tilewright.targets.xdna.layer_weights import Quantised, digest, pack, quantise
from tilewright.targets.xdna.linear_layers import LinearLayer, layers_of, reason_against
from tilewright.targets.xdna.model_artifact import (
    LayerCall,
    PackedWeight,
    XdnaArtifact,
    codes_name,
    sums_name,
)


def compile_model(
    model: Imported,
    target: str,
    array: ArrayDevice,
    weight_kind: str,
    options: CompileOptions,
    samples: Sequence[Mapping[str, np.ndarray]],
    progress: Progress,
) -> CompiledModel[XdnaArtifact]:
    """Products with constant weights on the array, everything else on the host."""
    machine = Machine(target, lambda node: reason_against(node.op))
    prepared = prepare(model, machine, options, samples, progress)
    timing = dict(prepared.timing)
    layers = layers_of(prepared.parts)
    if not layers:
        raise TilewrightError(
            "TW8097",
            "no operation of the model is for the array",
            hint="the array computes matrix products with constant weights; "
            "the reasons of the others: " + "; ".join(sorted(set(prepared.reasons))[:3]),
        )
    began = time.perf_counter()
    progress("program", "")
    order = [layer.shape for layer in layers]
    program = plan_program(
        order, array, weight_kind, lambda text: progress("program", text),
        simulated=3 if len(set(order)) <= 8 else 1,
    )  # fmt: skip
    timing["program"] = time.perf_counter() - began
    began = time.perf_counter()
    progress("weights", "")
    artifact, notes = build(layers, program, target, array, weight_kind, options.scales)
    timing["weights"] = time.perf_counter() - began
    return _compiled(model, prepared, artifact, options, notes, timing)


def build(
    layers: Sequence[LinearLayer],
    program: Program,
    target: str,
    array: ArrayDevice,
    weight_kind: str,
    scales: str,
) -> tuple[XdnaArtifact, dict[str, Any]]:
    """Pack the weights and name the designs; notes say how each weight was rounded."""
    numbers = {shape: number for number, shape in enumerate(program.designs)}
    weights: dict[str, PackedWeight] = {}
    calls: list[LayerCall] = []
    notes: dict[str, Any] = {}
    for layer in layers:
        rounded = _codes(layer, weight_kind, scales)
        mark = digest(rounded.codes, rounded.scales)
        name = layer.weight
        while name in weights and weights[name].digest != mark:
            name += "~"  # the same weights read the other way round are other weights here
        if name not in weights:
            packed = pack(program.gemm(layer.shape), rounded.codes)
            weights[name] = PackedWeight(packed, rounded.scales, mark, rounded.rule)
            notes[name] = {"format": rounded.rule, "error": _error(layer.matrix, rounded)}
        calls.append(
            LayerCall(
                layer.name, layer.entry, layer.x, layer.y, layer.shape, layer.result_shape,
                layer.dtype, name, layer.exact, numbers[layer.shape], layer.source,
            )
        )  # fmt: skip
    designs = tuple(program.designs.values())
    return XdnaArtifact(target, array, weight_kind, designs, tuple(calls), weights), notes


def _codes(layer: LinearLayer, weight_kind: str, scales: str) -> Quantised:
    if not layer.exact:
        return quantise(layer.matrix, weight_kind, scales == "channel", layer.name)
    codes = np.ascontiguousarray(layer.matrix, np.int8)
    if weight_kind == "ternary" and codes.size and np.abs(codes.astype(np.int16)).max() > 1:
        raise TilewrightError(
            "TW8090",
            f"the integer weights of {layer.name} are not ternary",
            hint="compile for the target without -ternary, or leave the layer to the host",
        )
    return Quantised(codes, np.ones(codes.shape[1], np.float32), "integers as they are")


def _error(matrix: np.ndarray, rounded: Quantised) -> float:
    """Root mean square error of the rounded weights, over their root mean square."""
    wide = np.asarray(matrix).astype(np.float64)
    off = rounded.codes.astype(np.float64) * rounded.scales.astype(np.float64) - wide
    size = float(np.sqrt(np.mean(np.square(wide))))
    return float(np.sqrt(np.mean(np.square(off)))) / size if size else 0.0


def _compiled(
    model: Imported,
    prepared: Prepared,
    artifact: XdnaArtifact,
    options: CompileOptions,
    notes: dict[str, Any],
    timing: dict[str, float],
) -> CompiledModel[XdnaArtifact]:
    parts = prepared.parts
    tensors: dict[str, str] = {}
    for layer in artifact.layers:
        tensors.setdefault(layer.x, codes_name(layer.x))
    for layer in artifact.layers:
        tensors.setdefault(layer.y, sums_name(layer.y))
    ports = {
        port.name: Port(port.name, port.shape, port.dtype, tensors.get(port.name))
        for port in parts.ports.values()
    }
    host = bool(parts.host_parts)
    return CompiledModel(
        name=model.source,
        artifact=artifact,
        ports=ports,
        inputs=tuple(spec.name for spec in parts.inputs),
        outputs=tuple(spec.name for spec in parts.outputs),
        parts=[
            HostPart(p.function, p.inputs, p.outputs, p.reasons)
            if p.on_host
            else DevicePart(p.function, p.inputs, p.outputs)
            for p in parts.parts
        ],
        host_module=print_module(parts.host_module) if host else "",
        host_weights=parts.host_weights,
        state=dict(parts.state),
        provenance={**prepared.provenance(), "options": options.to_json()},
        phases=dict(prepared.phases),
        quantisation=notes,
        timing=timing,
    )
