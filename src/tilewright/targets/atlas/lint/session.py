"""What every instruction goes through: findings, completion of older work, waiting, fetching.

This is the only place that knows how time passes. With everything known it follows the
machine exactly, tick for tick; unknown values and merged paths turn ticks into ranges.
"""

from __future__ import annotations

from collections import Counter
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
from tilewright.targets.atlas.lint.hazards import Access, Problem, order_problems
from tilewright.targets.atlas.lint.memory import check_access
from tilewright.targets.atlas.lint.scalar import LOADED
from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.stored_words import recalled, remember
from tilewright.targets.atlas.lint.values import add, unknown
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

FAR = 1 << 60  # a tick, or a place within one, behind everything


@dataclass
class Repairs:
    """Waiting that would make the program clean: (instruction, reached by a jump) -> how long."""

    delays: dict[tuple[int, bool], int] = field(default_factory=dict)
    waits: dict[tuple[int, bool], set[int]] = field(default_factory=dict)
    # The older instructions to wait for; where in delay slots the waiting may go.
    others: dict[int, set[int]] = field(default_factory=dict)
    slots_missing: bool = False  # a control transfer stands too near the end
    # Instructions in front of which nothing can wait: their hazards stay.
    hopeless: set[int] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.delays or self.waits or self.slots_missing)


