"""Matrix units packed: their instructions one right after the other, loads just before them.

For loops that the matrix units bound. A unit is done with one iteration before it starts the
next, so slots are given out in the order of its instructions.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tilewright.targets.atlas.codegen.loop_graph import LoopGraph, Step
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.modulo_place import Placement


def can_pack(graph: LoopGraph) -> bool:
    """Whether matrix units work on nothing that the vector unit makes in the same iteration."""
    made: set[Step] = set()
    for step in graph.steps:
        if step.unit == "VPU" or any(b in made for b, _, turns in step.before if not turns):
            made.add(step)
    matrix = [step for step in graph.steps if step.unit.startswith("MXU")]
    return bool(matrix) and not any(step in made for step in matrix)


def pack_products(placement: Placement) -> bool:
    """Place what the matrix units do; False where it takes longer than the interval."""
    return _Products(placement).run()


def place_loads(placement: Placement) -> bool:
    """Place the tiles that matrix units read; False where that cannot be.

    Loads go from the one needed last to the one needed first, each as late as it can be."""
    at = placement.at
    loads = [s for s in placement.order if s.is_load and s not in at]
    for step in sorted(loads, key=lambda s: -placement.latest(s, 0)):
        latest = placement.latest(step, 0)
        tick = placement.last(step, latest, latest - placement.interval)
        if tick is None:
            return False
        placement.reserve(step, tick)
    return True


class _Products:
    """The matrix units in order of time: of the next few steps of a unit the one that can start
    first."""

    def __init__(self, placement: Placement) -> None:
        self.at = placement
        self.queues: dict[str, list[Step]] = {}
        for step in placement.order:
            if step.unit.startswith("MXU"):
                self.queues.setdefault(step.unit, []).append(step)
        self.begun: dict[str, int] = {}
        self.done = dict.fromkeys(self.queues, 0)
        self.left = Counter(r for q in self.queues.values() for step in q for r in _slots(step))
        self.free: dict[tuple[Kind, int | None], list[int]] = {}

    def run(self) -> bool:
        while any(self.queues.values()):
            for unit in sorted(self.queues, key=lambda u: self.done[u]):
                found = [
                    (self._tick(s), k) for k, s in enumerate(self.queues[unit][: TUNING.pack_ahead])
                ]
                ready = [(tick, k) for tick, k in found if tick is not None]
                if ready:
                    tick, k = min(ready)
                    self._place(self.queues[unit].pop(k), tick)
                    break
            else:
                return False
            if self.done[unit] - self.begun[unit] > self.at.interval:
                return False
        return True

    def _tick(self, step: Step) -> int | None:
        """When a step can start; None as long as others come first."""
        floor = _floor(self.at, step)
        if floor is None or not all(self._open(register) for register in _slots(step)):
            return None
        tick = max(floor, self.done[step.unit])
        while True:
            self.at.graph.work -= 1
            later = self.at.read_alone(step, tick)
            if later == tick and self.at.issue.is_free(tick):
                return tick
            tick = max(later, tick + 1)

    def _open(self, register: Register) -> bool:
        key = register.kind, register.unit
        free = self.free.setdefault(key, list(range(REGISTER_COUNT[register.kind])))
        return register in self.at.slot or bool(free)

    def _place(self, step: Step, tick: int) -> None:
        self.begun.setdefault(step.unit, tick)
        self.done[step.unit] = tick + step.busy
        self.at.reserve(step, tick)
        for register in _slots(step):
            free = self.free[register.kind, register.unit]
            if register not in self.at.slot:
                self.at.slot[register] = free.pop(0)
            self.left[register] -= 1
            if not self.left[register]:
                free.append(self.at.slot[register])


def _floor(placement: Placement, step: Step) -> int | None:
    """The first tick that what comes before a step allows, also through steps of other units
    that have no tick yet; None where a matrix unit's step has none."""
    ticks = [placement.earliest(step)]
    for before, distance, turns in step.before:
        if turns or before in placement.at:
            continue
        if before.unit.startswith("MXU"):
            return None
        floor = _floor(placement, before)
        if floor is None:
            return None
        ticks.append(floor + distance)
    return max(ticks)


def _slots(step: Step) -> list[Register]:
    found = dict.fromkeys(r for r, *_ in step.node.rows)
    return [r for r in found if r.kind in (Kind.W, Kind.ACC)]
