"""The whole way: a tile graph in, the fastest task list that was found out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from tilewright.errors import TilewrightError
from tilewright.garbage import no_cycle_collection
from tilewright.targets.vpu.barriers.assign import Assignment, Entries, assign
from tilewright.targets.vpu.barriers.signals import Limits
from tilewright.targets.vpu.bounds import Bounds, bounds
from tilewright.targets.vpu.dependences import Problem, analyse
from tilewright.targets.vpu.scheduling.emit import PORT_ORDER, Draft, draft
from tilewright.targets.vpu.scheduling.plan import TASK, Plan
from tilewright.targets.vpu.scheduling.search import LARGE, plans, serial_plan
from tilewright.targets.vpu.simulator import Run, simulate
from tilewright.targets.vpu.task_list import Barrier, TaskList
from tilewright.targets.vpu.tile_graph import TileGraph


@dataclass(slots=True)
class Schedule:
    """A task list, its modelled run, and where it came from."""

    problem: Problem
    draft: Draft
    assignment: Assignment
    tasks: TaskList
    run: Run
    bounds: Bounds
    proven: bool  # no schedule is faster

    @property
    def makespan(self) -> int:
        return self.run.makespan


def schedule(graph: TileGraph, in_place: bool = True, exact: bool = False) -> Schedule:
    """Schedule a graph; `exact` searches long for a proof, small graphs get a short search."""
    best = portfolio(graph, in_place)
    if exact:
        return _solved(best, _THOROUGH)
    if best.makespan > best.bounds.best and len(graph.tasks) <= SMALL:
        return _solved(best, _QUICK)
    return best


@no_cycle_collection()
def portfolio(
    graph: TileGraph,
    in_place: bool = True,
    budget: int | None = None,
    local_search: bool = True,
) -> Schedule:
    """The best schedule of the orders, policies and local search, without the exact solver."""
    problem = analyse(graph, in_place)
    bound = bounds(problem)
    most = LARGE if budget is None else budget // 10
    return _fastest(problem, plans(problem, bound, budget, local_search), bound, most)


SMALL = 12  # tasks: up to here the exact solver is always asked
_QUICK, _THOROUGH = 2.0, 30.0  # its deterministic time, about seconds


def serial_schedule(graph: TileGraph, in_place: bool = True) -> Schedule:
    """The baseline: one task at a time in program order."""
    problem = analyse(graph, in_place)
    bound = bounds(problem)
    return realise(problem, serial_plan(problem), bound)


def realise(problem: Problem, plan: Plan, bound: Bounds) -> Schedule:
    """The task list of a plan, with barriers, and its modelled run.

    The two agents of a DMA port take turns as they become ready, which may not be the plan's
    order. Where that costs time, edges hold back the transfers that came too early.
    """
    made = draft(problem, plan)
    best = _synchronised(made, bound)
    if problem.graph.machine.dma_agents > 1:
        now = best
        for _ in range(_AGENT_ROUNDS):
            if now.makespan <= plan.makespan + plan.makespan // 200:
                break
            if not _hold_back(made, now.run):
                break
            now = _synchronised(made, bound)
            if now.makespan < best.makespan:
                best = now
    return best


_AGENT_ROUNDS = 3


def _hold_back(made: Draft, run: Run) -> bool:
    """Order transfers of one port that ran in another order than planned; False if all kept it."""
    found = False
    for port in range(made.machine.dma_ports):
        planned = sorted({*made.queues[f"dma{port}"], *made.queues[f"dma{port}.cmx"]})
        agent = set(made.queues[f"dma{port}"])
        for first, second in pairwise(planned):
            crossed = (first in agent) != (second in agent)
            late = crossed and run.start[second] < run.start[first]
            if late and all(other != first for other, _ in made.edges[second]):
                made.edges[second].append((first, PORT_ORDER))
                found = True
    return found


def _synchronised(made: Draft, bound: Bounds) -> Schedule:
    """Barriers for the edges of a draft; of several ways the fastest."""
    machine = made.machine
    names = list(made.queues)
    queues: list[list[int]] = [[] for _ in made.items]
    for number, name in enumerate(names):
        for entry in made.queues[name]:
            queues[entry].append(number)
    entries = Entries(
        queues=[tuple(found) for found in queues],
        engines_behind=[machine.shaves if name.startswith("shave") else 1 for name in names],
        slots=[item.slots for item in made.items],
        engines=[item.engine for item in made.items],
        starts=[step.start for step in made.steps],
        ends=[step.end for step in made.steps],
    )
    edges = [[other for other, _ in found] for found in made.edges]
    limits = Limits(machine.side_slots, machine.storage)
    ways = assign(entries, edges, machine.barriers, limits)
    planned = max(entries.ends, default=0)
    enough = planned + planned // 50 if len(made.items) > LARGE else 0
    best: Schedule | None = None
    for way in ways:
        tasks = _task_list(made, way)
        run = simulate(tasks)
        if run.stuck:  # a defect of ours, never of the input
            raise AssertionError(f"the list does not finish: {run.stuck}")
        if best is None or run.makespan < best.makespan:
            proven = run.makespan <= bound.best
            best = Schedule(made.problem, made, way, tasks, run, bound, proven)
        if best.makespan <= enough:
            break
    if best is None:
        raise TilewrightError(
            "TW7042",
            f"the tasks cannot be kept in order with {machine.barriers} barrier: some task both "
            "waits and posts, which needs 2",
            hint="give the machine at least 2 barriers",
        )
    return best


def _fastest(
    problem: Problem, candidates: list[Plan], bound: Bounds, most: int = LARGE
) -> Schedule:
    """The best of some plans once barriers are counted; the serial one is always among them.

    Of more than `most` tasks only the first plan is carried out.
    """
    best: Schedule | None = None
    for plan in candidates:
        made = realise(problem, plan, bound)
        if best is None or made.makespan < best.makespan:
            best = made
        if best.makespan <= bound.best or len(problem.tasks) > most:
            break
    assert best is not None
    work = sum(task.cycles for task in problem.tasks)
    if best.makespan > bound.best and (len(problem.tasks) <= most or best.makespan > work):
        serial = realise(problem, serial_plan(problem), bound)
        if serial.makespan < best.makespan:
            best = serial
    return best


def _solved(best: Schedule, effort: float) -> Schedule:
    """The exact solver's schedule where it is better or proves what was found."""
    from tilewright.targets.vpu.scheduling.exact import solve

    known = Plan(best.draft.steps, best.makespan)
    found = solve(best.problem, best.makespan, effort, best.bounds.best, known)
    if found.plan is not None:
        made = realise(best.problem, found.plan, best.bounds)
        if _rank(made) < _rank(best):
            best = made
    if found.proven and found.plan is not None and best.makespan <= found.plan.makespan:
        best.proven = True
    return best


