"""What the host computes, in the manifest of a bundle."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

from tilewright.io.json_tables import Table
from tilewright.model.host_check import TYPES
from tilewright.model.host_graph import HostConstant, HostGraph, HostOperation

# JSON has no such numbers.
SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def host_values_of(graph: HostGraph) -> dict[str, Any]:
    """The graph as the manifest has it."""
    return {
        "operations": [
            {
                "name": operation.name,
                "family": operation.family,
                "operands": {role: list(names) for role, names in operation.operands.items()},
                "output": operation.output,
                "shape": list(operation.shape),
                "dtype": operation.dtype,
                "attributes": {n: _plain(value) for n, value in operation.attributes.items()},
            }
            for operation in graph.operations
        ],
        "constants": {
            name: {
                "shape": list(constant.shape),
                "dtype": constant.dtype,
                "data": constant.data,
                "weight": constant.weight,
                "digest": constant.digest,
            }
            for name, constant in graph.constants.items()
        },
        "given": graph.given,
        "made": graph.made,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    return value


def _read_plain(value: Any) -> Any:
    return SPECIAL.get(value.get("number", ""), 0.0) if isinstance(value, dict) else value


def read_host_values(top: Table) -> HostGraph | None:
    """The graph of a manifest; older bundles have none."""
    if top.values.get("host") is None:
        top.unread.discard("host")
        return None
    table = top.inner("host", top.take("host"))
    constants = {}
    for name, content in table.table("constants").items():
        constants[name] = _read_constant(table.inner(f"constant {name}", content))
    graph = HostGraph(
        operations=table.each("operations", "operation", _read_operation),
        constants=constants,
        given=table.texts("given"),
        made=table.texts("made"),
    )
    table.done()
    return graph


def _read_operation(table: Table) -> HostOperation:
    operands = {}
    for role, names in table.table("operands").items():
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise table.bad(f"has for {role!r} something else than names")
        operands[role] = tuple(names)
    return HostOperation(
        name=table.text("name"),
        family=table.text("family"),
        operands=operands,
        output=table.text("output"),
        shape=_shape(table),
        dtype=_dtype(table),
        attributes={n: _read_plain(value) for n, value in table.table("attributes").items()},
    )


def _read_constant(table: Table) -> HostConstant:
    shape, dtype = _shape(table), _dtype(table)
    data, weight, digest = table.take("data"), table.text("weight"), table.text("digest")
    if not isinstance(data, str):
        raise table.bad("has content that is no text")
    table.done()
    if not weight:
        try:
            size = len(base64.b64decode(data, validate=True))
        except (binascii.Error, ValueError):
            raise table.bad("has content that is not base64") from None
        if size != math.prod(shape) * TYPES[dtype].itemsize:
            raise table.bad(f"has {size} bytes for {list(shape)} of {dtype}")
    return HostConstant(shape, dtype, data, weight, digest)


def _shape(table: Table) -> tuple[int, ...]:
    sizes = table.take("shape")
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes):
        raise table.bad("has a shape that is no list of sizes")
    return tuple(sizes)


def _dtype(table: Table) -> str:
    dtype = table.text("dtype")
    if dtype not in TYPES:
        raise table.bad(f"has the unknown type {dtype!r}")
    return dtype
