"""The graph of values of a model, from its calls before layers were folded.

Calls are single assignments then, and nothing has a place yet: whatever folding, placement and
linking make of them is held against this. Copies are left out, what they hold is what they copy.
"""

from __future__ import annotations

from typing import Any

from tilewright.model.host_graph import HostGraph
from tilewright.model.host_record import Recorder
from tilewright.targets.atlas.artifact.value_graph import Operation, ValueGraph, digest
from tilewright.targets.atlas.model.calls import Tensor, content_codes
from tilewright.targets.atlas.model.host import IMAGES, Parts
from tilewright.targets.atlas.model.launches import LaunchProgram
from tilewright.tile.masks import LOWEST


def value_graph(parts: Parts, program: LaunchProgram) -> ValueGraph:
    """The values of all parts, with digests of their weights; of the program, only where these are
    stored counts."""
    graph = ValueGraph()
    copied: dict[Tensor, Tensor] = {}
    for call in parts.calls:
        operands = {p: copied.get(tensor, tensor) for p, tensor in call.operands.items()}
        if call.kernel == "copy":
            copied[call.output] = operands["x"]
            continue
        for tensor in operands.values():
            if tensor.content is not None and tensor.name not in graph.digests:
                graph.digests[tensor.name] = digest(content_codes(tensor))
        names = {parameter: tensor.name for parameter, tensor in operands.items()}
        out = call.output
        graph.operations.append(
            Operation(
                call.name, call.kernel, names, out.name, call.all_options(),
                {role: one.name for role, one in call.others.items()},
            )
        )  # fmt: skip
        for one in call.results.values():
            if one.scale is not None and one.layout.dtype == "fp8":
                graph.scales[one.name] = one.scale.scale()
    for row in parts.lowered.inputs:
        graph.ports[parts.port_of[row.tensor]] = row.tensor.name
    for value, tensor in parts.lowered.outputs.items():
        graph.ports[parts.port_of[value]] = copied.get(tensor, tensor).name
    turning = {t: every for loop in program.layer_loops for t, every in loop.own.items()}
    for tensor in dict.fromkeys(t for one in program.launches for t in one.operands.values()):
        if tensor.content is not None:
            graph.stored[tensor.name] = tuple(t.name for t in turning.get(tensor, [tensor]))
    return graph


def host_graph(parts: Parts) -> HostGraph:
    """What the host computes, from the model and what was lowered; of the parts, only the names of
    ports count."""
    model, lowered, port_of = parts.graph, parts.lowered, parts.port_of
    recorder = Recorder(model)
    result = recorder.result
    for node in model.nodes:
        if node in lowered.host:
            recorder.operation(node)
            result.made[port_of[node.result]] = recorder.name(node.result)
    for value, name in model.inputs.items():
        result.given[name] = recorder.name(value)
    for value in lowered.outputs:
        result.given[port_of[value]] = recorder.name(value)
    for entry in lowered.inputs:
        if port_of[entry.tensor] in result.given:
            continue  # an input of the model, taken as it is
        attributes: dict[str, Any] = {"conversion": entry.conversion, "lowest": LOWEST}
        if entry.columns is not None:
            attributes["columns"] = list(entry.columns)
        if entry.conversion in IMAGES and entry.tensor.scale is not None:
            attributes["scale"] = entry.tensor.scale.scale()
        if entry.factor is not None:
            attributes["scale"] = 1 / entry.factor.number()
        made = recorder.hand_over(
            entry.value, entry.tensor.name, entry.tensor.layout.given, attributes
        )
        result.made[port_of[entry.tensor]] = made
    for name, value in model.outputs:
        if name not in result.given:
            result.made[name] = recorder.name(value)
    return result
