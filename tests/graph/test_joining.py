"""Small launches in one schedule: the same results in less time, wherever programs are cut."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.program import Program
from tilewright.targets.atlas.codegen import join_routines
from tilewright.targets.atlas.codegen.list_schedule import OutOfRegisters
from tilewright.targets.atlas.codegen.tuning import tuned
from tilewright.targets.atlas.model.buffer_assignment import LONGEST, MOST, small_runs
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.launches import Launch, LayerLoop, StoredTensor
from tilewright.targets.atlas.profile import load_profile
from tilewright.tile.layouts import Layout


def block(rows: int, columns: int) -> Imported:
    """Norms, products with and without activations, two outputs that do not need each other."""
    net = ModelBuilder("block", seed=5)
    x = net.input("x", (rows, columns))
    normed = net.layer_norm(x, "norm")
    y = x + net.linear(net.gelu(net.linear(normed, 40, "up")), columns, "down")
    net.output("y", net.layer_norm(y, "last"))
    net.output("z", net.relu(net.linear(x, 9, "side")))
    return net.build()


@pytest.mark.parametrize("shape", [(1, 31), (18, 33)])
def test_the_same_in_less_time(shape: tuple[int, int]) -> None:
    joined = tw.compile(block(*shape), target="atlas-v1")
    with tuned(joined_instructions=0):
        apart = tw.compile(block(*shape), target="atlas-v1")
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for mine, theirs in zip(joined(x), apart(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert joined.verify().ok and apart.verify().ok
    assert joined.cycles < 0.9 * apart.cycles


def test_steps_lie_one_after_the_other() -> None:
    program = tw.compile(block(1, 31), target="atlas-v1")
    steps = program.model.artifact.steps
    assert len({step.segment for step in steps}) == 1
    for step, following in pairwise(steps):
        assert step.first_word < step.end_word == following.first_word


def test_a_small_instruction_memory_cuts_between_whole_pieces() -> None:
    options = CompileOptions(instruction_memory=420)
    model = compile_model(block(18, 33), load_profile("atlas-v1"), options)
    assert len(model.artifact.segments) > 1
    assert Program(model).verify().ok


def test_negative_zeros_of_a_bias_stay_exact_in_a_single_row() -> None:
    model = block(1, 31)
    for name, array in model.weights.items():
        if np.ndim(array) == 1:
            model.weights[name] = np.full_like(array, -0.0)
    assert tw.compile(model, target="atlas-v1").verify().ok


def launch(rows: int = 8) -> Launch:
    layout = Layout((1, rows, 32), "bf16")
    x, out = (StoredTensor(name, layout, "activation") for name in ("x", "out"))
    return Launch("copy", "copy", {"x": x}, out, {}, (), 0, None, None)


def test_runs_end_at_large_launches_loops_and_the_host() -> None:
    large = launch(MOST // 64)
    calls = [launch(), launch(), large, launch(), launch(), launch(), launch(), launch()]
    assert small_runs(calls, [], [4]) == [range(0, 2), range(4, 8)]
    loop: LayerLoop[StoredTensor] = LayerLoop(2, 5, 7)
    assert small_runs(calls, [loop], []) == [range(0, 2), range(3, 5)]
    many = [launch() for _ in range(2 * LONGEST + 3)]
    found = small_runs(many, [], [])
    assert [k for run in found for k in run] == list(range(len(many)))
    assert max(len(run) for run in found) <= LONGEST


def _fills(program: Program) -> int:
    segments = program.model.artifact.segments
    return sum(int(np.count_nonzero(code.opcodes == join_routines.FILL.index)) for code in segments)


def test_registers_of_zeros_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels after the first take its registers, and compute the same."""
    rows = 3
    program = tw.compile(block(rows, 33), target="atlas-v1")
    monkeypatch.setattr(join_routines._Constants, "_kept", lambda _, ops: ops)
    without = tw.compile(block(rows, 33), target="atlas-v1")
    assert _fills(program) + 3 <= _fills(without)
    assert program.verify().ok
    x = np.random.default_rng(1).standard_normal((rows, 33)).astype(np.float32)
    for mine, theirs in zip(program(x), without(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_without_registers_to_keep_kernels_are_joined_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, tried = join_routines._joined, []

    def scarce(kernels, files, keep: bool, reach: int) -> list:
        tried.append((keep, reach > 0))
        if keep:
            raise OutOfRegisters
        return usual(kernels, files, keep, reach)

    monkeypatch.setattr(join_routines, "_joined", scarce)
    program = tw.compile(block(3, 31), target="atlas-v1")
    assert tried == [(True, True), (True, False), (False, False)]
    assert program.verify().ok


def test_what_kernels_hand_on_in_registers_takes_less_time() -> None:
    program = tw.compile(block(3, 31), target="atlas-v1")
    x = np.random.default_rng(1).standard_normal((3, 31), np.float32)
    found, cycles = program(x), program.report().cycles
    with tuned(joined_reach=0):
        without = tw.compile(block(3, 31), target="atlas-v1")
    for mine, theirs in zip(found, without(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert cycles < 0.98 * without.report().cycles
