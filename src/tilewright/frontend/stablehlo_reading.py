"""Reading StableHLO operations: their attributes, where they come from, which of them matter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilewright.dialects.locations import location_of
from tilewright.dialects.stablehlo import HLOOp
from tilewright.dialects.xdsl_api import (
    Block,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    Operation,
    StringAttr,
)
from tilewright.errors import Location, TilewrightError


def numbers(op: HLOOp, name: str, otherwise: Sequence[int] | None = None) -> list[int]:
    """A list of integers: `array<i64: …>`, or the older `dense<…> : tensor<…>`."""
    found = op.get(name)
    if isinstance(found, DenseArrayBase):
        return [int(n) for n in found.get_values()]
    if isinstance(found, DenseIntOrFPElementsAttr):
        return [int(n) for n in found.get_values()]
    if otherwise is None:
        raise TilewrightError("TW6204", f"{op.name} has no {name}")
    return list(otherwise)


def number(op: HLOOp, name: str, otherwise: int | None = None) -> int:
    found = op.get(name)
    if isinstance(found, IntegerAttr):
        return int(found.value.data)
    if otherwise is None:
        raise TilewrightError("TW6204", f"{op.name} has no {name}")
    return otherwise


def written(op: HLOOp, name: str) -> str:
    """The text of a structured attribute, whichever form the operation was in."""
    found: Any = op.get(name)
    if isinstance(found, StringAttr):
        return found.data.strip()
    if found is not None and hasattr(found, "value"):  # an attribute of a dialect nobody registered
        return found.value.data.strip()
    raise TilewrightError("TW6204", f"{op.name} has no {name}")


def listed(text: str, name: str) -> list[int]:
    """`name = [1, 2]` in the text of a structured attribute; empty when absent."""

    found = re.search(rf"\b{name}\s*=\s*\[([^\]]*)\]", text)
    return [int(n) for n in found[1].split(",")] if found and found[1].strip() else []


def users_location(op: Operation, caller: Location | None, source: str) -> Location | None:
    """Where an operation comes from; in a function of JAX's own, where that was called."""
    place = location_of(op)
    return caller if caller is not None and (place is None or place.file == source) else place


def live_operations(block: Block) -> list[Operation]:
    """The operations of a block that its results depend on, in order, without the last."""
    terminator = block.last_op
    if terminator is None:
        return []
    needed = set(terminator.operands)
    live: list[Operation] = []
    for op in reversed(list(block.ops)):
        if op is not terminator and needed.intersection(op.results):
            live.append(op)
            for inner in op.walk():
                needed.update(inner.operands)
    return live[::-1]
