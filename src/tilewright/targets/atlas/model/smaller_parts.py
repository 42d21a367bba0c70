"""Products that have no room in VMEM, cut into smaller parts of their rows.

How a product is cut is decided when it is lowered, by what its operands take (`blocking.py`). How much
room its code needs is known later. A product that lacks room even with short loops gets parts of half
as many rows, down to one row of tiles; weights pass by once for each part.
"""

from __future__ import annotations

from tilewright.targets.atlas.model.blocking import padded
from tilewright.targets.atlas.model.launches import Launch
from tilewright.tile.layouts import SIDE

CUT_BY_ROWS = ("linear", "gated", "project")


def cut_smaller(call: Launch) -> bool:
    """Cut the rows of a call into parts of half the size; false if there is nothing to cut."""
    if call.kernel not in CUT_BY_ROWS or call.way.get("precise"):
        return False
    batch, rows = call.operands["a"].layout.shape[0], call.operands["a"].layout.shape[-2]
    whole = padded(rows) * (batch if call.way.get("stacked") else 1)
    part = min(call.way.get("rows") or 2 * whole, 2 * whole)  # without parts: all rows at first
    depth = call.way.get("depth") or 0
    if part > SIDE:
        call.way["rows"] = padded(part // 2)
    elif depth > SIDE:
        call.way["depth"] = depth - SIDE
    else:
        return False
    for option in ("together", "resident", "matrices"):
        call.options.pop(option, None)
    return True
