"""Which products compute several columns side by side for every two tiles of rows, and how many.

That keeps both matrix units busy where they are what limits a product: with many rows, which
are in VMEM, while weights come from DRAM once.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewright.targets.atlas.codegen.tile_machine import costs_of
from tilewright.targets.atlas.model.blocking import padded
from tilewright.targets.atlas.model.launches import Launch
from tilewright.targets.atlas.profile import Profile
from tilewright.tile.layouts import SIDE
from tilewright.tile.row_products import best_plan

HIGH = 2  # tiles of rows, as many as a matrix unit has accumulators
FEWEST_ROWS = 6  # tiles; with fewer the loop over them is too short to overlap its iterations
TILE = SIDE * SIDE  # bytes
SPARE = 48 * 1024  # VMEM for scales, results and tiles that wait
LARGE = 256 * 1024  # bytes of a tensor that will be in DRAM
WAITS = 1.3  # times the products' time that transfers may take
COLUMNS = (3, 4, 5)  # side by side; the first that fit


def mark_products(calls: Iterable[Launch], profile: Profile) -> None:
    """Give calls of products the option `together` where it pays."""
    for call in calls:
        count = columns_together(call, profile)
        if count:
            call.way["together"] = count


def columns_together(call: Launch, profile: Profile) -> int:
    """Columns of tiles (or heads, for projections) in one loop body; 0: not this way."""
    way = call.way
    name = {"linear": "w", "project": "w", "gated": "w_gate"}.get(call.kernel)
    if name is None or way.get("precise") or way.get("resident"):
        return 0
    weights = call.operands[name].layout.shape
    batch, rows = call.operands["a"].layout.shape[0], call.operands["a"].layout.shape[-2]
    if way.get("stacked"):
        batch, rows = 1, batch * padded(rows)
    part = way.get("rows")
    if part:  # one part of the rows after the other
        if call.kernel == "linear" or part % (HIGH * SIDE) or rows % (HIGH * SIDE):
            return 0
        rows = part
    high, deep, across = (-(-size // SIDE) for size in (rows, weights[-2], weights[-1]))
    separate = {profile.timing[kind].unit for kind in ("tensor_load", "vector", "push")}
    if (batch > 1 and not part) or high < FEWEST_ROWS or len(separate) < 3:
        return 0
    ticks = best_plan(3, deep, HIGH, costs_of(profile, HIGH)).ticks / (3 * HIGH * deep)
    if high * ticks * (WAITS if part else 1) < profile.dma.ticks(TILE):
        return 0  # weights take longer to arrive than to be used
    columns = across * (weights[0] if call.kernel == "project" else 1 + (call.kernel == "gated"))
    if not part and WAITS * high * deep * columns * ticks < profile.dma.ticks(_moved(call)):
        return 0  # so do all operands together
    count, wide = _count(call, across)
    # The rows, and the weights of one body while those of the next arrive.
    room = (high + 2 * wide) * deep * TILE + SPARE
    return count if room <= profile.vmem_bytes else 0


def _moved(call: Launch) -> int:
    """Bytes of weights, and of what is too large to stay on chip beside the rows."""
    large = (t.layout.bytes for p, t in call.tensors.items() if p != "a")
    return sum(size for size in large if size > LARGE)


def _count(call: Launch, across: int) -> tuple[int, int]:
    """What a body takes, and how many columns of weights that is."""
    if call.kernel == "linear":
        count = next((c for c in COLUMNS if across % c == 0), COLUMNS[0])
        return (count, count) if across >= COLUMNS[0] else (0, 0)
    if call.kernel == "gated":
        return (2, 4) if across >= 2 else (0, 0)
    heads = call.operands["w"].layout.shape[0]
    for count in range(1, heads + 1):
        if count * across >= COLUMNS[0] and heads % count == 0:
            return (count, count * across) if count * across <= 2 * COLUMNS[0] else (0, 0)
    return 0, 0
