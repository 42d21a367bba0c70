"""The dependences of a loop body, within an iteration and from one iteration to the next.

An edge says: `later` of iteration i + turns issues at least `distance` ticks after `earlier` of
iteration i. Scalar instructions are left out: addresses are made wherever they are needed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

from tilewright.targets.atlas.codegen import _codegen
from tilewright.targets.atlas.codegen.graph import Node
from tilewright.targets.atlas.codegen.hazards import Distances
from tilewright.targets.atlas.codegen.list_schedule import Schedule
from tilewright.targets.atlas.codegen.loop_shifting import aged, moving
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Part, Range, Register
from tilewright.targets.atlas.isa import Kind

LATER = 1 << 10  # turn of the next iteration


@dataclass(eq=False, slots=True)
class Step:
    """One instruction of the body that is not scalar.

    before and after: (step, distance, turns). plain: its tick in a schedule of one iteration.
    """

    node: Node
    index: int
    plain: int
    busy: int  # ticks its unit cannot take another
    latency: int
    before: list[tuple[Step, int, int]] = field(default_factory=list)
    after: list[tuple[Step, int, int]] = field(default_factory=list)
    # Loads of tiles, and weights and waits: these belong just before what needs them.
    is_load: bool = False
    is_late: bool = False
    is_prefetch: bool = False  # a transfer for a later iteration, or the wait for it
    is_tied: bool = False  # such a transfer whose bytes the loop reads

    @property
    def unit(self) -> str:
        return self.node.unit

    @property
    def is_transfer(self) -> bool:
        return self.node.op.opcode.timing == "dma_transfer"


@dataclass
class LoopGraph:
    """The steps in the order of the plain schedule, and who touches which register."""

    code: Code
    distances: Distances
    steps: list[Step]
    touches: dict[Register, list[Step]]  # tensor registers and slots; in order
    work: int = 0  # ticks that may still be tried in search of a schedule
    body: _codegen.LoopBody | None = None  # the same as numbers, once it has been asked for

    def slots(self) -> list[Register]:
        return [r for r in self.touches if r.kind is not Kind.M]


def loop_graph(code: Code, plain: Schedule) -> LoopGraph:
    """The graph of a body whose one iteration has been scheduled."""
    return _Builder(code, plain).graph


class _Builder:
    def __init__(self, code: Code, plain: Schedule) -> None:
        self.code, self.profile = code, code.profile
        self.distances = Distances(code.profile)
        self.moved = moving(code)
        self.at: dict[Node, Step] = {}
        rows = [row for row in plain.dispatched if row[0].unit != "SCALAR"]
        rows.sort(key=lambda row: (row[1], row[0].index))
        for index, (node, tick, _) in enumerate(rows):
            self.at[node] = self._step(node, index, tick)
        self.steps = list(self.at.values())
        for step in self.steps:
            for later, distance in step.node.after:
                if later.unit != "SCALAR":
                    self._edge(step, self.at[later], distance, 0)
        touches: dict[Register, list[Step]] = defaultdict(list)
        for step in sorted(self.steps, key=lambda s: (s.node.op.order, s.index)):
            for register in dict.fromkeys(r for r, *_ in step.node.rows if r.kind is not Kind.X):
                touches[register].append(step)
        self.graph = LoopGraph(code, self.distances, self.steps, dict(touches))
        self._registers()
        self._memory()
        self._sites()
        self._prefetches()

    def _step(self, node: Node, index: int, tick: int) -> Step:
        op, timing = node.op, self.profile.timing_of(node.op.opcode)
        if op.opcode.timing == "dma_transfer":
            ticks = self.profile.dma.ticks(op.bytes)
            return Step(node, index, tick, max(ticks, TUNING.transfer_addresses), ticks)
        step = Step(node, index, tick, timing.interval, timing.latency)
        made = [r for r, _, _, _, writes in node.rows if writes and not r.carried]
        readers = (row for later, _ in node.after for row in later.rows)
        used = any(row[0] in made and row[3] for row in readers)
        step.is_load = op.opcode.memory == "tensor load" and used
        is_push = used and bool(made) and made[0].kind is Kind.W
        step.is_late = is_push or (op.site is not None and bool(node.after))
        return step

    def _edge(self, a: Step, b: Step, distance: int, turns: int) -> None:
        a.after.append((b, distance, turns))
        b.before.append((a, distance, turns))

    def _registers(self) -> None:
        """Values carried on, and registers that the next iteration writes again."""
        rule = self.distances.shared_register
        for register, steps in self.graph.touches.items():
            if register.kind is not Kind.M:
                continue
            if not register.carried:
                first = steps[0]
                for step in steps:
                    self._edge(step, first, step.latency, 1)
                continue
            writers = [s for s in steps if _writes(s, register)]
            for a in steps:
                for b in steps if a in writers else writers:
                    self._edge(a, b, rule(a.node.op.opcode, b.node.op.opcode), 1)

    def _memory(self) -> None:
        """Bytes that two iterations touch, at least one of them writing or transferring."""
        now, then = [], []
        for step in self.steps:
            if step.node.op.ranges:
                ranges = aged(step.node.op, 0, self.moved)
                # A body may hold several turns of the loop; the next iteration is after all.
                now.append((step, ranges))
                then.append(tuple(replace(r, turn=LATER) for r in ranges))
        exclude = self.distances.loads_exclude
        active = [exclude or _is_active(step) for step, _ in now]
        for i, (a, ranges) in enumerate(now):
            for j, others in enumerate(then):
                b = now[j][0]
                if (active[i] or active[j]) and (found := _meet(a, b, ranges, others, exclude)):
                    self._memory_edge(a, b, found)

    def _memory_edge(self, a: Step, b: Step, relation: str) -> None:
        op = a.node.op
        if op.site is not None or (a.is_transfer and relation == "dram"):
            self._edge(a, b, 1, 1)
        elif a.is_transfer:
            assert a.node.wait is not None
            self._edge(self.at[a.node.wait], b, 1, 1)
        else:
            count = b.node.op.bytes if b.is_transfer else 0
            rule = self.distances.shared_vmem
            self._edge(a, b, rule(op.opcode, b.node.op.opcode, count), 1)

    def _sites(self) -> None:
        """A repeated transfer is waited for before its channel is used again."""
        sites: dict[object, list[Step]] = defaultdict(list)
        for step in sorted(self.steps, key=lambda s: s.node.op.order):
            if step.node.op.site is not None:
                sites[step.node.op.site].append(step)
        for steps in sites.values():
            last = steps[-1]
            self._edge(last, steps[0], last.latency + 1 if last.is_transfer else 1, 1)

    def _prefetches(self) -> None:
        for step in self.steps:
            if step.is_transfer and step.node.op.site is None and self._is_prefetch(step):
                assert step.node.wait is not None
                step.is_prefetch = self.at[step.node.wait].is_prefetch = True
                step.is_tied = any(b.is_load for b, *_ in (*step.before, *step.after))

    def _is_prefetch(self, step: Step) -> bool:
        """Whether a transfer loads what nothing of the same iteration needs."""
        wait = step.node.wait
        assert wait is not None
        later = [node for node, _ in (*step.node.after, *wait.after) if node.unit != "SCALAR"]
        return later == [wait] and step.node.op.opcode.effect == "dma.load"


def can_pack(graph: LoopGraph) -> bool:
    """Whether matrix units work on nothing that the vector unit makes in the same iteration."""
    made: set[Step] = set()
    for step in graph.steps:
        if step.unit == "VPU" or any(b in made for b, _, turns in step.before if not turns):
            made.add(step)
    matrix = [step for step in graph.steps if step.unit.startswith("MXU")]
    return bool(matrix) and not any(step in made for step in matrix)


def _writes(step: Step, register: Register) -> bool:
    return any(r is register and writes for r, _, _, _, writes in step.node.rows)


def _is_active(step: Step) -> bool:
    """Whether an access conflicts with plain reads of the same bytes."""
    return step.node.op.opcode.has_channel or any(r.write for r in step.node.op.ranges)


def _meet(
    a: Step, b: Step, ranges: tuple[Range, ...], others: tuple[Range, ...], loads_exclude: bool
) -> str | None:
    """Whether two accesses overlap, in "vmem" or "dram"."""
    found = None
    channels = a.node.op.opcode.has_channel, b.node.op.opcode.has_channel
    for x in ranges:
        for y in others:
            outside = x.space.startswith("dram")
            held = not outside and (loads_exclude or any(channels))
            if x.overlaps(y) and (x.write or y.write or held):
                if not outside:
                    return "vmem"
                found = "dram" if all(channels) else found
    return found


def doubled(code: Code) -> Code:
    """Two iterations of a body as one.

    Values have registers of their own in each, so that they may live longer than an interval
    of one iteration.
    """
    result = Code(code.profile)
    moved = moving(code)
    for turn in (0, 1):
        own: dict[Register, Register] = {}

        def renamed(part: Part | int, own: dict[Register, Register] = own) -> Part | int:
            if isinstance(part, int) or part.register.carried or part.register.is_constant:
                return part
            if part.register not in own:
                own[part.register] = replace(part.register)
            return Part(own[part.register], part.index)

        for op in code.ops:
            operands = tuple(map(renamed, op.operands))
            ranges, order = aged(op, turn, moved), len(result.ops)
            result.ops.append(replace(op, operands=operands, ranges=ranges, order=order))
    return result
