"""Loops whose iterations overlap: the search for the shortest interval, and the program.

before: loop T times: body of P ticks
after:  S - 1 passes that fill up; loop T - S + 1 times: a pass of II < P ticks with S iterations
        under way; S - 1 passes that run out

The search starts at the interval that the units and carried values allow and goes up until
everything has a tick, a register and, where needed, a slot, a channel and scalar registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.targets.atlas.codegen.check_overlap import wrong_access
from tilewright.targets.atlas.codegen.list_schedule import Schedule, Setting
from tilewright.targets.atlas.codegen.loop_addresses import Addresses, addresses
from tilewright.targets.atlas.codegen.loop_graph import LoopGraph, Step, can_pack, loop_graph
from tilewright.targets.atlas.codegen.loop_shifting import lower_bound
from tilewright.targets.atlas.codegen.modulo_place import Placement, Way
from tilewright.targets.atlas.codegen.modulo_registers import assign
from tilewright.targets.atlas.codegen.modulo_reservation_table import overlaps
from tilewright.targets.atlas.codegen.modulo_scalars import NoRoom, Row, Scalars
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.program import Instruction

STEPS = (0, 0.5, 1, 1.5, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 40, 55)  # percent over the bound
USUAL = (Way(0, False), Way(400, True), Way(0, True), Way(400, False), Way(1600, True))
PACKED = tuple(
    Way(400, aligned, True, early) for early in (False, True) for aligned in (True, False)
)
FEWEST_TRIPS = 3


@dataclass
class Overlapped:
    """A loop of overlapped iterations: rows of one pass, in order of their ticks.

    after: scalar instructions behind it, which put pointers where the next code wants them.
    """

    interval: int
    stages: int
    span: int  # ticks of one iteration
    closing: int  # idle ticks at the end of a pass, for the counter and the branch
    rows: list[Row]
    after: list[Instruction] = field(default_factory=list)

    def length(self, trips: int) -> int:
        """Ticks of the whole loop."""
        return (trips - 1) * self.interval + self.span

    def passes(self, trips: int) -> Iterator[list[Row]]:
        """The passes before the loop, one of the loop itself, those after it."""
        full = self.stages - 1
        for number in [*range(full), full, *range(trips, trips + full)]:
            repeated = number == full and trips > self.stages
            yield [
                row
                for row in self.rows
                if repeated or any(row.first <= number - stage < trips for stage in row.stages)
            ]


def overlapped(
    body: Code, plain: Schedule, trips: int, setting: Setting, limit: float
) -> Overlapped | None:
    """The shortest loop found with an interval below `limit`."""
    found = addresses(body)
    bound = lower_bound(body).ticks
    if found is None or trips < FEWEST_TRIPS:
        return None
    graph = loop_graph(body, plain)
    if len(graph.steps) > TUNING.modulo_steps:
        return None
    intervals = [int(bound * (1 + percent / 100)) + 1 for percent in STEPS]
    intervals = [interval for interval in intervals if interval < limit]
    search = _Search(graph, found, setting, trips)
    if can_pack(graph):
        loop = search.run(intervals, PACKED)
        if loop is not None:
            return loop
    return search.run(intervals, USUAL)


@dataclass
class _Search:
    """The search for an interval at which the steps can be placed."""

    graph: LoopGraph
    found: Addresses
    setting: Setting
    trips: int

    def run(self, intervals: list[int], ways: tuple[Way, ...]) -> Overlapped | None:
        self.graph.work = TUNING.modulo_work
        best, low, high = None, 0, len(intervals)
        while low < high:  # from the longest down: most that fails, fails there
            middle = (low + high) // 2 if best is not None else high - 1
            loop = self._attempt(intervals[middle], ways)
            if loop is None and best is None:
                return None
            if loop is None:
                low = middle + 1
            else:
                best, high = min(loop, best or loop, key=self._length), middle
        return best

    def _length(self, loop: Overlapped) -> int:
        return loop.length(self.trips)

    def _attempt(self, interval: int, ways: tuple[Way, ...]) -> Overlapped | None:
        """The loop with one interval: the first way that works out, or the best packed one."""
        loops = []
        for way in ways:
            placement = self._placed(interval, way)
            if placement is None:
                continue
            channels = self.setting.channels[-TUNING.modulo_channels :]
            loop = _Assembly(placement, self.found, self.setting, channels).loop()
            if loop is not None and loop.stages <= self.trips and self._is_right(loop):
                loops.append(loop)
                if not way.packed:
                    break
        return min(loops, key=self._length, default=None)

    def _is_right(self, loop: Overlapped) -> bool:
        """Whether every access of every iteration has its address."""
        return wrong_access(loop, self.graph.code, self.trips, self.setting) is None

    def _placed(self, interval: int, way: Way) -> Placement | None:
        """The steps at their ticks; slots that turn out too short are tried longer."""
        usual = None
        for _ in range(TUNING.modulo_attempts):
            placement = Placement(self.graph, interval, way, usual)
            if placement.run():
                return placement
            if not placement.longer:
                return None
            usual = placement.usual
        return None


def is_sound(placement: Placement) -> bool:
    """Whether every step keeps its distance from those before it, also from those of the iteration
    before: whatever way they were placed, nothing else is looked at."""
    at, interval = placement.at, placement.interval
    return all(
        at[later] + turns * interval - at[step] >= distance
        for step in at
        for later, distance, turns in step.after
    )


class _Assembly:
    """From ticks to instructions."""

    def __init__(
        self, placement: Placement, found: Addresses, setting: Setting, channels: list[int]
    ) -> None:
        self.placement, self.found, self.setting = placement, found, setting
        self.channels, self.interval = channels, placement.interval
        # A branch that ends the loop, and a jump for loops that are too long for it.
        # The first wait for each repeated transfer.
        waits: dict[object, Step] = {}
        for step in sorted(placement.graph.steps, key=lambda s: s.node.op.order):
            if step.node.op.site is not None:
                waits.setdefault(step.node.op.site, step)
        self.opening = {s for s in waits.values() if not s.is_transfer}
        self.closing = 3 + 2 * placement.graph.code.profile.delay_slots

    def loop(self) -> Overlapped | None:
        if not is_sound(self.placement) or not self._rotate():
            return None
        at = self.placement.at
        places = assign(self.placement, self.setting.carried)
        if places is None:
            return None
        if not self._assign_channels():
            return None
        stages = max(at.values()) // self.interval + 1
        self._delay_waits(max(at.values()))
        scalars = Scalars(self.placement, self.found, self.setting.constants, self.setting.pointers)
        if not self._sizes() <= scalars.pinned.keys():
            return None
        try:
            scalars.run()
        except NoRoom:
            return None
        rows = [self._row(step, scalars, places) for step in self.placement.graph.steps]
        rows = sorted([*rows, *scalars.rows], key=lambda row: row.tick)
        span = max(at[step] + step.latency for step in at)
        return Overlapped(self.interval, stages, span, self.closing, rows, scalars.after)

    def _sizes(self) -> set[int]:
        """Bytes of repeated transfers, which stay in scalar registers."""
        sites = (step.node.op.site for step in self.placement.graph.steps)
        return {site.bytes for site in sites if site is not None}

    def _rotate(self) -> bool:
        """Let the iteration start so that a pass ends with idle ticks."""
        at, issue = self.placement.at, self.placement.issue
        first = TUNING.modulo_head - min(at.values())
        for shift in range(first, first + self.interval):
            ticks = range(self.interval - self.closing - shift, self.interval - shift)
            if all(issue.is_free(tick) for tick in ticks):
                break
        else:
            return False
        for step in at:
            at[step] += shift
        issue.taken[:] = bytes(self.interval)
        for tick in at.values():
            issue.take(tick)
        for tick in range(self.interval - self.closing, self.interval):
            issue.take(tick)
        return True

    def _assign_channels(self) -> bool:
        """A channel for each transfer from its start to the wait for it."""
        self.channel: dict[Step, int] = {}
        self.taken: dict[int, list[tuple[int, int]]] = {c: [] for c in self.channels}
        steps = [s for s in self.placement.at if s.node.transfer is not None]
        for wait in sorted(steps, key=lambda s: self._flight(s)):
            span = self._flight(wait)
            for channel, others in self.taken.items():
                if not any(overlaps(span, other, self.interval) for other in others):
                    others.append(span)
                    self.channel[wait] = self.channel[self._transfer(wait)] = channel
                    break
            else:
                return False
        return True

    def _transfer(self, wait: Step) -> Step:
        return next(b for b, *_ in wait.before if b.node is wait.node.transfer)

    def _flight(self, wait: Step) -> tuple[int, int]:
        at = self.placement.at
        return at[self._transfer(wait)], at[wait] + 1

    def _delay_waits(self, end: int) -> None:
        """Waits come later than their transfers should take, where nothing needs them soon."""
        at, issue = self.placement.at, self.placement.issue
        for step in sorted(at, key=lambda s: -at[s]):
            if step.node.transfer is None:
                continue
            start, now = self._flight(step)
            ends = [at[a] - d + turns * self.interval for a, d, turns in step.after]
            others = self.taken[self.channel[step]]
            others.remove((start, now))
            free = [now + (other - now) % self.interval - 1 for other, _ in others]
            latest = min(
                now + TUNING.wait_patience,
                start + self.interval - TUNING.pointer_ahead,
                end,
                *ends,
                *free,
            )
            tick = next((t for t in range(latest, at[step], -1) if issue.is_free(t)), None)
            if tick is not None:
                issue.drop(at[step])
                issue.take(tick)
                at[step] = tick
            others.append((start, at[step] + 1))

    def _row(self, step: Step, scalars: Scalars, places: dict[Register, int]) -> Row:
        op, tick = step.node.op, self.placement.at[step]
        operands = tuple(
            self._operand(step, k, operand, value, scalars, places)
            for k, (operand, value) in enumerate(zip(op.opcode.operands, op.operands, strict=True))
        )
        instruction = Instruction(op.opcode, operands)
        # A repeated transfer has not been started before the first iteration.
        first = int(step in self.opening)
        return Row(tick % self.interval, instruction, {tick // self.interval}, op.source, first, op)

    def _operand(
        self,
        step: Step,
        position: int,
        operand: Operand,
        value: Part | int,
        scalars: Scalars,
        places: dict[Register, int],
    ) -> int:
        site = step.node.op.site
        if operand.key == "channel":
            return site.channel if site else self.channel[step]
        if isinstance(value, int):
            return value
        register = value.register
        if register.kind is Kind.E:
            return scalars.scales[register.constant or 0]
        if register.kind is Kind.X:
            if site is None:
                return scalars.places[step][position]
            if register.constant is not None:
                return scalars.pinned[register.constant]
            return self.setting.pointers[register]
        if register.kind is Kind.M:
            return places[register] + value.index
        return self.placement.slot[register]
