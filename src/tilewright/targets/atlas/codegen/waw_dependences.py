"""Results that a piece of code writes to the same place: the author's order decides."""

from __future__ import annotations

from itertools import combinations

from tilewright.targets.atlas.codegen.nest import Variable, Write


def waw_dependent(writes: list[Write], loop: Variable | None) -> set[int]:
    """Writes (by id) of a straight piece, or of the body of a loop, whose bytes another one of
    them may write as well. Variables of loops around are the same for all."""
    found: set[int] = set()
    if loop is None and len({write.offset.terms for write in writes}) < 2:
        return found  # one pointer: their offsets tell
    for a, b in combinations(writes, 2):
        if _may_overlap(a, b, loop):
            found |= {id(a), id(b)}
    return found


def _may_overlap(a: Write, b: Write, loop: Variable | None) -> bool:
    """Whether bytes of a in one iteration may be bytes of b in the same or another one."""
    apart = a.offset.constant - b.offset.constant
    if a.offset.terms == b.offset.terms:
        step = abs(a.offset.factor(loop)) if loop is not None else 0
        if not step or loop is None:
            return -a.bytes < apart < b.bytes
        # The two places next to each other over all differences of the two iterations.
        turns = min(abs(apart) // step, loop.trips - 1)
        nearest = [abs(apart) - turns * step]
        if turns < loop.trips - 1:
            nearest.append(nearest[0] - step)
        if apart < 0:
            nearest = [-gap for gap in nearest]
        return any(-a.bytes < gap < b.bytes for gap in nearest)
    low = high = apart
    for variable in dict.fromkeys(v for w in (a, b) for v, _ in w.offset.terms):
        factors = a.offset.factor(variable), -b.offset.factor(variable)
        for factor in factors if variable is loop else (sum(factors),):
            reach = factor * (variable.trips - 1)
            low, high = low + min(0, reach), high + max(0, reach)
    return low < b.bytes and -a.bytes < high
