"""Tiles that are read twice in a straight piece are read once.

before: a = read image + 32; b = read image + 64; c = read image + 32; d = a @ w, e = c @ w
after:  a = read image + 32; b = read image + 64; d = a @ w, e = a @ w

Windows of pixels below each other see the same tiles, where rows of an image begin at the same
places of tiles. How long such a tile stays in a register is for `spilling.py` to decide.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.targets.atlas.codegen.nest import (
    For,
    Read,
    Statement,
    Value,
    Write,
    renamed,
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
            s = replace(s, body=_merged(s.body, names, wide))
        elif isinstance(s, Read) and (wide or s.result.dtype == "fp8"):
            key = replace(s, result=NOBODY, source=s.result.dtype)
            if key in known:
                names[s.result] = known[key]
                continue
            known[key] = s.result
        s = renamed(s, names)
        if isinstance(s, Write) and s.changing:
            known = {k: v for k, v in known.items() if k.changing != s.changing}
        result.append(s)
    return result


NOBODY = Value()
