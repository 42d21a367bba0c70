"""List scheduling of straight virtual code on one profile, with registers and channels.

The scheduler walks time. At each tick it issues the ready instruction with the longest way to
the end whose unit, registers, slots and channel are free; scalar constants are made in idle
ticks before they are needed. Transfers that start and end in the code have exact times, so
waits for them are placed where they do not block. Ticks count from the piece's own start.
"""

from __future__ import annotations

import copy
import heapq
from dataclasses import dataclass, field

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import Constants
from tilewright.targets.atlas.codegen.graph import Node, build
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.register_allocation import RegisterAllocator
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.program import Instruction

FAR = 1 << 62
# Tensor registers left free by work that runs further ahead than so many instructions.
RESERVES = ((0, 0), (16, 128), (16, 32), (16, 0), (32, 0), (64, 0))


@dataclass(slots=True)
class Issue:
    """One instruction with its final operands and the tick it dispatches."""

    tick: int
    instruction: Instruction
    source: str = ""


@dataclass
class Setting:
    """What a straight piece finds when it starts."""

    constants: Constants = field(default_factory=Constants)
    pointers: dict[Register, int] = field(default_factory=dict)
    carried: dict[Register, int] = field(default_factory=dict)
    channels: list[int] = field(default_factory=lambda: list(range(8)))
    idle: bool = False  # the DMA engine has nothing else to do, so transfer times are exact


@dataclass
class Schedule:
    """Instructions in order of dispatch.

    finish: the tick by which every operation but repeated transfers has completed.
    dispatched: (node, tick, completion) of every instruction of the code.
    """

    issues: list[Issue]
    finish: int
    dma_busy: int
    dispatched: list[tuple[Node, int, int]]
    places: RegisterAllocator


def schedule(
    code: Code,
    setting: Setting | None = None,
    spread: int = 0,
    plan: list[int] | None = None,
    tries: int = len(RESERVES),
) -> Schedule:
    """Schedule the code; `spread` varies the order among near equals (0: none). A plan gives
    the tick at which each node of the graph should issue, and so the order.

    Where work that runs ahead takes the registers of the work it waits for, it is done again
    with less running ahead, up to so many `tries` in all.
    """
    setting = setting or Setting()
    before = copy.deepcopy(vars(setting.constants))
    for attempt, reserve in enumerate(RESERVES[:tries], 1):
        try:
            return _Scheduler(code, setting, spread, reserve, plan).run()
        except OutOfRegisters:
            if attempt == tries:
                raise
            vars(setting.constants).update(copy.deepcopy(before))
    raise AssertionError("unreachable")


class OutOfRegisters(TilewrightError):
    """Nothing can be issued any more."""

    def __init__(self) -> None:
        super().__init__(
            "TW1450",
            "the code needs more tensor registers or slots than the machine has",
            hint="use smaller tiles, or store intermediate tiles to memory",
        )


