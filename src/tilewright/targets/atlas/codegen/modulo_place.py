"""Placing the steps of a loop body at ticks so that a new iteration starts every interval.

Steps are placed in the order of the plain schedule, each at the first tick that its
predecessors, its unit, its registers and its slot allow, whatever iteration the neighbours in
time belong to. Weights go just before their first product, as late as the unit has room; loads
do too where they get a lead, else they keep their place in the order. The search itself is
native/atlas_codegen/modulo_place.cpp.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from tilewright.targets.atlas.codegen import _codegen
from tilewright.targets.atlas.codegen.loop_graph import LoopGraph, Step
from tilewright.targets.atlas.codegen.modulo_reservation_table import IssueReservations
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import Kind

# Flags of a step, as in native/atlas_codegen.
_DECODES, _MATRIX, _TRANSFER, _LOAD, _LATE, _PREFETCH, _TIED = (1 << k for k in range(7))


@dataclass(frozen=True)
class Way:
    """How steps are placed.

    lead: ticks loads may come ahead of their reader (0: in the order of the plain schedule).
    aligned: idle ticks of busy units come in useful lengths. packed: matrix units first, one
    instruction right after the other, everything in program order. early: transfers for the next
    iteration of the loop around before all others.
    """

    lead: int
    aligned: bool
    packed: bool = False
    early: bool = False


class Placement:
    """Where each step of the body is, in ticks from the start of its iteration."""

    def __init__(
        self,
        graph: LoopGraph,
        interval: int,
        way: Way,
        usual: dict[Register, int] | None = None,
    ) -> None:
        self.graph, self.interval, self.way = graph, interval, way
        self.usual = usual or {}  # how long slots are taken; as in the plain schedule if empty
        self.issue = IssueReservations(interval)
        self.at: dict[Step, int] = {}
        self.slot: dict[Register, int] = {}
        self.longer = False

    def run(self) -> bool:
        """Place everything; False where that cannot be. Then `usual` may have become `longer`,
        for another attempt."""
        registers = self.graph.slots()
        limits = (
            TUNING.tight_share,
            TUNING.slot_growth,
            TUNING.slot_patience,
            TUNING.weight_lead,
            TUNING.step_tries,
            TUNING.pack_ahead,
        )
        usual = [self.usual[r] for r in registers] if self.usual else []
        done, self.longer, at, slots, usual, self.graph.work = _body(self.graph).place(
            self.interval, astuple(self.way), limits, usual, self.graph.work
        )
        self.at = {self.graph.steps[k]: tick for k, tick in at}
        for tick in self.at.values():
            self.issue.take(tick)
        self.slot = {r: s for r, s in zip(registers, slots, strict=True) if s >= 0}
        self.usual = dict(zip(registers, usual, strict=True))
        return done


def _body(graph: LoopGraph) -> _codegen.LoopBody:
    """The graph as numbers, for the native search; made once."""
    if graph.body is None:
        units: dict[str, int] = {}
        queues: dict[tuple[Kind, int | None], int] = {}
        parts: dict[tuple[Register, int], int] = {}
        registers = graph.slots()
        slots = {register: k for k, register in enumerate(registers)}
        graph.body = _codegen.LoopBody(
            [
                (
                    units.setdefault(s.unit, len(units)),
                    s.node.op.order,
                    s.plain,
                    s.busy,
                    s.latency,
                    graph.distances.place(s.node.op.opcode),
                    _flags(s),
                )
                for s in graph.steps
            ],
            [[(b.index, distance, turns) for b, distance, turns in s.before] for s in graph.steps],
            [[(a.index, distance, turns) for a, distance, turns in s.after] for s in graph.steps],
            [
                [
                    parts.setdefault((register, part), len(parts))
                    for register, first, count, _, writes in s.node.rows
                    if register.kind is Kind.M and not writes
                    for part in range(first, first + count)
                ]
                for s in graph.steps
            ],
            [
                [slots[r] for r in dict.fromkeys(r for r, *_ in s.node.rows) if r in slots]
                for s in graph.steps
            ],
            [
                (
                    queues.setdefault((register.kind, register.unit), len(queues)),
                    [s.index for s in graph.touches[register]],
                )
                for register in registers
            ],
            len(parts),
            graph.distances.holds,
        )
    return graph.body


def _flags(step: Step) -> int:
    return (
        _DECODES * (step.unit == "DECODE")
        + _MATRIX * step.unit.startswith("MXU")
        + _TRANSFER * step.is_transfer
        + _LOAD * step.is_load
        + _LATE * step.is_late
        + _PREFETCH * step.is_prefetch
        + _TIED * step.is_tied
    )
