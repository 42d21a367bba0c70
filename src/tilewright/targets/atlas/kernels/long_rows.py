"""Rows that are too long to stay on chip: read once for every pass over them, some columns at a time.

The order of operations, and so every bit, is that of rows which stay from their first use to their
last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.tile_machine import active_profile
from tilewright.tile.layouts import SIDE

TILE = 2 * SIDE * SIDE  # bytes
ROWS: dict[str, Callable[[Any], Any]] = {
    "sum": tw.row_sum,
    "max": tw.row_max,
    "min": tw.row_min,
}
JOIN: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda a, b: a + b,
    "max": tw.maximum,
    "min": tw.minimum,
}


def too_long(columns: int, copies: int) -> bool:
    """Whether so many copies of a row of tiles do not fit on the chip."""
    return -(-columns // SIDE) * TILE * copies > active_profile().vmem_bytes


def over(kind: str, columns: int, tile: Callable[[Any], Any]) -> Any:
    """The sum, maximum or minimum of `tile` over all columns, a tile at a time, in every row."""
    total, started = tw.state(), False
    for n in tw.steps(columns):
        part = tw.neutral(tile(n), kind)
        if started:
            part = JOIN[kind](total, part)
        total.set(part)
        started = True
    return ROWS[kind](total)
