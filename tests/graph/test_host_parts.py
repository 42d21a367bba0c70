"""What the host does is checked by other code than what runs it."""

from __future__ import annotations

from dataclasses import replace

import mutation_trials
import mutations
import numpy as np
import pytest
import tower_models

from tilewright.model.host_check import HostCheck, difference
from tilewright.model.host_graph import HostGraph, HostOperation
from tilewright.reference import families
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.artifact import HostPart

KINDS = [kind for kind in mutations.KINDS if " host" in kind.name or kind.name.startswith("host")]
HOSTED = (tower_models.the_host_mixes, tower_models.lookups)


@pytest.mark.parametrize("make", HOSTED)
def test_right_parts_pass(make):
    result = verify(mutation_trials.right(make).model)
    assert result.ok, result.text()
    assert not [note for note in result.notes if "executor" in note]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "_"))
def test_a_mistake_of_the_host_is_found(kind):
    """Before host parts had a second word, `verify` called all of these exact."""
    verdicts = [
        mutation_trials.trial(make, kind, seed).verdict for make in HOSTED for seed in range(3)
    ]
    assert "found" in verdicts and "missed" not in verdicts


@pytest.mark.parametrize("family", ["silu", "softmax", "elementwise_sub", "matmul", "reshape"])
def test_a_mistake_of_the_executor_is_found(family, monkeypatch):
    """The executor runs host parts on both sides of the comparison with the device."""
    right = families.FAMILY_FUNCTIONS[family]
    monkeypatch.setitem(
        families.FAMILY_FUNCTIONS, family, lambda call: np.flip(np.asarray(right(call)), axis=-1)
    )
    result = verify(mutation_trials.right(tower_models.the_host_mixes).model)
    assert not result.ok
    assert all(output.difference is None for output in result.outputs)
    assert any("the host fills" in stray for stray in result.strays)


def test_reasons_are_those_of_the_operations():
    model = replace(mutation_trials.right(tower_models.the_host_mixes).model)
    model.parts = [
        replace(part, reasons=part.reasons[1:]) if isinstance(part, HostPart) else part
        for part in model.parts
    ]
    assert any("reasons" in stray for stray in verify(model).strays)


def test_a_bundle_keeps_it(tmp_path):
    model = mutation_trials.right(tower_models.lookups).model
    save(model, tmp_path / "model.twb")
    again = load(tmp_path / "model.twb")
    assert again.host_graph is not None
    assert again.host_graph == model.host_graph
    again.host_graph = None  # as of a bundle from before
    result = verify(again)
    assert result.ok and any("one executor" in note for note in result.notes)


def test_unknown_families_are_named():
    model = mutation_trials.right(tower_models.the_host_mixes).model
    assert model.host_graph is not None
    graph = replace(
        model.host_graph,
        operations=[replace(op, family="of tomorrow") for op in model.host_graph.operations],
    )
    check = HostCheck(graph, {})
    check.differences({})
    assert check.unknown == {"of tomorrow"}


def test_differences():
    a, near = np.linspace(-1, 1, 9).astype(np.float32), 1e-3
    assert difference(a, a.copy(), 0) is None
    assert difference(a, a + np.float32(1e-5), 0) and not difference(a, a + 1e-5 * a, near)
    assert difference(a, a[::-1].copy(), near)
    whole = np.arange(500)
    assert difference(whole, np.where(whole == 7, 8, whole), 0)
    assert not difference(whole, np.where(whole == 7, 8, whole), near)
    nan = np.array([np.nan, np.inf], np.float32)
    assert difference(nan, nan.copy(), 0) is None and difference(nan, nan[::-1].copy(), near)


@pytest.mark.parametrize(("step", "fine"), [(2e-3, True), (3e-2, False)])
def test_what_was_rounded_on_the_way_counts(step, fine):
    """A float32 port at the end of a chain in float16 is as coarse as that."""
    operations = [
        HostOperation("tanh", "elementwise_tanh", {"x": ("x",)}, "tanh", (4,), "f16"),
        HostOperation("wide", "cast", {"x": ("tanh",)}, "wide", (4,), "f32"),
    ]
    graph = HostGraph(operations, given={"x": "x"}, made={"y": "wide"})
    x = np.linspace(0.5, 1, 4).astype(np.float16)
    y = np.tanh(x.astype(np.float32)) + np.float32(step)
    assert (HostCheck(graph, {}).differences({"x": x, "y": y}) == []) is fine


@pytest.mark.parametrize("literal", [-1, 0, 1, True, False])
@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_truth_and_a_literal(name, literal):
    """A mask with a literal beside it, as attention masks of encoders have them."""
    mask = np.array([True, False, True])
    operation = HostOperation(
        "", name, {"lhs": ("mask",)}, "both", (3,), "i1", {"scalar_rhs": literal}
    )
    graph = HostGraph([operation], given={"x": "mask"}, made={"y": "both"})
    wanted = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[name[8:]]
    right = wanted(mask, bool(literal))
    assert not HostCheck(graph, {}).differences({"x": mask, "y": right})
    assert HostCheck(graph, {}).differences({"x": mask, "y": ~right})
