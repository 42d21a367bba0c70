"""Best fit: every buffer goes to the smallest gap that takes it, else on top."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.planning.buffers import Buffer
from tilewright.planning.gaps import fixed_first, free_gaps, offset_in_gap, placed_around
from tilewright.planning.orders import in_order


def best_fit(buffers: Sequence[Buffer], order: str = "size") -> dict[str, int]:
    """Offsets of one region's buffers, taken in an order of `orders.ORDERS`."""
    placed, offsets = fixed_first(buffers)
    for buffer in in_order(buffers, order):
        best: tuple[int, int] | None = None
        for start, end in free_gaps(placed_around(buffer, placed, offsets)):
            offset = offset_in_gap(buffer, (start, end))
            if offset is None:
                continue
            if end is None:
                best = best or (0, offset)
            elif best is None or end - start < best[0]:
                best = (end - start, offset)
        assert best is not None
        offsets[buffer.name] = best[1]
        placed.append(buffer)
    return offsets
