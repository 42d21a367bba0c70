"""First fit: every buffer goes to the lowest place where it fits."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.planning.buffers import Buffer
from tilewright.planning.gaps import fixed_first, free_gaps, offset_in_gap, placed_around
from tilewright.planning.orders import in_order


def first_fit(buffers: Sequence[Buffer], order: str = "size") -> dict[str, int]:
    """Offsets of one region's buffers, taken in an order of `orders.ORDERS`."""
    placed, offsets = fixed_first(buffers)
    for buffer in in_order(buffers, order):
        for gap in free_gaps(placed_around(buffer, placed, offsets)):
            offset = offset_in_gap(buffer, gap)
            if offset is not None:
                offsets[buffer.name] = offset
                break
        placed.append(buffer)
    return offsets
