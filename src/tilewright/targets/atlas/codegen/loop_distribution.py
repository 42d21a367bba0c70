"""Loop distribution: tile programs that read what they wrote become several, one after the other.

before: loop that writes t; loop that reads t
after:  [loop that writes t], [loop that reads t]

Inside one stage loads may start as early as they like; between stages everything has arrived.
Tiles that are computed in one stage and used in a later one go through DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.nest import (
    Affine,
    Compute,
    For,
    Read,
    Reload,
    Spill,
    SpillSlot,
    Statement,
    Value,
    Write,
    all_statements,
    renamed,
)

BYTES = {"bf16": 2048, "fp8": 1024}


def distributed(statements: list[Statement], scratch: int) -> tuple[list[list[Statement]], int]:
    """The stages of a tile program, and the bytes of DRAM from `scratch` on that they use."""
    cut: list[list[Statement]] = [[]]
    written: list[tuple[int, int]] = []
    for s in statements:
        reads, writes = ranges(s, Read), ranges(s, Write)
        if _overlap(reads, written):
            cut.append([])
            written = []
        cut[-1].append(s)
        written += writes
    if len(cut) == 1:
        return cut, 0
    crossing = _Crossing(scratch)
    for number, stage in enumerate(cut):
        crossing.find(stage, number)
    return crossing.apply(cut), crossing.bytes


def ranges(statement: Statement, kind: type[Read] | type[Write]) -> list[tuple[int, int]]:
    """DRAM bytes that a statement may read or write."""
    found = []
    for s in all_statements([statement]):
        if isinstance(s, kind) and not s.on_chip:
            steps = [f * (v.trips - 1) for v, f in s.offset.terms]
            low = s.offset.constant + sum(min(0, n) for n in steps)
            high = s.offset.constant + sum(max(0, n) for n in steps) + s.bytes
            found.append((low, high))
    return found


def _overlap(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


@dataclass
class _Crossing:
    """Values and slots that are filled in one stage and used in a later one."""

    scratch: int
    made: dict[Value | SpillSlot, int] = field(default_factory=dict)  # stage
    moved: dict[Value | SpillSlot, int] = field(default_factory=dict)  # DRAM address
    reads: dict[Value, Read] = field(default_factory=dict)
    bytes: int = 0

    def find(self, stage: list[Statement], number: int) -> None:
        outermost = {id(s) for s in stage}
        for s in all_statements(stage):
            for value in _used(s):
                if self.made.get(value, number) != number and value not in self.reads:
                    self._move(value)
            for value in _made(s):
                self.made.setdefault(value, number)
            if isinstance(s, Read) and id(s) in outermost and not s.changing:
                self.reads[s.result] = s

    def _move(self, what: Value | SpillSlot) -> None:
        if what in self.moved:
            return
        if isinstance(what, Value) and what.dtype not in BYTES:
            raise TilewrightError(
                "TW1458",
                "a sum of products is continued after reading what was written in between",
                hint="read it before the sum begins",
            )
        size = what.bytes if isinstance(what, SpillSlot) else BYTES[what.dtype]
        self.moved[what] = self.scratch + self.bytes
        self.bytes += size

    def apply(self, cut: list[list[Statement]]) -> list[list[Statement]]:
        result = []
        for number, stage in enumerate(cut):
            fetched: list[Statement] = []
            names: dict[Value, Value] = {}
            for value in dict.fromkeys(v for s in all_statements(stage) for v in _used(s)):
                if not isinstance(value, Value) or self.made.get(value, number) == number:
                    continue
                names[value] = Value(value.dtype, value.name)
                if value in self.moved:
                    place = Affine(self.moved[value])
                    fetched.append(Read(names[value], place, BYTES[value.dtype]))
                else:
                    fetched.append(replace(self.reads[value], result=names[value]))
            result.append([*fetched, *self._rows(stage, number, names)])
        return result

    def _rows(
        self, rows: list[Statement], number: int, names: dict[Value, Value]
    ) -> list[Statement]:
        result: list[Statement] = []
        for s in rows:
            s = renamed(s, names)
            if isinstance(s, For):
                result.append(replace(s, body=self._rows(s.body, number, names)))
            elif isinstance(s, Reload) and self.made.get(s.slot, number) != number:
                size = s.slot.bytes
                result.append(Read(s.result, Affine(self.moved[s.slot]), size, s.source))
            else:
                result.append(s)
            for what in _made(s):
                if what in self.moved and self.made[what] == number:
                    value = s.value if isinstance(s, Spill) else what
                    assert isinstance(value, Value)
                    result.append(Write(value, Affine(self.moved[what]), BYTES[value.dtype]))
        return result


def _used(s: Statement) -> list[Value | SpillSlot]:
    if isinstance(s, Compute):
        return list(s.inputs)
    if isinstance(s, Write | Spill):
        return [s.value]
    if isinstance(s, Reload):
        return [s.slot]
    if isinstance(s, For):
        return [v for c in s.carried for v in (c.initial, c.next)]
    return []


def _made(s: Statement) -> list[Value | SpillSlot]:
    if isinstance(s, Compute):
        return list(s.results)
    if isinstance(s, Read | Reload):
        return [s.result]
    if isinstance(s, Spill):
        return [s.slot]
    if isinstance(s, For):
        return [c.result for c in s.carried]
    return []
