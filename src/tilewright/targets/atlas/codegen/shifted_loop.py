"""Choosing the shift of a loop body that saves most, and scheduling its three pieces."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.check_shift import wrong_shift
from tilewright.targets.atlas.codegen.initiation_interval import initiation_interval
from tilewright.targets.atlas.codegen.list_schedule import Schedule, Setting, schedule
from tilewright.targets.atlas.codegen.loop_shifting import Shift, interleaved, lower_bound, shifts
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

FEWEST_TRIPS = 3  # the kernel must run at least twice
REGISTERS = REGISTER_COUNT[Kind.M]


@dataclass(frozen=True)
class Choice:
    """The scheduled pieces of a shifted loop: before it, its body, after it."""

    first: Schedule
    kernel: Schedule
    rest: Schedule
    interval: int  # ticks per iteration


def best_shift(
    body: Code,
    plain: Schedule,
    trips: int,
    carried: dict[Register, int],
    setting: Callable[[Code, dict[Register, int]], Setting],
    gain: float,
    below: float = math.inf,
) -> Choice | None:
    """The fastest shift found; None where none takes less than `gain` times the plain interval
    and less than `below`.

    setting: what a piece finds when it starts, with more registers carried.
    """
    used = max((place + r.size for r, place in carried.items()), default=0)
    used += used % 2
    bound = lower_bound(body).ticks
    # The period leaves out repeated transfers; the engine may take longer than all else.
    period = max(initiation_interval(body, plain), bound)
    limit = min(period * gain, below)
    best = None
    if trips < FEWEST_TRIPS or limit <= bound:
        return None
    tries = max(2, min(TUNING.shifts_tried, TUNING.shift_ops_tried // max(1, len(body.ops))))
    found = shifts(body, plain, REGISTERS - TUNING.shift_registers - used)
    for shift, more, code in islice(_side_by_side(found, used), tries):
        choice = _scheduled(shift, code, more, limit, setting)
        if choice is None:
            continue
        length = choice.first.finish + (trips - 1) * choice.interval + choice.rest.finish
        if length < trips * period * max(1, gain) and not wrong_shift(
            choice, body, trips, setting(body, {})
        ):
            best, limit = choice, choice.interval
        if limit <= bound * TUNING.near_bound:
            break
    return best


def _side_by_side(
    found: Iterable[Shift], used: int
) -> Iterator[tuple[Shift, dict[Register, int], Code]]:
    """The shifts with the registers of what crosses and the kernel in its order: first those whose
    halves have the registers to advance side by side, which is what a shift is for."""
    others = []
    for shift in found:
        more, place = {}, used
        for register in shift.crossing:  # pairs first, so they stay aligned
            more[register] = place
            place += register.size
        free = REGISTERS - place - TUNING.shift_spare_registers
        code = interleaved(shift.kernel, len(shift.rest.ops), free, set(more))
        if code is not None:
            yield shift, more, code
        else:
            others.append((shift, more, shift.kernel))
    yield from others


def _scheduled(
    shift: Shift,
    code: Code,
    more: dict[Register, int],
    limit: float,
    setting: Callable[[Code, dict[Register, int]], Setting],
) -> Choice | None:
    """The pieces of the shift, if its kernel takes less than `limit` ticks."""
    try:
        # With less running ahead the halves would hardly overlap.
        kernel = schedule(code, setting(code, more), tries=1)
        interval = initiation_interval(code, kernel)
        if interval >= limit:
            return None
        first = schedule(shift.first, setting(shift.first, more))
        rest = schedule(shift.rest, setting(shift.rest, more))
    except TilewrightError:
        return None  # too many values under way at once
    return Choice(first, kernel, rest, interval)
