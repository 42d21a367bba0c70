"""Scalar and scale registers as a cache of constants, filled just before they are needed."""

from __future__ import annotations

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
    pending: list[Instruction] = field(default_factory=list)  # rest of a two-step constant
    clock: int = 0

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
            if soft and (free > tick or (kind, place) in self.used):
                return None
            if kind is Kind.E:
                self.e[place] = value
                return Instruction.of("seli", place, value), max(tick, free)
            self.x[place] = value
            first, *self.pending = load_constant(place, value)
            return first, max(tick, free)
        return None

    def use(self, register: Register, done: int) -> int:
        """The physical register of a constant, read until tick `done`."""
        key = self._holder(register)
        assert key is not None
        self.clock += 1
        self.used[key] = self.clock
        self.busy[key] = max(self.busy.get(key, 0), done)
        return key[1]

    def _holder(self, register: Register) -> tuple[Kind, int] | None:
        file = self.x if register.kind is Kind.X else self.e
        for place, value in file.items():
            if value == register.constant:
                return (register.kind, place)
        return None

    def _victim(self, kind: Kind, value: int, keep: set) -> tuple[int, int]:
        """The register to overwrite, unused ones first, then the least recently used of those
        free soonest; and the tick from which it may be overwritten."""
        candidates = range(1, 32) if kind is Kind.X else range(32)
        best = None
        for place in candidates:
            key = (kind, place)
            if key in keep:
                continue
            if kind is Kind.E and self.x.get(place) == value:
                continue  # the public model would drop the write
            if kind is Kind.X and self.e.get(place) == value:
                continue
            rank = (self.busy.get(key, 0), self.used.get(key, 0), place)
            if best is None or rank < best:
                best = rank
        assert best is not None
        return best[2], best[0]
