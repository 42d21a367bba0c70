"""Check a plan without trusting the planner: a sweep over time, on its own code.

Error code: TW1410 a plan breaks a rule.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.planning.buffers import Buffer


def violations(
    buffers: Sequence[Buffer],
    offsets: Mapping[str, int],
    capacities: Mapping[str, int] | None = None,
) -> list[str]:
    """Every rule the plan breaks, as sentences; empty when it is right.

    `capacities` maps region names to bytes. Buffers of different regions never meet.
    """
    found: list[str] = []
    for buffer in buffers:
        found += _own_rules(buffer, offsets.get(buffer.name), (capacities or {}).get(buffer.region))
    found += [f"{name} has an offset but is no buffer" for name in _strangers(buffers, offsets)]
    for region in dict.fromkeys(buffer.region for buffer in buffers):
        inside = [b for b in buffers if b.region == region and b.size and b.name in offsets]
        found += _overlaps(inside, offsets)
    return found


def check_plan(
    buffers: Sequence[Buffer],
    offsets: Mapping[str, int],
    capacities: Mapping[str, int] | None = None,
) -> None:
    """Raise TW1410 with the first broken rule."""
    found = violations(buffers, offsets, capacities)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise TilewrightError(
            "TW1410",
            f"the memory plan is wrong: {found[0]}{more}",
            hint="if a planner of this package made it, this is a bug; please report it",
        )


def _own_rules(buffer: Buffer, offset: int | None, capacity: int | None) -> list[str]:
    if offset is None:
        return [f"{buffer.name} has no offset"]
    found = []
    if offset < 0:
        found.append(f"{buffer.name} starts at {offset}, below 0")
    if offset % buffer.alignment != 0:
        found.append(f"{buffer.name} starts at {offset}, no multiple of {buffer.alignment}")
    if buffer.offset is not None and offset != buffer.offset:
        found.append(f"{buffer.name} is fixed at {buffer.offset} but starts at {offset}")
    if capacity is not None and offset + buffer.size > capacity:
        found.append(f"{buffer.name} ends at {offset + buffer.size}, beyond {capacity}")
    return found


def _strangers(buffers: Sequence[Buffer], offsets: Mapping[str, int]) -> list[str]:
    known = {buffer.name for buffer in buffers}
    return [name for name in offsets if name not in known]


def _overlaps(buffers: Sequence[Buffer], offsets: Mapping[str, int]) -> list[str]:
    """Pairs that share an address while both are live.

    The sweep keeps the live buffers sorted by address; a new one can only meet those that start
    less than the largest size below it.
    """
    found: list[str] = []
    largest = max((buffer.size for buffer in buffers), default=0)
    # Ends come before starts: a buffer that dies at a step frees it.
    events = sorted(
        [(b.upper, 0, index) for index, b in enumerate(buffers)]
        + [(b.lower, 1, index) for index, b in enumerate(buffers)]
    )
    live: list[tuple[int, int]] = []
    for _, is_start, index in events:
        buffer = buffers[index]
        low = offsets[buffer.name]
        if not is_start:
            del live[bisect_left(live, (low, index))]
            continue
        for other_low, other_index in live[
            bisect_left(live, (low - largest, -1)) : bisect_left(live, (low + buffer.size, -1))
        ]:
            other = buffers[other_index]
            if other_low + other.size > low and not _in_place(buffer, other, low, other_low):
                found.append(
                    f"{other.name} [{other_low}, {other_low + other.size}) and {buffer.name} "
                    f"[{low}, {low + buffer.size}) overlap at step {buffer.lower}"
                )
        insort(live, (low, index))
    return found


def _in_place(new: Buffer, old: Buffer, new_low: int, old_low: int) -> bool:
    """Whether `new` takes over the place of `old` at the step that reads it last."""
    return old.name in new.reuses and new_low == old_low and old.upper == new.lower + 1
