"""From a program to a report: run it while everything is known, then close loops by joining."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from tilewright.targets.atlas.lint.findings import NOTE, Finding, Report
from tilewright.targets.atlas.lint.joining import blur, covers, differences, join
from tilewright.targets.atlas.lint.session import Repairs
from tilewright.targets.atlas.lint.state import State
from tilewright.targets.atlas.lint.static import (
    live_scalars,
    loop_extents,
    passed_by_all,
    static_findings,
    static_targets,
)
from tilewright.targets.atlas.lint.stepper import Stepper
from tilewright.targets.atlas.lint.values import Value
from tilewright.targets.atlas.profile import Profile
from tilewright.targets.atlas.program import Program

STEP_LIMIT = 200_000  # instructions executed one by one before loops are summarised
JOIN_LIMIT = 500_000  # instructions followed in the fixpoint before giving up, and ...
JOIN_LIMIT_PER_INSTRUCTION = 30  # ... so many more for each instruction of the program
MOST_CONFIRMED = 200  # doubtful findings to look at once more
MEETING_COST = 20  # where paths meet, that many instructions' worth of work
STATES_KEPT_APART = 4  # per place and shape, before values are merged
ENTRIES_KEPT_APART = 200  # into one loop, before they share their states
SHAPES_KEPT_APART = 24  # per place, before ticks become ranges

Progress = Callable[[int], None]


def lint(
    program: Program,
    profile: Profile,
    limit: int = STEP_LIMIT,
    repairs: Repairs | None = None,
    progress: Progress | None = None,
    words: Mapping[int, Value] | None = None,
) -> Report:
    """All findings of a program on a profile.

    `limit` bounds the instructions executed one by one; what runs longer is summarised.
    With `repairs` given, hazards are not reported but cured, and the cures noted there.
    `words` says what words of VMEM hold when the program starts, by address.
    """
    stepper = Stepper(program, profile, repairs)
    report = Report(program, profile.name)
    if len(program):
        pending = _run(stepper, report, limit, progress, words or {})
        if pending:
            report.exact = False
            starts, known = [state.pc for state in pending], bytes(stepper.reached)
            _fixpoint(stepper, report, pending, progress)
            _confirm(stepper, starts, known)
    for finding in static_findings(stepper):
        stepper.found.add(finding)
    report.findings = stepper.found.findings()
    return report


def _run(
    stepper: Stepper,
    report: Report,
    limit: int,
    progress: Progress | None,
    words: Mapping[int, Value],
) -> list[State]:
    """Execute while there is one way to go; the states left when that ends."""
    state = stepper.start()
    state.words = tuple(sorted(words.items()))
    step = stepper.step
    steps = 0
    # A state seen before means a loop without end: look back at the last power of two.
    landmark, milestone = state.copy(), 64
    while steps < limit:
        following = step(state)
        steps += 1
        if len(following) != 1:
            report.steps = steps
            return following
        state = following[0]
        if steps == milestone:
            landmark, milestone = state.copy(), 2 * milestone
        elif state.pc == landmark.pc and state.x == landmark.x and _same_state(state, landmark):
            report.steps = steps
            return []
        if progress is not None and not steps & 0x3FFF:
            progress(steps)
    report.steps = steps
    stepper.found.add(
        Finding(
            "TW2033", NOTE,
            f"the program runs for more than {limit} instructions; its loops are summarised from there",
            state.pc, stepper.program.location(state.pc).line,
        )
    )  # fmt: skip
    return [state]


def _same_state(state: State, other: State) -> bool:
    return (
        state.node() == other.node()
        and state.written == other.written
        and state.slots() == other.slots()
        and state.shape() == other.shape()
    )


def _fixpoint(
    stepper: Stepper, report: Report, pending: list[State], progress: Progress | None
) -> None:
    """Follow all paths, joining states that meet, until nothing new appears."""
    targets, live = static_targets(stepper), live_scalars(stepper)
    meetings = Meetings(loop_extents(stepper))
    waiting = deque(pending)
    most = JOIN_LIMIT + JOIN_LIMIT_PER_INSTRUCTION * len(stepper.facts)
    steps = work = 0
    while waiting:
        state = waiting.pop()
        while True:
            if state.pc in targets or state.pc in stepper.jumped:
                work += MEETING_COST
                state.forget_scalars(live[state.pc])
                arrived = meetings.arrive(state)
                if arrived is None:
                    break
                state = arrived
            following = stepper.step(state)
            steps += 1
            work += 1
            if not following:
                break
            state = following[0]
            waiting.extend(following[1:])
            if progress is not None and not steps & 0x3FFF:
                progress(report.steps + steps)
            if work > most:
                stepper.report(
                    state, "TW2034", state.pc,
                    "the program is too involved for lint to decide from here on", certain=False,
                )  # fmt: skip
                stepper.ended = True
                waiting.clear()
                break
    report.steps += steps


def _confirm(stepper: Stepper, starts: list[int], known: bytes) -> None:
    """Take back the "may" of findings that every path from `starts` runs into."""
    for key, finding in stepper.found.doubtful()[:MOST_CONFIRMED]:
        index = finding.index
        always = stepper.sure[key] == stepper.visits[index] > 0 and not known[index]
        if always and passed_by_all(stepper, starts, index):
            stepper.found.confirm(key)


class Meetings:
    """Where paths meet. Each entry into a loop is followed on its own until the loop closes,
    so that an inner loop is summarised anew, and exactly, for every state of the outer one."""

    def __init__(self, extents: dict[int, int]) -> None:
        self.extents = extents
        self.places: dict[object, Place] = {}
        self.entries: dict[object, list[State]] = {}
        self.entered: dict[int, int] = {}

    def arrive(self, state: State) -> State | None:
        """The state to go on with, or None if nothing is new."""
        pc = state.pc
        inside = {h: k for h, k in state.context if h <= pc <= self.extents[h]}
        if pc in self.extents and not (state.entered >= pc and pc in inside):
            inside.pop(pc, None)
            outer = tuple(inside.items())
            number = self.entered.get(pc, 0) + 1
            if number > ENTRIES_KEPT_APART:
                number = 0  # too many: they all share one
            else:
                known = self.entries.setdefault((outer, state.node(), state.shape()), [])
                if any(covers(other, state) for other in known):
                    return None
                known.append(state.copy())
                self.entered[pc] = number
            inside[pc] = number
        state.context = tuple(sorted(inside.items()))
        key = (state.node(), state.context)
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = Place()
        return place.arrive(state)


class Place:
    """The states seen at one place of the control-flow graph."""

    def __init__(self) -> None:
        self.shapes: dict[object, list[State]] = {}
        self.joins: dict[object, int] = {}
        self.blurred: State | None = None
        self.blurs = 0

    def arrive(self, state: State) -> State | None:
        """The state to go on with, or None if nothing is new."""
        if self.blurred is not None:
            return self._arrive_blurred(state)
        shape = state.shape()
        known = self.shapes.get(shape)
        if known is None:
            if len(self.shapes) >= SHAPES_KEPT_APART:
                self.blurred = next(iter(self.shapes.values()))[-1]
                for states in list(self.shapes.values()):
                    for other in states:
                        self._arrive_blurred(other)
                return self._arrive_blurred(state) or self.blurred.copy()
            self.shapes[shape] = [state.copy()]
            self.joins[shape] = 0
            return state
        if any(covers(other, state) for other in known):
            return None
        if len(known) < STATES_KEPT_APART:
            known.append(state.copy())
            return state
        count = self.joins[shape] = self.joins[shape] + 1
        # Join with the state most alike: registers that swap roles keep their phases apart.
        nearest = min(range(len(known)), key=lambda k: (differences(known[k], state), -k))
        joined = join(known[nearest], state, count)
        known[nearest] = joined.copy()
        return joined

    def _arrive_blurred(self, state: State) -> State | None:
        assert self.blurred is not None
        before = self.blurred
        self.blurs += 1
        after = blur(before, state, self.blurs)
        if after.shape() == before.shape() and covers(before, after):
            return None
        self.blurred = after.copy()
        return after


__all__ = ["JOIN_LIMIT", "STEP_LIMIT", "lint"]
