"""Orders in which the greedy planners take buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.planning.buffers import Buffer

ORDERS: dict[str, Callable[[Buffer], tuple[int, ...]]] = {
    "start": lambda b: (b.lower, -b.size, -b.upper),
    "size": lambda b: (-b.size, b.lower, b.upper),
    "duration": lambda b: (b.lower - b.upper, -b.size, b.lower),
    "area": lambda b: (b.size * (b.lower - b.upper), b.lower, b.upper),
}


def in_order(buffers: Sequence[Buffer], order: str) -> list[Buffer]:
    """The buffers that may move, in an order of `ORDERS`; ties keep the given order."""
    return sorted((b for b in buffers if b.offset is None), key=ORDERS[order])
