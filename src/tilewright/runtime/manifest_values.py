"""The graph of values in the manifest of a bundle."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tilewright.runtime.manifest_host import host_values_of, read_host_values
from tilewright.runtime.value_graph import Operation, ValueGraph

if TYPE_CHECKING:
    from tilewright.runtime.manifest import Table

FIRST_VERSION = 2  # of the format that has it


def values_of(graph: ValueGraph | None) -> dict[str, Any] | None:
    """The graph as the manifest has it."""
    if graph is None:
        return None
    return {
        "operations": [
            {
                "name": operation.name,
                "kernel": operation.kernel,
                "operands": operation.operands,
                "output": operation.output,
                "options": operation.options,
            }
            for operation in graph.operations
        ],
        "ports": graph.ports,
        "stored": graph.stored,
        "digests": graph.digests,
        "scales": graph.scales,
        **({} if graph.host is None else {"host": host_values_of(graph.host)}),
    }


def read_values(top: Table) -> ValueGraph | None:
    """The graph of a manifest; models made by hand have none."""
    value = top.take("values")
    if value is None:
        return None
    table = top.inner("values", value)
    stored = {}
    for name, values in table.table("stored").items():
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise table.bad(f"has for the weights {name!r} something else than names")
        stored[name] = tuple(values)
    scales = table.table("scales")
    if not all(isinstance(x, int | float) and 0 < x < math.inf for x in scales.values()):
        raise table.bad("has a scale that is no positive number")
    graph = ValueGraph(
        operations=table.each("operations", "operation", _read_operation),
        ports=table.texts("ports"),
        stored=stored,
        digests=table.texts("digests"),
        scales={name: float(x) for name, x in scales.items()},
        host=read_host_values(table),
    )
    table.done()
    return graph


def _read_operation(table: Table) -> Operation:
    return Operation(
        name=table.text("name"),
        kernel=table.text("kernel"),
        operands=table.texts("operands"),
        output=table.text("output"),
        options=table.table("options"),
    )
