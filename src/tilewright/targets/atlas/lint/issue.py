"""Issuing to units and to the DMA queue: is the unit free, is anything in the way, when is it done."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.atlas.lint.facts import Facts, Role
from tilewright.targets.atlas.lint.hazards import Access, Problem, conflicts, order_problems
from tilewright.targets.atlas.lint.memory import check_access
from tilewright.targets.atlas.lint.session import FAR, Session
from tilewright.targets.atlas.lint.state import Operation, State
from tilewright.targets.atlas.lint.values import Value, unsigned_range


def issue(run: Session, state: State, facts: Facts, index: int) -> None:
    """Dispatch to a unit or to the DMA queue, and put the operation in flight."""
    tick = state.now
    if facts.role is Role.UNIT:
        tick = _unit_free(run, state, facts, index, tick)
    else:
        tick = _channel_free(run, state, facts, index, tick)
    position = facts.position
    if facts.pair_range and run.profile.conflict != "ignore":
        run.settle(state, tick + 1, position)
        run.pair_range(state, index, tick + 1)
    run.settle(state, tick + 1, position)
    access, ticks = _timed_access(run, state, facts, tick)
    if (state.flight or state.unwaited) and _problems_of(run, state, facts, tick, access):
        tick = run.clear_of_problems(
            state, facts, tick, lambda s, f, t: _unit_problems(run, s, f, t)
        )
        access, ticks = _timed_access(run, state, facts, tick)
    fresh = facts.reads & ~state.written
    if fresh:
        run.unwritten(state, facts, fresh)
    state.written |= facts.writes | fresh  # say it once per register
    operation = Operation(
        index, state.order, facts, access.low, access.high, access.start, access.length, ticks
    )
    state.order += 1
    state.flight.append(operation)
    if access.low != access.high and facts.memory is not None:
        check_access(run, state, operation)  # nobody knows when it completes: check now too
    state.horizon = min(state.horizon, access.high)
    if facts.role is Role.DMA:
        state.engine = (access.low, access.high)
        state.clear[facts.channel] = (access.low + 1, access.high + 1)
        run.acknowledge(state, facts.channel)
        state.open |= 1 << facts.channel
    else:
        free = tick + facts.interval
        state.busy[position] = (free, free)
    state.now = tick + 1


def _unit_free(run: Session, state: State, facts: Facts, index: int, tick: int) -> int:
    low, high = state.busy[facts.position]
    if high <= tick:
        return tick
    if run.profile.busy_unit == "stall":
        first = max(tick, low)
        state.slip(high - first)
        return first
    older = max(
        (o for o in state.flight if o.position == facts.position),
        key=lambda o: o.order, default=None,
    )  # fmt: skip
    what = f" with {older.facts.shown} at {run.place(older.index)}" if older else ""
    need = high - tick
    if run.repairs_at(index):
        if older is not None and run.repairs is not None:
            run.repairs.others.setdefault(index, set()).add(older.index)
        return run.add_delay(state, high)
    run.settle(state, tick, FAR)
    plural = "" if need == 1 else "s"
    run.report(
        state, "TW2001", index,
        f"{facts.shown} is issued while {facts.unit} is busy for {need} more tick{plural}{what}",
        certain=low > tick, other=older.index if older else -1, need=need, tick=tick,
        hint=run.delay_hint(state, need),
    )  # fmt: skip
    if low > tick:
        return high
    # It may be busy; where it is not, its older work is done.
    _drop(
        run,
        state,
        lambda o: o.position == facts.position and o.facts.interval == o.facts.latency,
    )
    return tick


def _channel_free(run: Session, state: State, facts: Facts, index: int, tick: int) -> int:
    low, high = state.clear[facts.channel]
    if high <= tick:
        return tick
    if run.repairs_at(index):
        return run.add_wait(state, tick, facts.channel)
    run.settle(state, tick, FAR)
    older = next(
        (
            o
            for o in (*state.flight, *state.unwaited)
            if o.facts.role is Role.DMA and o.facts.channel == facts.channel
        ),
        None,
    )
    need = high - tick
    what = f" of {older.facts.shown} at {run.place(older.index)}" if older else ""
    ticks = "1 tick" if need == 1 else f"{need} ticks"
    run.report(
        state, "TW2004", index,
        f"{facts.shown} uses channel {facts.channel} {ticks} before the operation{what} is done",
        certain=low > tick, other=older.index if older else -1, need=need, tick=tick,
        hint=f"insert dma.wait.ch{facts.channel} before it",
    )  # fmt: skip
    if low > tick:
        return high
    _drop(run, state, lambda o: o.facts.role is Role.DMA and o.facts.channel == facts.channel)
    return tick


def _drop(run: Session, state: State, which: Callable[[Operation], bool]) -> None:
    """Complete operations that may be in flight but would be a fault reported already."""
    done = [o for o in state.flight if which(o)]
    state.flight = [o for o in state.flight if o not in done]
    for operation in done:
        run.complete(state, operation)


def _unit_problems(run: Session, state: State, facts: Facts, tick: int) -> list[Problem]:
    run.settle(state, tick + 1, facts.position)
    access, _ = _timed_access(run, state, facts, tick)
    return _problems_of(run, state, facts, tick, access)


def _problems_of(
    run: Session, state: State, facts: Facts, tick: int, access: Access
) -> list[Problem]:
    """What is wrong at `tick`, when all that is done by then has been completed."""
    found: list[Problem] = []
    if run.profile.conflict != "ignore" and not facts.pair_range:
        found = conflicts(state, facts, tick, access)
    if any(p.certain for p in found):
        return found  # the machine does not get further
    return found + order_problems(state, facts, tick, access, run.profile)


def _timed_access(
    run: Session, state: State, facts: Facts, tick: int
) -> tuple[Access, tuple[int, int]]:
    """VMEM range and completion if dispatched at `tick`; for DMA also its engine time."""
    if facts.role is not Role.DMA:
        return run.access(state, facts, tick), (0, 0)
    start: Value = 0
    length: Value = 0
    if facts.memory is None:
        ticks = (facts.latency, facts.latency)
    else:
        length = state.x[facts.rs2]
        start = state.x[facts.rd if facts.stores else facts.rs1]
        fewest, most = unsigned_range(length)
        law = run.profile.dma
        ticks = (law.ticks(fewest), law.ticks(most))
    first, last = state.engine
    if first != last:
        # No channel has more than one operation in the queue.
        longest: dict[int, int] = {}
        for o in state.flight:
            if o.facts.role is Role.DMA:
                longest[o.facts.channel] = max(longest.get(o.facts.channel, 0), o.ticks[1])
        last = min(last, tick + sum(longest.values()))
        first = min(first, last)
    low = max(tick + 1, first + 1) + ticks[0] - 1
    high = max(tick + 1, last + 1) + ticks[1] - 1
    return Access(start, length, low, high), ticks
