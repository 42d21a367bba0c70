"""Tile programs: loops over tiles that are read from DRAM, computed on, and written back.

This is what npu_schedule looks like once tensors have addresses: every tile access is a byte
offset that is affine in the loop variables. Nothing here knows about registers, on-chip
buffers or transfers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilewright.targets.atlas.codegen.tiles import Accumulator, Tile, Tiles


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + sum of coefficient * loop variable."""

    constant: int = 0
    terms: tuple[tuple[Variable, int], ...] = ()

    def at(self, variable: Variable, value: int) -> Affine:
        """The expression with a variable fixed."""
        constant, terms = self.constant, []
        for name, factor in self.terms:
            if name is variable:
                constant += factor * value
            else:
                terms.append((name, factor))
        return Affine(constant, tuple(terms))

    def factor(self, variable: Variable) -> int:
        return next((f for v, f in self.terms if v is variable), 0)

    def shifted(self, bytes: int) -> Affine:
        return Affine(self.constant + bytes, self.terms)


@dataclass(eq=False, slots=True)
class Variable:
    """A loop variable: 0, 1, … trips - 1."""

    trips: int
    name: str = ""


@dataclass(eq=False, slots=True)
class Value:
    """A tile between statements; `state` values are set in one iteration and read in the next."""

    dtype: str = "bf16"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """result = tile at DRAM byte `offset`."""

    result: Value
    offset: Affine
    bytes: int
    source: str = ""
    row: bool = False  # only the tile's first row is in DRAM; it is repeated down the tile


@dataclass(frozen=True, slots=True)
class Write:
    """DRAM bytes at `offset` = tile."""

    value: Value
    offset: Affine
    bytes: int
    source: str = ""


@dataclass(eq=False, slots=True)
class Slot:
    """A place in VMEM for a tile that waits there between two uses."""

    bytes: int


@dataclass(frozen=True, slots=True)
class Park:
    """Put a tile into a slot."""

    value: Value
    slot: Slot
    source: str = ""


@dataclass(frozen=True, slots=True)
class Unpark:
    """Take a tile from a slot; it stays there too."""

    result: Value
    slot: Slot
    source: str = ""


# A body of a micro-kernel: given the tile operations and its input tiles, the output tiles.
Body = Callable[..., "Tile | Accumulator | tuple[Tile | Accumulator, ...] | None"]


@dataclass(frozen=True, slots=True)
class Compute:
    """results = body(tiles, *inputs, **options)."""

    body: Body
    inputs: tuple[Value, ...]
    results: tuple[Value, ...]
    options: dict[str, Any] = field(default_factory=dict)
    source: str = ""


@dataclass(slots=True)
class For:
    """Repeat the statements for each value of the variable."""

    variable: Variable
    body: list[Statement]
    unroll: bool | None = None  # None: decided by size


Statement = Read | Write | Park | Unpark | Compute | For


def unrolled(statements: list[Statement]) -> list[Statement]:
    """The statements with every loop marked for unrolling written out."""
    result: list[Statement] = []
    for statement in statements:
        if not isinstance(statement, For):
            result.append(statement)
        elif statement.unroll:
            inner = unrolled(statement.body)
            for value in range(statement.variable.trips):
                result += _instance(inner, statement.variable, value)
        else:
            result.append(For(statement.variable, unrolled(statement.body), False))
    return result


def _instance(body: list[Statement], variable: Variable, index: int) -> list[Statement]:
    """One iteration: the variable fixed, and values of its own."""
    copies: dict[Value, Value] = {}
    slots: dict[Slot, Slot] = {}

    def defined(value: Value) -> Value:
        copies[value] = Value(value.dtype, value.name)
        return copies[value]

    def used(value: Value) -> Value:
        return copies.get(value, value)

    def copy(statements: list[Statement]) -> list[Statement]:
        rows: list[Statement] = []
        for s in statements:
            if isinstance(s, Read):
                place = s.offset.at(variable, index)
                rows.append(Read(defined(s.result), place, s.bytes, s.source, s.row))
            elif isinstance(s, Write):
                rows.append(Write(used(s.value), s.offset.at(variable, index), s.bytes, s.source))
            elif isinstance(s, Park):
                slots[s.slot] = Slot(s.slot.bytes)
                rows.append(Park(used(s.value), slots[s.slot], s.source))
            elif isinstance(s, Unpark):
                rows.append(Unpark(defined(s.result), slots.get(s.slot, s.slot), s.source))
            elif isinstance(s, Compute):
                inputs = tuple(used(v) for v in s.inputs)
                results = tuple(defined(v) for v in s.results)
                rows.append(Compute(s.body, inputs, results, s.options, s.source))
            else:
                rows.append(For(s.variable, copy(s.body), s.unroll))
        return rows

    return copy(body)


def size_of(statements: list[Statement]) -> int:
    """A rough count of machine instructions when everything is written out."""
    total = 0
    for s in statements:
        if isinstance(s, For):
            total += s.variable.trips * size_of(s.body)
        elif isinstance(s, Compute):
            total += s.options.get("cost", 4)
        else:
            total += 3
    return total


def emit_compute(tiles: Tiles, statement: Compute, known: dict[Value, Any]) -> None:
    """Run a body and note its results."""
    options = {k: v for k, v in statement.options.items() if k != "cost"}
    outcome = statement.body(tiles, *(known[v] for v in statement.inputs), **options)
    outputs = outcome if isinstance(outcome, tuple) else (outcome,)
    for value, tile in zip(statement.results, outputs, strict=True):
        known[value] = tile


def without_idle_slots(statements: list[Statement]) -> list[Statement]:
    """The statements without tiles put into VMEM that nobody takes out again."""
    wanted: set[Slot] = set()

    def look(rows: list[Statement]) -> None:
        for s in rows:
            if isinstance(s, Unpark):
                wanted.add(s.slot)
            elif isinstance(s, For):
                look(s.body)

    def keep(rows: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in rows:
            if isinstance(s, For):
                result.append(For(s.variable, keep(s.body), s.unroll))
            elif not isinstance(s, Park) or s.slot in wanted:
                result.append(s)
        return result

    look(statements)
    return keep(statements)
