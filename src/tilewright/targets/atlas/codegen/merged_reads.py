"""Tiles that are read twice in a straight piece are read once.

before: a = read image + 32; b = read image + 64; c = read image + 32; d = a @ w, e = c @ w
after:  a = read image + 32; b = read image + 64; d = a @ w, e = a @ w

Windows of pixels below each other see the same tiles, where rows of an image begin at the same
places of tiles. How long such a tile stays in a register is for `spilling.py` to decide.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.atlas.codegen.nest import (
    Carried,
    Compute,
    For,
    Read,
    Spill,
    Statement,
    Value,
    Write,
)

Names = dict[Value, Value]


def with_merged_reads(statements: list[Statement], wide: bool = True) -> list[Statement]:
    """The statements without reads of what the same piece has read and nobody has written since.

    wide: also of bf16 tiles, which take two registers each; where a unit of its own loads them,
    registers are worth more.
    """
    return _merged(statements, {}, wide)


def _merged(rows: list[Statement], names: Names, wide: bool) -> list[Statement]:
    known: dict[Read, Value] = {}  # all but its result, and of what type that is -> that
    result: list[Statement] = []
    for s in rows:
        if isinstance(s, For):
            known.clear()
            carried = tuple(_first(c, names) for c in s.carried)
            body = _merged(s.body, names, wide)
            carried = tuple(replace(c, next=names.get(c.next, c.next)) for c in carried)
            result.append(For(s.variable, body, s.unroll, carried))
            continue
        if isinstance(s, Read) and (wide or s.result.dtype == "fp8"):
            key = replace(s, result=NOBODY, source=s.result.dtype)
            if key in known:
                names[s.result] = known[key]
                continue
            known[key] = s.result
        elif isinstance(s, Compute):
            s = s.with_inputs(tuple(names.get(v, v) for v in s.inputs))
        elif isinstance(s, Write | Spill):
            if s.value in names:
                s = replace(s, value=names[s.value])
            if isinstance(s, Write) and s.changing:
                known = {k: v for k, v in known.items() if k.changing != s.changing}
        result.append(s)
    return result


def _first(carried: Carried, names: Names) -> Carried:
    return replace(carried, initial=names.get(carried.initial, carried.initial))


NOBODY = Value()
