"""The portfolio: several orders and policies, local search where graphs are small; best one kept."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from tilewright.errors import TilewrightError
from tilewright.targets.vpu.bounds import Bounds, tails
from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.scheduling import orders
from tilewright.targets.vpu.scheduling.decode import decode
from tilewright.targets.vpu.scheduling.plan import RELOAD, WRITE, Plan, Policy
from tilewright.targets.vpu.scheduling.residency import NoRoom
from tilewright.targets.vpu.scheduling.streams import interleaved

POLICIES = (
    Policy(),
    Policy(reserve=False),
    Policy(victims="furthest"),
    Policy(fit="best", ends="kind"),
    Policy(fit="first", eager_in_place=False),
    Policy(fit="first", ends="parity"),
    Policy(defer=False),
    Policy(defer=False, fit="best", ends="parity", eager_in_place=False),
)
_STREAMED = (Policy(ends="kind"), Policy())  # of graphs whose program order is a good one
LARGE = 2000  # tasks; above, only what was found to matter there
_HUGE = 30_000  # tasks; above, one plan
_BUDGET = 20_000  # decoded tasks of local search
_PATIENCE = 400  # its steps without progress


def plans(
    problem: Problem, bound: Bounds, budget: int | None = None, local_search: bool = True
) -> list[Plan]:
    """The best plans found, the best first; at least one, or an error that says what is missing.

    `budget` bounds the tasks that local search may decode; graphs of more than a tenth of it are
    searched like large ones.
    """
    _check_room(problem)
    found = _Pool(problem)
    small = len(problem.tasks) <= (LARGE if budget is None else budget // 10)
    last_error: NoRoom | None = None
    close = bound.best if small else bound.best + bound.best // 100
    if not small and problem.graph.streams:
        order = orders.demand_order(problem, interleaved(problem))
        for policy in _STREAMED[: 1 if len(problem.tasks) > _HUGE else None]:
            with suppress(NoRoom):
                found.add(decode(problem, order, policy), order, policy)
        if found.best:
            return [plan for *_, plan in found.best]
    for order in _starting_orders(problem, small):
        for policy in POLICIES if small else POLICIES[:1]:
            if found.good(close):
                return [plan for *_, plan in found.best]
            try:
                found.add(decode(problem, order, policy), order, policy)
            except NoRoom as error:
                last_error = error
    if found.best and not small:
        order, _ = found.sources[found.best[0][2]]
        for policy in POLICIES[1:4]:
            if not found.good(close):
                with suppress(NoRoom):
                    found.add(decode(problem, order, policy), order, policy)
    if not found.best:
        _serial_or_fail(problem, found, last_error)
    if small and local_search:
        _local_search(problem, bound, found, _BUDGET if budget is None else budget)
    return [plan for *_, plan in found.best]


def serial_plan(problem: Problem) -> Plan:
    """The baseline: program order, one task at a time."""
    policy = Policy(serial=True, defer=False)
    failed: NoRoom | None = None
    for order in (
        orders.demand_order(problem, problem.topological),
        orders.program_order(problem),
        orders.depth_first(problem, tails(problem)),
    ):
        try:
            return decode(problem, order, policy)
        except NoRoom as error:
            failed = error
    assert failed is not None
    raise _no_room(problem, failed)


class _Pool:
    """The best few plans, and the orders they came from."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.best: list[tuple[int, int, int, Plan]] = []  # makespan, spill bytes, age
        self.sources: dict[int, tuple[list[int], Policy]] = {}
        self.age = 0

    def good(self, makespan: int) -> bool:
        """Whether nothing better is worth a search."""
        return bool(self.best) and self.best[0][0] <= makespan and self.best[0][1] == 0

    def add(self, plan: Plan, order: Sequence[int], policy: Policy) -> tuple[int, int]:
        sizes = self.problem.sizes
        bytes_ = sum(sizes[s.index] for s in plan.steps if s.kind in (WRITE, RELOAD))
        self.age += 1
        key = (plan.makespan, bytes_)
        good = len(self.best) < 3 or key < self.best[-1][:2]
        if good and all(key != entry[:2] for entry in self.best):
            self.best.append((*key, self.age, plan))
            self.best.sort(key=lambda entry: entry[:3])
            del self.best[3:]
            self.sources[self.age] = (list(order), policy)
        return key


