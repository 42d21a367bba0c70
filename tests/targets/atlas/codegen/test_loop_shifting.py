"""Overlapped loops give what plain loops give, keep every rule, and are faster where they can be."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from random_loops import ANY_GAIN, OUT, STATE, TILE, random_loop

from tilewright.targets.atlas.codegen import loop_shifting, shifted_loop, straight_loop
from tilewright.targets.atlas.codegen.graph import build
from tilewright.targets.atlas.codegen.initiation_interval import initiation_interval
from tilewright.targets.atlas.codegen.list_schedule import Setting, schedule
from tilewright.targets.atlas.codegen.loop_graph import can_pack, loop_graph
from tilewright.targets.atlas.codegen.loop_shifting import lower_bound
from tilewright.targets.atlas.codegen.modulo_loop import is_sound
from tilewright.targets.atlas.codegen.modulo_place import Placement, Way
from tilewright.targets.atlas.codegen.routine import Loop, Routine
from tilewright.targets.atlas.codegen.tiles import Tile, Tiles
from tilewright.targets.atlas.codegen.tuning import TUNING
from tilewright.targets.atlas.codegen.virtual import Code, Place
from tilewright.targets.atlas.isa import Kind
from tilewright.targets.atlas.lint import lint
from tilewright.targets.atlas.machines import make_machine
from tilewright.targets.atlas.policy import Policy
from tilewright.targets.atlas.profile import load_profile

POLICIES = ("", "poison,dma=late", "poison,dma=early")


def results(routine: Routine, policy: str, **options: object) -> tuple[bytes, int]:
    """Output bytes and cycles; the program must be clean."""
    program = routine.compile(**options)  # type: ignore[arg-type]
    serious = [f for f in lint(program, routine.profile).findings if f.severity != "note"]
    assert not serious, serious[0]
    machine = make_machine(routine.profile, Policy.parse(policy), None)
    machine.load(program)
    codes = np.random.default_rng(1).normal(size=OUT // 2).astype(np.float32)
    machine.write("dram", 0, (codes.view(np.uint32) >> 16).astype("<u2").tobytes())
    machine.write("dram", OUT, bytes(STATE - OUT + TILE))
    outcome = machine.run()
    assert outcome.fault is None, outcome.fault
    return machine.read("dram", OUT, STATE - OUT + TILE), outcome.cycles


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@settings(max_examples=8, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), trips=st.integers(3, 6), which=st.integers(0, 40))
@example(seed=126, trips=3, which=126 * 7)  # a store in a delay slot before a transfer of its bytes
def test_shifted_loops_give_what_plain_loops_give(
    profile: str, seed: int, trips: int, which: int
) -> None:
    plain, _ = results(random_loop(profile, seed, trips), "", pipelining=False)
    shifts = loop_shifting.shifts

    def one_shift(body, schedule, free):
        found = list(shifts(body, schedule, free))
        yield from found[which % len(found) :][:1] if found else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shifted_loop, "shifts", one_shift)
        patch.setattr(straight_loop, "overlapped", lambda *_: None)
        for policy in POLICIES:
            routine = random_loop(profile, seed, trips)
            assert results(routine, policy, gain=ANY_GAIN)[0] == plain


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("together", [1, 2])
@settings(max_examples=6, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), trips=st.integers(6, 9))
def test_overlapped_loops_give_what_plain_loops_give(
    profile: str, together: int, seed: int, trips: int
) -> None:
    plain, _ = results(random_loop(profile, seed, trips), "", pipelining=False)
    with pytest.MonkeyPatch.context() as patch:
        # Two iterations as one body always, or never.
        patch.setattr(TUNING, "enough", 0 if together == 2 else ANY_GAIN)
        patch.setattr(straight_loop, "best_shift", lambda *_: None)
        for policy in POLICIES:
            routine = random_loop(profile, seed, trips)
            assert results(routine, policy, gain=ANY_GAIN)[0] == plain


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_both_simulators_agree_on_overlapped_loops(profile: str) -> None:
    routine = random_loop(profile, 5, 6)
    program = routine.compile(gain=ANY_GAIN)
    assert routine.intervals[0].stages > 1
    machines = [make_machine(routine.profile, Policy(), name) for name in ("python", "native")]
    codes = np.random.default_rng(2).integers(0, 255, OUT, np.uint8) & 0xBF
    for machine in machines:
        machine.load(program)
        machine.write("dram", 0, codes.tobytes())
    slow, fast = (machine.run() for machine in machines)
    assert slow.fault is None and slow.cycles == fast.cycles
    first, second = (m.read("dram", OUT, STATE - OUT + TILE) for m in machines)
    assert first == second


def chain_loop(profile: str, trips: int = 12, steps: int = 14) -> Routine:
    """A long chain on one tile per iteration: the vector unit waits for matrix and memory."""
    routine = Routine(load_profile(profile))
    source, target = routine.pointer(0), routine.pointer(OUT)
    body = routine.code()
    tiles = Tiles(body)
    body.dma_load(0, Place(source, "dram in"), TILE)
    value = tiles.load(0)
    for _ in range(steps):
        acc = tiles.accumulator(1)
        tiles.multiply(acc, tiles.pack(value), tiles.weight(tiles.pack(value), 1), True)
        value = tiles.unary("tanh", tiles.pop(acc))
    tiles.store(value, 4096)
    body.dma_store(Place(target, "dram out"), 4096, TILE)
    body.advance(source, TILE)
    body.advance(target, TILE)
    routine.items.append(Loop(trips, [body]))
    return routine


def test_a_chain_overlaps_with_the_next_iteration() -> None:
    plain, slow = results(chain_loop("atlas-v1"), "", pipelining=False)
    routine = chain_loop("atlas-v1")
    overlapped, fast = results(routine, "poison,dma=late")
    (interval,) = routine.intervals
    assert overlapped == plain
    assert interval.stages >= 2
    assert interval.bound <= interval.achieved < 0.7 * interval.plain
    assert fast < 0.8 * slow


def reaching_loop(profile: str, reach: str, trips: int = 12) -> Routine:
    """A chain at whose end something early is needed: the tile it started from, a state that
    changes at the start, or a sum that keeps its accumulator and its weights."""
    routine = Routine(load_profile(profile))
    source, target = routine.pointer(0), routine.pointer(OUT)
    state = Tile(routine.carry(2), "bf16")
    before = routine.code()
    Tiles(before).fill(0.0, into=state)
    body = routine.code()
    tiles = Tiles(body)
    body.dma_load(0, Place(source, "dram in"), TILE)
    first = value = tiles.load(0)
    if reach == "state":
        tiles.add(state, first, into=state)
    total, ones = tiles.accumulator(0), tiles.weight(tiles.pack(first), 0)
    tiles.multiply(total, tiles.pack(first), ones, True)
    for step in range(10):
        acc = tiles.accumulator(step % 2)
        weight = tiles.weight(tiles.pack(value), step % 2)
        tiles.multiply(acc, tiles.pack(value), weight, True)
        value = tiles.unary("tanh", tiles.pop(acc))
    if reach == "sum":
        tiles.multiply(total, tiles.pack(value), ones, False)
    late = {"tile": first, "state": state}.get(reach)
    value = tiles.add(value, late or tiles.pop(total))
    tiles.store(value, 4096)
    body.dma_store(Place(target, "dram out"), 4096, TILE)
    body.advance(source, TILE)
    body.advance(target, TILE)
    routine.items += [before, Loop(trips, [body])]
    return routine


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("reach", ["tile", "state", "sum"])
@pytest.mark.parametrize("enough", [0, ANY_GAIN])
def test_what_is_needed_late_is_still_there(
    profile: str, reach: str, enough: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = results(reaching_loop(profile, reach), "", pipelining=False)
    monkeypatch.setattr(TUNING, "enough", enough)
    for policy in POLICIES:
        assert results(reaching_loop(profile, reach), policy, gain=ANY_GAIN)[0] == plain


def products_loop(seed: int, trips: int = 8) -> Routine:
    """Sums of products of tiles in VMEM on both units, some taken out and put back, and what
    follows on the vector unit; nothing holds the matrix units up."""
    choose = random.Random(seed)
    routine = Routine(load_profile("atlas-v1"))
    target, held = routine.pointer(OUT), 16
    before = routine.code()
    before.dma_load(0, 0, held * 1024)
    body = routine.code()
    tiles = Tiles(body)
    rows = [tiles.load(1024 * k, "fp8") for k in range(4)]
    sums: list[Tile] = []
    for unit, steps in ((1, choose.randint(15, 20)), (0, choose.randint(7, 9))):
        accs = [tiles.accumulator(unit) for _ in range(2)]
        for k in range(steps):
            weight = tiles.weight(tiles.load(1024 * choose.randrange(held), "fp8"), unit)
            for acc, row in zip(accs, choose.sample(rows, 2), strict=True):
                tiles.multiply(acc, row, weight, k == 0)
            if choose.random() < 0.2:  # they make room and come back
                kept = [tiles.pop(acc) for acc in accs]
                accs = [tiles.accumulator(unit) for _ in accs]
                for acc, tile in zip(accs, kept, strict=True):
                    tiles.preset(acc, tile)
        sums += [tiles.unary("tanh", tiles.pop(acc)) for acc in accs]
    total = tiles.add(tiles.add(sums[0], sums[1]), tiles.add(sums[2], sums[3]))
    tiles.store(total, 1024 * held)
    body.dma_store(Place(target, "dram out"), 1024 * held, TILE)
    body.advance(target, TILE)
    routine.items += [before, Loop(trips, [body])]
    return routine


@pytest.mark.parametrize("seed", range(6))
def test_packed_matrix_units_give_what_plain_loops_give(seed: int) -> None:
    plain, _ = results(products_loop(seed), "", pipelining=False)
    for policy in POLICIES:
        routine = products_loop(seed)
        assert results(routine, policy, gain=ANY_GAIN)[0] == plain
        assert routine.intervals[0].achieved <= 1.04 * routine.intervals[0].bound


def test_which_loops_are_packed() -> None:
    for routine, expected in ((products_loop(0), True), (chain_loop("atlas-v1"), False)):
        loop = routine.items[-1]
        assert isinstance(loop, Loop) and isinstance(loop.body[0], Code)
        setting = Setting(pointers={r: 31 - k for k, r in enumerate(routine.pointers)})
        graph = loop_graph(loop.body[0], schedule(loop.body[0], setting))
        assert can_pack(graph) is expected


def test_a_placement_that_breaks_a_distance_is_refused() -> None:
    """Whatever step comes too early or lives too long, the check sees it."""
    routine = products_loop(0)
    loop = routine.items[-1]
    assert isinstance(loop, Loop) and isinstance(loop.body[0], Code)
    setting = Setting(pointers={r: 31 - k for k, r in enumerate(routine.pointers)})
    graph = loop_graph(loop.body[0], schedule(loop.body[0], setting))
    graph.work = 100_000
    interval = int(1.5 * lower_bound(loop.body[0]).ticks)
    placement = Placement(graph, interval, Way(0, False))
    for _ in range(12):  # slots that turn out too short are tried longer
        if placement.run():
            break
        placement = Placement(graph, interval, Way(0, False), placement.usual)
    assert len(placement.at) == len(graph.steps) and is_sound(placement)
    for step in list(placement.at)[::7]:
        before = placement.at[step]
        if step.before:
            placement.at[step] = before - 3 * interval
            assert not is_sound(placement)
        if step.after:
            placement.at[step] = before + 3 * interval
            assert not is_sound(placement)
        placement.at[step] = before


def test_few_trips_stay_plain() -> None:
    routine = chain_loop("atlas-v1", trips=2)
    results(routine, "", gain=ANY_GAIN)
    assert [i.stages for i in routine.intervals] == [1]


def test_compilation_is_deterministic() -> None:
    words = [str(list(chain_loop("atlas-v1").compile())) for _ in range(2)]
    assert words[0] == words[1]


def test_the_bound_names_the_busiest_unit_and_recurrences() -> None:
    profile = load_profile("atlas-v1")
    routine = Routine(profile)
    code = routine.code()
    tiles = Tiles(code)
    first = tiles.load(0)
    for _ in range(3):
        tiles.store(tiles.unary("exp", first), 4096)
    assert lower_bound(code).cause == "LSU"
    assert lower_bound(code).ticks == 8 * 34
    state = Tile(routine.carry(2), "bf16")
    code = routine.code()
    tiles = Tiles(code)
    weight = tiles.weight(tiles.load(0, "fp8"), 0)
    acc = tiles.accumulator(0)
    tiles.multiply(acc, tiles.pack(state), weight, True)
    tiles.add(tiles.pop(acc), state, into=state)
    # pack, product (the pop may complete one tick after it), pop and sum, back to the pack
    assert lower_bound(code).cause == "recurrence"
    assert lower_bound(code).ticks == 66 + 65 + 31 + 66


def test_the_bound_counts_all_that_is_issued() -> None:
    """Instructions, the wait of every transfer, the counter and the branch: as the graph has them."""
    routine = Routine(load_profile("atlas-v1"))
    code = routine.code()
    for k in range(40):
        code.dma_load(4096 + 32 * k, 65536 + 64 * k, 32)
        code.address(code.constant(Kind.X, 7), k)
        code.address(code.constant(Kind.X, 9), k)
    nodes = build(code)
    assert len(nodes) == 160
    busiest = 40 * routine.profile.dma.ticks(32)
    assert lower_bound(code).ticks == max(len(nodes) + 2, busiest)
    del code.ops[::3]  # without the transfers only the issue is left
    assert lower_bound(code) == loop_shifting.Bound(82, "issue")


def body_of(item: Code | Loop) -> Code:
    """The straight body of a loop."""
    assert isinstance(item, Loop) and isinstance(item.body[0], Code)
    return item.body[0]


@pytest.mark.parametrize("profile", ["atlas-v0", "atlas-v1"])
def test_prefetches_wait_for_readers_of_the_iteration_before(profile: str) -> None:
    """The buffer filled for the next iteration is the one the iteration before reads."""
    routine = random_loop(profile, 3, 4)
    body = body_of(routine.items[1])
    moved = loop_shifting.moving(body)
    load = next(op for op in body.ops if op.opcode.effect == "dma.load")
    read = next(op for op in body.ops if op.opcode.memory == "tensor load")
    there, here = loop_shifting.aged(load, 1, moved), loop_shifting.aged(read, 1, moved)
    assert not there[0].overlaps(here[0])  # of one iteration: two buffers
    next_one, this_one = loop_shifting.aged(load, 1, moved), loop_shifting.aged(read, 0, moved)
    assert next_one[0].overlaps(this_one[0])
    assert not next_one[1].overlaps(this_one[0])  # DRAM is another memory


def test_plain_period_is_never_below_the_bound_of_its_units() -> None:
    routine = chain_loop("atlas-v1")
    body = body_of(routine.items[0])
    pointers = {r: 31 - k for k, r in enumerate(routine.pointers)}
    result = schedule(body, Setting(pointers=pointers))
    assert initiation_interval(body, result) >= lower_bound(body).ticks
