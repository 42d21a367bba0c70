"""Exact scheduling of short straight code with a constraint solver.

The model has the machine's rules for issue slots, units, the DMA engine, waits, shared
registers, slots and channels. Of the scalar instructions that make constants it knows only that
an instruction comes after its own. Its bound is therefore a true lower bound for this list of
instructions, and its order is a plan that the list scheduler then follows with all details.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from tilewright.targets.atlas.codegen.constants import load_constant
from tilewright.targets.atlas.codegen.graph import Node, build
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

TENSOR_REGISTERS = REGISTER_COUNT[Kind.M]
SLOTS = 2
CHANNELS = 8


@dataclass(frozen=True)
class Exact:
    """What the solver found.

    ticks: a dispatch tick per node of the graph. finish: when the last operation completes
    under that plan. bound: no schedule of these instructions finishes earlier.
    """

    ticks: list[int]
    finish: int
    bound: int

    @property
    def proven(self) -> bool:
        return self.finish == self.bound


def solve(code: Code, finish: int, hint: list[int]) -> Exact | None:
    """Look for a schedule that finishes before `finish`; None where the code is too long or
    repeats transfers."""
    if any(op.site is not None for op in code.ops):
        return None
    nodes = build(code)
    if not 0 < len(nodes) <= TUNING.solver_instructions:
        return None
    return _Model(code, nodes, finish, hint).solve(TUNING.solver_work)


def _making(node: Node) -> int:
    """Instructions that make the constants of a node, at least."""
    held = {p.register for p in node.op.operands if isinstance(p, Part) and p.register.is_constant}
    x = {r.constant or 0 for r in held if r.kind is Kind.X} - {0}
    return sum(len(load_constant(1, value)) for value in x) + sum(r.kind is Kind.E for r in held)


class _Model:
    def __init__(self, code: Code, nodes: list[Node], finish: int, hint: list[int]) -> None:
        from ortools.sat.python import cp_model  # slow to import

        self.solver = cp_model
        self.profile, self.nodes = code.profile, nodes
        self.distances = Distances(code.profile)
        self.horizon = finish
        self.model = cp_model.CpModel()
        self.start = [self.model.new_int_var(0, finish, f"t{n.index}") for n in nodes]
        self.done = [self._completion(n) for n in nodes]
        self.total = self.model.new_int_var(0, finish, "finish")
        for node in nodes:
            self.model.add(self.total >= self.done[node.index])
            self.model.add_hint(self.start[node.index], hint[node.index])
            self.model.add(self.start[node.index] >= _making(node))
        self._dependences()
        self._issue_and_units()
        self._engine()
        self._shared_readers()
        self._capacities()
        self.model.minimize(self.total)

    def _completion(self, node: Node) -> Any:
        """When the node's operation completes; decode counts from its own tick."""
        if node.unit == "DMA":
            return self.model.new_int_var(0, self.horizon, f"c{node.index}")
        latency = 0 if node.unit == "DECODE" else self.distances.latency(node.op.opcode)
        done = self.model.new_int_var(0, self.horizon, f"c{node.index}")
        self.model.add(done == self.start[node.index] + latency)
        return done

    def _dependences(self) -> None:
        for node in self.nodes:
            for later, distance in node.after:
                if later.transfer is node:
                    self.model.add(self.start[later.index] >= self.done[node.index] + 1)
                else:
                    self.model.add(self.start[later.index] >= self.start[node.index] + distance)

    def _issue_and_units(self) -> None:
        slots = []
        units: dict[str, list] = defaultdict(list)
        for node in self.nodes:
            start = self.start[node.index]
            slots.append(self.model.new_fixed_size_interval_var(start, 1, f"i{node.index}"))
            if node.unit not in ("SCALAR", "DECODE", "DMA"):
                busy = self.distances.interval(node.op.opcode)
                name = f"u{node.index}"
                units[node.unit].append(self.model.new_fixed_size_interval_var(start, busy, name))
        self.model.add_no_overlap(slots)
        for intervals in units.values():
            self.model.add_no_overlap(intervals)

    def _engine(self) -> None:
        """One transfer at a time, in the order they are issued."""
        intervals, transfers = [], [n for n in self.nodes if n.unit == "DMA"]
        begins = {}
        for node in transfers:
            ticks = self.profile.dma.ticks(node.op.bytes)
            begin = self.model.new_int_var(0, self.horizon, f"s{node.index}")
            self.model.add(begin >= self.start[node.index] + 1)
            self.model.add(self.done[node.index] == begin + ticks - 1)
            begins[node.index] = begin
            intervals.append(self.model.new_fixed_size_interval_var(begin, ticks, f"d{node.index}"))
        self.model.add_no_overlap(intervals)
        for i, a in enumerate(transfers):
            for b in transfers[i + 1 :]:
                first = self.model.new_bool_var(f"o{a.index},{b.index}")
                for x, y, holds in ((a, b, first), (b, a, first.negated())):
                    before = self.start[x.index] + 1 <= self.start[y.index]
                    self.model.add(before).only_enforce_if(holds)
                    follows = begins[x.index] + 1 <= begins[y.index]
                    self.model.add(follows).only_enforce_if(holds)

    def _shared_readers(self) -> None:
        """Two reads of a register from different units may not overlap where units hold it."""
        readers: dict[tuple[Register, int], list[Node]] = defaultdict(list)
        for node in self.nodes:
            for register, first, count, _, writes in node.rows:
                if register.kind is Kind.M and not writes:
                    for part in range(first, first + count):
                        readers[register, part].append(node)
        pairs = {
            (a.index, b.index): (a, b)
            for group in readers.values()
            for i, a in enumerate(group)
            for b in group[i + 1 :]
            if a.unit != b.unit
        }
        for a, b in pairs.values():
            gap, back = (
                self.distances.read_read(x.op.opcode, y.op.opcode) for x, y in ((a, b), (b, a))
            )
            if gap == 0 and back == 0:
                continue
            first = self.model.new_bool_var(f"r{a.index},{b.index}")
            later = self.start[b.index] >= self.start[a.index] + gap
            earlier = self.start[a.index] >= self.start[b.index] + back
            self.model.add(later).only_enforce_if(first)
            self.model.add(earlier).only_enforce_if(first.negated())

    def _capacities(self) -> None:
        """Registers, slots and channels: from the first access of a value to its last."""
        uses: dict[Register, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for register in {r for r, *_ in node.rows if r.kind is not Kind.X}:
                uses[register].append(node)
        groups: dict[object, tuple[int, list, list[int]]] = {}
        for register, nodes in uses.items():
            key = Kind.M if register.kind is Kind.M else (register.kind, register.unit)
            limit = TENSOR_REGISTERS if register.kind is Kind.M else SLOTS
            _, intervals, demands = groups.setdefault(key, (limit, [], []))
            intervals.append(self._life([n.index for n in nodes]))
            demands.append(register.size)
        for limit, intervals, demands in groups.values():
            if sum(demands) > limit:
                self.model.add_cumulative(intervals, demands, limit)
        waits = [n for n in self.nodes if n.transfer is not None]
        if len(waits) > CHANNELS:
            flights = [self._span(n.transfer.index, n.index) for n in waits if n.transfer]
            self.model.add_cumulative(flights, [1] * len(flights), CHANNELS)

    def _life(self, indices: list[int]):
        first = self.model.new_int_var(0, self.horizon, "")
        last = self.model.new_int_var(0, self.horizon, "")
        self.model.add_min_equality(first, [self.start[i] for i in indices])
        self.model.add_max_equality(last, [self.done[i] for i in indices])
        size = self.model.new_int_var(0, self.horizon, "")
        return self.model.new_interval_var(first, size, last, "")

    def _span(self, transfer: int, wait: int):
        size = self.model.new_int_var(0, self.horizon, "")
        return self.model.new_interval_var(self.start[transfer], size, self.start[wait], "")

    def solve(self, work: float) -> Exact | None:
        solver = self.solver.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        solver.parameters.max_deterministic_time = work
        status = solver.solve(self.model)
        bound = int(solver.best_objective_bound)
        if status not in (self.solver.OPTIMAL, self.solver.FEASIBLE):
            return None
        ticks = [solver.value(t) for t in self.start]
        return Exact(ticks, solver.value(self.total), bound)