def _rank(schedule: Schedule) -> tuple[int, int, int]:
    """Makespan, then spilled bytes, then the highest address."""
    sizes, steps = schedule.problem.sizes, schedule.draft.steps
    spilled = sum(sizes[step.index] for step in steps if step.kind != TASK)
    peak = max((a + sizes[root] for step in steps for root, a in step.addresses.items()), default=0)
    return schedule.makespan, spilled, peak


def _task_list(made: Draft, assignment: Assignment) -> TaskList:
    waits: list[list[int]] = [[] for _ in made.items]
    posts: list[list[int]] = [[] for _ in made.items]
    barriers = []
    for number, (signal, physical) in enumerate(
        zip(assignment.signals, assignment.physical, strict=True)
    ):
        for entry in signal.producers:
            posts[entry].append(number)
        for entry in signal.consumers:
            waits[entry].append(number)
        barriers.append(
            Barrier(
                physical,
                sum(made.items[entry].slots for entry in signal.producers),
                sum(made.items[entry].slots for entry in signal.consumers),
            )
        )
    names = [f"t{number}" for number in range(len(made.items))]
    tasks = {
        names[n]: replace(item, waits=tuple(waits[n]), posts=tuple(posts[n]))
        for n, item in enumerate(made.items)
    }
    queues = {queue: [names[n] for n in found] for queue, found in made.queues.items()}
    return TaskList(made.machine, queues, tasks, barriers, made.ddr)
