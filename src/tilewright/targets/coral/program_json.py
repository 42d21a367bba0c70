"""Programs as JSON and arrays: what a bundle keeps to compute the reference from.

`document_of` writes one, `read_program` takes it back from a file of unknown origin: every name,
kind, shape and index is checked; attributes are checked by the reference when it uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import Location
from tilewright.io.json_tables import MAX_RANK, Table, shown
from tilewright.targets.coral.evaluate import NODES
from tilewright.targets.coral.program import DTYPES, Node, Program, Value

MOST = 1 << 20  # entries of a list
MOST_BYTES = 1 << 30  # of a value


def document_of(program: Program) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A program without its arrays, and the arrays by name."""
    values: dict[Value, int] = {}
    arrays: dict[str, np.ndarray] = {}
    rows: list[dict[str, Any]] = []

    def number(value: Value) -> int:
        if value not in values:
            values[value] = len(values)
            row: dict[str, Any] = {"name": value.name, "shape": value.shape, "dtype": value.dtype}
            if value.scale is not None:
                row |= {"scale": value.scale, "zero": value.zero}
            if value.data is not None:
                row["data"] = f"value{values[value]}"
                data = value.data.view(np.uint8) if value.dtype == "i1" else value.data
                arrays[row["data"]] = np.ascontiguousarray(data)
            rows.append(row)
        return values[value]

    inputs = [number(v) for v in program.inputs]
    nodes = []
    for index, node in enumerate(program.nodes):
        attributes: dict[str, Any] = {}
        for key, content in node.attributes.items():
            if isinstance(content, np.ndarray):
                arrays[f"node{index}.{key}"] = content
                attributes[key] = {"array": f"node{index}.{key}"}
            else:
                attributes[key] = _plain(content)
        nodes.append(
            {
                "kind": node.kind,
                "inputs": [number(v) for v in node.inputs],
                "output": number(node.output),
                "attributes": attributes,
                "accesses": node.accesses,
            }
        )
    document = {
        "inputs": inputs,
        "outputs": [number(v) for v in program.outputs],
        "values": rows,
        "nodes": nodes,
        "input_names": program.input_names,
        "output_names": program.output_names,
        "source": program.source,
    }
    return document, arrays


def _plain(content: Any) -> Any:
    """As JSON has it; infinities and NaN as text, which `_restored` knows."""
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float) and not np.isfinite(content):
        return {"float": str(content)}
    return list(content) if isinstance(content, tuple) else content


def read_program(document: Any, arrays: Mapping[str, np.ndarray], place: Location) -> Program:
    """The program of a document; anything unexpected is an error at `place`."""
    top = Table(document, "the reference program", place)
    values = top.each("values", "value", lambda row: _value(row, arrays))

    def taken(row: Table, key: str) -> list[Value]:
        indices = row.numbers(key, MOST, len(values) - 1)
        return [values[index] for index in indices]

    def node(row: Table) -> Node:
        kind = row.choice("kind", tuple(NODES))
        inputs, output = taken(row, "inputs"), values[row.integer("output", high=len(values) - 1)]
        attributes = row.table("attributes")
        restored = {
            key: _restored(row, key, content, arrays) for key, content in attributes.items()
        }
        accesses = []
        for access in row.list("accesses"):
            known = isinstance(access, list) and len(access) <= MAX_RANK
            if not known or not all(
                d is None or (type(d) is int and 0 <= d < MAX_RANK) for d in access
            ):
                raise row.bad(f"has the access {shown(access)}, must be a list of axes")
            accesses.append(tuple(access))
        return Node(kind, inputs, output, restored, accesses)

    nodes = top.each("nodes", "node", node)
    program = Program(
        taken(top, "inputs"),
        taken(top, "outputs"),
        nodes,
        list(top.names("input_names")),
        list(top.names("output_names")),
        top.text("source", 1 << 16),
    )
    top.done()
    known = {id(v) for v in values if v.data is not None} | {id(v) for v in program.inputs}
    for made in nodes:
        if any(id(v) not in known for v in made.inputs):
            raise top.bad(f"has a {made.kind} that reads what is not there yet")
        known.add(id(made.output))
    if any(id(v) not in known for v in program.outputs):
        raise top.bad("never computes one of its outputs")
    return program


def _restored(row: Table, key: str, content: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(content, dict) and set(content) == {"array"}:
        return _array(row, content["array"], arrays)
    if isinstance(content, dict) and set(content) == {"float"}:
        if content["float"] not in ("inf", "-inf", "nan"):
            raise row.bad(f"has {key} {shown(content)}, must be a number")
        return float(content["float"])
    return tuple(content) if isinstance(content, list) else content


def _array(row: Table, name: Any, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    if not isinstance(name, str) or name not in arrays:
        raise row.bad(f"names the array {shown(name)}, which the bundle lacks")
    return arrays[name]


def _value(row: Table, arrays: Mapping[str, np.ndarray]) -> Value:
    dtype = row.choice("dtype", tuple(DTYPES))
    shape = row.shape(1)
    if prod(shape) * DTYPES[dtype].itemsize > MOST_BYTES:
        raise row.bad(f"has shape {shown(shape)}, which is too large")
    data = None
    if "data" in row.values:
        name = row.take("data")
        data = _array(row, name, arrays)
        data = data.view(np.bool_) if dtype == "i1" and data.dtype == np.uint8 else data
        if data.dtype != DTYPES[dtype] or data.size != prod(shape):
            raise row.bad(f"names the array {shown(name)}, which has another type or size")
        data = data.reshape(shape)
    scale, zero = None, 0
    if "scale" in row.values:
        scale, zero = row.real("scale"), row.integer("zero", -(1 << 31), 1 << 31)
    return Value(row.text("name"), shape, dtype, data, scale, zero)
