"""Loops whose iterations overlap: the search for the shortest interval, and the program.

before: loop T times: body of P ticks
after:  S - 1 passes that fill up; loop T - S + 1 times: a pass of II < P ticks with S iterations
        under way; S - 1 passes that run out

The search starts at the interval that the units and carried values allow and goes up until
everything has a tick, a register and, where needed, a slot, a channel and scalar registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.targets.atlas.codegen.list_schedule import Issue, Schedule, Setting
from tilewright.targets.atlas.codegen.loop_addresses import Addresses, addresses
from tilewright.targets.atlas.codegen.loop_graph import LoopGraph, Step, loop_graph
from tilewright.targets.atlas.codegen.modulo_place import Placement
from tilewright.targets.atlas.codegen.modulo_registers import assign
from tilewright.targets.atlas.codegen.modulo_schedule import lower_bound
from tilewright.targets.atlas.codegen.modulo_scalars import AHEAD, NoRoom, Row, Scalars
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import Kind, Operand
from tilewright.targets.atlas.program import Instruction

CHANNELS = 4  # for transfers of one iteration; each keeps scalar registers until its wait
HEAD = 40  # ticks at the start for scalar instructions
STEPS = (0, 0.5, 1, 1.5, 2, 3, 4, 5, 7, 9, 12, 15, 19, 24, 30, 40, 55)  # percent over the bound
ATTEMPTS = 12  # with longer times in slots
MAX_STEPS = 3000  # longer bodies stay as they are
PATIENCE = 600  # ticks by which a wait comes later than its transfer should take


@dataclass
class Overlapped:
    """A loop of overlapped iterations: rows of one pass, in order of their ticks."""

    interval: int
    stages: int
    span: int  # ticks of one iteration
    closing: int  # idle ticks at the end of a pass, for the counter and the branch
    rows: list[Row]

    def length(self, trips: int) -> int:
        """Ticks of the whole loop."""
        return (trips - 1) * self.interval + self.span

    def passes(self, trips: int) -> Iterator[list[Issue]]:
        """The passes before the loop, one of the loop itself, those after it."""
        full = self.stages - 1
        for number in [*range(full), full, *range(trips, trips + full)]:
            repeated = number == full and trips > self.stages
            yield [
                Issue(row.tick, row.instruction, row.source)
                for row in self.rows
                if repeated or any(row.first <= number - stage < trips for stage in row.stages)
            ]


def overlapped(
    body: Code, plain: Schedule, trips: int, setting: Setting, limit: float
) -> Overlapped | None:
    """The loop with the shortest interval found that is below `limit`."""
    found = addresses(body)
    bound = lower_bound(body).ticks
    if found is None or trips < 2:
        return None
    channels = setting.channels[-CHANNELS:]
    graph = loop_graph(body, plain, len(channels))
    if len(graph.steps) > MAX_STEPS:
        return None
    for percent in STEPS:
        interval = int(bound * (1 + percent / 100)) + 1
        if interval >= limit:
            return None
        for late, aligned in ((False, False), (True, False), (True, True), (False, True)):
            placement = _placed(graph, interval, late, aligned)
            if placement is None:
                continue
            loop = _Assembly(placement, found, setting, channels).loop()
            if loop is not None and loop.stages <= trips:
                return loop
    return None


def _placed(graph: LoopGraph, interval: int, late: bool, aligned: bool) -> Placement | None:
    """The steps at their ticks; slots that turn out too short are tried longer."""
    usual = None
    for _ in range(ATTEMPTS):
        placement = Placement(graph, interval, late, aligned, usual)
        before = dict(placement.usual)
        if placement.run():
            return placement
        if placement.usual == before:
            return None
        usual = placement.usual
    return None


class _Assembly:
    """From ticks to instructions."""

    def __init__(
        self, placement: Placement, found: Addresses, setting: Setting, channels: list[int]
    ) -> None:
        self.placement, self.found, self.setting = placement, found, setting
        self.channels, self.interval = channels, placement.interval
        # A branch that ends the loop, and a jump for loops that are too long for it.
        self.closing = 3 + 2 * placement.graph.code.profile.delay_slots

    def loop(self) -> Overlapped | None:
        if not self._rotate():
            return None
        at = self.placement.at
        places = assign(self.placement, self.setting.carried)
        if places is None:
            return None
        stages = max(at.values()) // self.interval + 1
        self._delay_waits(stages * self.interval - 1)
        scalars = Scalars(
            self.placement, self.found, self.setting.constants, self.setting.pointers, stages
        )
        try:
            scalars.run()
        except NoRoom:
            return None
        rows = [self._row(step, scalars, places) for step in self.placement.graph.steps]
        rows = sorted([*rows, *scalars.rows], key=lambda row: row.tick)
        span = max(at[step] + step.latency for step in at)
        return Overlapped(self.interval, stages, span, self.closing, rows)

    def _rotate(self) -> bool:
        """Let the iteration start so that a pass ends with idle ticks."""
        at, issue = self.placement.at, self.placement.issue
        first = HEAD - min(at.values())
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

    def _delay_waits(self, end: int) -> None:
        """Waits come later than their transfers should take, where nothing needs them soon."""
        at, issue = self.placement.at, self.placement.issue
        for step in sorted(at, key=lambda s: -at[s]):
            if step.node.transfer is None:
                continue
            ends = [at[a] - d + turns * self.interval for a, d, turns in step.after]
            start = next(at[b] for b, *_ in step.before if b.node is step.node.transfer)
            latest = min([at[step] + PATIENCE, start + self.interval - AHEAD, end, *ends])
            tick = next((t for t in range(latest, at[step], -1) if issue.is_free(t)), None)
            if tick is not None:
                issue.drop(at[step])
                issue.take(tick)
                at[step] = tick

    def _row(self, step: Step, scalars: Scalars, places: dict[Register, int]) -> Row:
        op, tick = step.node.op, self.placement.at[step]
        operands = tuple(
            self._operand(step, k, operand, value, scalars, places)
            for k, (operand, value) in enumerate(
                zip(op.opcode.operands, op.operands, strict=True)
            )
        )
        instruction = Instruction(op.opcode, operands)
        # A repeated transfer has not been started before the first iteration.
        first = int(op.site is not None and not step.is_transfer)
        return Row(tick % self.interval, instruction, {tick // self.interval}, op.source, first)

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
            return site.channel if site else self.channels[self.placement.graph.channel[step]]
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
