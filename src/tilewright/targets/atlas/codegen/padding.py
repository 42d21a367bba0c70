"""Padding that nobody looks at: tiles of which only the part inside the tensor moves.

before: Read of a tile with 3 rows inside its tensor, all 2048 bytes
after:  the same, 96 bytes of each half; the rest of the buffer is zero, or anything at all where
        every operation up to the results works element by element

before: Read of a row that is repeated down a tile, for results of a few rows
after:  the same, loaded so many times
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
    all_statements,
)
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import REGISTER_BYTES, ROW
from tilewright.targets.atlas.profile import Profile

WHOLE = (32, 32)  # rows and columns of a tile


def without_padding(statements: list[Statement], profile: Profile) -> list[Statement]:
    """The statements with padding left in DRAM where moving it takes longer than clearing it."""
    moves = profile.dma.ticks(1024)
    if moves <= 4 * profile.timing["tensor_load"].interval:
        return _all_of_it(statements)
    return _rewritten(_single_rows(statements), _needed(statements))


def _all_of_it(statements: list[Statement]) -> list[Statement]:
    """Tiles move with their padding; of rows, which have none that is stored, only they do."""
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, For):
            s = replace(s, body=_all_of_it(s.body))
        elif isinstance(s, Write) or (isinstance(s, Read) and not s.row):
            s = replace(s, pieces=None)
        result.append(s)
    return result


def _single_rows(statements: list[Statement]) -> list[Statement]:
    """The statements with rows that are not spread where few copies of them reach a result: these
    come from DRAM."""
    looked_at = _needed(statements, resident=True)
    wild = _wild(statements)

    def rewritten(rows: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in rows:
            if isinstance(s, For):
                s = replace(s, body=rewritten(s.body))
            elif isinstance(s, Read) and s.row and s.positive and not s.on_chip and s.pieces:
                wanted = looked_at.get(s.result, WHOLE)[0]
                if wanted <= TUNING.row_copies and s.result not in wild:
                    s = replace(s, row=False, copies=max(1, wanted))
            result.append(s)
        return result

    return rewritten(statements)


def _wild(statements: list[Statement]) -> set[Value]:
    """Tiles from which numbers may become infinite on the way to one that stays on chip: there
    other kernels find what lies beyond its edges, and must not meet infinities."""
    sources: dict[Value, list[Value]] = {}
    stays: list[Value] = []
    found: list[Value] = []
    for s in all_statements(statements):
        if isinstance(s, Compute):
            for result in s.results:
                sources.setdefault(result, []).extend(s.inputs)
        elif isinstance(s, Write) and s.on_chip:
            stays.append(s.value)
    reached = _closure(stays, sources)
    for s in all_statements(statements):
        if isinstance(s, Compute) and not s.calm and any(r in reached for r in s.results):
            found.extend(s.inputs)
    return _closure(found, sources)


def _closure(start: Iterable[Value], sources: dict[Value, list[Value]]) -> set[Value]:
    """The tiles and all that they are made from."""
    waiting, found = list(start), set[Value]()
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting.extend(sources.get(value, ()))
    return found


def _rewritten(
    statements: list[Statement], needed: dict[Value, tuple[int, int]]
) -> list[Statement]:
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, For):
            s = replace(s, body=_rewritten(s.body, needed))
        elif isinstance(s, Read) and s.pieces is not None and not s.row:
            rows, columns = _inside(s)
            more = needed.get(s.result, (0, 0))
            blank = more[0] > rows or more[1] > columns
            much = sum(count for _, count in s.pieces) > TUNING.padded_share * s.bytes
            all_of_it = blank and much and not s.bare and s.copies == 1
            s = replace(s, pieces=None) if all_of_it else replace(s, blank=blank)
        result.append(s)
    return result


def _inside(s: Read | Write) -> tuple[int, int]:
    """Rows and columns of a tile that move."""
    if s.pieces is None or not s.pieces:
        return WHOLE
    halves = s.bytes // REGISTER_BYTES
    copies = s.copies if isinstance(s, Read) else 1
    return copies * s.pieces[0][1] // ROW, len(s.pieces) * WHOLE[1] // halves


def _needed(statements: list[Statement], resident: bool = False) -> dict[Value, tuple[int, int]]:
    """Rows and columns of tiles that may reach an element of a result, or a place where they stay;
    resident: of the latter only what lies inside their tensors."""
    sources: dict[Value, list[Value]] = {}  # of a local result, the tiles it is made from
    found: dict[Value, tuple[int, int]] = {}
    grown: list[Value] = []

    def need(value: Value, more: tuple[int, int]) -> None:
        known = found.get(value, (0, 0))
        found[value] = max(known[0], more[0]), max(known[1], more[1])
        if found[value] != known:
            grown.append(value)

    for s in all_statements(statements):
        if isinstance(s, Compute) and s.local:
            for result in s.results:
                sources.setdefault(result, []).extend(s.inputs)
        elif isinstance(s, Compute):
            for value in s.inputs:
                need(value, WHOLE)
        elif isinstance(s, Spill):
            need(s.value, WHOLE)
        elif isinstance(s, Write):
            need(s.value, _inside(s) if not s.on_chip else (s.rows, 32) if resident else WHOLE)
        elif isinstance(s, For):
            for value in (v for c in s.carried for v in (c.initial, c.next)):
                need(value, WHOLE)
    while grown:
        value = grown.pop()
        for source in sources.get(value, ()):
            need(source, found[value])
    return found
