"""The exact solver for small graphs: times, residences, spills and addresses in one CP-SAT model.

A residence is a rectangle of time and addresses; rectangles of one tile do not overlap. A buffer
may come back as often as somebody reads it (up to a limit), which costs transfers on the ports.
The objective is makespan, then spilled bytes, then the highest address; barriers are unlimited.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from typing import Any

from tilewright.targets.vpu.bounds import heads, tails
from tilewright.targets.vpu.dependences import Problem
from tilewright.targets.vpu.scheduling.plan import RELOAD, TASK, WRITE, Plan, Step
from tilewright.targets.vpu.scheduling.symmetry import equal_parts
from tilewright.targets.vpu.tile_graph import DMA, DPU

_MOST_RESIDENCES = 4
_FURTHER_EFFORT = 10.0  # for each goal behind the makespan


@dataclass(slots=True)
class Stay:
    """Variables of one residence."""

    present: Any
    first: Any
    end: Any
    address: Any
    reload: Any = None  # start of the transfer that brings it back


@dataclass(frozen=True, slots=True)
class Solution:
    """The best plan found, whether its makespan is proven, and the proven bound."""

    plan: Plan | None
    proven: bool
    bound: int


def solve(
    problem: Problem, horizon: int, effort: float, bound: int = 0, hint: Plan | None = None
) -> Solution:
    """The best plan of at most `horizon` cycles; `effort` is CP-SAT's deterministic time.

    `bound` is a makespan that nothing can beat, `hint` a plan to begin with.
    """
    model = _Model(problem, horizon)
    model.model.add(model.makespan >= bound)
    if hint is not None:
        for step in hint.steps:
            if step.kind == TASK:
                model.model.add_hint(model.starts[step.index], step.start)
    return model.solve(effort)


class _Model:
    def __init__(self, problem: Problem, horizon: int) -> None:
        from ortools.sat.python import cp_model

        self.problem, self.horizon = problem, horizon
        self.writes: dict[int, tuple[Any, Any]] = {}
        self.model = cp_model.CpModel()
        first, last = heads(problem), tails(problem)
        self.starts = [
            self.model.new_int_var(first[n], max(first[n], self.horizon - last[n]), f"s{n}")
            for n in range(len(problem.tasks))
        ]
        self.makespan = self.model.new_int_var(0, self.horizon, "makespan")
        for number, task in enumerate(problem.tasks):
            for before in problem.predecessors[number]:
                self.model.add(self.starts[number] >= self._task_end(before))
            self.model.add(self.makespan >= self.starts[number] + task.cycles)
        machine = problem.graph.machine
        self.transfers: list[tuple[Any, int]] = []
        self._scale()
        self.rectangles: list[list[tuple[Any, Any, int]]] = [[] for _ in range(machine.tiles)]
        self.spill_bytes: list[Any] = []
        total = [0] * machine.tiles
        for root, buffer in enumerate(problem.graph.buffers):
            total[buffer.tile] += self._units(root) * self.unit
        self.crowded = [size > machine.cmx_bytes for size in total]
        self.stays = [self._residences(root) for root in range(len(problem.sizes))]
        self.reads = {
            (task, root): self._read(task, root)
            for task in range(len(problem.tasks))
            for root in problem.read_roots[task]
        }
        for root in range(len(problem.sizes)):
            self._copies(root)
        self._in_place()
        self._engines()
        for same in equal_parts(problem):  # of schedules that differ by an exchange, look at one
            for one, other in pairwise(same):
                self.model.add(self.starts[one] <= self.starts[other])
        for rectangles in self.rectangles:
            if rectangles:
                self.model.add_no_overlap_2d([r[0] for r in rectangles], [r[1] for r in rectangles])
                self.model.add_cumulative(
                    [r[0] for r in rectangles], [r[2] for r in rectangles],
                    -(-machine.cmx_bytes // self.unit),
                )  # fmt: skip

    def _scale(self) -> None:
        """Addresses count in units: the alignment, or more where all sizes are multiples of it."""
        problem, machine = self.problem, self.problem.graph.machine
        self.unit = machine.align
        if all(align == machine.align for align in problem.aligns) and problem.sizes:
            sizes = [-(-size // machine.align) for size in problem.sizes]
            self.unit = machine.align * gcd(*sizes)

    def _units(self, root: int) -> int:
        return -(-self.problem.sizes[root] // self.unit)

    def _task_end(self, task: int) -> Any:
        return self.starts[task] + self.problem.tasks[task].cycles

    # --- Residences --------------------------------------------------------------------------

    def _residences(self, root: int) -> list[Stay]:
        problem, model = self.problem, self.model
        buffer = problem.graph.buffers[root]
        users = problem.readers[root]
        if not problem.writers[root]:
            return []
        count = 1
        if self.crowded[buffer.tile]:
            again = len(users) - (1 if problem.loaded[root] else 0)
            count += max(0, min(again, _MOST_RESIDENCES - 1))
        stays: list[Stay] = []
        for number in range(count):
            name = f"r{root}.{number}"
            present = 1 if number == 0 else model.new_bool_var(f"{name}?")
            first = model.new_int_var(0, self.horizon, f"{name}<")
            end = model.new_int_var(0, self.horizon, f"{name}>")
            top = (problem.graph.machine.cmx_bytes - problem.sizes[root]) // self.unit
            address = model.new_int_var(0, top, f"{name}@")
            if problem.aligns[root] > self.unit:
                step = problem.aligns[root] // self.unit
                slot = model.new_int_var(0, top // step, f"{name}@/")
                model.add(address == step * slot)
            length = model.new_int_var(0, self.horizon, f"{name}-")
            size = self._units(root)
            if number == 0:
                over_time = model.new_interval_var(first, length, end, f"{name}t")
                place = model.new_interval_var(address, size, address + size, f"{name}a")
                for writer in problem.writers[root]:
                    model.add(first <= self.starts[writer])
                    model.add(end >= self._task_end(writer))
                stay = Stay(present, first, end, address)
            else:
                over_time = model.new_optional_interval_var(first, length, end, present, f"{name}t")
                place = model.new_optional_interval_var(
                    address, size, address + size, present, f"{name}a"
                )
                cycles = problem.reload_cycles[root]
                transfer = model.new_optional_interval_var(
                    first, cycles, first + cycles, present, f"{name}l"
                )
                self.transfers.append((transfer, 1))
                model.add(end >= first + cycles).only_enforce_if(present)
                model.add(first >= stays[-1].end).only_enforce_if(present)
                if number > 1:
                    model.add_implication(present, stays[-1].present)
                self.spill_bytes.append(problem.sizes[root] * present)
                stay = Stay(present, first, end, address, first)
            self.rectangles[buffer.tile].append((over_time, place, size))
            stays.append(stay)
        return stays

    def _read(self, task: int, root: int) -> list[Any]:
        """Which residence a task reads from, one literal each."""
        model, stays = self.model, self.stays[root]
        chosen = [model.new_bool_var(f"y{task}.{root}.{n}") for n in range(len(stays))]
        model.add_exactly_one(chosen)
        for stay, literal in zip(stays, chosen, strict=True):
            if stay.reload is not None:
                model.add_implication(literal, stay.present)
                ready = stay.first + self.problem.reload_cycles[root]
                model.add(self.starts[task] >= ready).only_enforce_if(literal)
            if not any(source == root for source, _ in self.problem.in_place[task]):
                model.add(stay.end >= self._task_end(task)).only_enforce_if(literal)
        return chosen

    def _copies(self, root: int) -> None:
        """A buffer that comes back has a copy in DDR: loaded, stored whole, or written back."""
        problem, model = self.problem, self.model
        if problem.loaded[root] or len(self.stays[root]) < 2:
            return
        home, second = self.stays[root][:2]
        cycles = problem.graph.buffers[root].spill_cycles
        written = model.new_bool_var(f"w{root}")
        start = model.new_int_var(0, self.horizon, f"ws{root}")
        transfer = model.new_optional_interval_var(
            start, cycles, start + cycles, written, f"wi{root}"
        )
        self.transfers.append((transfer, 1))
        self.writes[root] = (written, start)
        self.spill_bytes.append(problem.sizes[root] * written)
        for writer in problem.writers[root]:
            model.add(start >= self._task_end(writer)).only_enforce_if(written)
        model.add(home.end >= start + cycles).only_enforce_if(written)
        ways = [model.new_bool_var(f"cw{root}")]
        model.add_implication(ways[0], written)
        model.add(second.first >= start + cycles).only_enforce_if(ways[0])
        size = problem.sizes[root]
        for task in problem.readers[root]:
            whole = any(
                span.root == root and span.offset == 0 and span.count == 1 and span.bytes == size
                for span in problem.reads[task]
            )
            if problem.tasks[task].sink and whole and not problem.tasks[task].outside:
                stored = model.new_bool_var(f"cs{root}.{task}")
                model.add_implication(stored, self.reads[task, root][0])
                model.add(second.first >= self._task_end(task)).only_enforce_if(stored)
                ways.append(stored)
        model.add_bool_or(ways).only_enforce_if(second.present)

    def _in_place(self) -> None:
        problem, model = self.problem, self.model
        for task in range(len(problem.tasks)):
            literals: dict[int, list[Any]] = {}  # per input
            for source, target in problem.in_place[task]:
                for number, stay in enumerate(self.stays[source]):
                    shared = model.new_bool_var(f"p{task}.{source}.{target}.{number}")
                    literals.setdefault(source, []).append(shared)
                    model.add_implication(shared, self.reads[task, source][number])
                    home = self.stays[target][0]
                    model.add(stay.address == home.address).only_enforce_if(shared)
                    model.add(stay.end == self.starts[task]).only_enforce_if(shared)
                    model.add(home.first == self.starts[task]).only_enforce_if(shared)
                    self._rest(task, source, target, stay, shared)
            model.add_at_most_one([lit for found in literals.values() for lit in found])
            for root, own in literals.items():
                for number, stay in enumerate(self.stays[root]):
                    condition = [self.reads[task, root][number], *(lit.negated() for lit in own)]
                    model.add(stay.end >= self._task_end(task)).only_enforce_if(condition)

    def _rest(self, task: int, source: int, target: int, stay: Stay, shared: Any) -> None:
        """What a smaller output leaves of its input stays occupied until the task ends."""
        rest = self._units(source) - self._units(target)
        if rest <= 0:
            return
        cycles = self.problem.tasks[task].cycles
        over_time = self.model.new_optional_interval_var(
            self.starts[task], cycles, self._task_end(task), shared, f"q{task}t"
        )
        base = stay.address + self._units(target)
        place = self.model.new_optional_interval_var(base, rest, base + rest, shared, f"q{task}a")
        tile = self.problem.graph.buffers[source].tile
        self.rectangles[tile].append((over_time, place, rest))

    def _engines(self) -> None:
        problem, model = self.problem, self.model
        machine = problem.graph.machine
        groups: dict[tuple[str, int], list[Any]] = {}
        transfers = list(self.transfers)
        for number, task in enumerate(problem.tasks):
            interval = model.new_interval_var(
                self.starts[number], task.cycles, self._task_end(number), f"t{number}"
            )
            if task.engine == DMA:
                transfers.append((interval, task.ports))
            else:
                groups.setdefault((task.engine, task.tile), []).append(interval)
        if transfers:
            model.add_cumulative(
                [t[0] for t in transfers], [t[1] for t in transfers], machine.dma_ports
            )
        for (engine, _), intervals in groups.items():
            count = machine.dpus if engine == DPU else machine.shaves
            model.add_cumulative(intervals, [1] * len(intervals), count)

    # --- Solving -----------------------------------------------------------------------------

    def solve(self, effort: float) -> Solution:
        from ortools.sat.python import cp_model

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = effort
        self.model.minimize(self.makespan)
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            bound = self.horizon + 1 if status == cp_model.INFEASIBLE else 0
            return Solution(None, status == cp_model.INFEASIBLE, bound)
        proven = status == cp_model.OPTIMAL
        bound = int(solver.best_objective_bound)
        plan = self._plan(solver)
        if not proven:
            return Solution(plan, False, bound)
        self.model.add(self.makespan == plan.makespan)
        for goal in (sum(self.spill_bytes), self._peak()):
            if isinstance(goal, int):
                continue
            self.model.minimize(goal)
            solver.parameters.max_deterministic_time = min(effort, _FURTHER_EFFORT)
            status = solver.solve(self.model)
            if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
                break
            plan = self._plan(solver)
            self.model.add(goal <= int(solver.objective_value))
        return Solution(plan, True, bound)

    def _peak(self) -> Any:
        peak = self.model.new_int_var(0, self.problem.graph.machine.cmx_bytes, "peak")
        for root, stays in enumerate(self.stays):
            for number, stay in enumerate(stays):
                top = stay.address * self.unit + self.problem.sizes[root]
                limit = self.model.add(peak >= top)
                if number:
                    limit.only_enforce_if(stay.present)
        return peak

    def _plan(self, solver: Any) -> Plan:
        problem = self.problem
        steps: list[Step] = []
        for number, task in enumerate(problem.tasks):
            start = solver.value(self.starts[number])
            addresses = {}
            for root in problem.read_roots[number]:
                chosen = [solver.boolean_value(lit) for lit in self.reads[number, root]].index(True)
                addresses[root] = solver.value(self.stays[root][chosen].address) * self.unit
            for root in problem.write_roots[number]:
                addresses[root] = solver.value(self.stays[root][0].address) * self.unit
            steps.append(Step(TASK, number, (), start, start + task.cycles, addresses))
        for root, stays in enumerate(self.stays):
            for stay in stays[1:]:
                if solver.boolean_value(stay.present):
                    start = solver.value(stay.first)
                    place = {root: solver.value(stay.address) * self.unit}
                    end = start + problem.reload_cycles[root]
                    steps.append(Step(RELOAD, root, (), start, end, place))
        for root, (written, start_variable) in self.writes.items():
            if solver.boolean_value(written):
                start = solver.value(start_variable)
                place = {root: solver.value(self.stays[root][0].address) * self.unit}
                end = start + problem.graph.buffers[root].spill_cycles
                steps.append(Step(WRITE, root, (), start, end, place))
        steps.sort(key=lambda step: (step.start, step.kind != TASK, step.index))
        self._give_units(steps)
        return Plan(steps, max((step.end for step in steps), default=0))

    def _give_units(self, steps: list[Step]) -> None:
        """Ports and DPUs: the first one that is idle when a step starts."""
        machine = self.problem.graph.machine
        free: dict[tuple[str, int], list[int]] = {}
        for step in steps:
            engine, tile, wide = DMA, 0, 1
            if step.kind == TASK:
                task = self.problem.tasks[step.index]
                engine, wide = task.engine, task.ports
                tile = 0 if engine == DMA else task.tile
            count = {DMA: machine.dma_ports, DPU: machine.dpus}.get(engine, machine.shaves)
            busy = free.setdefault((engine, tile), [0] * count)
            idle = [n for n, until in enumerate(busy) if until <= step.start][:wide]
            for unit in idle:
                busy[unit] = step.end
            step.units = tuple(idle)
