"""Flags for transfers: two transfers in flight at once need different flags.

Error code: TW1420 more transfers in flight than there are flags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.errors import Location, TilewrightError


@dataclass(frozen=True, slots=True)
class Transfer:
    """In flight from the step that issues it through the step that waits for it."""

    name: str
    issue: int
    wait: int
    location: Location | None = None


def assign_flags(transfers: Sequence[Transfer], count: int, rotate: bool = False) -> dict[str, int]:
    """A flag below `count` for every transfer.

    The lowest free flag is taken. With `rotate` flags are given out in turn, as the hardware
    queue would; that fails as soon as the next flag in turn is still in use.
    """
    flags: dict[str, int] = {}
    busy: dict[int, Transfer] = {}
    for turn, transfer in enumerate(sorted(transfers, key=lambda t: (t.issue, t.wait, t.name))):
        busy = {flag: t for flag, t in busy.items() if t.wait >= transfer.issue}
        choices = [turn % count] if rotate and count else list(range(count))
        free = [flag for flag in choices if flag not in busy]
        if not free:
            raise _out_of_flags(transfer, busy, count, rotate)
        flags[transfer.name] = free[0]
        busy[free[0]] = transfer
    return flags


def _out_of_flags(
    transfer: Transfer, busy: dict[int, Transfer], count: int, rotate: bool
) -> TilewrightError:
    names = ", ".join(t.name for _, t in sorted(busy.items()))
    if rotate and len(busy) < count:
        return TilewrightError(
            "TW1420",
            f"{transfer.name} is next in turn for a flag that is still in use; in flight: {names}",
            transfer.location,
            "wait for transfers in the order they are issued, or let flags be assigned freely",
        )
    return TilewrightError(
        "TW1420",
        f"{transfer.name} starts while all {count} flags are in use: {names}",
        transfer.location,
        "wait for one of them first, or use a machine with more flags",
    )
