"""The graph of values in the table of contents of a program."""

from __future__ import annotations

import math
from typing import Any

from tilewright.io.json_tables import Table
from tilewright.targets.atlas.artifact.value_graph import Operation, ValueGraph


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
                **({"others": operation.others} if operation.others else {}),
            }
            for operation in graph.operations
        ],
        "ports": graph.ports,
        "stored": graph.stored,
        "digests": graph.digests,
        "scales": graph.scales,
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
        others=table.texts("others") if "others" in table.values else {},
    )
