"""List scheduling of straight virtual code on one profile, with registers and channels.

The scheduler walks time. At each tick it issues the ready instruction with the longest way to
the end whose unit, registers, slots and channel are free; scalar constants are made in idle
ticks before they are needed. All times are exact, so waits are placed where they do not block.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.graph import Node, build, touched
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.program import Instruction

FIRST_TICK = 2  # decode claims the first instruction in tick 2
PAIRS = 32


@dataclass(slots=True)
class Issue:
    """One instruction with its final operands and dispatch tick."""

    tick: int
    instruction: Instruction
    source: str = ""


@dataclass
class Schedule:
    """Instructions in order of dispatch."""

    issues: list[Issue]
    cycles: int  # as the machine will count them
    dma_busy: int


@dataclass
class _Life:
    """A virtual register in a physical place."""

    physical: int
    accesses_left: int
    last: int = 0  # completion of its accesses so far
    holders: list[tuple[Node, int]] = field(default_factory=list)  # (access, dispatch) in flight


def schedule(code: Code, spread: int = 0) -> Schedule:
    """Schedule the code; `spread` varies the order among equals (0 is program order)."""
    return _Scheduler(code, spread).run()


class _Scheduler:
    def __init__(self, code: Code, spread: int) -> None:
        self.code, self.profile = code, code.profile
        self.distances = Distances(code.profile)
        self.nodes = build(code)
        self.spread = spread
        self.tick = FIRST_TICK
        self.issues: list[Issue] = []
        self.constants = Constants()
        self.unit_free: dict[str, int] = {}
        self.earliest = [FIRST_TICK] * len(self.nodes)
        self.missing = [len(node.before) for node in self.nodes]
        self.dma_last = 0
        self.dma_busy = 0
        self.channel_of: dict[int, int] = {}
        self.free_channels = list(range(8))
        self.completion = [0] * len(self.nodes)
        self.lives: dict[Register, _Life] = {}
        self.pairs_free = list(range(PAIRS))
        self.singles_free: list[int] = []
        self.freeing: list[tuple[int, int, int]] = []  # (tick, size, physical)
        self.slots_free = {(kind, unit): [0, 1] for kind in (Kind.W, Kind.ACC) for unit in (0, 1)}
        self.slots_freeing: list[tuple[int, Kind, int, int]] = []
        self.openers = self._slot_openers()
        self.accesses: dict[Register, int] = {}
        for node in self.nodes:
            for register in {r for r, *_ in touched(node.op, self.profile)}:
                self.accesses[register] = self.accesses.get(register, 0) + 1
        self.done = [False] * len(self.nodes)
        self.oldest = 0

    # --- the walk over time -------------------------------------------------------------

    def run(self) -> Schedule:
        ready = [node for node in self.nodes if not node.before]
        left = len(self.nodes)
        while left:
            self._release_due()
            chosen, soonest = self._choose(ready)
            if chosen is None:
                self._idle_until(soonest, ready)
                continue
            if self._make_constants(chosen):
                continue  # the tick went to making a constant
            self._issue(chosen)
            ready.remove(chosen)
            left -= 1
            for later, distance in chosen.after:
                tick = self.tick - 1 + distance
                if later.transfer is chosen:
                    tick = self.completion[chosen.index] + 1
                self.earliest[later.index] = max(self.earliest[later.index], tick)
                self.missing[later.index] -= 1
                if not self.missing[later.index]:
                    ready.append(later)
        cycles = max([0, *self.completion, *(i.tick + 1 for i in self.issues if _scalar(i))])
        return Schedule(self.issues, cycles, self.dma_busy)

    def _choose(self, ready: list[Node]) -> tuple[Node | None, int]:
        """The best node that can issue now, and otherwise the tick to look again."""
        best, best_key, soonest = None, None, 1 << 62
        for node in ready:
            tick = self._feasible(node)
            if tick <= self.tick:
                key = self._rank(node)
                if best_key is None or key > best_key:
                    best, best_key = node, key
            else:
                soonest = min(soonest, tick)
        return best, soonest

    def _rank(self, node: Node) -> tuple:
        dma = node.op.opcode.timing == "dma_transfer"
        jitter = (node.index * 2654435761 ^ self.spread * 40503) & 0xFF if self.spread else 0
        wait = node.transfer is not None and not node.after
        return (dma, not wait, node.path + jitter, -node.op.order)

    def _feasible(self, node: Node) -> int:
        """The first tick from now on at which the node may issue, as far as known now."""
        tick = max(self.tick, self.earliest[node.index])
        timing = self.profile.timing_of(node.op.opcode)
        if timing.unit == "DMA":
            if not self.free_channels:
                return 1 << 62  # until a wait frees one
            return tick
        tick = max(tick, self.unit_free.get(timing.unit, 0))
        opens = []
        for register, first, count, _, _ in touched(node.op, self.profile):
            life = self.lives.get(register)
            if life is None:
                opens.append(register)
            elif register.kind is Kind.M:
                tick = max(tick, self._clear_of_readers(life, node, first, count))
        for register in opens:
            tick = max(tick, self._room_for(register, node))
        return tick

    def _clear_of_readers(self, life: _Life, node: Node, first: int, count: int) -> int:
        """After every access of the same parts in flight, reads included."""
        tick = 0
        for other, dispatched in life.holders:
            if any(
                r in self.lives and self.lives[r] is life and f < first + count and first < f + n
                for r, f, n in other.uses
            ):
                gap = self.distances.read_read(other.op.opcode, node.op.opcode)
                tick = max(tick, dispatched + gap)
        return tick

    def _idle_until(self, soonest: int, ready: list[Node]) -> None:
        """Use ticks in which nothing can issue to make constants that are needed next."""
        events = [t for t, *_ in self.freeing] + [t for t, *_ in self.slots_freeing]
        later = [t for t in events if t > self.tick]
        until = min([soonest, *later])
        if until >= 1 << 62:
            raise TilewrightError(
                "TW1450",
                "the code needs more registers than the machine has",
                hint="use smaller tiles, or store intermediate tiles to memory",
            )
        upcoming = sorted(ready, key=lambda n: (self.earliest[n.index], -n.path))
        for node in upcoming:
            while self.tick < until and self._make_constants(node, soft=True):
                pass
            if self.tick >= until:
                return
        self.tick = until

    # --- issuing ------------------------------------------------------------------------

    def _make_constants(self, node: Node, soft: bool = False) -> bool:
        """Issue one instruction towards the node's constants; False when all are there.

        With `soft`, give up rather than take a register that is still wanted.
        """
        values = [
            p.register
            for p in node.op.operands
            if isinstance(p, Part) and p.register.kind in (Kind.X, Kind.E)
        ]
        step = self.constants.next_step(values, self.tick, soft)
        if step is None:
            return False
        instruction, tick = step
        if tick > self.tick:
            if soft:
                return False
            self.tick = tick
        self.issues.append(Issue(self.tick, instruction, node.op.source))
        self.tick += 1
        return True

    def _issue(self, node: Node) -> None:
        op, tick = node.op, self.tick
        timing = self.profile.timing_of(op.opcode)
        if node.transfer is not None:
            channel = self.channel_of[node.transfer.index]
            self.free_channels.append(channel)
            self.free_channels.sort()
            done = tick
        elif timing.unit == "DMA":
            channel = self.free_channels.pop(0)
            self.channel_of[node.index] = channel
            ticks = self.profile.dma.ticks(op.bytes)
            done = max(tick + 1, self.dma_last + 1) + ticks - 1
            self.dma_last, self.dma_busy = done, self.dma_busy + ticks
        else:
            channel = 0
            done = tick + timing.latency
            self.unit_free[timing.unit] = tick + timing.interval
        self.completion[node.index] = done
        rows = touched(op, self.profile)
        for register, *_ in rows:
            if register not in self.lives:
                self._open(register)
        operands = tuple(
            self._physical(operand, value, channel, done)
            for operand, value in zip(op.opcode.operands, op.operands, strict=True)
        )
        for register in {r for r, *_ in rows}:
            self._touch(register, node, done)
        self.issues.append(Issue(tick, Instruction(op.opcode, operands), op.source))
        self.done[node.index] = True
        self.tick += 1

    def _physical(self, operand: Operand, value: Part | int, channel: int, done: int) -> int:
        if operand.key == "channel":
            return channel
        if isinstance(value, int):
            return value
        register = value.register
        if register.kind in (Kind.X, Kind.E):
            return self.constants.use(register, done)
        return self.lives[register].physical + value.index

    # --- registers and slots ------------------------------------------------------------

    def _slot_openers(self) -> dict[tuple[Kind, int], list[Register]]:
        """Weight slots and accumulators are taken in program order, so that none is taken by
        work that waits for work behind it."""
        order: dict[tuple[Kind, int], list[Register]] = {}
        seen: set[Register] = set()
        for node in self.nodes:
            for register, *_ in touched(node.op, self.profile):
                if register.kind in (Kind.W, Kind.ACC) and register not in seen:
                    seen.add(register)
                    assert register.unit is not None
                    order.setdefault((register.kind, register.unit), []).append(register)
        return order

    def _room_for(self, register: Register, node: Node) -> int:
        """The tick at which the register can be opened; far away while that is unknown."""
        if register.kind is Kind.M:
            if not self.pairs_free and not (register.size == 1 and self.singles_free):
                return 1 << 62
            reserve = 0 if self._is_oldest(node) else 4
            if len(self.pairs_free) <= reserve and node.op.opcode.memory == "tensor load":
                return 1 << 62
            return 0
        assert register.unit is not None
        key = (register.kind, register.unit)
        if self.openers[key][0] is not register or not self.slots_free[key]:
            return 1 << 62
        return 0

    def _is_oldest(self, node: Node) -> bool:
        while self.oldest < len(self.nodes) and self.done[self.oldest]:
            self.oldest += 1
        return self.oldest < len(self.nodes) and node.op.order <= self.nodes[self.oldest].op.order

    def _open(self, register: Register) -> None:
        if register.kind is Kind.M:
            if register.size == 1:
                if not self.singles_free:
                    pair = self.pairs_free.pop(0)
                    self.singles_free += [2 * pair, 2 * pair + 1]
                physical = self.singles_free.pop(0)
            else:
                physical = 2 * self.pairs_free.pop(0)
        else:
            assert register.unit is not None
            key = (register.kind, register.unit)
            self.openers[key].pop(0)
            physical = self.slots_free[key].pop(0)
        self.lives[register] = _Life(physical, self.accesses[register])

    def _touch(self, register: Register, node: Node, done: int) -> None:
        life = self.lives[register]
        life.accesses_left -= 1
        life.last = max(life.last, done)
        life.holders = [h for h in life.holders if self.completion[h[0].index] > self.tick]
        life.holders.append((node, self.tick))
        if life.accesses_left:
            return
        if register.kind is Kind.M:
            heapq.heappush(self.freeing, (life.last, register.size, life.physical))
        else:
            assert register.unit is not None
            entry = (life.last, register.kind, register.unit, life.physical)
            self.slots_freeing.append(entry)

    def _release_due(self) -> None:
        while self.freeing and self.freeing[0][0] <= self.tick:
            _, size, physical = heapq.heappop(self.freeing)
            if size == 2:
                self.pairs_free.append(physical // 2)
                self.pairs_free.sort()
            else:
                self.singles_free.append(physical)
                other = physical ^ 1
                if other in self.singles_free:
                    self.singles_free = [s for s in self.singles_free if s // 2 != physical // 2]
                    self.pairs_free.append(physical // 2)
                    self.pairs_free.sort()
        due = [entry for entry in self.slots_freeing if entry[0] <= self.tick]
        for entry in due:
            self.slots_freeing.remove(entry)
            _, kind, unit, physical = entry
            self.slots_free[(kind, unit)].append(physical)
            self.slots_free[(kind, unit)].sort()


def _scalar(issue: Issue) -> bool:
    return issue.instruction.opcode.timing in ("scalar", "branch")
