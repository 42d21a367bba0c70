"""Tensor registers for values that live across the end of an interval.

Each value holds its registers on an arc of the circle that one interval is; arcs of one
register may not overlap. Values of two registers take an even pair.
"""

from __future__ import annotations

from itertools import accumulate

from tilewright.targets.atlas.codegen.modulo_place import Placement
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

REGISTERS = REGISTER_COUNT[Kind.M]


def lifetimes(placement: Placement) -> dict[Register, tuple[int, int]]:
    """From the first access of each value to the completion of its last, in ticks."""
    found = {}
    for register, steps in placement.graph.touches.items():
        if register.kind is Kind.M and not register.carried:
            ticks = [placement.at[s] for s in steps]
            ends = [placement.at[s] + s.latency for s in steps]
            found[register] = (min(ticks), max(ends))
    return found


def assign(placement: Placement, carried: dict[Register, int]) -> dict[Register, int] | None:
    """A physical register for every value of the body; None where the file is too small."""
    interval = placement.interval
    spans = lifetimes(placement)
    taken = {p + k for r, p in carried.items() for k in range(r.size)}
    free = [p for p in range(REGISTERS) if p not in taken]
    longest_first = sorted(spans, key=lambda r: (spans[r][0] - spans[r][1], spans[r][0]))
    for order in (*_walks(spans, interval), longest_first):
        found = _fill(order, spans, free, interval)
        if found is not None:
            return {**carried, **found}
    return None


def _walks(spans: dict[Register, tuple[int, int]], interval: int) -> list[list[Register]]:
    """Values in the order in which they start, from where few are alive."""
    changes: dict[int, int] = {0: 0}
    for register, (start, end) in spans.items():
        for tick, size in ((start, register.size), (end, -register.size)):
            changes[tick % interval] = changes.get(tick % interval, 0) + size
    alive = list(zip(sorted(changes), accumulate(changes[t] for t in sorted(changes)), strict=True))
    quiet = min(alive, key=lambda row: (row[1], row[0]))[0]
    orders = []
    for base in (quiet, 0, interval // 2):
        crossing = {r: None for r, (a, b) in spans.items() if (base - a) % interval < b - a}
        inside = [r for r in spans if r not in crossing]
        key = {r: ((spans[r][0] - base) % interval, -r.size, spans[r][1]) for r in spans}
        first = sorted(crossing, key=lambda r: (-r.size, *key[r]))
        orders.append([*first, *sorted(inside, key=lambda r: key[r])])
    return orders


def _fill(
    order: list[Register],
    spans: dict[Register, tuple[int, int]],
    free: list[int],
    interval: int,
) -> dict[Register, int] | None:
    """First fit, the register that has been free for the shortest time."""
    arcs: dict[int, list[tuple[int, int]]] = {p: [] for p in free}
    places: dict[Register, int] = {}
    for register in order:
        span = spans[register]
        best = None
        for place in free:
            if register.size == 2 and (place % 2 or place + 1 not in arcs):
                continue
            idle = min(_idle(span, arcs[place + k], interval) for k in range(register.size))
            if idle < 0:
                continue
            # Singles go beside other singles, so that pairs stay whole.
            beside = register.size == 1 and not arcs.get(place ^ 1)
            key = (beside, idle, place)
            if best is None or key < best[0]:
                best = (key, place)
        if best is None:
            return None
        places[register] = best[1]
        for part in range(best[1], best[1] + register.size):
            arcs[part].append(span)
    return places


def _idle(span: tuple[int, int], arcs: list[tuple[int, int]], interval: int) -> int:
    """Ticks since the register was last in use; negative where it is in use meanwhile."""
    start, length = span[0], span[1] - span[0]
    idle = interval
    for begin, end in arcs:
        # As `overlaps` has it; written out, as this is asked for every value and every register.
        if (begin - start) % interval < length or (start - begin) % interval < end - begin:
            return -1
        idle = min(idle, (start - end) % interval)
    return idle
