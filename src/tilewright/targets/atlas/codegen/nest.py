"""Tile programs: loops over tiles that are read from DRAM, computed on, and written back.

This is what npu_schedule looks like once tensors have addresses: every tile access is a byte
offset that is affine in the loop variables. Tensors may also stay in VMEM between kernels.
Nothing here knows about registers, buffers or transfers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.targets.atlas.codegen.tiles import Accumulator, Tile, Tiles

Pieces = tuple[tuple[int, int], ...]  # (byte of a tile, bytes), by increasing address


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
    """A loop variable: 0, 1, … trips - 1.

    count: how many iterations there are in this iteration of a loop around, at least one and at
    most `trips`; None where that is always the same number.
    """

    trips: int
    name: str = ""
    count: Affine | None = None


# The bytes by which tensors of this round lie behind those of the first, when a program carries
# its kernels out several times. No loop of a kernel steps it.
LAYER = Variable(1, "round")


@dataclass(eq=False, slots=True)
class Value:
    """A tile between statements."""

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
    on_chip: bool = False  # the tensor is in VMEM: `offset` is a VMEM address
    changing: int = 0  # number of a tensor that is also written: it is read here or not at all
    pieces: Pieces | None = None  # what of the tile is in the tensor, all of it if None
    blank: bool = True  # the rest of the tile has to be zero
    bare: bool = False  # nobody has written the rest: it may be anything in DRAM
    positive: bool = False  # none of its zeros is -0
    copies: int = 1  # how often its row comes, one below the other


@dataclass(frozen=True, slots=True)
class Write:
    """DRAM bytes at `offset` = tile."""

    value: Value
    offset: Affine
    bytes: int
    source: str = ""
    on_chip: bool = False  # the tensor is in VMEM: `offset` is a VMEM address
    changing: int = 0  # number of a tensor that the program also reads
    pieces: Pieces | None = None  # what of the tile is in the tensor, all of it if None
    rows: int = 32  # of the tile that lie inside the tensor, on chip as well


@dataclass(eq=False, slots=True)
class SpillSlot:
    """A place in VMEM for a tile that waits there between two uses."""

    bytes: int
    lasting: bool = False  # used by more than one straight piece


@dataclass(frozen=True, slots=True)
class Spill:
    """Put a tile into a slot."""

    value: Value
    slot: SpillSlot
    source: str = ""


@dataclass(frozen=True, slots=True)
class Reload:
    """Take a tile from a slot; it stays there too."""

    result: Value
    slot: SpillSlot
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
    local: bool = False  # an element of a result depends on the same element of each input only
    calm: bool = False  # local, and finite where its inputs are finite and moderate

    def with_inputs(self, inputs: tuple[Value, ...]) -> Compute:
        """The same of other tiles; most rewriting leaves most statements as they are."""
        return self if inputs == self.inputs else replace(self, inputs=inputs)


@dataclass(frozen=True, slots=True)
class Carried:
    """A tile that one iteration leaves to the next.

    An iteration starts with it as `inside` (the first one: `initial`) and ends with it as
    `next`; after the loop it is `result`.
    """

    initial: Value
    inside: Value
    next: Value
    result: Value


@dataclass(slots=True)
class For:
    """Repeat the statements for each value of the variable."""

    variable: Variable
    body: list[Statement]
    unroll: bool | None = None  # None: decided by size
    carried: tuple[Carried, ...] = ()


Statement = Read | Write | Spill | Reload | Compute | For


def unrolled(statements: list[Statement]) -> list[Statement]:
    """The statements with every loop marked for unrolling written as its iterations."""
    return _Unroller().sequence(statements, _Copy())


@dataclass
class _Copy:
    """How statements are rewritten: loop variables with a value, tiles and slots of their own."""

    values: dict[Value, Value] = field(default_factory=dict)
    slots: dict[SpillSlot, SpillSlot] = field(default_factory=dict)
    indices: dict[Variable, int] = field(default_factory=dict)

    def used(self, value: Value) -> Value:
        return self.values.get(value, value)

    def defined(self, value: Value) -> Value:
        """Values of an iteration are its own; outside of written-out loops they stay."""
        if self.indices:
            self.values[value] = Value(value.dtype, value.name)
        return self.used(value)

    def changes(self) -> bool:
        """Whether a statement may come out otherwise than it is."""
        return bool(self.indices or self.values or self.slots)

    def place(self, offset: Affine) -> Affine:
        for variable, index in self.indices.items():
            offset = offset.at(variable, index)
        return offset


class _Unroller:
    def sequence(self, statements: list[Statement], copy: _Copy) -> list[Statement]:
        rows: list[Statement] = []
        for s in statements:
            if isinstance(s, For):
                rows += self._written_out(s, copy) if s.unroll else [self._kept(s, copy)]
            else:
                rows.append(self._simple(s, copy))
        return rows

    def _written_out(self, loop: For, copy: _Copy) -> list[Statement]:
        rows: list[Statement] = []
        current = {c: copy.used(c.initial) for c in loop.carried}
        for index in range(loop.variable.trips):
            iteration = _Copy(
                {**copy.values, **{c.inside: value for c, value in current.items()}},
                dict(copy.slots),
                {**copy.indices, loop.variable: index},
            )
            rows += self.sequence(loop.body, iteration)
            current = {c: iteration.used(c.next) for c in loop.carried}
        for c, value in current.items():
            copy.values[c.result] = value
        return rows

    def _kept(self, loop: For, copy: _Copy) -> For:
        initial = [copy.used(c.initial) for c in loop.carried]
        inside = [copy.defined(c.inside) for c in loop.carried]
        body = self.sequence(loop.body, copy)
        carried = tuple(
            Carried(first, start, copy.used(c.next), copy.defined(c.result))
            for c, first, start in zip(loop.carried, initial, inside, strict=True)
        )
        return For(loop.variable, body, False, carried)

    def _simple(self, s: Read | Write | Spill | Reload | Compute, copy: _Copy) -> Statement:
        if not copy.changes():
            return s
        if isinstance(s, Read):
            place = copy.place(s.offset)
            return replace(s, result=copy.defined(s.result), offset=place)
        if isinstance(s, Write):
            return replace(s, value=copy.used(s.value), offset=copy.place(s.offset))
        if isinstance(s, Spill):
            if copy.indices:
                copy.slots[s.slot] = SpillSlot(s.slot.bytes)
            return Spill(copy.used(s.value), copy.slots.get(s.slot, s.slot), s.source)
        if isinstance(s, Reload):
            return Reload(copy.defined(s.result), copy.slots.get(s.slot, s.slot), s.source)
        inputs = tuple(copy.used(v) for v in s.inputs)
        results = tuple(copy.defined(v) for v in s.results)
        return replace(s, inputs=inputs, results=results)


def fresh_loops(statements: list[Statement]) -> list[Statement]:
    """The statements with loops of their own, so that marks on them can differ."""
    return [
        For(s.variable, fresh_loops(s.body), s.unroll, s.carried) if isinstance(s, For) else s
        for s in statements
    ]


def size_of(statements: list[Statement]) -> int:
    """A rough count of machine instructions when everything is unrolled."""
    total = 0
    for s in statements:
        if isinstance(s, For):
            total += s.variable.trips * size_of(s.body)
        elif isinstance(s, Compute):
            total += s.options.get("cost", 4)
        else:
            total += 3
    return total


def emit_compute(
    tiles: Tiles, statement: Compute, known: dict[Value, Any], turned: Collection[Value] = ()
) -> None:
    """Run a body and note its results; turned: tiles that get transposed."""
    options = {k: v for k, v in statement.options.items() if k != "cost"}
    tiles.paired = any(value in turned for value in statement.results)
    outcome = statement.body(tiles, *(known[v] for v in statement.inputs), **options)
    outputs = outcome if isinstance(outcome, tuple) else (outcome,)
    for value, tile in zip(statement.results, outputs, strict=True):
        known[value] = tile


def without_idle_slots(statements: list[Statement]) -> list[Statement]:
    """The statements without tiles put into VMEM that nobody takes out again."""
    wanted: set[SpillSlot] = set()

    def look(rows: list[Statement]) -> None:
        for s in rows:
            if isinstance(s, Reload):
                wanted.add(s.slot)
            elif isinstance(s, For):
                look(s.body)

    def keep(rows: list[Statement]) -> list[Statement]:
        result: list[Statement] = []
        for s in rows:
            if isinstance(s, For):
                result.append(For(s.variable, keep(s.body), s.unroll, s.carried))
            elif not isinstance(s, Spill) or s.slot in wanted:
                result.append(s)
        return result

    look(statements)
    return keep(statements)
