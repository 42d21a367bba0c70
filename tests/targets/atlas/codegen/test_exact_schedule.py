"""The solver against the list scheduler: never worse, never below what runs, sometimes proven."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright.tile as tw
from tilewright.targets.atlas.codegen.list_schedule import Setting, schedule
from tilewright.targets.atlas.codegen.routine import Routine
from tilewright.targets.atlas.codegen.tiles import Tiles
from tilewright.targets.atlas.codegen.virtual import Code
from tilewright.targets.atlas.machine import PythonMachine
from tilewright.targets.atlas.profile import load_profile


@tw.kernel
def add(a: tw.bf16["M", "N"], b: tw.bf16["M", "N"], out: tw.bf16["M", "N"]):
    for m in tw.grid(out.M):
        for n in tw.grid(out.N):
            out[m, n] = a[m, n] + b[m, n]


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
def test_a_short_kernel_is_proven_and_still_right(target: str) -> None:
    random = np.random.default_rng(0)
    a, b = random.normal(size=(32, 64)), random.normal(size=(32, 64))
    compiled = add.compile(target, exact=True, a=a.shape, b=b.shape)
    result = compiled.run(a, b)
    assert np.array_equal(result.view(np.uint16), add.eager(a, b, profile=target).view(np.uint16))
    assert compiled.least is not None and compiled.cycles is not None
    # What the model leaves out, instructions that make constants, costs a tick at most.
    assert compiled.least <= compiled.cycles <= compiled.least + (target == "atlas-v0")
    plain = add.compile(target, a=a.shape, b=b.shape)
    plain.run(a, b)
    assert plain.cycles is not None and plain.cycles >= compiled.least


def random_code(seed: int, target: str) -> Code:
    """A few tiles loaded, combined at random, some stored."""
    random = np.random.default_rng(seed)
    code = Code(load_profile(target))
    tiles = Tiles(code)
    known = []
    for k in range(2):
        code.dma_load(2048 * k, 2048 * k, 2048)
        known.append(tiles.load(2048 * k))
    for _ in range(int(random.integers(1, 5))):
        a, b = (known[int(i)] for i in random.integers(len(known), size=2))
        operation = [tiles.add, tiles.mul, tiles.maximum][int(random.integers(3))]
        known.append(operation(a, b))
    for k, tile in enumerate(known[2:]):
        tiles.store(tile, 16384 + 2048 * k)
        code.dma_store(65536 + 2048 * k, 16384 + 2048 * k, 2048)
    return code


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("seed", range(6))
def test_random_pieces(seed: int, target: str) -> None:
    cycles = {}
    for exact in (False, True):
        routine = Routine(load_profile(target), [random_code(seed, target)])
        machine = PythonMachine(load_profile(target))
        machine.load(routine.compile(exact=exact))
        outcome = machine.run()
        assert outcome.fault is None
        cycles[exact] = outcome.cycles
        if exact:
            assert routine.least is not None and routine.least <= outcome.cycles
    assert cycles[True] <= cycles[False]


def test_a_plan_sets_the_order() -> None:
    """Two independent loads in the other order than the scheduler would take."""
    code = Code(load_profile("atlas-v1"))
    code.dma_load(0, 0, 32)
    code.dma_load(1024, 1024, 4096)
    first = schedule(code, Setting())
    plan = [100 if node.op.bytes == 4096 else 0 for node, *_ in first.dispatched if node.op.ranges]
    plan += [6000, 6001]  # the waits
    planned = schedule(code, Setting(), plan=plan)
    ticks = {node.op.bytes: tick for node, tick, _ in planned.dispatched if node.op.ranges}
    assert ticks[32] < 100 <= ticks[4096]
