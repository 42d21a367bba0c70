"""Modulo placement of a body small enough to check by counting."""

from __future__ import annotations

from itertools import combinations

import pytest

from tilewright.targets.atlas.codegen.list_schedule import schedule
from tilewright.targets.atlas.codegen.loop_graph import loop_graph
from tilewright.targets.atlas.codegen.loop_shifting import lower_bound
from tilewright.targets.atlas.codegen.modulo_place import Placement, Way
from tilewright.targets.atlas.codegen.modulo_reservation_table import overlaps
from tilewright.targets.atlas.codegen.routine import Routine, _Compiler
from tilewright.targets.atlas.codegen.virtual import Code
from tilewright.targets.atlas.profile import Profile, load_profile


def body(profile: Profile, additions: int) -> Code:
    """Load two tiles, add them several times over, store the sum."""
    code = Code(profile)
    a, b, total = code.tile(), code.tile(), code.tile()
    for tile, start in ((a, 0), (b, 2048)):
        for part in range(2):
            code.vload(tile.part(part), start + 1024 * part)
    for number in range(additions):
        code.emit("vadd.bf16", total, total if number else a, b)
    for part in range(2):
        code.vstore(total.part(part), 4096 + 1024 * part)
    return code


def placed(profile: Profile, code: Code, interval: int) -> Placement | None:
    routine = Routine(profile, [code])
    compiler = _Compiler(routine, None, False)
    compiler._enter(code, {})
    plain = schedule(code, compiler._setting(code, entry=True))
    graph = loop_graph(code, plain)
    graph.work = 1 << 20
    placement = Placement(graph, interval, Way(0, False))
    return placement if placement.run() else None


@pytest.mark.parametrize("name", ["atlas-v0", "atlas-v1"])
def test_units_are_never_taken_twice_in_an_interval(name: str) -> None:
    profile = load_profile(name)
    code = body(profile, 3)
    bound = lower_bound(code).ticks
    placement = placed(profile, code, 2 * bound)
    assert placement is not None and set(placement.at) == set(placement.graph.steps)
    for one, other in combinations(placement.graph.steps, 2):
        if one.unit == other.unit != "DECODE":
            first, second = ((placement.at[s], placement.at[s] + s.busy) for s in (one, other))
            assert not overlaps(first, second, placement.interval)
    issued = [placement.at[s] % placement.interval for s in placement.graph.steps]
    assert len(issued) == len(set(issued))  # decode issues one instruction in a cycle


def test_an_interval_below_the_busiest_unit_is_impossible() -> None:
    """Three additions on one unit take three times its time (ResMII)."""
    profile = load_profile("atlas-v1")
    code = body(profile, 3)
    addition = profile.timing_of(code.ops[4].opcode).interval
    assert lower_bound(code).ticks >= 3 * addition
    assert placed(profile, code, 3 * addition - 1) is None
