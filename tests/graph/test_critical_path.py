"""The least time of steps that wait for each other: against the bound of the program that was made,
which other code finds by replaying it."""

from __future__ import annotations

import pytest
from replayed_bounds import replayed
from small_models import compiled

from tilewright.frontend.builder import ModelBuilder
from tilewright.model.options import CompileOptions
from tilewright.targets.atlas.artifact.atlas_artifact import AtlasArtifact
from tilewright.targets.atlas.model.clock import Clock
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.model.kernel_records import RECORDS, latency_of
from tilewright.targets.atlas.model.latencies_images import leaves_out
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")


def _single(kind: str, shape: tuple[int, ...], target: str) -> AtlasArtifact:
    net = ModelBuilder(kind, seed=7)
    x = net.input("x", shape)
    chain = {
        "gelu": lambda: net.gelu(net.relu(x)),
        "rms_norm": lambda: net.rms_norm(x, "norm"),
        "layer_norm": lambda: net.layer_norm(x, "norm"),
        "linear": lambda: net.relu(net.linear(x, 9, "linear")),
        "sum": lambda: net.relu(x) + x,
    }
    net.output("y", chain[kind]())
    options = CompileOptions(layer_loops=False)
    return compile_model(net.build(), load_profile(target), options).artifact


@pytest.mark.parametrize("target", ["atlas-v0", "atlas-v1"])
@pytest.mark.parametrize("kind", ["gelu", "rms_norm", "layer_norm", "linear", "sum"])
def test_a_single_row_waits_as_long_as_its_program(kind, target):
    """One row has nothing to share, so both ways of counting find the same chain of instructions."""
    artifact = _single(kind, (1, 9), target)
    cycles, own = replayed(artifact)
    bound = artifact.bound()
    assert bound is not None and bound.cause == "path"
    assert bound.cycles <= own.cycles <= cycles
    # Masks of edges are left out, and on atlas-v0 that a row is summed in two halves.
    assert bound.cycles >= 0.6 * own.cycles
    if target == "atlas-v1" and kind in ("gelu", "rms_norm", "sum"):
        assert bound.cycles == own.cycles


@pytest.mark.parametrize(("name", "target"), [("mlp", "atlas-v1"), ("tiny_mlp", "atlas-v0")])
def test_what_waits_is_no_more_than_what_the_program_does(name, target):
    artifact = compiled(name, target, True).artifact
    bound, (cycles, own) = artifact.bound(), replayed(artifact)
    assert bound is not None
    assert max(bound.terms.values()) == bound.cycles <= own.cycles <= cycles


def test_every_kernel_has_a_way_through_it():
    assert all(callable(record.latency) for record in RECORDS.values())
    assert latency_of(Clock(V1), "no such kernel", {}, {}, {}) is None


def test_a_chain_of_instructions():
    """A transfer of 32 bytes, a load, two operations, a store, a transfer: tick by tick."""
    clock = Clock(V1)
    first = clock.arrived()
    assert first.done == 3 + 20  # 8 bytes of command and 32 of data, 4 in 2 ticks
    moment = clock.chain(2, first)
    assert moment is not None and moment.done == 23 + 2 + 34 + 66 + 66
    assert clock.left(moment) == moment.done + 33 + 20 + 1  # a store begins in the same tick


def test_recurrent_layers_go_step_by_step():
    """The last state waits for a product and its gates in every step, the first for one."""
    options = {
        "next": ["t2"], "kept": 1, "bias": [],
        "program": [["add", "t1", ["x0", "p0"]], ["tanh", "t2", ["t1"]]],
    }  # fmt: skip
    shapes = {"x": (10, 2, 32)}
    ready = {name: Clock(V1).arrived() for name in ("x", "w", "scale", "s0")}
    first = latency_of(Clock(V1), "recurrent", options, shapes, ready)
    last = latency_of(Clock(V1, last=True), "recurrent", options, shapes, ready)
    assert first is not None and last is not None
    # A cast, a product on the faster unit, a scale, and the two operations.
    assert last.done - first.done == 9 * (66 + 35 - 1 + 32 + 66 + 66 + 66 + 1) - 9


def test_a_value_in_parts_waits_for_the_first_of_them():
    clock = Clock(V1)
    early, late = clock.arrived(), clock.chain(5, clock.arrived())
    options = {"count": 2, "pieces": []}
    assert latency_of(clock, "move", options, {}, {"x0": late, "x1": early}) == early
    assert latency_of(clock, "move", options, {}, {"x0": late, "x1": None}) is None
    assert leaves_out("move", {}, "x0") and not leaves_out("linear", {}, "a")


def test_only_the_part_of_an_input_that_is_needed_has_to_come_in():
    net = ModelBuilder("part", seed=7)
    x = net.input("x", (64, 64))
    net.output("y", net.relu(net.slice(x, (0, 32), (64, 32))))
    artifact = compile_model(net.build(), V1).artifact
    bound, (cycles, own) = artifact.bound(), replayed(artifact)
    assert bound is not None
    # The half of the input, the result, and one command.
    assert bound.terms["DMA"] == (64 * 32 * 2 * 2 + 8) / 2
    assert bound.cycles <= own.cycles <= cycles