def _starting_orders(problem: Problem, small: bool) -> Iterator[list[int]]:
    length = tails(problem)
    by_tail = orders.tail_order(problem, length)
    yield by_tail
    program = orders.program_order(problem)
    yield orders.demand_order(problem, program)
    if small:
        yield program
        yield orders.demand_order(problem, by_tail)
        yield orders.stores_first(problem, program)
        yield orders.depth_first(problem, length)


def _local_search(problem: Problem, bound: Bounds, found: _Pool, budget: int) -> None:
    """Move single tasks in the best orders; deterministic, and bounded by decoded tasks."""
    count = len(problem.tasks)
    if count < 2:
        return
    generator = random.Random(count)
    rounds = min(1200, budget // count)
    first = found.best[0]
    order, policy = found.sources[first[2]]
    current, current_key = list(order), first[:2]
    improved, best_key = 0, first[:2]
    for step in range(rounds):
        if found.good(bound.best) or step - improved > _PATIENCE:
            return
        if found.best[0][:2] < best_key:
            improved, best_key = step, found.best[0][:2]
        if step % 150 == 149:  # back to the best, or to another good one
            entry = found.best[(step // 150) % len(found.best)]
            order, policy = found.sources[entry[2]]
            current, current_key = list(order), entry[:2]
        trial = _moved(problem, current, generator)
        policy_now = policy
        if step % 3 == 2:
            policy_now = POLICIES[generator.randrange(len(POLICIES))]
        if step % 3 >= 1:
            root = generator.randrange(len(problem.sizes))
            policy_now = replace(policy_now, flipped=policy_now.flipped ^ {root})
        try:
            plan = decode(problem, trial, policy_now)
        except NoRoom:
            continue
        key = found.add(plan, trial, policy_now)
        if key <= current_key:
            current, current_key, policy = trial, key, policy_now


def _moved(problem: Problem, order: list[int], generator: random.Random) -> list[int]:
    """The order with one or two tasks somewhere else between their neighbours in the graph."""
    result = list(order)
    for _ in range(1 + (generator.random() < 0.3)):
        place = generator.randrange(len(result))
        task = result.pop(place)
        position = {other: at for at, other in enumerate(result)}
        low = max((position[p] + 1 for p in problem.predecessors[task]), default=0)
        high = min((position[s] for s in problem.successors[task]), default=len(result))
        result.insert(generator.randint(low, high), task)
    return result


# --- Room --------------------------------------------------------------------------------


def _check_room(problem: Problem) -> None:
    """Every task has to fit with all of its operands; the error says how much is missing."""
    machine = problem.graph.machine
    for number, task in enumerate(problem.tasks):
        needed: dict[int, int] = {}
        operands = {*problem.read_roots[number], *problem.write_roots[number]}
        for root in operands:
            tile = problem.graph.buffers[root].tile
            size = -(-problem.sizes[root] // machine.align) * machine.align
            needed[tile] = needed.get(tile, 0) + size
        for tile, size in needed.items():
            own = [r for r in operands if problem.graph.buffers[r].tile == tile]
            saved = max(
                (problem.sizes[o] for s, o in problem.in_place[number] if o in own), default=0
            )
            slack = max((-problem.sizes[r] % machine.align for r in own), default=0)
            least = size - slack - -(-saved // machine.align) * machine.align
            if least > machine.cmx_bytes:
                raise TilewrightError(
                    "TW7040",
                    f"task {task.id!r} needs {least} bytes of CMX at once, "
                    f"the machine has {machine.cmx_bytes}",
                    hint=f"tile it into smaller tasks, or give it {least - machine.cmx_bytes} "
                    "bytes more",
                )


def _serial_or_fail(problem: Problem, found: _Pool, error: NoRoom | None) -> None:
    try:
        plan = serial_plan(problem)
    except TilewrightError:
        assert error is not None
        raise _no_room(problem, error) from None
    found.add(plan, problem.topological, Policy(defer=False))


def _no_room(problem: Problem, error: NoRoom) -> TilewrightError:
    task = problem.tasks[error.task]
    buffer = problem.graph.buffers[error.root]
    return TilewrightError(
        "TW7041",
        f"task {task.id!r} finds no room for {buffer.id!r} ({buffer.bytes} bytes) in "
        f"{problem.graph.machine.cmx_bytes} bytes of CMX, in any order that was tried",
        hint=f"give the machine {buffer.bytes} bytes more, or split buffers with several writers",
    )
