"""Rows that are repeated down a tile once for all who need them.

before: Read of a row of scales for each tile of rows it multiplies, spread by the vector unit
after:  one Read; the tile waits in a register or in VMEM between its uses
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.targets.atlas.codegen.nest import (
    Carried,
    Compute,
    For,
    Read,
    Spill,
    Statement,
    Value,
    Variable,
    Write,
)


def shared_rows(statements: list[Statement]) -> list[Statement]:
    """The statements with every row read once in each loop body, and once outside.

    What a loop reads in every iteration is spread in front of it and left alone here.
    """
    return _rewritten(statements, {}, None)


def _rewritten(
    statements: list[Statement], same: dict[Value, Value], around: Variable | None
) -> list[Statement]:
    """same: for a tile that is not made any more the one that takes its place."""
    first: dict[Any, Value] = {}
    result: list[Statement] = []
    for s in statements:
        if isinstance(s, Read):
            if s.row and not s.changing and (around is None or s.offset.factor(around)):
                known = first.setdefault((s.offset, s.bytes, s.on_chip, s.pieces), s.result)
                if known is not s.result:
                    same[s.result] = known
                    continue
        elif isinstance(s, Compute):
            s = s.with_inputs(tuple(same.get(v, v) for v in s.inputs))
        elif isinstance(s, Write | Spill):
            if s.value in same:
                s = replace(s, value=same[s.value])
        elif isinstance(s, For):
            body = _rewritten(s.body, same, s.variable)
            s = For(s.variable, body, s.unroll, tuple(_carried(c, same) for c in s.carried))
        result.append(s)
    return result


def _carried(c: Carried, same: dict[Value, Value]) -> Carried:
    return Carried(same.get(c.initial, c.initial), c.inside, same.get(c.next, c.next), c.result)
