"""How much memory any plan needs: the most bytes live at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tilewright.planning.buffers import Buffer, align_up


@dataclass(frozen=True, slots=True)
class Peak:
    """The step with the most live bytes."""

    step: int
    live_bytes: int
    names: tuple[str, ...]


def peak_live(buffers: Sequence[Buffer]) -> Peak:
    """The first step at which the most bytes are live, and what is live there."""
    best_step, best, total = 0, -1, 0
    changes: dict[int, int] = {}
    for buffer in buffers:
        changes[buffer.lower] = changes.get(buffer.lower, 0) + buffer.size
        changes[buffer.upper] = changes.get(buffer.upper, 0) - buffer.size
    for step in sorted(changes):
        total += changes[step]
        if total > best:
            best_step, best = step, total
    names = tuple(b.name for b in buffers if b.lower <= best_step < b.upper)
    return Peak(best_step, max(best, 0), names)


def lower_bound(buffers: Sequence[Buffer]) -> int:
    """Bytes below which no plan exists.

    With a common alignment every buffer but the topmost one takes a multiple of it. Where a
    buffer may lie on the one it reuses, the pair counts once at the step they share.
    """
    sized = [b for b in buffers if b.size]
    if not sized:
        return 0
    step = gcd(*(b.alignment for b in sized))
    names = {b.name for b in sized}
    changes: dict[int, int] = {}
    shared: dict[int, int] = {}
    for buffer in sized:
        padded = align_up(buffer.size, step)
        changes[buffer.lower] = changes.get(buffer.lower, 0) + padded
        changes[buffer.upper] = changes.get(buffer.upper, 0) - padded
        if names.intersection(buffer.reuses):
            shared[buffer.lower] = shared.get(buffer.lower, 0) + padded
            changes.setdefault(buffer.lower + 1, 0)
    bound = total = 0
    for at in sorted(changes):
        total += changes[at]
        bound = max(bound, total - shared.get(at, 0))
    bound -= max(align_up(b.size, step) - b.size for b in sized)
    fixed = max((b.offset + b.size for b in sized if b.offset is not None), default=0)
    return max(bound, fixed, *(b.size for b in sized))
