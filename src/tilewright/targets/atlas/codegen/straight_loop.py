"""A loop around one straight piece: plain, or with its iterations overlapped where that is faster.

Three ways are tried: iterations that start every so many ticks (also two of them as one body,
for values that live longer than that), the body shifted by one iteration, and one iteration
after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tilewright.errors import TilewrightError
from tilewright.targets.atlas.codegen.constants import load_constant
from tilewright.targets.atlas.codegen.emit import Writer, fill
from tilewright.targets.atlas.codegen.initiation_interval import initiation_interval
from tilewright.targets.atlas.codegen.list_schedule import Issue, Schedule, Setting, schedule
from tilewright.targets.atlas.codegen.loop_graph import doubled
from tilewright.targets.atlas.codegen.loop_shifting import lower_bound
from tilewright.targets.atlas.codegen.modulo_loop import Overlapped, Row, overlapped
from tilewright.targets.atlas.codegen.shifted_loop import Choice, best_shift
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import NEXT, Code, Register
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Instruction


@dataclass(frozen=True)
class Interval:
    """Ticks per iteration of a loop with a straight body.

    plain: one iteration after the other; achieved: as emitted; bound: of the units and carried
    values, with its cause; stages: iterations under way at once.
    """

    trips: int
    plain: int
    achieved: int
    bound: int
    cause: str
    stages: int


@dataclass
class StraightLoop:
    """How a loop runs: the plain schedule of its body, and a faster way if there is one.

    loop: overlapped iterations, `together` of them as one body.
    """

    trips: int
    body: Code
    plain: Schedule
    period: int
    interval: Interval
    loop: Overlapped | None = None
    together: int = 1
    shift: Choice | None = None


def straight_loop(
    body: Code,
    trips: int,
    carried: dict[Register, int],
    setting: Callable[[Code, dict[Register, int]], Setting],
    gain: float | None,
) -> StraightLoop:
    """The best way found to run the body `trips` times.

    setting: what a piece finds when it starts, with more registers carried. gain: overlap only
    where the interval gets this much shorter; None: never.
    """
    result = schedule(body, setting(body, {}))
    period, bound = initiation_interval(body, result), lower_bound(body)
    plain = max(period, bound.ticks)  # the period leaves out repeated transfers
    loop, together, shift = None, 1, None
    if gain is not None and (
        len(body.ops) <= TUNING.plain_body or plain > TUNING.plain_close * bound.ticks
    ):
        loop = _overlapped(body, result, trips, setting, plain * gain, plain)
        best = loop.interval if loop else plain
        if (
            best > TUNING.enough * bound.ticks
            and len(body.ops) <= TUNING.doubled_ops
            and trips >= TUNING.doubled_trips
        ):
            twice = _doubled(body, trips, setting, 2 * best * gain, 2 * plain)
            loop, together = (twice, 2) if twice else (loop, 1)
        best = loop.interval / together if loop else math.inf
        if best > TUNING.enough * bound.ticks:
            shift = best_shift(body, result, trips, carried, setting, gain, best)
        if shift is not None:
            loop, together = None, 1
    achieved, stages = (loop.interval // together, loop.stages) if loop else (period, 1)
    if shift is not None:
        achieved, stages = shift.interval, 2
    interval = Interval(
        trips, plain, max(achieved, bound.ticks), bound.ticks, bound.cause, stages * together
    )
    return StraightLoop(trips, body, result, period, interval, loop, together, shift)


def _overlapped(
    body: Code,
    plain: Schedule,
    trips: int,
    setting: Callable[[Code, dict[Register, int]], Setting],
    limit: float,
    period: int,
) -> Overlapped | None:
    loop = overlapped(body, plain, trips, setting(body, {}), limit)
    if loop is None or loop.length(trips) >= trips * max(period, limit):
        return None
    return loop


def _doubled(
    body: Code,
    trips: int,
    setting: Callable[[Code, dict[Register, int]], Setting],
    limit: float,
    period: int,
) -> Overlapped | None:
    """Two iterations as one body, overlapped with the next two."""
    twice = doubled(body)
    try:
        plain = schedule(twice, setting(twice, {}))
    except TilewrightError:
        return None
    return _overlapped(twice, plain, trips // 2, setting, limit, period)


class LoopWriter:
    """Writes loops: counters, branches and what is between."""

    def __init__(self, writer: Writer, slots: int) -> None:
        self.writer, self.slots = writer, slots
        self.closed = 0  # rows up to the end of the last loop, its delay slots included

    def write(self, chosen: StraightLoop, counter: int, bare_last: bool = False) -> None:
        """The whole loop; the machine has not yet drained after it.

        bare_last: the last iteration is peeled off, without loads for a next one, where it stands
        by itself.
        """
        longest = max(chosen.body.profile.timing_of(op.opcode).latency for op in chosen.body.ops)
        if chosen.loop is not None:
            rounds, rest = divmod(chosen.trips, chosen.together)
            self._overlapped(chosen.loop, rounds, counter, bare_last and chosen.together == 1)
            if chosen.loop.after:
                self._idle(longest)
                for row in chosen.loop.after:
                    self.writer.add(row)
            for _ in range(rest):
                self._idle(longest)
                self.writer.piece(chosen.plain.issues, chosen.plain.finish)
        elif chosen.shift is not None:
            shift = chosen.shift
            self.writer.piece(shift.first.issues, shift.first.finish)
            self._repeat(chosen.trips - 1, shift.kernel, shift.interval, counter)
            self._idle(longest)
            self.writer.piece(shift.rest.issues, shift.rest.finish)
        elif bare_last and chosen.trips > 1:
            self._repeat(chosen.trips - 1, chosen.plain, chosen.period, counter)
            # Without these loads nothing has to pass the time that they take; then all drains.
            self.writer.piece(_without_next(chosen.plain.issues, chosen.body.profile), 0)
        else:
            self._repeat(chosen.trips, chosen.plain, chosen.period, counter)

    def _idle(self, ticks: int) -> None:
        for row in fill(ticks):
            self.writer.add(row)

    def _repeat(self, trips: int, result: Schedule, period: int, counter: int) -> None:
        top = self.open(trips, counter)
        # The counter and the branch at the end add two ticks.
        issues = result.issues if trips > 1 else _without_opening_waits(result.issues)
        self.writer.piece(issues, max(0, period - 2))
        if trips > 1:
            self.close(top, counter)

    def open(self, trips: int, counter: int) -> int:
        """Set the counter; the place the loop goes back to."""
        if trips > 1:
            for row in load_constant(counter, trips):
                self.writer.add(row)
        return len(self.writer.rows)

    def close(self, top: int, counter: int) -> None:
        """Count down and branch back; the last instructions move into the delay slots."""
        rows, sources = self.writer.rows, self.writer.sources
        while len(rows) - max(top, self.closed) < self.slots:
            self.writer.add(Instruction.of("delay", 0))
        rows.insert(len(rows) - self.slots, Instruction.of("addi", counter, counter, -1))
        sources.insert(len(sources) - self.slots, "")
        here = len(rows) - self.slots
        offset = 4 * (top - here)
        if offset < -4096:
            self._far_branch(counter, top)
        else:
            rows.insert(here, Instruction.of("bne", counter, 0, offset))
            sources.insert(here, "")
        self.closed = len(rows)

    def _far_branch(self, counter: int, top: int) -> None:
        """A loop too long for a conditional branch: skip over a jump when done."""
        rows, sources = self.writer.rows, self.writer.sources
        here = len(rows) - self.slots
        # beq leaves after the original slots; otherwise the jump follows with idle slots.
        rows.insert(here, Instruction.of("beq", counter, 0, 4 * (2 * self.slots + 2)))
        sources.insert(here, "")
        self.writer.add(Instruction.of("jal", 0, 4 * (top - len(rows))))
        for _ in range(self.slots):
            self.writer.add(Instruction.of("delay", 0))

    def _overlapped(self, loop: Overlapped, trips: int, counter: int, bare_last: bool) -> None:
        """The passes that fill up, the loop, the passes that run out."""
        writer, full = self.writer, loop.stages - 1
        found = list(loop.passes(trips))
        if bare_last:  # the loop ends with the first stage of the last iteration
            if trips - full > 1:
                found.insert(full, found[full])
                trips -= 1
            late = len(found) - full - 1
            for stage in range(full + 1):
                found[late + stage] = _without_stage(found[late + stage], stage)
        passes = [[Issue(row.tick, row.instruction, row.source) for row in rows] for rows in found]
        rounds = trips - full
        if rounds > 1:
            for row in load_constant(counter, rounds):
                writer.add(row)
        for issues in passes[:full]:
            writer.piece(issues, loop.interval)
        top = len(writer.rows)
        writer.piece(passes[full], loop.interval - loop.closing)
        if rounds > 1:
            self._close_pass(top, counter, loop.closing)
            self.closed = len(writer.rows)
        else:
            self._idle(loop.closing)
        for issues in passes[full + 1 : -1]:
            writer.piece(issues, loop.interval)
        for issues in passes[full + 1 :][-1:]:
            writer.piece(issues, 0)

    def _close_pass(self, top: int, counter: int, closing: int) -> None:
        """Count down and branch back in exactly the ticks that are left for it."""
        writer = self.writer
        idle = [Instruction.of("delay", 0)] * self.slots
        count = Instruction.of("addi", counter, counter, -1)
        spare = fill(closing - 2 - self.slots)
        offset = 4 * (top - len(writer.rows) - len(spare) - 1)
        if offset >= -4096:
            for row in (*spare, count, Instruction.of("bne", counter, 0, offset), *idle):
                writer.add(row)
            return
        leave = Instruction.of("beq", counter, 0, 4 * (2 * self.slots + 2))
        for row in (count, leave, *idle):
            writer.add(row)
        writer.add(Instruction.of("jal", 0, 4 * (top - len(writer.rows))))
        # Leaving skips the jump and its slots: those ticks pass here.
        for row in (*idle, *fill(1 + self.slots)):
            writer.add(row)


def _without_next(issues: list[Issue], profile: Profile) -> list[Issue]:
    """The issues of an iteration that none follows; a wait has the source of its transfer. Pointers
    that step when the loads had been started do so when all else is done: operations look at them
    until then."""
    rest = [issue for issue in issues if not (issue.source == NEXT and _transfers(issue))]
    units = [profile.timing_of(issue.instruction.opcode).unit for issue in rest]
    last = max((k for k, unit in enumerate(units) if unit != "SCALAR"), default=-1)
    longest = max(timing.latency for timing in profile.timing.values())
    done = rest[last].tick + longest if last >= 0 else 0
    tick = -1
    for k in range(last + 1, len(rest)):
        tick = min(max(tick + 1, done), rest[k].tick)
        rest[k] = Issue(tick, rest[k].instruction, rest[k].source)
    return rest


def _transfers(row: Issue | Row) -> bool:
    return row.instruction.opcode.effect in ("dma.load", "dma.wait")


def _without_stage(rows: list[Row], stage: int) -> list[Row]:
    """The rows of a pass without what this stage has of loads for a next iteration."""
    return [
        row
        for row in rows
        if not (row.source == NEXT and _transfers(row) and row.stages == {stage})
    ]


def _without_opening_waits(issues: list[Issue]) -> list[Issue]:
    """The issues of a single iteration, without waits for transfers of an iteration before."""
    started: set[int] = set()
    result = []
    for issue in issues:
        opcode, operands = issue.instruction.opcode, issue.instruction.operands
        channel = next(
            (v for o, v in zip(opcode.operands, operands, strict=True) if o.key == "channel"), None
        )
        if channel is not None and opcode.timing == "dma_transfer":
            started.add(channel)
        if channel is None or channel in started:
            result.append(issue)
    return result
