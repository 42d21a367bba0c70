"""Programs as JSON and arrays: what a bundle keeps to compute the reference from.

`document_of` writes one, `read_program` takes it back from a file of unknown origin: every name,
kind, shape and index is checked; attributes are checked by the reference when it uses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilewright.errors import Location, TilewrightError
from tilewright.targets.coral.evaluate import NODES
from tilewright.targets.coral.program import DTYPES, Node, Program, Value

MOST = 1 << 20  # values, nodes, entries of a list
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


def _restored(content: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(content, dict) and set(content) == {"array"}:
        return arrays[content["array"]]
    if isinstance(content, dict) and set(content) == {"float"}:
        return float(content["float"])
    return tuple(content) if isinstance(content, list) else content


def read_program(document: Any, arrays: Mapping[str, np.ndarray], place: Location) -> Program:
    """The program of a document; anything unexpected is an error at `place`."""
    try:
        return _read(document, arrays)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        said = f"{type(error).__name__}: {error}"[:160]
        raise TilewrightError(
            "TW5051", f"the bundle's reference program is malformed: {said}", place
        ) from None


def _read(document: Any, arrays: Mapping[str, np.ndarray]) -> Program:
    values = [_value(row, arrays) for row in _list(document["values"])]

    def value(index: Any) -> Value:
        if type(index) is not int or not 0 <= index < len(values):
            raise ValueError(f"there is no value {index!r}")
        return values[index]

    nodes = []
    for row in _list(document["nodes"]):
        kind = row["kind"]
        if kind not in NODES:
            raise ValueError(f"there is no operation {kind!r}")
        attributes = {str(k): _restored(v, arrays) for k, v in row["attributes"].items()}
        accesses = [tuple(access) for access in _list(row["accesses"])]
        inputs = [value(i) for i in _list(row["inputs"])]
        nodes.append(Node(kind, inputs, value(row["output"]), attributes, accesses))
    known = {id(v) for v in values if v.data is not None}
    program = Program(
        [value(i) for i in _list(document["inputs"])],
        [value(i) for i in _list(document["outputs"])],
        nodes,
        [str(name) for name in _list(document["input_names"])],
        [str(name) for name in _list(document["output_names"])],
        str(document["source"]),
    )
    known |= {id(v) for v in program.inputs}
    for node in nodes:
        if any(id(v) not in known for v in node.inputs):
            raise ValueError(f"{node.kind} reads what is not there yet")
        known.add(id(node.output))
    if any(id(v) not in known for v in program.outputs):
        raise ValueError("an output is never computed")
    return program


def _list(content: Any) -> list[Any]:
    if not isinstance(content, list) or len(content) > MOST:
        raise ValueError("a list is missing, or too long")
    return content


def _value(row: Any, arrays: Mapping[str, np.ndarray]) -> Value:
    shape = tuple(_list(row["shape"]))
    dtype = row["dtype"]
    if dtype not in DTYPES:
        raise ValueError(f"there is no element type {dtype!r}")
    if len(shape) > 16 or any(type(n) is not int or not 0 < n <= MOST_BYTES for n in shape):
        raise ValueError(f"{shape!r} is no shape")
    if prod(shape) * DTYPES[dtype].itemsize > MOST_BYTES:
        raise ValueError(f"a tensor of shape {shape!r} is too large")
    data = None
    if "data" in row:
        data = arrays[row["data"]]
        data = data.view(np.bool_) if dtype == "i1" else data
        if data.dtype != DTYPES[dtype] or data.size != prod(shape):
            raise ValueError(f"{row['data']} has another type or size")
        data = data.reshape(shape)
    scale = float(row["scale"]) if "scale" in row else None
    return Value(str(row["name"]), shape, dtype, data, scale, int(row.get("zero", 0)))
