"""Which tiles stay in registers and which wait in memory.

before: tiles used wherever they are known, also in other loops and much later
after:  every straight piece fetches what it needs, keeps what fits into its registers and
        leaves the rest in VMEM

A tile that came from DRAM is fetched again from its buffer. A computed tile that is needed in
another piece, or for which there is no room (the one needed last goes first), is put into a
slot. Tiles carried from one iteration to the next live in slots as well: storing and loading
uses a unit that has time, while moving registers would use the vector unit.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from tilewright.targets.atlas.codegen.nest import (
    Compute,
    For,
    Read,
    Reload,
    Spill,
    SpillSlot,
    Statement,
    Value,
    Write,
)
from tilewright.targets.atlas.codegen.tuning import TUNING

WEIGHT = {"bf16": 2, "fp8": 1}
BYTES = {"bf16": 2048, "fp8": 1024}

Simple = Read | Write | Spill | Reload | Compute


def with_spills(
    statements: list[Statement],
    room: int | None = None,
    waiting: int | None = None,
) -> list[Statement]:
    """The statements with tiles placed; computed tiles that wait long fill at most `waiting` of
    the `room` registers."""
    room = TUNING.live_registers if room is None else room
    waiting = TUNING.waiting_registers if waiting is None else waiting
    return _Placement(statements, room, waiting).sequence(statements, [])


def lasting_slots(statements: list[Statement]) -> list[SpillSlot]:
    """Slots that keep their tile from one piece to another, in order of appearance."""
    found: dict[SpillSlot, None] = {}

    def look(rows: list[Statement]) -> None:
        for s in rows:
            if isinstance(s, For):
                look(s.body)
            elif isinstance(s, Spill | Reload) and s.slot.lasting:
                found[s.slot] = None

    look(statements)
    return list(found)


@dataclass
class _Placement:
    statements: list[Statement]
    room: int
    waiting: int
    # How to fetch a tile that is not in a register.
    origin: dict[Value, Read | SpillSlot | Compute] = field(default_factory=dict)
    escaping: set[Value] = field(default_factory=set)

    def __post_init__(self) -> None:
        defined_in: dict[Value, int] = {}
        self._look(self.statements, (), defined_in, count())

    def _look(
        self,
        rows: list[Statement],
        handed_on: tuple[Value, ...],
        defined_in: dict[Value, int],
        numbers: Iterator[int],
    ) -> None:
        """Find values used in another piece than the one that makes them; the values handed on
        to the next iteration are used at the end of the last piece."""
        piece = next(numbers)

        def use(value: Value) -> None:
            if defined_in.get(value, piece) != piece:
                self.escaping.add(value)

        for s in rows:
            if not isinstance(s, For):
                for value in _inputs(s):
                    use(value)
                for value in _results(s):
                    defined_in[value] = piece
                continue
            for c in s.carried:
                use(c.initial)
                defined_in[c.inside] = -1
            self._look(s.body, tuple(c.next for c in s.carried), defined_in, numbers)
            for c in s.carried:
                defined_in[c.result] = -1
            piece = next(numbers)
        for value in handed_on:
            use(value)

    def sequence(
        self, rows: list[Statement], carried: list[tuple[Value, SpillSlot]]
    ) -> list[Statement]:
        """The rows, followed by storing `carried` values into their slots."""
        result: list[Statement] = []
        piece: list[Simple] = []
        for s in rows:
            if not isinstance(s, For):
                piece.append(s)
                continue
            slots = [SpillSlot(BYTES[c.inside.dtype], lasting=True) for c in s.carried]
            starts = [(c.initial, slot) for c, slot in zip(s.carried, slots, strict=True)]
            result += _Piece(self, piece, starts).rows()
            piece = []
            result.append(self._loop(s, slots))
        result += _Piece(self, piece, carried).rows()
        return result

    def _loop(self, loop: For, slots: list[SpillSlot]) -> For:
        ends = []
        for c, slot in zip(loop.carried, slots, strict=True):
            self.origin[c.inside] = self.origin[c.result] = slot
            if c.next is not c.inside:
                ends.append((c.next, slot))
        return For(loop.variable, self.sequence(loop.body, ends), loop.unroll)

    def slot_for(self, value: Value) -> SpillSlot:
        return SpillSlot(BYTES[value.dtype], lasting=value in self.escaping)


class _Piece:
    """One straight piece."""

    def __init__(
        self, placement: _Placement, rows: list[Simple], stored: list[tuple[Value, SpillSlot]]
    ) -> None:
        self.at, self.source, self.stored = placement, rows, stored
        self.out: list[Statement] = []
        self.line = ""  # of the author, where we are
        self.held: dict[Value, Value] = {}  # known tile -> its name in a register
        self.uses: dict[Value, list[int]] = {}
        self.changes: dict[int, list[int]] = {}  # where tensors are written, by their numbers
        for index, s in enumerate(rows):
            if isinstance(s, Write):
                self.changes.setdefault(s.changing, []).append(index)
        for index, s in enumerate(rows):
            for value in _inputs(s):
                self.uses.setdefault(value, []).append(index)
        for value, _ in stored:
            self.uses.setdefault(value, []).append(len(rows))
        for positions in self.uses.values():
            positions.reverse()

    def rows(self) -> list[Statement]:
        for index, s in enumerate(self.source):
            if isinstance(s, Read | Reload) and self._stays(s, index):  # fetched when used
                self.at.origin[s.result] = s if isinstance(s, Read) else s.slot
                continue
            if isinstance(s, Compute) and not s.inputs:  # made anew where it is used
                self.at.origin[s.results[0]] = s
                continue
            self.line = s.source
            inputs = tuple(self._fetch(v, _inputs(s)) for v in _inputs(s))
            self._forget_used(_inputs(s), index)
            self.out.append(_with_inputs(s, inputs))
            for value in _results(s):
                self._make_room(WEIGHT.get(value.dtype, 0), _results(s))
                self._define(value)
            self._send_off(index)
        last = len(self.source)
        names = [self._fetch(value, tuple(v for v, _ in self.stored)) for value, _ in self.stored]
        for name, (_, slot) in zip(names, self.stored, strict=True):
            self.out.append(Spill(name, slot, self.line))
        self._forget_used(tuple(v for v, _ in self.stored), last)
        return self.out

    def _stays(self, s: Read | Reload, index: int) -> bool:
        """Whether memory still has a tile wherever it is used."""
        if isinstance(s, Reload):
            return True
        if s.row and s.result not in self.at.escaping and len(self.uses.get(s.result, ())) > 1:
            return False  # spreading it again takes longer than keeping the tile
        if not s.changing:
            return True
        if s.result in self.at.escaping:
            return False
        last = self.uses.get(s.result, [index])[0]
        changes = self.changes.get(s.changing, [])
        return bisect(changes, index) == bisect(changes, last)  # nothing is written in between

    def _define(self, value: Value) -> None:
        if value in self.at.escaping and value.dtype in BYTES:
            self._spill(value, value)
        if self.uses.get(value):
            self.held[value] = value

    def _fetch(self, value: Value, needed: tuple[Value, ...]) -> Value:
        if value in self.held:
            return self.held[value]
        origin = self.at.origin.get(value)
        if origin is None:
            return value  # an accumulator
        self._make_room(WEIGHT[value.dtype], needed)
        name = Value(value.dtype, value.name)
        if isinstance(origin, Read):
            self.out.append(replace(origin, result=name))
        elif isinstance(origin, Compute):
            self.out.append(replace(origin, results=(name,)))
        else:
            self.out.append(Reload(name, origin, self.line))
        self.held[value] = name
        return name

    def _forget_used(self, inputs: tuple[Value, ...], index: int) -> None:
        for value in inputs:
            positions = self.uses.get(value)
            while positions and positions[-1] <= index:
                positions.pop()
            if not positions:
                self.held.pop(value, None)

    def _make_room(self, weight: int, needed: tuple[Value, ...]) -> None:
        """Give up tiles, the one needed last first, until there is room for `weight` more."""
        total = sum(WEIGHT.get(v.dtype, 0) for v in self.held)
        while total + weight > self.at.room:
            candidates = [v for v in self.held if v not in needed and v.dtype in BYTES]
            if not candidates:
                return
            # Among equals give up tiles that memory has anyway.
            victim = max(candidates, key=lambda v: (self.uses[v][-1], v in self.at.origin))
            total -= WEIGHT[victim.dtype]
            self._give_up(victim)

    def _send_off(self, index: int) -> None:
        """Let computed tiles that are needed only much later wait in memory, the one needed last
        first, so that work at hand has the registers."""
        late = [
            v
            for v in self.held
            if v.dtype in BYTES
            and v not in self.at.origin
            and self.uses[v][-1] > index + TUNING.waiting_statements
        ]
        late.sort(key=lambda v: self.uses[v][-1])
        while sum(WEIGHT[v.dtype] for v in late) > self.at.waiting:
            self._give_up(late.pop())

    def _give_up(self, value: Value) -> None:
        if value not in self.at.origin:
            self._spill(value, self.held[value])
        del self.held[value]

    def _spill(self, value: Value, name: Value) -> None:
        slot = self.at.slot_for(value)
        self.at.origin[value] = slot
        self.out.append(Spill(name, slot, self.line))


def _inputs(s: Simple) -> tuple[Value, ...]:
    if isinstance(s, Compute):
        return s.inputs
    return (s.value,) if isinstance(s, Write | Spill) else ()


def _results(s: Simple) -> tuple[Value, ...]:
    if isinstance(s, Compute):
        return s.results
    return (s.result,) if isinstance(s, Read | Reload) else ()


def _with_inputs(s: Simple, inputs: tuple[Value, ...]) -> Statement:
    if isinstance(s, Compute):
        return s.with_inputs(inputs)
    if isinstance(s, Write | Spill) and s.value is not inputs[0]:
        return replace(s, value=inputs[0])
    return s
