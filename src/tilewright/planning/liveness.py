"""From code to lifetimes: which steps each value is live for.

Code is a sequence of steps and loops. Steps are numbered in the order they are written; a value
that is needed from one iteration to the next is live through the whole loop.

Error code: TW1404 a value is used before it has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.errors import TilewrightError


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction or operation: it reads `uses`, then writes `defines`."""

    uses: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that runs any number of times."""

    body: tuple[Step | Loop, ...]


Code = Sequence[Step | Loop]


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The steps [lower, upper) a value is live for."""

    lower: int
    upper: int


@dataclass(frozen=True, slots=True)
class _Place:
    position: int
    loops: tuple[tuple[int, int], ...]  # [start, end) of the loops around it, outermost first


def count_steps(code: Code) -> int:
    """How many positions the code has."""
    return sum(count_steps(item.body) if isinstance(item, Loop) else 1 for item in code)


def lifetimes(
    code: Code, inputs: Iterable[str] = (), outputs: Iterable[str] = ()
) -> dict[str, Lifetime]:
    """Lifetime of every value, in the order values first appear.

    A value is live from the step that defines it through the last step that uses it. Inputs are
    live from the start, outputs to the end. Within a loop, a use no earlier step of the same
    iteration defines reads what came from before the iteration: the value then lives through
    the whole loop, and from one iteration to the next when the loop itself defines it.
    """
    defines: dict[str, list[_Place]] = {}
    uses: dict[str, list[_Place]] = {}
    end = _collect(code, 0, (), defines, uses)
    given = list(dict.fromkeys(inputs))
    kept = set(outputs)
    result: dict[str, Lifetime] = {}
    for name in dict.fromkeys([*given, *defines, *uses, *sorted(kept)]):
        places = defines.get(name, [])
        if name not in given and not places:
            raise _undefined(name)
        lower = 0 if name in given else min(place.position for place in places)
        upper = max((place.position for place in places), default=0) + 1
        first = -1 if name in given else lower
        for use in uses.get(name, []):
            upper = max(upper, use.position + 1)
            for start, stop in reversed(use.loops):
                inside = [p.position for p in places if start <= p.position < stop]
                if any(position < use.position for position in inside):
                    break
                upper = max(upper, stop)
                if inside:
                    lower = min(lower, start)
            else:
                if first >= use.position:
                    raise _undefined(name)
        if name in kept:
            upper = max(upper, end)
        result[name] = Lifetime(lower, max(upper, lower + 1))
    return result


def _collect(
    code: Code,
    position: int,
    loops: tuple[tuple[int, int], ...],
    defines: dict[str, list[_Place]],
    uses: dict[str, list[_Place]],
) -> int:
    """Record where values are defined and used; returns the position after the code."""
    for item in code:
        if isinstance(item, Loop):
            inner = (*loops, (position, position + count_steps(item.body)))
            position = _collect(item.body, position, inner, defines, uses)
            continue
        place = _Place(position, loops)
        for name in item.uses:
            uses.setdefault(name, []).append(place)
        for name in item.defines:
            defines.setdefault(name, []).append(place)
        position += 1
    return position


def _undefined(name: str) -> TilewrightError:
    return TilewrightError(
        "TW1404",
        f"{name} is used before anything defines it",
        hint="name it as an input, or define it first",
    )
