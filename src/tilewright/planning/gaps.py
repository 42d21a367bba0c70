"""The free space around buffers already placed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tilewright.planning.buffers import Buffer, align_up


def free_gaps(occupied: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int | None]]:
    """Free ranges (start, end) between the occupied ones, lowest first; the last has no end."""
    start = 0
    for low, high in sorted(occupied):
        if low > start:
            yield start, low
        start = max(start, high)
    yield start, None


def placed_around(
    buffer: Buffer, placed: Sequence[Buffer], offsets: dict[str, int]
) -> list[tuple[int, int]]:
    """Address ranges taken by placed buffers that are live together with `buffer`."""
    return [
        (offsets[other.name], offsets[other.name] + other.size)
        for other in placed
        if other.size and other.overlaps_in_time(buffer)
    ]


def offset_in_gap(buffer: Buffer, gap: tuple[int, int | None]) -> int | None:
    """The lowest aligned offset at which the buffer fits into the gap."""
    start, end = gap
    offset = align_up(start, buffer.alignment)
    return offset if end is None or offset + buffer.size <= end else None


def fixed_first(buffers: Sequence[Buffer]) -> tuple[list[Buffer], dict[str, int]]:
    """The buffers whose place is fixed, and their offsets."""
    fixed = [b for b in buffers if b.offset is not None]
    return fixed, {b.name: b.offset for b in fixed if b.offset is not None}
