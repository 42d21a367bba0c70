"""Tensor registers, weight slots and accumulators given out as virtual registers come and go."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

PAIRS = REGISTER_COUNT[Kind.M] // 2
FAR = 1 << 62


@dataclass(slots=True)
class _LiveRange:
    physical: int
    left: int  # accesses to come
    last: int = 0  # completion of the accesses so far
    holders: list[tuple[int, int, int]] = field(default_factory=list)  # (node, low, high) parts


class RegisterAllocator:
    """Which physical place each live virtual register has.

    A tensor register is free again when all its accesses have completed. Weight slots and
    accumulators are given out in program order, so that no slot goes to work that waits for
    work behind it.
    """

    def __init__(self, rows: list[list[Register]], carried: dict[Register, int]) -> None:
        self.carried = carried
        self.left: dict[Register, int] = {}
        self.queue: dict[tuple[Kind, int | None], list[Register]] = {}
        for row in rows:
            for register in dict.fromkeys(row):
                if register.kind is Kind.X:
                    continue
                if register not in self.left and register.kind is not Kind.M:
                    self.queue.setdefault((register.kind, register.unit), []).append(register)
                self.left[register] = self.left.get(register, 0) + 1
        self.lives: dict[Register, _LiveRange] = {}
        taken = {p // 2 for p in carried.values()} | {
            (p + r.size - 1) // 2 for r, p in carried.items()
        }
        self.pairs = [p for p in range(PAIRS) if p not in taken]
        self.singles: list[int] = []
        self.slots = {key: [0, 1] for key in self.queue}
        self.leaving: list[tuple[int, Register]] = []
        for register, physical in carried.items():
            self.lives[register] = _LiveRange(physical, FAR)

    def is_open(self, register: Register) -> bool:
        return register in self.lives

    def physical(self, register: Register) -> int:
        return self.lives[register].physical

    def holders(self, register: Register) -> list[tuple[int, int, int]]:
        return self.lives[register].holders

    def has_room(self, registers: list[Register], leave: int = 0) -> bool:
        """Whether all of these can be opened now and leave so many tensor registers free."""
        pairs, singles = len(self.pairs), len(self.singles)
        wanted = sum(r.size for r in dict.fromkeys(registers) if r.kind is Kind.M)
        if leave and 2 * pairs + singles - wanted < leave:
            return False
        for register in dict.fromkeys(registers):
            if register.kind is not Kind.M:
                key = (register.kind, register.unit)
                if self.queue[key][0] is not register or not self.slots[key]:
                    return False
            elif register.size == 1 and singles:
                singles -= 1
            elif pairs <= 0:
                return False
            else:
                pairs -= 1
                singles += register.size == 1
        return True

    def access(self, node: int, spans: dict[Register, tuple[int, int]], done: int) -> None:
        """Note an access of these registers that completes at tick `done`, opening new ones."""
        for register, (low, high) in spans.items():
            if register.kind is Kind.X:
                continue
            if register not in self.lives:
                self.lives[register] = _LiveRange(self._take(register), self.left[register])
            life = self.lives[register]
            life.left -= 1
            life.last = max(life.last, done)
            life.holders = [*life.holders[-15:], (node, low, high)]
            if not life.left:
                self.leaving.append((life.last, register))

    def _take(self, register: Register) -> int:
        if register.kind is not Kind.M:
            key = (register.kind, register.unit)
            self.queue[key].pop(0)
            return self.slots[key].pop(0)
        if register.size == 2:
            return 2 * self.pairs.pop(0)
        if not self.singles:
            pair = self.pairs.pop(0)
            self.singles = [2 * pair, 2 * pair + 1]
        return self.singles.pop(0)

    def next_release(self, tick: int) -> int:
        """The next tick after `tick` at which something becomes free."""
        return min((t for t, _ in self.leaving if t > tick), default=FAR)

    def release(self, tick: int) -> None:
        """Take back what is no longer in use at this tick."""
        still = []
        for entry in self.leaving:
            if entry[0] > tick:
                still.append(entry)
            else:
                self._return(entry[1])
        self.leaving = still

    def _return(self, register: Register) -> None:
        physical = self.lives[register].physical
        if register.kind is not Kind.M:
            key = (register.kind, register.unit)
            self.slots[key] = sorted([*self.slots[key], physical])
        elif register.size == 2 or physical ^ 1 in self.singles:
            self.singles = [s for s in self.singles if s // 2 != physical // 2]
            self.pairs = sorted([*self.pairs, physical // 2])
        else:
            self.singles = sorted([*self.singles, physical])
