"""Results that a piece of code writes to the same place: the author's order decides."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice, product

from tilewright.targets.atlas.codegen.nest import Affine, Variable, Write

Span = tuple[Affine, int]  # where it begins, and its bytes


def waw_dependent(writes: list[Write], loop: Variable | None) -> set[int]:
    """Writes (by id) of a straight piece, or of the body of a loop, whose bytes another one of
    them may write as well. Variables of loops around are the same for all."""
    found: set[int] = set()
    groups: dict[tuple, list[Write]] = {}
    for write in writes:
        groups.setdefault(write.offset.terms, []).append(write)
    if loop is None and len(groups) < 2:
        return found  # one pointer: their offsets tell
    near = (_near(group, loop) for group in groups.values())
    others = (
        product(a, b)
        for a, b in combinations(groups.values(), 2)
        if _may_overlap(_span(a), _span(b), loop)
    )
    for a, b in chain(*near, *others):
        if _may_overlap((a.offset, a.bytes), (b.offset, b.bytes), loop):
            found |= {id(a), id(b)}
    return found


def _near(group: list[Write], loop: Variable | None) -> Iterator[tuple[Write, Write]]:
    """Writes of one pointer that are so close that they may overlap, in one iteration or in two."""
    step = abs(group[0].offset.factor(loop)) if loop is not None else 0
    most = max(write.bytes for write in group)
    places = [(write.offset.constant % step if step else write.offset.constant) for write in group]
    order = sorted(range(len(group)), key=places.__getitem__)
    # Behind the end of an iteration begins the next one: those near its beginning come again.
    again = [k for k in order if step and places[k] < most]
    line = [(places[k], k) for k in order] + [(places[k] + step, k) for k in again]
    for at, (place, k) in enumerate(line):
        for other, i in islice(line, at + 1, None):
            if other - place >= most:
                break
            if i != k:
                yield group[k], group[i]


def _span(group: list[Write]) -> Span:
    """All bytes of some writes of one pointer, with those between."""
    start = min(write.offset.constant for write in group)
    end = max(write.offset.constant + write.bytes for write in group)
    return Affine(start, group[0].offset.terms), end - start


def _may_overlap(one: Span, other: Span, loop: Variable | None) -> bool:
    """Whether bytes of one in an iteration may be bytes of the other in the same or another one."""
    (a, size), (b, extent) = one, other
    apart = a.constant - b.constant
    if a.terms == b.terms:
        step = abs(a.factor(loop)) if loop is not None else 0
        if not step or loop is None:
            return -size < apart < extent
        # The two places next to each other over all differences of the two iterations.
        turns = min(abs(apart) // step, loop.trips - 1)
        nearest = [abs(apart) - turns * step]
        if turns < loop.trips - 1:
            nearest.append(nearest[0] - step)
        if apart < 0:
            nearest = [-gap for gap in nearest]
        return any(-size < gap < extent for gap in nearest)
    low = high = apart
    for variable in dict.fromkeys(v for offset in (a, b) for v, _ in offset.terms):
        factors = a.factor(variable), -b.factor(variable)
        for factor in factors if variable is loop else (sum(factors),):
            reach = factor * (variable.trips - 1)
            low, high = low + min(0, reach), high + max(0, reach)
    return low < extent and -size < high
