"""One instruction at a time: check it against the state, then move the state past it.

This is the only place that knows how time passes. With everything known it follows the
machine exactly, tick for tick; unknown values and merged paths turn ticks into ranges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.lint.facts import (
    BASE_BIT,
    E_MASK,
    Facts,
    Role,
    facts_of_program,
    register_names,
)
from tilewright.targets.atlas.lint.findings import CODES, Collector, Finding
from tilewright.targets.atlas.lint.hazards import (
    Access,
    Problem,
    conflicts,
    halt_problems,
    order_problems,
)
from tilewright.targets.atlas.lint.memory import check_access
from tilewright.targets.atlas.lint.scalar import CONDITIONS, LOADED, NEGATED, OPERATIONS, compare
from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.transfers import note_turning_point, refine, targets_of
from tilewright.targets.atlas.lint.values import (
    Value,
    add,
    unknown,
    unsigned_range,
    wrap,
)
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

_FAR = 1 << 60


@dataclass
class Repairs:
    """Waiting that would make the program clean: (instruction, reached by a jump) -> how long."""

    delays: dict[tuple[int, bool], int] = field(default_factory=dict)
    waits: dict[tuple[int, bool], set[int]] = field(default_factory=dict)
    # The older instructions to wait for; where in delay slots the waiting may go.
    others: dict[int, set[int]] = field(default_factory=dict)
    slots_missing: bool = False  # a control transfer stands too near the end

    def __bool__(self) -> bool:
        return bool(self.delays or self.waits or self.slots_missing)


class Stepper:
    """Runs a program abstractly and collects what it finds."""

    def __init__(self, program: Program, profile: Profile, repairs: Repairs | None = None) -> None:
        self.program = program
        self.profile = profile
        self.facts = facts_of_program(program, profile)
        self.found = Collector(program)
        self.repairs = repairs
        self.reached = bytearray(len(program))
        self.waits_used: set[int] = set()
        self.waits_idle: set[int] = set()
        self.ended = False  # some path reaches the end or a halt
        self.jumped: set[int] = set()  # instructions some jalr reached
        self._dma = profile.position["DMA"]

    def start(self) -> State:
        return State(len(self.profile.units), self.profile.delay_slots)

    # --- findings ------------------------------------------------------------------

    def place(self, index: int) -> str:
        line = self.program.location(index).line
        return f"line {line}" if line else f"instruction {index}"

    def report(
        self, state: State, code: str, index: int, message: str, *, certain: bool = True,
        other: int = -1, hint: str | None = None, need: int = 0, detail: str = "",
        tick: int = 0, severity: str | None = None,
    ) -> None:  # fmt: skip
        may = not (certain and state.certain)
        line = self.program.location(index).line if index < len(self.program) else 0
        self.found.add(
            Finding(
                code,
                severity or CODES[code].severity,
                message,
                index,
                line,
                may,
                other,
                self.program.location(other).line if other >= 0 else 0,
                hint,
                tick if state.certain else 0,
                need,
                detail,
            )  # fmt: skip
        )

    def _report_problem(self, state: State, problem: Problem, tick: int) -> None:
        index = state.pc
        name = self.facts[index].shown
        other = problem.other
        assert other is not None
        where = f"{other.facts.shown} at {self.place(other.index)}"
        need = max(problem.resume - tick, 0)
        if problem.code in ("TW2010", "TW2011"):
            message = f"{name} {problem.text} {where}, which no dma.wait has shown to be done"
        else:
            message = f"{name} {problem.text} {where} is done"
        if problem.channel >= 0:
            hint = f"insert dma.wait.ch{problem.channel} before it"
            if problem.code not in ("TW2009", "TW2010", "TW2011") and need:
                hint += f", or delay {need - 1}"
        else:
            hint = f"insert delay {need - 1} before it"
        self.report(
            state, problem.code, index, message, certain=problem.certain, other=other.index,
            hint=hint, need=need, detail=problem.detail,
            tick=tick + (problem.code in ("TW2002", "TW2003")),
        )  # fmt: skip

    # --- completion ----------------------------------------------------------------

    def settle(self, state: State, tick: int, position: int) -> None:
        """Complete everything that surely completes before the event (tick, position)."""
        if state.horizon > tick:
            return
        flight = state.flight
        done = [
            o for o in flight if o.high < tick or (o.high == tick and o.facts.position < position)
        ]
        if not done:
            return
        if len(done) > 1:
            done.sort(key=lambda o: (o.high, o.facts.position, o.order))
        state.flight = [o for o in flight if o not in done]
        state.horizon = min((o.high for o in state.flight), default=_FAR)
        for operation in done:
            self._complete(state, operation)

    def _complete(self, state: State, operation: Operation) -> None:
        facts = operation.facts
        if facts.pair_range:
            if self.profile.conflict == "ignore":
                self._pair_range(state, operation.index, operation.high)
            return
        if facts.memory is not None:
            check_access(self, state, operation)
        self._land_results(state, facts)
        if facts.role is Role.DMA:
            if facts.mnemonic == "dma.config":
                state.base = state.x[facts.rs1]
            state.unwaited.append(operation)

    def _land_results(self, state: State, facts: Facts) -> None:
        bounds = LOADED.get(facts.mnemonic)
        if bounds is not None and facts.rd:
            state.x[facts.rd] = unknown(*bounds)

    def _pair_range(self, state: State, index: int, tick: int) -> None:
        name = self.facts[index].shown
        self.report(
            state, "TW2021", index, f"{name} needs a pair of registers but starts at m63",
            tick=tick, hint="pairs start at m0 to m62",
        )  # fmt: skip

    # --- one instruction -----------------------------------------------------------

    def step(self, state: State) -> list[State]:
        """Move past the instruction at pc; the states that may follow (none: it ended)."""
        index = state.pc
        facts = self.facts[index]
        self.reached[index] = 1
        role = facts.role
        if role is Role.SCALAR:
            tick = self._dispatch(state, facts, state.now)
            self._execute(state, facts, index)
            state.now = tick + 1
        elif role is Role.UNIT or role is Role.DMA:
            self._issue(state, facts, index)
        elif role is Role.WAIT:
            self._wait(state, facts, index)
        elif role is Role.DELAY:
            self._delay(state, facts, index)
        elif role is Role.TRANSFER:
            return self._transfer(state, facts, index)
        elif role is Role.HALT:
            self._halt(state, facts)
            return []
        else:
            self.settle(state, state.now, _FAR)
            self.report(
                state, "TW2027", index,
                f"{facts.shown} does not exist on {self.profile.name}", tick=state.now,
            )  # fmt: skip
            state.now += 1
        state.since += 1
        return self._follow(state, None)

    def _follow(self, state: State, target: list[int] | None) -> list[State]:
        """Advance to the next fetched address, or end."""
        window = state.window
        state.entered = -1 if window[0] == state.pc + 1 else state.pc
        following = window[-1] + 1 if target is None else target[0]
        state.pc = window[0]
        state.window = (*window[1:], following)
        if state.pc < len(self.facts):
            return [state]
        self._finish(state)
        return []

    def _dispatch(self, state: State, facts: Facts, tick: int) -> int:
        """Dispatch tick of an instruction without a unit of its own to wait for."""
        self.settle(state, tick + 1, 0)
        if state.flight or state.unwaited:
            tick = self._clear_of_problems(state, facts, tick, self._scalar_problems)
        fresh = facts.reads & ~state.written
        if fresh:
            self._unwritten(state, facts, fresh)
        state.written |= facts.writes | fresh  # say it once per register
        return tick

    def _scalar_problems(self, state: State, facts: Facts, tick: int) -> list[Problem]:
        self.settle(state, tick + 1, 0)
        access = self._access(state, facts, tick)
        return order_problems(state, facts, tick, access, self.profile)

    def _clear_of_problems(
        self, state: State, facts: Facts, tick: int,
        find: Callable[[State, Facts, int], list[Problem]],
    ) -> int:  # fmt: skip
        """Report what is wrong at `tick`; the tick at which the machine goes on."""
        reported: set[tuple[str, int]] = set()
        told: set[int] = set()
        waited: set[int] = set()
        while True:
            problems = find(state, facts, tick)
            if not problems:
                return tick
            if self.repairs is not None:
                later = self._repair(state, problems, tick, waited)
                if later is not None:
                    tick = later
                    continue
            resume = tick
            for problem in problems:
                assert problem.other is not None
                key = (problem.code, problem.other.order)
                unwaited = problem.code in ("TW2010", "TW2011")
                if key not in reported and not (unwaited and problem.other.order in told):
                    reported.add(key)
                    told.add(problem.other.order)
                    if not (problem.blocking and self._stalls(problem)):
                        self._report_problem(state, problem, tick)
                if problem.blocking and problem.certain:
                    resume = max(resume, problem.resume)
                elif problem.blocking and self._stalls(problem):
                    # It waits or not: later work keeps its distance, older work may be done.
                    state.slip(problem.resume - tick)
            if resume == tick:
                return tick
            tick = resume

    def _stalls(self, problem: Problem) -> bool:
        return problem.code in ("TW2002", "TW2003") and self.profile.conflict == "stall"

    def _repair(
        self, state: State, problems: list[Problem], tick: int, waited: set[int]
    ) -> int | None:
        """Insert the wait or delay that cures a problem; the new dispatch tick."""
        assert self.repairs is not None
        others = self.repairs.others.setdefault(state.pc, set())
        others.update(p.other.index for p in problems if p.other is not None)
        channels = {p.channel for p in problems if p.channel >= 0} - waited
        if channels:
            channel = min(channels)
            waited.add(channel)
            return self._add_wait(state, tick, channel)
        resume = max(p.resume for p in problems)
        return self._add_delay(state, resume) if resume > tick else None

    def _add_wait(self, state: State, tick: int, channel: int) -> int:
        assert self.repairs is not None
        key = (state.pc, state.entered >= 0)
        self.repairs.waits.setdefault(key, set()).add(channel)
        state.now = self._pass_wait(state, channel, tick) + 1
        return state.now

    def _add_delay(self, state: State, resume: int) -> int:
        assert self.repairs is not None
        key = (state.pc, state.entered >= 0)
        used = self.repairs.delays.get(key, 0)
        self.repairs.delays[key] = max(used, resume - state.now)
        return resume

    def _unwritten(self, state: State, facts: Facts, fresh: int) -> None:
        fresh &= ~(1 << BASE_BIT)
        scales = fresh & E_MASK
        if scales:
            names = ", ".join(register_names(scales))
            self.report(
                state, "TW2028", state.pc, f"{facts.shown} uses {names}, which nothing has set",
                detail=names, hint=f"put seli {names}, {self.profile.unit_scale} before it",
            )  # fmt: skip
        others = fresh & ~scales
        if others:
            names = ", ".join(register_names(others))
            self.report(
                state, "TW2030", state.pc,
                f"{facts.shown} reads {names}, which nothing has written", detail=names,
            )  # fmt: skip

    def _access(self, state: State, facts: Facts, tick: int) -> Access:
        """VMEM range from the registers of now, and the completion ticks of a non-DMA."""
        done = tick + facts.latency
        if facts.memory in ("scalar", "tensor"):
            return Access(
                add(state.x[facts.rs1], facts.immediate), facts.size, done, done
            )  # fmt: skip
        return Access(0, 0, done, done)

    # --- scalar ----------------------------------------------------------------------

    def _execute(self, state: State, facts: Facts, index: int) -> None:
        name = facts.mnemonic
        operation = OPERATIONS.get(name)
        x = state.x
        if operation is not None:
            if facts.rd:
                second: Value = facts.immediate if facts.has_immediate else x[facts.rs2]
                x[facts.rd] = operation(x[facts.rs1], second)
        elif name == "lui":
            if facts.rd:
                x[facts.rd] = wrap(facts.immediate << 12)
        elif name == "auipc":
            if facts.rd:
                x[facts.rd] = wrap((facts.immediate << 12) + index * self.profile.pc_step)
        elif name.startswith("csr"):
            if facts.rd:
                x[facts.rd] = unknown()
        elif facts.memory is not None:
            now = state.now + 1
            check_access(self, state, Operation(index, state.order, facts, now, now))
            self._land_results(state, facts)

    def _delay(self, state: State, facts: Facts, index: int) -> None:
        count = facts.immediate
        if count < 0:
            self.settle(state, state.now, _FAR)
            self.report(
                state, "TW2026", index, f"delay {count} is negative", tick=state.now,
            )  # fmt: skip
            count = 0
        state.now += count + 1

    # --- DMA wait --------------------------------------------------------------------

    def _wait(self, state: State, facts: Facts, index: int) -> None:
        channel = facts.channel
        if state.open >> channel & 1:
            self.waits_used.add(index)
        else:
            self.waits_idle.add(index)
        state.now = self._pass_wait(state, channel, state.now) + 1

    def _pass_wait(self, state: State, channel: int, tick: int) -> int:
        """Wait for a channel in decode from `tick`; the tick the wait retires."""
        low, high = state.clear[channel]
        first, last = max(tick, low), max(tick, high)
        state.slip(last - first)
        waited = next(
            (o for o in (*state.flight, *state.unwaited)
             if o.facts.role is Role.DMA and o.facts.channel == channel),
            None,
        )  # fmt: skip
        if waited is not None and waited in state.flight and waited.high >= first:
            # Only a range of ticks is known: everything up to it in the queue is done.
            done, kept, end = [], [], first
            for o in state.flight:
                if o.facts.role is not Role.DMA:
                    kept.append(o)
                elif o.order <= waited.order:
                    done.append(o)
                else:
                    end += o.ticks[1]
                    last = min(o.high, end)
                    kept.append(replace(o, low=min(o.low, last), high=last))
                    state.clear[o.facts.channel] = (min(o.low, last) + 1, last + 1)
            low, high = state.engine
            state.engine = (min(low, end), min(high, end))
            state.flight = kept
            state.horizon = min((o.high for o in kept), default=_FAR)
            for o in done:
                self._complete(state, o)
        else:
            self.settle(state, first, _FAR)
        self._acknowledge(state, channel)
        state.open &= ~(1 << channel)
        low, high = state.clear[channel]
        state.clear[channel] = (min(low, first), min(high, first))
        return first

    def _acknowledge(self, state: State, channel: int) -> None:
        """The program knows: the last operation of the channel and all before it are done."""
        last = max((o.order for o in state.unwaited if o.facts.channel == channel), default=-1)
        if last >= 0:
            state.unwaited = [o for o in state.unwaited if o.order > last]

    # --- units and DMA ---------------------------------------------------------------

    def _issue(self, state: State, facts: Facts, index: int) -> None:
        tick = state.now
        if facts.role is Role.UNIT:
            tick = self._unit_free(state, facts, index, tick)
        else:
            tick = self._channel_free(state, facts, index, tick)
        position = facts.position
        if facts.pair_range and self.profile.conflict != "ignore":
            self.settle(state, tick + 1, position)
            self._pair_range(state, index, tick + 1)
        self.settle(state, tick + 1, position)
        if state.flight or state.unwaited:
            tick = self._clear_of_problems(state, facts, tick, self._unit_problems)
        fresh = facts.reads & ~state.written
        if fresh:
            self._unwritten(state, facts, fresh)
        state.written |= facts.writes | fresh  # say it once per register
        access, ticks = self._timed_access(state, facts, tick)
        operation = Operation(
            index, state.order, facts, access.low, access.high, access.start, access.length, ticks
        )
        state.order += 1
        state.flight.append(operation)
        state.horizon = min(state.horizon, access.high)
        if facts.role is Role.DMA:
            state.engine = (access.low, access.high)
            state.clear[facts.channel] = (access.low + 1, access.high + 1)
            self._acknowledge(state, facts.channel)
            state.open |= 1 << facts.channel
        else:
            free = tick + facts.interval
            state.busy[position] = (free, free)
        state.now = tick + 1

    def _unit_free(self, state: State, facts: Facts, index: int, tick: int) -> int:
        low, high = state.busy[facts.position]
        if high <= tick:
            return tick
        if self.profile.busy_unit == "stall":
            first = max(tick, low)
            state.slip(high - first)
            return first
        older = max(
            (o for o in state.flight if o.position == facts.position),
            key=lambda o: o.order, default=None,
        )  # fmt: skip
        what = f" with {older.facts.shown} at {self.place(older.index)}" if older else ""
        need = high - tick
        if self.repairs is not None:
            if older is not None:
                self.repairs.others.setdefault(index, set()).add(older.index)
            return self._add_delay(state, high)
        self.settle(state, tick, _FAR)
        plural = "" if need == 1 else "s"
        self.report(
            state, "TW2001", index,
            f"{facts.shown} is issued while {facts.unit} is busy for {need} more tick{plural}{what}",
            certain=low > tick, other=older.index if older else -1, need=need, tick=tick,
            hint=f"insert delay {need - 1} before it",
        )  # fmt: skip
        if low > tick:
            return high
        # It may be busy; where it is not, its older work is done.
        done = [
            o
            for o in state.flight
            if o.position == facts.position and o.facts.interval == o.facts.latency
        ]
        state.flight = [o for o in state.flight if o not in done]
        for operation in done:
            self._complete(state, operation)
        return tick

    def _channel_free(self, state: State, facts: Facts, index: int, tick: int) -> int:
        low, high = state.clear[facts.channel]
        if high <= tick:
            return tick
        if self.repairs is not None:
            return self._add_wait(state, tick, facts.channel)
        self.settle(state, tick, _FAR)
        older = next(
            (
                o
                for o in (*state.flight, *state.unwaited)
                if o.facts.role is Role.DMA and o.facts.channel == facts.channel
            ),
            None,
        )
        need = high - tick
        what = f" of {older.facts.shown} at {self.place(older.index)}" if older else ""
        ticks = "1 tick" if need == 1 else f"{need} ticks"
        self.report(
            state, "TW2004", index,
            f"{facts.shown} uses channel {facts.channel} {ticks} before the operation{what} is done",
            certain=low > tick, other=older.index if older else -1, need=need, tick=tick,
            hint=f"insert dma.wait.ch{facts.channel} before it",
        )  # fmt: skip
        return high if low > tick else tick

    def _unit_problems(self, state: State, facts: Facts, tick: int) -> list[Problem]:
        self.settle(state, tick + 1, facts.position)
        access, _ = self._timed_access(state, facts, tick)
        found: list[Problem] = []
        if self.profile.conflict != "ignore" and not facts.pair_range:
            found = conflicts(state, facts, tick, access)
        if any(p.certain for p in found):
            return found  # the machine does not get further
        return found + order_problems(state, facts, tick, access, self.profile)

    def _timed_access(
        self, state: State, facts: Facts, tick: int
    ) -> tuple[Access, tuple[int, int]]:
        """VMEM range and completion if dispatched at `tick`; for DMA also its engine time."""
        if facts.role is not Role.DMA:
            return self._access(state, facts, tick), (0, 0)
        start: Value = 0
        length: Value = 0
        if facts.memory is None:
            ticks = (facts.latency, facts.latency)
        else:
            length = state.x[facts.rs2]
            start = state.x[facts.rd if facts.stores else facts.rs1]
            fewest, most = unsigned_range(length)
            law = self.profile.dma
            ticks = (law.ticks(fewest), law.ticks(most))
        low = max(tick + 1, state.engine[0] + 1) + ticks[0] - 1
        high = max(tick + 1, state.engine[1] + 1) + ticks[1] - 1
        return Access(start, length, low, high), ticks

    # --- control transfer and end ------------------------------------------------------

    def _transfer(self, state: State, facts: Facts, index: int) -> list[State]:
        tick = state.now
        slots = self.profile.delay_slots
        if state.since < slots:
            self.settle(state, tick, _FAR)
            accept = self.profile.delay_slot_transfer == "accept"
            self.report(
                state, "TW2016", index,
                f"{facts.shown} stands in a delay slot of another control transfer",
                hint=f"{slots} other instructions must follow every branch and jump", tick=tick,
                severity="warning" if accept else None,
            )  # fmt: skip
            if not accept:
                state.since = 0
                state.now += 1
                return self._follow(state, None)
        state.since = 0
        tick = self._dispatch(state, facts, tick)
        state.now = tick + 1
        condition = CONDITIONS.get(facts.mnemonic)
        if condition is None:
            return self._jump(state, facts, index, tick)
        a, b = state.x[facts.rs1], state.x[facts.rs2]
        outcome = compare(condition, a, b)
        if not (isinstance(a, int) and isinstance(b, int)):
            note_turning_point(condition, a, b)
        if outcome is False:
            return self._follow(state, None)
        target = targets_of(self, state, facts, index)
        if outcome is True:
            return self._go(state, facts, index, tick, target)
        state.certain = False
        other = state.copy()
        result: list[State] = []
        if refine(state, condition, a, b):
            result += self._go(state, facts, index, tick, target)
        if refine(other, NEGATED[condition], a, b):
            result += self._follow(other, None)
        return result

    def _jump(self, state: State, facts: Facts, index: int, tick: int) -> list[State]:
        targets = targets_of(self, state, facts, index)
        if facts.rd:
            state.x[facts.rd] = (index + 1) * self.profile.pc_step
        if facts.mnemonic == "jal":
            return self._go(state, facts, index, tick, targets)
        if targets is None:
            self.report(
                state, "TW2020", index, "jalr goes to an address that is not known", certain=False,
                hint="lint follows jalr only to addresses computed from constants",
            )  # fmt: skip
            self.ended = True
            return []
        if len(targets) > 1:
            state.certain = False
        result: list[State] = []
        for target in targets:
            self.jumped.add(target // self.profile.pc_step)
            copy = state.copy() if len(targets) > 1 else state
            result += self._go(copy, facts, index, tick, [target])
        return result

    def _go(
        self, state: State, facts: Facts, index: int, tick: int, targets: list[int] | None
    ) -> list[State]:
        """Take a transfer to a target in pc units, unless the machine refuses it."""
        assert targets is not None
        target = targets[0]
        step = self.profile.pc_step
        if target < 0 or target % step:
            self.settle(state, tick + 1, 0)
            self.report(
                state, "TW2018", index,
                f"{facts.shown} goes to address {target}, which is no instruction", tick=tick + 1,
            )  # fmt: skip
            return self._follow(state, None)
        if any(address >= len(self.facts) for address in state.window):
            if self.repairs is not None:
                self.repairs.slots_missing = True
            self.report(
                state, "TW2017", index,
                f"{facts.shown} is followed by fewer than {self.profile.delay_slots} instructions, "
                "so it is not taken",
                tick=tick + 1, hint="append nops to the program",
            )  # fmt: skip
            return self._follow(state, None)
        return self._follow(state, [target // step])

    def _halt(self, state: State, facts: Facts) -> None:
        def find(state: State, facts: Facts, tick: int) -> list[Problem]:
            self.settle(state, tick + 1, 0)
            self.settle(state, tick + 2, -1)
            return halt_problems(state, tick)

        self.ended = True
        self._clear_of_problems(state, facts, state.now, find)
        self._unfinished(state, state.pc)

    def _finish(self, state: State) -> None:
        self.ended = True
        self.settle(state, _FAR, _FAR)
        self._unfinished(state, len(self.facts))

    def _unfinished(self, state: State, end: int) -> None:
        for o in state.unwaited:
            channel = o.facts.channel
            if self.repairs is not None:
                key = (end, state.entered >= 0)
                self.repairs.waits.setdefault(key, set()).add(channel)
            self.report(
                state, "TW2013", o.index,
                f"the program ends without waiting for {o.facts.shown}",
                hint=f"end the program with dma.wait.ch{channel}", detail="end",
            )  # fmt: skip
