"""Matrix units packed: their instructions one right after the other, loads just before them.

For loops that the matrix units bound. Instructions keep the order they have in the plain
schedule, and a unit is done with one iteration before it starts the next, so slots change hands
as they do there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tilewright.targets.atlas.codegen.loop_graph import Step
from tilewright.targets.atlas.codegen.virtual import Register
from tilewright.targets.atlas.isa import REGISTER_COUNT, Kind

if TYPE_CHECKING:
    from tilewright.targets.atlas.codegen.modulo_place import Placement


def pack(placement: Placement) -> bool:
    """Place what the matrix units do, and the tiles they read; False where that cannot be."""
    matrix = [step for step in placement.graph.steps if step.unit.startswith("MXU")]
    return _place_products(placement, matrix) and _place_loads(placement)


def _place_products(placement: Placement, steps: list[Step]) -> bool:
    begun: dict[str, int] = {}
    done: dict[str, int] = {}
    floors: dict[Step, int] = {}
    slots = _Slots(placement, steps)
    for step in steps:
        tick = max(_floor(placement, step, floors), done.get(step.unit, 0))
        while True:
            placement.graph.work -= 1
            later = placement.read_alone(step, tick)
            if later == tick and placement.issue.is_free(tick):
                break
            tick = max(later, tick + 1)
        begun.setdefault(step.unit, tick)
        done[step.unit] = tick + step.busy
        if done[step.unit] - begun[step.unit] > placement.interval or not slots.touch(step):
            return False
        placement.reserve(step, tick)
    return True


def _floor(placement: Placement, step: Step, floors: dict[Step, int]) -> int:
    """The first tick that what is placed before a step allows, also through other steps."""
    if step not in floors:
        ticks = [placement.earliest(step)]
        for before, distance, turns in step.before:
            if not turns and before not in placement.at:
                ticks.append(_floor(placement, before, floors) + distance)
        floors[step] = max(ticks)
    return floors[step]


def _place_loads(placement: Placement) -> bool:
    """Loads from the one needed last to the one needed first, each as late as it can be."""
    at = placement.at
    loads = [s for s in placement.graph.steps if s.is_load and any(a in at for a, *_ in s.after)]
    for step in sorted(loads, key=lambda s: -placement.latest(s, 0)):
        latest = placement.latest(step, 0)
        tick = placement.last(step, latest, latest - placement.interval)
        if tick is None:
            return False
        placement.reserve(step, tick)
    return True


class _Slots:
    """Weight slots and accumulators, given out in the order of the steps."""

    def __init__(self, placement: Placement, steps: list[Step]) -> None:
        self.given = placement.slot
        self.left = Counter(r for step in steps for r in _touched(step))
        self.free: dict[tuple[Kind, int | None], list[int]] = {}

    def touch(self, step: Step) -> bool:
        for register in _touched(step):
            key = register.kind, register.unit
            free = self.free.setdefault(key, list(range(REGISTER_COUNT[register.kind])))
            if register not in self.given:
                if not free:
                    return False
                self.given[register] = free.pop(0)
            self.left[register] -= 1
            if not self.left[register]:
                free.append(self.given[register])
        return True


def _touched(step: Step) -> list[Register]:
    found = dict.fromkeys(r for r, *_ in step.node.rows)
    return [r for r in found if r.kind in (Kind.W, Kind.ACC)]