class Session:
    """One program under analysis: what is known of it and what was found."""

    def __init__(self, program: Program, profile: Profile, repairs: Repairs | None = None) -> None:
        self.program = program
        self.profile = profile
        self.facts = facts_of_program(program, profile)
        self.found = Collector(program)
        self.repairs = repairs
        self.reached = bytearray(len(program))
        # On uncertain paths: how often an instruction was met, and each finding at it was sure.
        self.visits: Counter[int] = Counter()
        self.sure: Counter[tuple[str, int, int, str]] = Counter()
        self.waits_used: set[int] = set()
        self.waits_idle: set[int] = set()
        self.ended = False  # some path reaches the end or a halt
        self.jumped: set[int] = set()  # instructions some jalr reached

    # --- findings ----------------------------------------------------------------

    def place(self, index: int) -> str:
        line = self.program.location(index).line
        return f"line {line}" if line else f"instruction {index}"

    def report(
        self, state: State, code: str, index: int, message: str, *, certain: bool = True,
        other: int = -1, hint: str | None = None, need: int = 0, detail: str = "",
        tick: int = 0, severity: str | None = None,
    ) -> None:  # fmt: skip
        may = not (certain and state.certain)
        if certain and not state.certain:
            self.sure[code, index, other, detail] += 1
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
            )
        )

    def report_problem(self, state: State, problem: Problem, tick: int) -> None:
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
            if state.since < self.profile.delay_slots:
                hint = hint.replace("before it", "before the branch whose delay slot it is in")
        else:
            hint = self.delay_hint(state, need)
        if state.since < self.profile.delay_slots and index - state.since <= other.index < index:
            hint = "both stand in the delay slots of one branch: move one of them out"
        self.report(
            state, problem.code, index, message, certain=problem.certain, other=other.index,
            hint=hint, need=need, detail=problem.detail,
            tick=tick + (problem.code in ("TW2002", "TW2003")),
        )  # fmt: skip

    def delay_hint(self, state: State, need: int) -> str:
        """How to let `need` more ticks pass before the instruction at pc."""
        if state.since < self.profile.delay_slots:
            return f"{need} ticks are missing: lengthen a delay of these delay slots, or wait before the branch"
        return f"insert delay {need - 1} before it"

    # --- completion of older work ------------------------------------------------

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
        state.horizon = min((o.high for o in state.flight), default=FAR)
        for operation in done:
            self.complete(state, operation)

    def complete(self, state: State, operation: Operation) -> None:
        facts = operation.facts
        if facts.pair_range:
            if self.profile.conflict == "ignore":
                self.pair_range(state, operation.index, operation.high)
            return
        if facts.memory is not None:
            check_access(self, state, operation)
            remember(state, facts)
        self.land_results(state, facts)
        if facts.role is Role.DMA:
            if facts.mnemonic == "dma.config":
                state.base = state.x[facts.rs1]
            state.unwaited.append(operation)

    def land_results(self, state: State, facts: Facts) -> None:
        bounds = LOADED.get(facts.mnemonic)
        if bounds is not None and facts.rd:
            found = recalled(state, facts)
            state.x[facts.rd] = unknown(*bounds) if found is None else found

    def pair_range(self, state: State, index: int, tick: int) -> None:
        name = self.facts[index].shown
        self.report(
            state, "TW2021", index, f"{name} needs a pair of registers but starts at m63",
            tick=tick, hint="pairs start at m0 to m62",
        )  # fmt: skip

    # --- fetch -------------------------------------------------------------------

    def follow(self, state: State, target: list[int] | None) -> list[State]:
        """Advance to the next fetched address, or end."""
        window = state.window
        state.entered = -1 if window[0] == state.pc + 1 else state.pc
        following = window[-1] + 1 if target is None else target[0]
        state.pc = window[0]
        state.window = (*window[1:], following)
        if state.pc < len(self.facts):
            return [state]
        self.finish(state)
        return []

    # --- hazards of the instruction in decode ------------------------------------

    def dispatch(self, state: State, facts: Facts, tick: int) -> int:
        """Dispatch tick of an instruction without a unit of its own to wait for."""
        self.settle(state, tick + 1, 0)
        if state.flight or state.unwaited:
            tick = self.clear_of_problems(state, facts, tick, self._scalar_problems)
        fresh = facts.reads & ~state.written
        if fresh:
            self.unwritten(state, facts, fresh)
        state.written |= facts.writes | fresh  # say it once per register
        return tick

    def _scalar_problems(self, state: State, facts: Facts, tick: int) -> list[Problem]:
        self.settle(state, tick + 1, 0)
        access = self.access(state, facts, tick)
        return order_problems(state, facts, tick, access, self.profile)

    def clear_of_problems(
        self, state: State, facts: Facts, tick: int,
        find: Callable[[State, Facts, int], list[Problem]],
    ) -> int:  # fmt: skip
        """Report what is wrong at `tick`; the tick at which the machine goes on."""
        problems = find(state, facts, tick)
        if not problems:  # as nearly always
            return tick
        reported: set[tuple[str, int]] = set()
        told: set[int] = set()
        waited: set[int] = set()
        while problems:
            if self.repairs_at(state.pc):
                later = self._repair(state, problems, tick, waited)
                if later is not None:
                    tick = later
                    problems = find(state, facts, tick)
                    continue
            resume = tick
            for problem in problems:
                assert problem.other is not None
                key = (problem.code, problem.other.order)
                unwaited = problem.code in ("TW2010", "TW2011")
                if key not in reported and not (unwaited and problem.other.order in told):
                    reported.add(key)
                    if not (problem.blocking and self._stalls(problem)):
                        told.add(problem.other.order)
                        self.report_problem(state, problem, tick)
                if problem.blocking and problem.certain:
                    resume = max(resume, problem.resume)
                elif problem.blocking and self._stalls(problem):
                    # It waits or not: later work keeps its distance, older work may be done.
                    state.slip(problem.resume - tick)
            if resume == tick:
                return tick
            tick = resume
            problems = find(state, facts, tick)
        return tick

    def _stalls(self, problem: Problem) -> bool:
        return problem.code in ("TW2002", "TW2003") and self.profile.conflict == "stall"

    # --- repairs -----------------------------------------------------------------

    def repairs_at(self, index: int) -> bool:
        """Whether hazards of the instruction are to be cured instead of reported."""
        return self.repairs is not None and index not in self.repairs.hopeless

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
            return self.add_wait(state, tick, channel)
        resume = max(p.resume for p in problems)
        return self.add_delay(state, resume) if resume > tick else None

    def add_wait(self, state: State, tick: int, channel: int) -> int:
        assert self.repairs is not None
        key = (state.pc, state.entered >= 0)
        self.repairs.waits.setdefault(key, set()).add(channel)
        state.now = self.pass_wait(state, channel, tick) + 1
        return state.now

    def add_delay(self, state: State, resume: int) -> int:
        assert self.repairs is not None
        key = (state.pc, state.entered >= 0)
        used = self.repairs.delays.get(key, 0)
        self.repairs.delays[key] = max(used, resume - state.now)
        return resume

    def unwritten(self, state: State, facts: Facts, fresh: int) -> None:
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

    def access(self, state: State, facts: Facts, tick: int) -> Access:
        """VMEM range from the registers of now, and the completion ticks of a non-DMA."""
        done = tick + facts.latency
        if facts.memory in ("scalar", "tensor"):
            return Access(
                add(state.x[facts.rs1], facts.immediate), facts.size, done, done
            )  # fmt: skip
        return Access(0, 0, done, done)

    # --- DMA waits ---------------------------------------------------------------

    def pass_wait(self, state: State, channel: int, tick: int) -> int:
        """Wait for a channel in decode from `tick`; the tick the wait retires."""
        low, high = state.clear[channel]
        first, last = max(tick, low), max(tick, high)
        state.slip(last - first)
        mine = [o for o in state.flight if o.facts.role is Role.DMA and o.facts.channel == channel]
        if any(o.high >= first for o in mine):
            # Only a range of ticks is known, but it is done, and all before it in the queue.
            newest = max(o.order for o in mine) if state.ordered else -1
            done, kept, end = [], [], first
            for o in state.flight:
                if o in mine or (o.facts.role is Role.DMA and o.order <= newest):
                    done.append(o)
                elif o.facts.role is Role.DMA and state.ordered:
                    end += o.ticks[1]
                    last = min(o.high, end)
                    kept.append(replace(o, low=min(o.low, last), high=last))
                    state.clear[o.facts.channel] = (min(o.low, last) + 1, last + 1)
                else:
                    kept.append(o)
            if state.ordered:
                low, high = state.engine
                state.engine = (min(low, end), min(high, end))
            state.flight = kept
            state.horizon = min((o.high for o in kept), default=FAR)
            for o in done:
                self.complete(state, o)
        else:
            self.settle(state, first, FAR)
        self.acknowledge(state, channel)
        state.open &= ~(1 << channel)
        low, high = state.clear[channel]
        state.clear[channel] = (min(low, first), min(high, first))
        return first

    def acknowledge(self, state: State, channel: int) -> None:
        """The program knows: the last operation of the channel and all before it are done."""
        unwaited = [o for o in state.unwaited if o.facts.channel != channel]
        if len(unwaited) < len(state.unwaited):
            last = max(o.order for o in state.unwaited if o.facts.channel == channel)
            if state.ordered:
                unwaited = [o for o in unwaited if o.order > last]
            state.unwaited = unwaited
        if not unwaited and all(o.facts.role is not Role.DMA for o in state.flight):
            state.ordered = True

    # --- the end -----------------------------------------------------------------

    def finish(self, state: State) -> None:
        self.ended = True
        self.settle(state, FAR, FAR)
        self.unfinished(state, len(self.facts))

    def unfinished(self, state: State, end: int) -> None:
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
