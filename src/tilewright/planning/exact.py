"""Exact planning: a plan below a capacity, a proof that there is none, or the smallest peak.

Two engines look at each problem in turn: a portfolio of searches written for it (native code)
and CP-SAT. Both count their work in steps of their own, never in seconds, so the same problem gives the same
plan on every machine. A build without the native search uses CP-SAT alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.planning.bounds import lower_bound
from tilewright.planning.buffers import Buffer, peak_of
from tilewright.planning.sections import Problem, make_problem

try:
    from tilewright.planning import _planning as native  # pyright: ignore
except ImportError:  # a source tree without its native parts
    native = None

# The searches of the portfolio, in the order of their turns; native/planning/portfolio.cpp.
MEMBERS = ("minimalloc", "jumping", "lowest", "sections", "learned", "dives")

SOLVED, INFEASIBLE, LIMIT = "solved", "infeasible", "limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to look. All limits are counts, so a run can be repeated exactly."""

    work: int = 1_000_000_000  # elementary steps of the search, about 100 million a second
    seed: int = 1
    members: tuple[str, ...] = MEMBERS  # of the portfolio
    table: int = 2_000_000
    cp_sat_time: float = 0.5  # CP-SAT's deterministic time; one unit took 33 s on a hard case
    engines: tuple[str, ...] = ("search", "cp-sat")


@dataclass(slots=True)
class Work:
    """What was done to find a plan."""

    attempts: int = 0
    nodes: int = 0
    steps: int = 0
    restarts: int = 0
    cp_sat_time: float = 0.0
    engines: list[str] = field(default_factory=list)
    members: list[str] = field(default_factory=list)  # who gave the answer to each attempt

    def add_engine(self, name: str) -> None:
        if name not in self.engines:
            self.engines.append(name)


@dataclass(frozen=True, slots=True)
class Minimum:
    """The best plan found and what is known about better ones."""

    offsets: dict[str, int]
    peak: int
    bound: int  # no plan has a smaller peak
    work: Work


def fit(
    buffers: Sequence[Buffer], capacity: int, limits: Limits, work: Work | None = None
) -> tuple[str, dict[str, int]]:
    """(status, offsets) of placing one region's buffers below `capacity`.

    The status is "solved", "infeasible" (proven) or "limit".
    """
    work = work if work is not None else Work()
    work.attempts += 1
    fixed_ends = (b.offset + b.size for b in buffers if b.offset is not None)
    if lower_bound(buffers) > capacity or any(end > capacity for end in fixed_ends):
        return INFEASIBLE, {}
    problem = make_problem(buffers, capacity)
    if problem is None:
        return INFEASIBLE, {}
    if not problem.items:
        return SOLVED, problem.offsets(())
    for engine in limits.engines:
        if engine == "search" and native is not None:
            status, offsets = _search(problem, limits, work)
        elif engine == "cp-sat":
            from tilewright.planning.cp_sat import solve

            work.add_engine("cp-sat")
            status, offsets, used = solve(problem, limits.cp_sat_time, limits.seed)
            work.cp_sat_time += used
        else:
            continue
        if status != LIMIT:
            return status, problem.offsets(offsets) if offsets else {}
    return LIMIT, {}


def _search(problem: Problem, limits: Limits, work: Work) -> tuple[str, list[int]]:
    assert native is not None
    work.add_engine("search")
    status, offsets, nodes, steps, restarts, member = native.search(
        [
            (i.first, i.last, i.size, i.alignment, i.lowest, i.highest, i.duration)
            for i in problem.items
        ],
        problem.sections,
        problem.capacity,
        seed=limits.seed,
        work_limit=limits.work,
        table_limit=limits.table,
        members=limits.members,
    )
    work.nodes += nodes
    work.steps += steps
    work.restarts += restarts
    if member:
        work.members.append(member)
    return status, offsets


def minimise(
    buffers: Sequence[Buffer], start: dict[str, int], limits: Limits, capacity: int | None = None
) -> Minimum:
    """The smallest peak, from a plan `start` that places all buffers.

    The lower bound is tried first, because real programs mostly reach it; then the range between
    the bound and the best plan is halved. Where a try ends at its limit the bound stays and the
    search goes on above it. With a `capacity`, a plan below it is found before a better one is
    looked for. The limits are for all tries together; each gets half of what is left.
    """
    work = Work()
    best, peak = start, peak_of(buffers, start)
    bound = lower_bound(buffers)
    if capacity is not None and bound <= capacity < peak:
        status, offsets = fit(buffers, capacity, limits, work)
        if status == SOLVED:
            best, peak = offsets, peak_of(buffers, offsets)
        elif status == INFEASIBLE:
            return Minimum(best, peak, max(bound, capacity + 1), work)
    hopeless = bound  # peaks below it were tried without an answer
    target = bound
    while hopeless < peak and not _spent(limits, work):
        share = replace(
            limits,
            work=(limits.work - work.steps) // 2,
            cp_sat_time=(limits.cp_sat_time - work.cp_sat_time) / 2,
        )
        status, offsets = fit(buffers, target, share, work)
        if status == SOLVED:
            best, peak = offsets, peak_of(buffers, offsets)
        else:
            if status == INFEASIBLE and bound == hopeless:
                bound = target + 1
            hopeless = target + 1
        target = (hopeless + peak - 1) // 2
    return Minimum(best, peak, min(bound, peak), work)


def _spent(limits: Limits, work: Work) -> bool:
    """Whether too little of every limit is left for another try."""
    searches = "search" in limits.engines and native is not None
    return not (
        (searches and work.steps < limits.work - limits.work // 32)
        or ("cp-sat" in limits.engines and work.cp_sat_time < limits.cp_sat_time * 31 / 32)
    )
