"""One instruction at a time: check it against the state, then move the state past it."""

from __future__ import annotations

from tilewright.targets.atlas.lint.facts import Facts, Role
from tilewright.targets.atlas.lint.hazards import Problem, halt_problems
from tilewright.targets.atlas.lint.issue import issue
from tilewright.targets.atlas.lint.memory import check_access
from tilewright.targets.atlas.lint.scalar import OPERATIONS
from tilewright.targets.atlas.lint.session import FAR, Session
from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.stored_words import remember
from tilewright.targets.atlas.lint.transfers import transfer
from tilewright.targets.atlas.lint.values import Value, unknown, wrap


class Stepper(Session):
    """Runs a program abstractly and collects what it finds."""

    def start(self) -> State:
        return State(len(self.profile.units), self.profile.delay_slots)

    def step(self, state: State) -> list[State]:
        """Move past the instruction at pc; the states that may follow (none: it ended)."""
        index = state.pc
        facts = self.facts[index]
        self.reached[index] = 1
        if not state.certain:
            self.visits[index] += 1
        role = facts.role
        if role is Role.SCALAR:
            tick = self.dispatch(state, facts, state.now)
            self._execute(state, facts, index)
            state.now = tick + 1
        elif role is Role.UNIT or role is Role.DMA:
            issue(self, state, facts, index)
        elif role is Role.WAIT:
            self._wait(state, facts, index)
        elif role is Role.DELAY:
            self._delay(state, facts, index)
        elif role is Role.TRANSFER:
            return transfer(self, state, facts, index)
        elif role is Role.HALT:
            self._halt(state, facts)
            return []
        else:
            self.settle(state, state.now, FAR)
            self.report(
                state, "TW2027", index,
                f"{facts.shown} does not exist on {self.profile.name}", tick=state.now,
            )  # fmt: skip
            state.now += 1
        state.since += 1
        return self.follow(state, None)

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
            remember(state, facts)
            self.land_results(state, facts)

    def _delay(self, state: State, facts: Facts, index: int) -> None:
        count = facts.immediate
        if count < 0:
            self.settle(state, state.now, FAR)
            self.report(
                state, "TW2026", index, f"delay {count} is negative", tick=state.now,
            )  # fmt: skip
            count = 0
        state.now += count + 1

    def _wait(self, state: State, facts: Facts, index: int) -> None:
        channel = facts.channel
        if state.open >> channel & 1:
            self.waits_used.add(index)
        else:
            self.waits_idle.add(index)
        state.now = self.pass_wait(state, channel, state.now) + 1

    def _halt(self, state: State, facts: Facts) -> None:
        def find(state: State, facts: Facts, tick: int) -> list[Problem]:
            self.settle(state, tick + 1, 0)
            self.settle(state, tick + 2, -1)
            return halt_problems(state, tick)

        self.ended = True
        self.clear_of_problems(state, facts, state.now, find)
        self.unfinished(state, state.pc)
