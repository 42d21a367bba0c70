"""Placing the steps of a loop body at ticks so that a new iteration starts every interval.

Steps are placed in the order of the plain schedule, each at the first tick that its
predecessors, its unit, its registers and its slot allow, whatever iteration the neighbours in
time belong to. Weights go just before their first product, as late as the unit has room; loads
do too where they get a lead, else they keep their place in the order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tilewright.targets.atlas.codegen.loop_graph import LoopGraph, Step
from tilewright.targets.atlas.codegen.modulo_pack import pack_products, place_loads
from tilewright.targets.atlas.codegen.modulo_reservation_table import (
    IssueReservations,
    SlotReservations,
    UnitReservations,
)
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind, Opcode


@dataclass(frozen=True)
class Way:
    """How steps are placed.

    lead: ticks loads may come ahead of their reader (0: in the order of the plain schedule).
    aligned: idle ticks of busy units come in useful lengths. packed: matrix units first.
    early: transfers for the next iteration of the loop around before all others.
    """

    lead: int
    aligned: bool
    packed: bool = False
    early: bool = False


class Placement:
    """Where each step of the body is, in ticks from the start of its iteration."""

    def __init__(
        self,
        graph: LoopGraph,
        interval: int,
        way: Way,
        usual: dict[Register, int] | None = None,
    ) -> None:
        self.graph, self.interval, self.way = graph, interval, way
        # Packed: matrix units first and everything in program order, else as in the plain schedule.
        self.order = graph.steps
        if way.packed:
            self.order = sorted(graph.steps, key=lambda s: (s.node.op.order, s.index))
        self.behind = 0  # ticks by which steps come later than in the plain schedule
        self.distances = graph.distances
        self.issue = IssueReservations(interval)
        self.lines: dict[str, UnitReservations] = {}
        self.grain: dict[str, int] = {}
        self.at: dict[Step, int] = {}
        # Readers of each tensor register, and who is in which slot from when to when.
        self.readers: dict[tuple[Register, int], list[tuple[int, Step]]] = defaultdict(list)
        self.slot: dict[Register, int] = {}
        self.span: dict[Register, tuple[int, int]] = {}
        self.left = {r: len(graph.touches[r]) for r in graph.slots()}
        self.others: dict[tuple[Kind, int | None, int], SlotReservations] = defaultdict(
            lambda: SlotReservations(interval)
        )
        self.short: dict[Register, int] = {}  # slots that are taken again too early
        self.history: dict[tuple[Step, Register], tuple] = {}  # slots before a step was placed
        # Instructions that put a value into a slot of each kind.
        self._openers: dict[tuple[Kind, int | None], dict[int, Opcode]] = defaultdict(dict)
        for register in self.left:
            opcode = graph.touches[register][0].node.op.opcode
            self._openers[register.kind, register.unit][opcode.index] = opcode
        self._holds: dict[tuple[int, Kind, int | None], int] = {}
        self.usual = usual if usual is not None else self._slot_times()
        self._prepare(way.aligned)

    def _prepare(self, aligned: bool) -> None:
        lengths: dict[str, list[int]] = defaultdict(list)
        for step in self.graph.steps:
            if step.unit != "DECODE":
                lengths[step.unit].append(step.busy)
        for unit, ticks in lengths.items():
            self.lines[unit] = UnitReservations(self.interval)
            usual = max(sorted(set(ticks)), key=ticks.count)
            tight = sum(ticks) >= TUNING.tight_share * self.interval and (
                unit != "DMA" or self.way.packed
            )
            self.grain[unit] = usual if aligned and tight else 0

    def _slot_times(self) -> dict[Register, int]:
        """How long each slot is taken in the plain schedule."""
        times = {}
        for register in self.left:
            steps = self.graph.touches[register]
            start = min(s.plain for s in steps)
            times[register] = max(s.plain + self._hold(s, register) for s in steps) - start
        return times

    def run(self) -> bool:
        """Place everything; False where that cannot be. Then `usual` may have changed, for
        another attempt."""
        if self.way.packed and not pack_products(self):
            return False
        if self.way.early and not self._place_untied():
            return False
        for last in range(3):
            if self.way.packed and last == 1 and not place_loads(self):
                return False
            for step in self.order:
                if step in self.at or self._turn(step) > last:
                    continue
                self.short = {}
                if not self._place(step):
                    for register, length in self.short.items():
                        self.usual[register] = min(int(length * TUNING.slot_growth), self.interval)
                    return False
        return True

    def _place_untied(self) -> bool:
        """Prefetches into bytes that nothing here reads go together, before others cut up the
        engine's time."""
        transfers = [s for s in self.order if s.is_prefetch and s.is_transfer]
        return all(self._place(s) for s in transfers if not s.is_tied)

    def _turn(self, step: Step) -> int:
        """Steps come in the order of the plain schedule, but for prefetches, whose buffers are
        free once all reads have their ticks, and what nothing has asked for."""
        if step.is_prefetch:
            return 0 if self.way.early and not step.is_tied else 1
        if self.way.packed and step.is_load:
            return 1
        return 2 if self._waits(step) else 0

    def _waits(self, step: Step) -> bool:
        """Whether the step is placed together with what needs it."""
        return step.is_late or (self.way.lead > 0 and step.is_load)

    # --- one step -----------------------------------------------------------------------

    def earliest(self, step: Step) -> int:
        ticks = [
            self.at[b] + distance - turns * self.interval
            for b, distance, turns in step.before
            if b in self.at
        ]
        return max(ticks, default=-self.interval)

    def latest(self, step: Step, tick: int) -> int:
        ticks = [
            self.at[a] - distance + turns * self.interval
            for a, distance, turns in step.after
            if a in self.at
        ]
        return min(ticks, default=tick + 2 * self.interval)

    def _place(self, step: Step) -> bool:
        """Put a step, and the loads it reads, at the first ticks possible."""
        for b, _, turns in step.before:  # waits that come later in the plain schedule
            if not turns and b not in self.at and not self._waits(b) and not self._place(b):
                return False
        floor = step.plain + self.behind if step.is_load and not self.way.packed else 0
        tick = max(floor, self._first(step))
        latest = self.latest(step, tick)
        limit = min(latest, tick + self.interval)
        for _ in range(TUNING.step_tries):
            found = self._find(step, tick, limit)
            if found is None or self.graph.work < 0:
                return False
            if self._place_all(step, found):
                if not step.is_load:
                    self.behind = found - step.plain
                return True
            tick = found + max(1, step.busy // 4)
        return False

    def _find(self, step: Step, tick: int, limit: int) -> int | None:
        """The first tick at which the step itself can be."""
        line, grain = self.lines.get(step.unit), self.grain.get(step.unit, 0)
        while tick <= limit:
            self.graph.work -= 1
            if line is not None:
                found = line.first(tick, step.busy, limit, grain)
                if found is None:
                    return None
                tick = found
            if not self.issue.is_free(tick):
                tick += 1
                continue
            clear = self._clear(step, tick)
            if clear is None:
                return None
            if clear == tick:
                return tick
            tick = clear
        return None

    def _needs(self, step: Step) -> list[tuple[Step, int]]:
        """What has to be placed together with a step."""
        return [
            (b, distance)
            for b, distance, turns in step.before
            if not turns and b not in self.at and self._waits(b)
        ]

    def _first(self, step: Step) -> int:
        """The first tick that what is placed, and what will be, allow."""
        ticks = [self._first(b) + distance for b, distance in self._needs(step)]
        return max([self.earliest(step), *ticks])

    def _place_all(self, step: Step, tick: int) -> bool:
        """Put a step at a tick and what it needs as late as it can be; all or nothing."""
        done = [step]
        self._set(step, tick)
        if self._place_before(step, tick, done):
            return True
        for other in reversed(done):
            self._unset(other)
        return False

    def _place_before(self, step: Step, tick: int, done: list[Step]) -> bool:
        for need, distance in sorted(self._needs(step), key=lambda row: -row[0].index):
            if need in self.at:  # another need of the step needed it too
                if self.at[need] + distance > tick:
                    return False
                continue
            found = self._last(need, min(tick - distance, self.latest(need, tick)))
            if found is None:
                return False
            self._set(need, found)
            done.append(need)
            if not self._place_before(need, found, done):
                return False
        return True

    def _last(self, step: Step, tick: int) -> int | None:
        return self.last(
            step, tick, max(self._first(step), tick - max(TUNING.weight_lead, self.way.lead))
        )

    def last(self, step: Step, tick: int, limit: int) -> int | None:
        """The last tick from `limit` to `tick` at which the step itself can be."""
        line, grain = self.lines.get(step.unit), self.grain.get(step.unit, 0)
        while tick >= limit:
            self.graph.work -= 1
            found = line.last(tick, step.busy, limit, grain) if line is not None else tick
            if found is None:
                return None
            tick = found - 1
            if not self.issue.is_free(found):
                continue
            earlier = self._read_alone_before(step, found)
            if earlier < found:  # nothing between can be either
                self.graph.work -= tick - earlier
                tick = earlier
            elif all(self._slot_at(r, step, found) == found for r in slots_of(step)):
                return found
        return None

    def _set(self, step: Step, tick: int) -> None:
        self.reserve(step, tick)
        for register in slots_of(step):
            self.history[step, register] = (self.slot.get(register), self.span.get(register))
            self._occupy(register, step, tick)

    def reserve(self, step: Step, tick: int) -> None:
        """Put a step at a tick, whatever slots it needs."""
        self.at[step] = tick
        self.issue.take(tick)
        if step.unit in self.lines:
            self.lines[step.unit].take(tick, step.busy)
        for register, first, count, _, writes in step.node.rows:
            if register.kind is Kind.M and not writes:
                for part in range(first, first + count):
                    self.readers[register, part].append((tick, step))

    def _unset(self, step: Step) -> None:
        """Take a step back that was placed last."""
        tick = self.at.pop(step)
        self.issue.drop(tick)
        if step.unit in self.lines:
            self.lines[step.unit].drop(tick)
        for register, first, count, _, writes in step.node.rows:
            if register.kind is Kind.M and not writes:
                for part in range(first, first + count):
                    self.readers[register, part].remove((tick, step))
        for register in slots_of(step):
            self.left[register] += 1
            slot, span = self.history.pop((step, register))
            if slot is None or span is None:
                slot = self.slot.pop(register)
                self.others[register.kind, register.unit, slot].drop(register)
                del self.span[register]
            else:
                self.span[register] = span
                self.others[register.kind, register.unit, slot].put(register, span)

    # --- registers and slots ------------------------------------------------------------

    def _clear(self, step: Step, tick: int) -> int | None:
        """The tick itself if registers and slots allow it, a later one to try, or None."""
        later = self.read_alone(step, tick)
        if later > tick:
            return later
        for register in slots_of(step):
            found = self._slot_at(register, step, tick)
            if found != tick:
                return found
        return tick

    def read_alone(self, step: Step, tick: int) -> int:
        """The tick itself if no other unit reads the same registers then, else a later one."""
        for register, first, count, _, writes in step.node.rows:
            if register.kind is Kind.M and not writes:
                for part in range(first, first + count):
                    later = self._apart(step, tick, self.readers[register, part])
                    if later > tick:
                        return later
        return tick

    def _apart(self, step: Step, tick: int, readers: list[tuple[int, Step]]) -> int:
        """Two units may not hold the same register at once, even to read it."""
        for other_tick, other in readers:
            if other.unit == step.unit and step.busy >= step.latency:
                continue
            gap = self.distances.read_read(other.node.op.opcode, step.node.op.opcode)
            back = self.distances.read_read(step.node.op.opcode, other.node.op.opcode)
            since = (tick - other_tick) % self.interval
            if since < gap:
                return tick + gap - since
            until = (other_tick - tick) % self.interval
            if until < back:
                return tick + until + gap
        return tick

    def _read_alone_before(self, step: Step, tick: int) -> int:
        """The tick itself if no other unit reads the same registers then, else an earlier one."""
        for register, first, count, _, writes in step.node.rows:
            if register.kind is Kind.M and not writes:
                for part in range(first, first + count):
                    for other_tick, other in self.readers[register, part]:
                        if other.unit == step.unit and step.busy >= step.latency:
                            continue
                        gap = self.distances.read_read(other.node.op.opcode, step.node.op.opcode)
                        back = self.distances.read_read(step.node.op.opcode, other.node.op.opcode)
                        since = (tick - other_tick) % self.interval
                        if since < gap:
                            return tick - since - back
                        until = (other_tick - tick) % self.interval
                        if until < back:
                            return tick - back + until
        return tick

    def _hold(self, step: Step, register: Register) -> int:
        """Ticks from a step's issue until another value may enter its slot."""
        key = step.node.op.opcode.index, register.kind, register.unit
        if key not in self._holds:
            openers = self._openers[register.kind, register.unit]
            rule = self.distances.shared_slot
            self._holds[key] = max(rule(step.node.op.opcode, o) for o in openers.values())
        return self._holds[key]

    def _slot_at(self, register: Register, step: Step, tick: int) -> int | None:
        """The tick itself if there is a slot, a later one to try, or None."""
        end = tick + self._hold(step, register)
        if register in self.slot:
            start, known = self.span[register]
            span = (min(start, tick), max(known, end))
            if self._is_free(register, self.slot[register], span):
                return tick
            length = span[1] - span[0]
            self.short[register] = min(length, self.short.get(register, length))
            return None
        span = (tick, max(end, tick + self.usual[register]))
        if span[1] - span[0] > self.interval:
            return None
        ready = {slot: self._ready(register, slot, span) for slot in self._by_use(register)}
        # Rather wait a little than take a slot away from values that stay longer.
        first = next(iter(ready.values()))
        if first <= tick + TUNING.slot_patience:
            return first
        return min(ready.values())

    def _by_use(self, register: Register) -> list[int]:
        """Slots, the one most used first."""
        key, count = (register.kind, register.unit), REGISTER_COUNT[register.kind]
        return sorted(range(count), key=lambda s: (-len(self.others[*key, s]), s))

    def _ready(self, register: Register, slot: int, span: tuple[int, int]) -> int:
        """When values in the way will have left a slot, at the earliest."""
        others = self.others[register.kind, register.unit, slot]
        ends = [
            span[0] + max(1, (end - span[0]) % self.interval)
            for end in others.meeting(span, register)
        ]
        return min(ends, default=span[0])

    def _is_free(self, register: Register, slot: int, span: tuple[int, int]) -> bool:
        if span[1] - span[0] > self.interval:
            return False
        return not self.others[register.kind, register.unit, slot].meeting(span, register)

    def _occupy(self, register: Register, step: Step, tick: int) -> None:
        end = tick + self._hold(step, register)
        if register not in self.slot:
            span = (tick, max(end, tick + self.usual[register]))
            slots = self._by_use(register)
            self.slot[register] = next(s for s in slots if self._is_free(register, s, span))
        else:
            start, known = self.span[register]
            span = (min(start, tick), max(known, end))
        self.left[register] -= 1
        if not self.left[register]:
            steps = self.graph.touches[register]
            span = (
                min(self.at[s] for s in steps),
                max(self.at[s] + self._hold(s, register) for s in steps),
            )
        self.span[register] = span
        self.others[register.kind, register.unit, self.slot[register]].put(register, span)


def slots_of(step: Step) -> list[Register]:
    """The weight slots and accumulators a step touches."""
    found = dict.fromkeys(r for r, *_ in step.node.rows)
    return [r for r in found if r.kind in (Kind.W, Kind.ACC)]