class _Scheduler:
    def __init__(
        self,
        code: Code,
        setting: Setting,
        spread: int,
        reserve: tuple[int, int] = (0, 0),
        plan: list[int] | None = None,
    ) -> None:
        self.plan = plan
        # Tensor registers that work leaves free which runs further ahead than so much.
        self.reserve, self.near = reserve
        self.code, self.profile, self.setting = code, code.profile, setting
        self.distances = Distances(code.profile)
        self.nodes = build(code)
        self.spread = spread
        self.tick = 0
        self.issues: list[Issue] = []
        self.constants = setting.constants
        self.needed = [_constants(node) for node in self.nodes]
        self.constants.expect(r for registers in self.needed for r in registers)
        self.prefetches = [_is_prefetch(node) for node in self.nodes]
        self.unit_free: dict[str, int] = {}
        self.earliest = list(plan) if plan is not None else [0] * len(self.nodes)
        self.missing = [len(node.before) for node in self.nodes]
        self.dispatch = [-1] * len(self.nodes)
        self.completion = [0] * len(self.nodes)
        # Repeated stores of the iteration before are still on their way.
        sites = {n.op.site for n in self.nodes if n.op.site is not None and n.op.site.store}
        self.dma_last = sum(self.profile.dma.ticks(site.bytes) for site in sites) - 1
        self.dma_busy = 0
        self.channel_of: dict[int, int] = {}
        self.free_channels = list(setting.channels)
        self.places = RegisterAllocator(
            [[r for r, *_ in n.rows] for n in self.nodes], setting.carried
        )
        self.can_hold = True  # whether constants leave room for one more transfer now
        self.work_left = sum(not _is_closing_wait(node) for node in self.nodes)
        self.ranks = [self._rank(node) for node in self.nodes]
        self.addresses: dict[Register, int] = {}
        self.address_free: dict[Register, int] = {}
        self.address_uses: dict[Register, int] = {}
        self.addressing: Node | None = None  # the transfer whose addresses are being computed
        for node in self.nodes:
            for register in {r for r, *_ in node.rows if r.kind is Kind.X}:
                self.address_uses[register] = self.address_uses.get(register, 0) + 1
        self.with_registers = [n for n in self.nodes if any(r.kind is Kind.M for r, *_ in n.rows)]
        self.oldest = 0  # first of these not yet issued

    # --- the walk over time -------------------------------------------------------------

    def run(self) -> Schedule:
        ready: list[Node] = []  # candidates for the next issue
        later_on = [(n.op.order, n.index) for n in self.nodes if not n.before]
        heapq.heapify(later_on)
        left = len(self.nodes)
        while left:
            while later_on and len(ready) < TUNING.window_instructions:
                ready.append(self.nodes[heapq.heappop(later_on)[1]])
            self.places.release(self.tick)
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
                    if later.unit in ("DMA", "DECODE"):
                        ready.append(later)
                    else:
                        heapq.heappush(later_on, (later.op.order, later.index))
        finish = max(
            [self.tick, *(self.completion[n.index] for n in self.nodes if n.unit != "DMA")]
        )
        dispatched = [(n, self.dispatch[n.index], self.completion[n.index]) for n in self.nodes]
        return Schedule(self.issues, finish, self.dma_busy, dispatched, self.places)

    def _choose(self, ready: list[Node]) -> tuple[Node | None, int]:
        """The best node that can issue now, and otherwise the tick to look again."""
        best, best_key, soonest, now = None, (), FAR, self.tick
        self.can_hold = self.constants.can_hold()
        earliest, unit_free, ranks = self.earliest, self.unit_free, self.ranks
        for node in ready:
            if best is not None and ranks[node.index] <= best_key:
                continue
            tick = max(earliest[node.index], unit_free.get(node.unit, 0))
            if tick <= now or (not self.work_left and node.transfer is not None):
                tick = self._feasible(node)
            if tick <= now:
                best, best_key = node, ranks[node.index]
            elif tick < soonest:
                soonest = tick
        return best, soonest

    def _rank(self, node: Node) -> tuple:
        if self.plan is not None:
            return (-self.plan[node.index],)
        dma = node.op.opcode.timing == "dma_transfer"
        path = node.path
        if dma and node.op.opcode.effect == "dma.load":
            # One engine: first what has the longest way after its transfer, however long that is.
            path -= self.profile.dma.ticks(node.op.bytes)
        jitter = (node.index * 2654435761 ^ self.spread * 40503) & 0xFF if self.spread else 0
        idle_wait = _is_closing_wait(node)
        # Loads go first where nothing else runs: stores can hide the work after the last load.
        load = self.setting.idle and node.op.opcode.effect == "dma.load"
        return (dma, load, not idle_wait, path + jitter, -node.op.order)

    def _feasible(self, node: Node) -> int:
        """The first tick from now on at which the node may issue, as far as known now."""
        tick = max(self.tick, self.earliest[node.index])
        if not self.work_left and node.transfer is not None:
            return self.tick  # nothing else to do: wait as long as it really takes
        tick = max(tick, self.unit_free.get(node.unit, 0))
        if tick > self.tick:
            return tick  # the rest is looked at when that tick has come
        op, timing = node.op, self.profile.timing_of(node.op.opcode)
        if op.site is not None:
            if op.opcode.timing == "dma_wait" and op.site.store and not self._last_missing(node):
                return FAR  # a wait for a store is only worth it when nothing else is missing
            return tick
        if timing.unit == "DMA":
            if self.setting.idle:
                # No hurry while the engine is busy: something more urgent may come up.
                tick = max(tick, self.dma_last - TUNING.transfer_haste)
            spare = TUNING.spare_channels if self.prefetches[node.index] else 0
            room = len(self.free_channels) > spare and self.can_hold
            return tick if room else FAR
        if timing.unit == "SCALAR" and not self._address_wanted(node):
            return FAR
        opens = []
        for register, first, count, _, _ in node.rows:
            if register.kind is Kind.X:
                known = register.carried or register in self.addresses
                if not known and not self.constants.can_lend(tick):
                    return FAR
                continue
            if not self.places.is_open(register):
                opens.append(register)
            elif register.kind is Kind.M:
                tick = max(tick, self._clear_of_readers(register, node, first, count))
        if opens and not self.places.has_room(opens, self._left_free(node)):
            return FAR
        return tick

    def _last_missing(self, node: Node) -> bool:
        """Whether some instruction other than address arithmetic waits for this node only."""
        users = [later.index for later, _ in node.after if later.unit != "SCALAR"]
        return not users or any(
            self.missing[user] == 1 and self.earliest[user] <= self.tick for user in users
        )

    def _address_wanted(self, node: Node) -> bool:
        """Compute an address only when the transfer that wants it could start otherwise."""
        if all(r.kind is not Kind.X or r.carried for r, *_ in node.rows):
            return True
        for later, _ in node.after:
            if later.unit != "DMA":
                continue
            if self.addressing is not None and self.addressing is not later:
                return False  # one after the other, or all wait for a last register
            others = [n for n, _ in later.before if self.dispatch[n.index] < 0]
            ready = all(n.unit == "SCALAR" for n in others)
            spare = TUNING.spare_channels if self.prefetches[later.index] else 0
            free = len(self.free_channels) > spare
            if not ready or self.earliest[later.index] > self.tick or not free:
                return False
        return True

    def _left_free(self, node: Node) -> int:
        """Tensor registers that the node must leave free: loads run ahead only while
        registers are plenty, and so does everything else once that led nowhere."""
        load = node.op.opcode.memory == "tensor load"
        if not load and not self.reserve:
            return 0
        while self.dispatch[self.with_registers[self.oldest].index] >= 0:
            self.oldest += 1
        ahead = node.op.order - self.with_registers[self.oldest].op.order
        if ahead <= 0:
            return 0
        reserve = self.reserve if ahead > self.near else 0
        return max(reserve, TUNING.result_registers if load else 0)

    def _clear_of_readers(self, register: Register, node: Node, first: int, count: int) -> int:
        """After every access of the same parts in flight, reads included."""
        tick = 0
        for index, low, high in self.places.holders(register):
            if low < first + count and first < high and self.completion[index] > self.tick - 1:
                gap = self.distances.read_read(self.nodes[index].op.opcode, node.op.opcode)
                tick = max(tick, self.dispatch[index] + gap)
        return tick

    def _idle_until(self, soonest: int, ready: list[Node]) -> None:
        """Use ticks in which nothing can issue to make constants that are needed next."""
        until = min(soonest, self.places.next_release(self.tick), self._next_completion())
        if until >= FAR:
            raise OutOfRegisters()
        for node in sorted(ready, key=lambda n: (self.earliest[n.index], -n.path))[:16]:
            while self.tick < until and self._make_constants(node, soft=True):
                pass
            if self.tick >= until:
                return
        self.tick = until

    def _next_completion(self) -> int:
        """The next tick at which a scalar register may become free."""
        return min((t for t in self.constants.busy.values() if t > self.tick), default=FAR)

    # --- issuing ------------------------------------------------------------------------

    def _make_constants(self, node: Node, soft: bool = False) -> bool:
        """Issue one instruction towards the node's constants; False when all are there.

        With `soft`, give up rather than take a register that was ever used.
        """
        step = self.constants.next_step(self.needed[node.index], self.tick, soft)
        if step is None:
            return False
        instruction, self.tick = step
        self.issues.append(Issue(self.tick, instruction, node.op.source))
        self.tick += 1
        return True

    def _issue(self, node: Node) -> None:
        op, tick = node.op, self.tick
        timing = self.profile.timing_of(op.opcode)
        channel = done = tick
        if op.site is not None:
            channel, done = op.site.channel, tick
            if timing.unit == "DMA":
                self._occupy_engine(tick, op.bytes)
        elif node.transfer is not None:
            channel = self.channel_of[node.transfer.index]
            self.free_channels = sorted([*self.free_channels, channel])
            self.constants.release(node.transfer.index)
        elif timing.unit == "DMA":
            channel = self.free_channels.pop(0)
            self.channel_of[node.index] = channel
            done = self._occupy_engine(tick, op.bytes)
        else:
            done = tick + timing.latency
            if timing.unit != "SCALAR":
                self.unit_free[timing.unit] = tick + timing.interval
        self.dispatch[node.index], self.completion[node.index] = tick, done
        self.work_left -= not _is_closing_wait(node)
        self._note_addressing(node)
        spans: dict[Register, tuple[int, int]] = {}
        for register, first, count, _, _ in node.rows:
            low, high = spans.get(register, (first, first + count))
            spans[register] = (min(low, first), max(high, first + count))
        self.places.access(node.index, spans, done)
        self._touch_addresses(node, spans, done)
        operands = tuple(
            self._physical(operand, value, channel, done)
            for operand, value in zip(op.opcode.operands, op.operands, strict=True)
        )
        if timing.unit == "DMA" and op.site is None:
            self.constants.hold(node.index, self.needed[node.index])
        self.issues.append(Issue(tick, Instruction(op.opcode, operands), op.source))
        self.tick += 1

    def _occupy_engine(self, tick: int, count: int) -> int:
        """When a transfer dispatched at `tick` completes."""
        ticks = self.profile.dma.ticks(count)
        self.dma_last = max(tick + 1, self.dma_last + 1) + ticks - 1
        self.dma_busy += ticks
        return self.dma_last

    def _note_addressing(self, node: Node) -> None:
        if node is self.addressing:
            self.addressing = None
        elif node.unit == "SCALAR" and any(not r.carried for r, *_ in node.rows):
            self.addressing = next((n for n, _ in node.after if n.unit == "DMA"), None)

    def _touch_addresses(
        self, node: Node, spans: dict[Register, tuple[int, int]], done: int
    ) -> None:
        """Lend scalar registers to computed addresses and take them back after the last use."""
        for register in spans:
            if register.kind is not Kind.X or register.carried:
                continue
            if register not in self.addresses:
                self.addresses[register] = self.constants.lend(self.tick, self.needed[node.index])
                self.address_free[register] = 0
            self.address_free[register] = max(self.address_free[register], done)
            self.address_uses[register] -= 1
            if not self.address_uses[register]:
                self.constants.give_back(self.addresses[register], self.address_free[register])

    def _physical(self, operand: Operand, value: Part | int, channel: int, done: int) -> int:
        if operand.key == "channel":
            return channel
        if isinstance(value, int):
            return value
        register = value.register
        if register.is_constant:
            return self.constants.use(register, done)
        if register.kind is Kind.X:
            known = self.setting.pointers if register.carried else self.addresses
            return known[register]
        return self.places.physical(register) + value.index


def _is_prefetch(node: Node) -> bool:
    """Whether the transfer is for a later piece: nothing here waits for its bytes."""
    return node.op.opcode.effect == "dma.load" and all(
        later.transfer is node and not later.after for later, _ in node.after
    )


def _is_closing_wait(node: Node) -> bool:
    """A wait that nothing in the code depends on."""
    return node.transfer is not None and not node.after


def _constants(node: Node) -> list[Register]:
    operands = node.op.operands
    return [p.register for p in operands if isinstance(p, Part) and p.register.is_constant]
