"""Tables that instructions make faster than a transfer brings them: masks, mostly.

before: Read of a tile of constants in DRAM
after:  the tile in VMEM, made when the program starts: registers filled with one number are stored
        from each row on that begins a run of it, later runs over earlier ones, and what differs
        inside a row is stored word by word

Rows of constants that are repeated down a tile are made so at once.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.targets.atlas.codegen.chip import Area
from tilewright.targets.atlas.codegen.nest import Affine, For, Read, Statement
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import (
    REGISTER_BYTES,
    ROW,
    Code,
    Op,
    Range,
    Register,
)
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.profile import Profile

WORD = 4
REACH = 2048  # bytes that the offset of a scalar store reaches


@dataclass(frozen=True)
class Table:
    """How to make some bytes: (row, bf16 pattern) of each fill, then (offset, word)."""

    fills: tuple[tuple[int, int], ...]
    words: tuple[tuple[int, int], ...]
    bytes: int

    def ticks(self, profile: Profile) -> int:
        """About how long that keeps the program busy."""
        store = profile.timing["tensor_store"].interval
        patterns = len({pattern for _, pattern in self.fills})
        numbers = len({word for _, word in self.words})
        filling = patterns * profile.timing["fill"].interval
        return store * len(self.fills) + filling + len(self.words) + 2 * numbers


def table_of(raw: bytes) -> Table:
    """How to make these bytes, which are whole rows."""
    fills: list[tuple[int, int]] = []
    words: list[tuple[int, int]] = []
    covered, base = 0, -1
    for row in range(len(raw) // ROW):
        line = raw[row * ROW : (row + 1) * ROW]
        numbers = Counter(struct.unpack(f"<{ROW // 2}H", line))
        common = max(numbers, key=lambda n: (numbers[n], n == base))
        if common != base or row >= covered:
            fills.append((row, common))
            covered, base = row + REGISTER_BYTES // ROW, common
        filled = common | common << 16
        for k, word in enumerate(struct.unpack(f"<{ROW // WORD}I", line)):
            if word != filled:
                words.append((row * ROW + k * WORD, word))
    return Table(tuple(fills), tuple(words), len(raw))


def made_on_chip(
    statements: list[Statement],
    data: Sequence[tuple[int, bytes]],
    profile: Profile,
    area: Area,
) -> tuple[list[Statement], dict[int, Table], Area]:
    """The statements with tables read from VMEM, how to make them at which address, and the VMEM
    that is left."""
    if profile.fill != "bits":
        return statements, {}, area
    maker = _Maker(data, profile, area)
    return maker.rewritten(statements), maker.tables, maker.area


class _Maker:
    def __init__(self, data: Sequence[tuple[int, bytes]], profile: Profile, area: Area) -> None:
        self.data, self.profile, self.area = data, profile, area
        self.places: dict[bytes, int | None] = {}
        self.tables: dict[int, Table] = {}

    def rewritten(self, statements: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in statements:
            if isinstance(s, For):
                s = replace(s, body=self.rewritten(s.body))
            elif isinstance(s, Read) and not (s.on_chip or s.offset.terms):
                line = s.row or (s.pieces is not None and all(n == ROW for _, n in s.pieces))
                place = self._place(s, line) if line or not s.pieces else None
                if place is not None:
                    s = replace(
                        s, offset=Affine(place), on_chip=True, row=False, pieces=None, copies=1
                    )
            result.append(s)
        return result

    def _place(self, read: Read, line: bool) -> int | None:
        """Where in VMEM the tile is made, if that pays; line: its first row, repeated."""
        start = read.offset.constant
        for address, raw in self.data:
            if address <= start and start + read.bytes <= address + len(raw):
                tile = raw[start - address : start - address + read.bytes]
                if line:
                    parts = range(0, len(tile), REGISTER_BYTES)
                    tile = b"".join(tile[k : k + ROW] * (REGISTER_BYTES // ROW) for k in parts)
                if tile not in self.places:
                    self.places[tile] = self._made(tile, line)
                return self.places[tile]
        return None

    def _made(self, tile: bytes, line: bool) -> int | None:
        table = table_of(tile)
        # A line is otherwise loaded into a tile that was cleared, and spread by the vector unit,
        # which has more to do than the scalar unit that writes words.
        if line and len(table.words) > TUNING.line_words:
            return None
        slow = table.ticks(self.profile) >= self.profile.dma.ticks(len(tile))
        if len(table.words) > TUNING.table_words or (slow and not line):
            return None
        # A fill writes whole registers, the last one past the end.
        last = table.fills[-1][0] * ROW + REGISTER_BYTES
        room = -(-max(len(tile), last) // REGISTER_BYTES) * REGISTER_BYTES
        if self.area.start + room > self.area.end:
            return None
        start = self.area.start
        self.area = Area(start + room, self.area.end)
        self.tables[start] = table
        return start


def make_tables(code: Code, tables: dict[int, Table]) -> None:
    """Emit what makes the tables."""
    filled: dict[int, Register] = {}
    for start, table in tables.items():
        stores: list[Op] = []
        code.tables[start] = table, table.bytes, stores
        for row, pattern in table.fills:
            if pattern not in filled:
                filled[pattern] = code.half()
                code.emit("vli.all", filled[pattern], pattern)
            stores.append(code.vstore(filled[pattern], start + row * ROW))
        for offset, word in table.words:
            at = start + offset
            base = code.constant(Kind.X, at // REACH * REACH)
            value = code.constant(Kind.X, word)
            touched = Range("vmem", at, WORD, True)
            stores.append(code.emit("sw", value, at % REACH, base, ranges=(touched,)))
