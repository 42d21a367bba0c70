"""Padding that nobody looks at: tiles of which only the part inside the tensor moves.

before: Read of a tile with 3 rows inside its tensor, all 2048 bytes
after:  the same, 96 bytes of each half; the rest of the buffer is zero, or anything at all where
        every operation up to the results works element by element
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tilewright.targets.atlas.codegen.nest import (
    Compute,
    For,
    Read,
    Spill,
    Statement,
    Value,
    Write,
)
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.profile import Profile


def without_padding(statements: list[Statement], profile: Profile) -> list[Statement]:
    """The statements with padding left in DRAM where moving it takes longer than clearing it."""
    moves = profile.dma.ticks(1024)
    slow = moves > 4 * profile.timing["tensor_load"].interval
    return _rewritten(statements, _mixed(statements), slow)


def _rewritten(statements: list[Statement], mixed: set[Value], slow: bool) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, For):
            s = replace(s, body=_rewritten(s.body, mixed, slow))
        elif isinstance(s, Read) and s.pieces is not None and not s.row:
            blank = s.result in mixed
            much = sum(count for _, count in s.pieces) > TUNING.padded_share * s.bytes
            all_of_it = not slow or (blank and much and not s.bare)
            s = replace(s, pieces=None) if all_of_it else replace(s, blank=blank)
        elif isinstance(s, Write) and s.pieces is not None and not slow:
            s = replace(s, pieces=None)
        result.append(s)
    return result


def _mixed(statements: list[Statement]) -> set[Value]:
    """Tiles whose padding may reach an element of a result, or a place where it stays."""
    rows = list(_all(statements))
    users: dict[Value, list[Value]] = {}
    found: set[Value] = set()
    for s in rows:
        if isinstance(s, Compute) and s.local:
            for value in s.inputs:
                users.setdefault(value, []).extend(s.results)
        elif isinstance(s, Compute):
            found.update(s.inputs)
        elif isinstance(s, Spill) or (isinstance(s, Write) and (s.pieces is None or s.on_chip)):
            found.add(s.value)
        elif isinstance(s, For):
            found.update(v for c in s.carried for v in (c.initial, c.next))
    grown = True
    while grown:
        reached = {value for value, made in users.items() if any(m in found for m in made)}
        grown = not reached <= found
        found |= reached
    return found


def _all(statements: Iterable[Statement]) -> Iterable[Statement]:
    for s in statements:
        yield s
        if isinstance(s, For):
            yield from _all(s.body)
