"""Scalar and scale registers as a cache of constants, filled just before they are needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.program import Instruction


def load_constant(register: int, value: int) -> list[Instruction]:
    """The one or two instructions that put a value into a scalar register."""
    low = ((value & 0xFFF) ^ 0x800) - 0x800
    high = ((value - low) >> 12) & 0xFFFFF
    if not high:
        return [Instruction.of("addi", register, 0, low)]
    first = Instruction.of("lui", register, high)
    return [first, Instruction.of("addi", register, register, low)] if low else [first]


@dataclass
class Constants:
    """Which constant each register holds and until when a reader in flight needs it."""

    x: dict[int, int] = field(default_factory=lambda: {0: 0})  # register -> value
    e: dict[int, int] = field(default_factory=dict)
    busy: dict[tuple[Kind, int], int] = field(default_factory=dict)  # last reader's completion
    used: dict[tuple[Kind, int], int] = field(default_factory=dict)  # recency
    wanted: dict[tuple[Kind, int], int] = field(default_factory=dict)  # uses to come, by value
    pending: list[Instruction] = field(default_factory=list)  # rest of a two-step constant
    # Scalar registers that transfers read until something has waited for them, by transfer.
    held: dict[int, list[tuple[Kind, int]]] = field(default_factory=dict)
    lent: set[int] = field(default_factory=set)  # scalar registers that hold addresses now
    reserved: frozenset[int] = frozenset()  # scalar registers that are not ours
    pinned: frozenset[tuple[Kind, int]] = frozenset()  # registers that keep their constant
    clock: int = 0
    # Looked up far more often than changed: where each constant is, what transfers hold.
    _places: dict[tuple[Kind, int], int] | None = field(default=None, repr=False)
    _holding: frozenset[tuple[Kind, int]] | None = field(default=None, repr=False)

    def entry(self) -> Constants:
        """What a loop body finds at the start of every iteration: the pinned constants only."""
        x = {r: v for r, v in self.x.items() if r == 0 or (Kind.X, r) in self.pinned}
        e = {r: v for r, v in self.e.items() if (Kind.E, r) in self.pinned}
        return Constants(x, e, reserved=self.reserved, pinned=self.pinned)

    def rest(self) -> None:
        """Forget readers: the machine has drained, ticks start again."""
        self.busy.clear()
        self.held.clear()
        self._holding = None

    # --- registers of transfers in flight ---

    def hold(self, transfer: int, registers: list[Register]) -> None:
        """Keep the constants of a transfer until `release`, however long it takes."""
        keys = [self._holder(register) for register in registers]
        self.held[transfer] = [key for key in keys if key is not None and key != (Kind.X, 0)]
        self._holding = None

    def release(self, transfer: int) -> None:
        self.held.pop(transfer, None)
        self._holding = None

    def can_hold(self) -> bool:
        """Whether one more transfer leaves registers for other constants."""
        return not self.held or len(self._all_held()) + len(self.lent) + 3 <= self._own() - 4

    def _all_held(self) -> frozenset[tuple[Kind, int]]:
        if self._holding is None:
            held = frozenset(key for keys in self.held.values() for key in keys)
            self._holding = held - self.pinned
        return self._holding

    def next_step(
        self, wanted: list[Register], tick: int, soft: bool
    ) -> tuple[Instruction, int] | None:
        """The next instruction needed to have all wanted constants, and its first tick."""
        if self.pending:
            return self.pending.pop(0), tick
        keep = {self._holder(r) for r in wanted} - {None}
        for register in wanted:
            if self._holder(register) is not None:
                continue
            assert register.constant is not None
            kind, value = register.kind, register.constant
            place, free = self._victim(kind, value, keep)
            if soft and (free > tick or self._wanted(kind, place)):
                return None
            self._places = None
            if kind is Kind.E:
                self.e[place] = value
                return Instruction.of("seli", place, value), max(tick, free)
            self.x[place] = value
            first, *self.pending = load_constant(place, value)
            return first, max(tick, free)
        return None

    # --- registers for computed addresses ---

    def _spare(self, tick: int) -> list[int]:
        """Scalar registers that may be overwritten now, those with nothing useful first."""
        held = self._all_held()
        found = [
            (self._wanted(Kind.X, place), -place)
            for place in range(1, 32)
            if place not in self.reserved
            and place not in self.lent
            and (Kind.X, place) not in self.pinned
            and self.busy.get((Kind.X, place), 0) <= tick
            and (Kind.X, place) not in held
        ]
        return [-place for _, place in sorted(found)]

    def can_lend(self, tick: int) -> bool:
        """Whether an address can have a register and constants still find theirs."""
        return len(self.lent) < self._own() - 4 and len(self._spare(tick)) > 3

    def _own(self) -> int:
        """Registers that are neither reserved nor pinned."""
        return 31 - len(self.reserved) - sum(kind is Kind.X for kind, _ in self.pinned)

    def lend(self, tick: int, needed: list[Register]) -> int:
        """A register for an address, none of those that hold the needed constants."""
        keep = {self._holder(register) for register in needed}
        place = next(p for p in self._spare(tick) if (Kind.X, p) not in keep)
        self.x.pop(place, None)
        self._places = None
        self.lent.add(place)
        return place

    def give_back(self, place: int, tick: int) -> None:
        """The register may be overwritten from `tick` on."""
        self.lent.discard(place)
        self.busy[(Kind.X, place)] = tick

    def expect(self, registers: Iterable[Register]) -> None:
        """Announce the uses to come, one entry per use."""
        for register in registers:
            key = (register.kind, register.constant or 0)
            self.wanted[key] = self.wanted.get(key, 0) + 1

    def _wanted(self, kind: Kind, place: int) -> bool:
        """Whether the register holds something that is still needed."""
        file = self.x if kind is Kind.X else self.e
        return place in file and self.wanted.get((kind, file[place]), 0) > 0

    def use(self, register: Register, done: int) -> int:
        """The physical register of a constant, read until tick `done`."""
        key = self._holder(register)
        assert key is not None
        self.wanted[(register.kind, register.constant or 0)] -= 1
        self.clock += 1
        self.used[key] = self.clock
        self.busy[key] = max(self.busy.get(key, 0), done)
        return key[1]

    def _holder(self, register: Register) -> tuple[Kind, int] | None:
        if self._places is None:
            # The first register that has a value is the one to read.
            files = ((Kind.X, self.x), (Kind.E, self.e))
            self._places = {
                (kind, value): place
                for kind, file in files
                for place, value in reversed(file.items())
            }
        assert register.constant is not None
        place = self._places.get((register.kind, register.constant))
        return None if place is None else (register.kind, place)

    def _victim(self, kind: Kind, value: int, keep: set) -> tuple[int, int]:
        """The register to overwrite: one nobody needs any more before one still wanted, the one
        free soonest among those; and the tick from which it may be overwritten."""
        scalar = kind is Kind.X
        own, other = (self.x, self.e) if scalar else (self.e, self.x)
        best = None
        held, pinned, wanted = self._all_held(), self.pinned, self.wanted
        for place in range(1 if scalar else 0, 32):
            if scalar and (place in self.reserved or place in self.lent):
                continue
            key = (kind, place)
            if key in keep or key in pinned:
                continue
            if other.get(place) == value:
                continue  # the public model would drop the write
            needed = place in own and wanted.get((kind, own[place]), 0) > 0
            rank = (key in held, needed, self.busy.get(key, 0), self.used.get(key, 0), place)
            if best is None or rank < best:
                best = rank
        assert best is not None
        return best[4], best[2]
