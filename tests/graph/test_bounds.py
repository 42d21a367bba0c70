"""Bounds: never above what a program takes, resource by resource; and counted right."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import compiled

import tilewright as tw
from tilewright.frontend.builder import ModelBuilder
from tilewright.runtime.example_inputs import example_inputs
from tilewright.runtime.session import Session
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.kernel_records import RECORDS, work_of
from tilewright.targets.atlas.model.work import Work
from tilewright.targets.atlas.profile import load_profile

V0, V1 = load_profile("atlas-v0"), load_profile("atlas-v1")


def test_every_kernel_is_counted():
    """A kernel without its work would have a bound that says nothing."""
    assert all(callable(record.work) for record in RECORDS.values())
    assert work_of(V1, "no such kernel", {}, {}) == Work()


@pytest.mark.parametrize(
    ("name", "profile", "fuse"),
    [
        ("mlp", "atlas-v1", True),
        ("tiny_mlp", "atlas-v0", True),
        ("tiny_mlp", "atlas-v0", False),
        ("encoder", "atlas-v1", True),
        ("decoder", "atlas-v1", True),
        ("cross", "atlas-v1", True),
        ("cross", "atlas-v1", False),
    ],
)
def test_no_program_beats_its_bound(name, profile, fuse):
    model = compiled(name, profile, fuse)
    bound = bound_of(model.artifact)
    session = Session(model)
    session.run(example_inputs(model, "random", 0))
    assert 0 < bound.total <= session.cycles
    whole = model.artifact.bound()
    assert whole is not None and whole.cycles == bound.total
    together: list[list] = []  # calls that share a schedule
    for call in session.step_cycles:
        printed = model.artifact.steps[call.step].bound
        assert printed in (0, bound.per_step[call.step].cycles) and call.cycles >= printed
        if printed:
            together.append([])
        together[-1].append(call)
    for calls in together:
        terms, busy = Counter(), Counter()
        for call in calls:
            terms.update(bound.per_step[call.step].terms)
            busy.update(call.busy)
        assert sum(call.cycles for call in calls) >= max(terms.values())
        assert busy["DMA"] >= terms["DMA"]
        assert busy["VPU"] >= terms["VPU"]
        assert max(busy["MXU0"], busy["MXU1"]) >= terms["MXU0+MXU1"]
    units = session.statistics.busy
    for resource, busy in (("DMA", units["DMA"]), ("VPU", units["VPU"])):
        assert bound.terms[resource] <= busy
    if profile == "atlas-v1":  # what is left out is little: spread rows, masks of edges
        assert bound.terms["VPU"] > 0.3 * units["VPU"]


def test_compulsory_traffic():
    """Weights of all rounds, the input and the output, once each, at two bytes a tick."""
    model = compiled("encoder")
    assert model.artifact.loops[0].count == 2
    weights = 4 * 64 * 64 + 2 * 64 * 96
    rows = 2 * 2 * (4 * 64 + 96 + 64)  # scales and biases
    ends = 2 * 2 * 64 + 2 * (2 * 2 * 45 * 64)  # the last norm, the input and the output
    bytes = 2 * (weights + rows) + ends
    assert bound_of(model.artifact).terms["DMA"] == math.ceil((bytes + 8) / 4) * 2


def test_work_of_a_linear_layer():
    options = {"scale": True, "bias": True, "activation": "gelu_tanh", "out": "fp8"}
    shapes = {"a": (2, 45, 70), "w": (70, 100), "out": (2, 45, 100)}
    m, k, n = 2 * 45 / 32, 70 / 32, 100 / 32
    found = work_of(V1, "linear", options, shapes)
    wanted = Work(m * k * n, m * n, operand_tiles=k * m, tiles=(2 + 8) * m * n, casts=m * n)
    assert found.__dict__ == pytest.approx(wanted.__dict__)
    assert work_of(V0, "linear", options, shapes).tiles == pytest.approx((2 + 9) * m * n)


def test_few_rows_still_meet_every_weight():
    """One row has few products by volume, but each weight has to be on a side of one of them."""
    shapes = {"a": (1, 1, 640), "w": (640, 320), "out": (1, 1, 320)}
    assert work_of(V1, "linear", {"out": "bf16"}, shapes).products == 20 * 10


def test_hidden_keys_are_no_work():
    """Under a causal mask a query needs the keys up to its own."""
    shapes = {"q": (1, 4, 128, 64), "kt": (1, 2, 64, 128), "v": (1, 2, 128, 64)}
    shapes["out"] = shapes["q"]
    seen = 4 * (128 * 129 / 2) / 1024
    causal = work_of(V1, "attention", {"mask": "causal"}, shapes)
    assert causal.products == pytest.approx(seen * (2 + 2 + 1 / 32))
    everything = work_of(V1, "attention", {"mask": "full"}, shapes)
    assert everything.products == pytest.approx(4 * 16 * (4 + 1 / 32))
    # The mask is added by the matrix unit, and every query sees something.
    later = 4 * (96 * 97 / 2) / 1024  # keys behind the first 32 of a query
    assert causal.tiles == pytest.approx(later + 2 * seen + 16 * 2)
    assert causal.columns == 16
    assert everything.columns == 16 * 5


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_a_product_comes_with_half_a_transfer(events):
    """The argument about weights and sums that take turns in two places each.

    An event fills a place: of a weight or of a sum, the first or the second. Every weight that is
    there together with a sum may give one product.
    """
    places: dict[tuple[bool, bool], int] = {}
    met: set[tuple[int, int]] = set()
    for number, (is_weight, second) in enumerate(events):
        places[is_weight, second] = number
        for weight in (places.get((True, k)) for k in (False, True)):
            for total in (places.get((False, k)) for k in (False, True)):
                if weight is not None and total is not None:
                    met.add((weight, total))
    assert len(met) <= 2 * len(events)


def test_steps_name_their_cause():
    model = compiled("mlp")
    bound = bound_of(model.artifact)
    assert {step.cause for step in bound.per_step} <= {"DMA", "MXU0+MXU1", "VPU"}
    assert bound.to_json() == {
        "cycles": bound.total, "cause": bound.cause, "terms": bound.terms
    }  # fmt: skip


def test_weights_of_every_batch_have_to_come_in():
    """Experts as one product over a batch: their weights are counted like those of any layer."""
    random = np.random.default_rng(0)
    net = ModelBuilder("experts")
    x = net.input("x", (4, 12, 64))
    weights = random.normal(size=(4, 64, 256)).astype(np.float32)
    net.output("y", net.matmul(x, net.weight("w", weights)))
    model = tw.compile(net.build()).model
    bound = bound_of(model.artifact)
    assert bound.terms["DMA"] * 2 >= 4 * 64 * 256 + 2 * (4 * 12 * (64 + 256))
    session = Session(model)
    session.run(example_inputs(model, "random", 0))
    assert bound.total <= session.cycles


@pytest.mark.parametrize(("size", "taps", "stride"), [(28, 1, 2), (29, 1, 3), (20, 2, 3)])
def test_pixels_that_no_window_sees_are_not_loaded(size: int, taps: int, stride: int) -> None:
    net = ModelBuilder("skipping", seed=1)
    x = net.input("x", (2, 64, size, size))
    net.output("y", net.conv2d(x, 32, taps, "conv", stride=stride))
    program = tw.compile(net.build())
    assert program.verify().ok
    assert 0 < program.report().bound <= program.cycles
