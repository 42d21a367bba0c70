"""The graph of values of a model, from its calls before layers were folded.

Calls are single assignments then, and nothing has a place yet: whatever folding, placement and
linking make of them is held against this. Copies are left out, what they hold is what they copy.
"""

from __future__ import annotations

from tilewright.targets.atlas.artifact.value_graph import Operation, ValueGraph, digest
from tilewright.targets.atlas.model.calls import Tensor, content_codes
from tilewright.targets.atlas.model.host import Parts
from tilewright.targets.atlas.model.rounds import Folded


def value_graph(parts: Parts, folded: Folded) -> ValueGraph:
    """The values of all parts, with digests of their weights."""
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
            Operation(call.name, call.kernel, names, out.name, call.all_options())
        )
        if out.scale is not None and out.layout.dtype == "fp8":
            graph.scales[out.name] = out.scale.scale()
    for row in parts.lowered.inputs:
        graph.ports[parts.port_of[row.tensor]] = row.tensor.name
    for value, tensor in parts.lowered.outputs.items():
        graph.ports[parts.port_of[value]] = copied.get(tensor, tensor).name
    turning = {t: every for repeat in folded.repeats for t, every in repeat.weights.items()}
    for tensor in dict.fromkeys(t for call in folded.calls for t in call.operands.values()):
        if tensor.content is not None:
            graph.stored[tensor.name] = tuple(t.name for t in turning.get(tensor, [tensor]))
    return graph
