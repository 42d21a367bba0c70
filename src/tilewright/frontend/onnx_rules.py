"""Rules of ONNX that its own shape inference takes for granted.

A file that breaks one of them ends the process there, or never ends, so they are looked at before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MOST_DIMENSIONS = 64
_TERM = r"[A-Za-z]*(\.\.\.[A-Za-z]*)?"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def forget_negative_sizes(graph: GraphProto) -> None:
    """Some exporters write -1 for a size that is not known: make it one that is not given."""
    for info in (*graph.input, *graph.value_info, *graph.output):
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value < 0:
                dim.ClearField("dim_value")


def first_broken_rule(onnx: Any, model: ModelProto) -> str | None:
    """What is wrong with the model, if anything."""
    for graph in _graphs(model):
        for tensor in getattr(graph, "initializer", ()):
            if any(size < 0 for size in tensor.dims):
                return f"the constant {tensor.name} has the shape {list(tensor.dims)}"
        for node in graph.node:
            name = f"{node.op_type} {node.name or ', '.join(node.output)}".strip()
            wrong = (
                _wrong_attribute(onnx, model, node)
                or _wrong_dimension(node)
                or _wrong_split(node)
                or _wrong_equation(node)
            )
            if wrong is not None:
                return f"{name} {wrong}"
    return None


def _graphs(model: ModelProto) -> Iterator[Any]:
    """The graph, the functions, and the bodies inside them."""
    graphs: list[Any] = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else []
                graphs += attribute.graphs


def _wrong_attribute(onnx: Any, model: ModelProto, node: NodeProto) -> str | None:
    """An attribute that is not of the kind its operator says."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    domain = "" if node.domain == "ai.onnx" else node.domain
    version = versions.get(domain, versions.get("ai.onnx", 0) if not domain else 0)
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except Exception:  # of no public class; an operator that ONNX does not know
        return None
    for attribute in node.attribute:
        known = schema.attributes.get(attribute.name)
        if attribute.ref_attr_name or known is None:
            continue
        if int(known.type) != attribute.type:
            kinds = onnx.AttributeProto.AttributeType
            said = kinds.Name(attribute.type) if attribute.type in kinds.values() else "unknown"
            return (
                f"has the attribute {attribute.name} as {said.lower()}, "
                f"it is {kinds.Name(int(known.type)).lower()}"
            )
    return None


def _wrong_dimension(node: NodeProto) -> str | None:
    """A dimension that no tensor has."""
    for attribute in node.attribute:
        least = {"axis": -MOST_DIMENSIONS, "batch_dims": 0}.get(attribute.name)
        if least is not None and not least <= attribute.i <= MOST_DIMENSIONS:
            return f"has {attribute.name} = {attribute.i}"
    return None


def _wrong_split(node: NodeProto) -> str | None:
    said = [a.i for a in node.attribute if a.name == "num_outputs"]
    if node.op_type == "Split" and said and said[0] != len(node.output):
        return f"says {said[0]} outputs and has {len(node.output)}"
    return None


def _wrong_equation(node: NodeProto) -> str | None:
    """Letters and one ellipsis per operand; the result names each letter once."""
    if node.op_type != "Einsum":
        return None
    found = [a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "equation"]
    equation = found[0].replace(" ", "") if found else ""
    terms, _, result = equation.partition("->")
    if _EQUATION.fullmatch(equation) is None or not equation:
        return f"has the equation {equation!r}, which is none"
    if len(terms.split(",")) != len(node.input):
        return f"has the equation {equation!r}, which does not fit {len(node.input)} operands"
    letters = result.replace("...", "")
    if len(set(letters)) != len(letters) or not set(letters) <= set(terms):
        return f"has the equation {equation!r}, whose result has letters twice or from nowhere"
    return None
