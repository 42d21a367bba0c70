"""Layers folded into rounds: what is carried may be needed again, by anybody."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tower_models import FOLDING, MODELS, built, inputs_and_outputs_of_every_layer

from hand_made import AtlasModel
from tilewright.dialects.xdsl_api import FloatAttr, f32
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.model.options import CompileOptions
from tilewright.runtime.bundle import load, save
from tilewright.runtime.verify import verify
from tilewright.targets.atlas.model import layer_loops
from tilewright.targets.atlas.model.bounds import bound_of
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile
from tilewright.targets.checking import check


def compiled(model: Imported, rounds: bool = True) -> AtlasModel:
    options = CompileOptions(host=("hosted",), layer_loops=rounds)
    return compile_model(model, load_profile("atlas-v1"), options)


@pytest.mark.parametrize("make", MODELS[:FOLDING], ids=lambda make: make.__name__)
def test_folded_layers_compute_the_same(make):
    model = built(make)
    folded, plain = compiled(model), compiled(model, rounds=False)
    assert folded.artifact.loops and not plain.artifact.loops
    assert check(folded) == []
    results = [verify(one, original=model) for one in (folded, plain)]
    for one in results:
        assert one.ok, one.text()
    for here, there in zip(results[0].outputs, results[1].outputs, strict=True):
        assert here.accuracy is not None and there.accuracy is not None
        # Rounds share their scales, so they may be a little less exact.
        assert here.accuracy.relative < 1.5 * there.accuracy.relative + 0.02, here
        assert here.accuracy.cosine > 0.98


def test_what_iterations_have_of_their_own_counts_for_each_in_the_bound():
    model = built(inputs_and_outputs_of_every_layer)
    folded, plain = (compiled(model, rounds).artifact for rounds in (True, False))
    assert folded.loops and not plain.loops
    assert bound_of(folded).terms["DMA"] == bound_of(plain).terms["DMA"]


def test_ports_of_iterations_are_checked_and_kept(tmp_path):
    """Layers with inputs and outputs of their own are one loop; which port is whose is known."""
    model = compiled(built(inputs_and_outputs_of_every_layer))
    turns = {name: port.iteration for name, port in model.ports.items()}
    # An iteration is two layers: a sum cannot be written over what it is computed from.
    assert [turns[f"{kind}{k}"] for kind in ("given", "kept") for k in range(4)] == [0, 0, 1, 1] * 2
    save(model, tmp_path / "model.twb")
    assert load(tmp_path / "model.twb").ports == model.ports
    ports = dict(model.ports)
    for one, other in (("given1", "given2"), ("kept0", "kept3")):
        model.ports = ports | {
            one: replace(ports[one], iteration=turns[other]),
            other: replace(ports[other], iteration=turns[one]),
        }
        assert [f.code for f in check(model)] == ["TW3117"]
    model.ports = ports | {"kept1": replace(ports["kept1"], iteration=2)}
    assert "iteration 2" in check(model)[0].message


@pytest.mark.parametrize(("factors", "loops"), [((0.25, 0.25), 1), ((0.25, 0.1), 0)])
def test_layers_whose_constants_differ_stay_apart(factors, loops):
    """A number of a layer that is part of the code, next to those that calibration decides."""
    net = ModelBuilder("factors", seed=3)
    x = net.input("x", (1, 32, 64))
    for number in range(len(factors)):
        with net.layer(f"layers.{number}"):
            heads = net.heads(net.relu(net.linear(x, 64, "q")), 2)
            x = x + net.linear(net.attention(heads, heads, heads), 64, "o")
            x = x + net.linear(net.relu(net.linear(x, 96, "up")), 64, "down")
    net.output("y", x)
    model = net.build()
    found = [op for op in model.module.walk() if "attention" in str(op.properties.get("symbol"))]
    for op, factor in zip(found, factors, strict=True):
        op.attributes["scale"] = FloatAttr(factor, f32)
    result = compiled(model)
    assert len(result.artifact.loops) == loops
    assert verify(result, original=model).ok


@pytest.mark.parametrize(("growth", "iterations"), [(1.0, [5]), (7.0, [2, 2, 2]), (60.0, [])])
def test_layers_whose_ranges_grow_share_no_scale(growth, iterations):
    """Values of the first layers would be rounded to nothing by a scale that the last one needs."""
    net = ModelBuilder("growing", seed=5)
    x = net.input("x", (1, 32, 64))
    for number in range(16):
        with net.layer(f"layers.{number}"):
            x = net.relu(net.linear(x, 64, "up"))
    net.output("y", x)
    model = net.build()
    weights = {
        name: array * growth if name.endswith("weight") else array
        for name, array in model.weights.items()
    }
    result = compiled(replace(model, weights=weights))
    assert [loop.count for loop in result.artifact.loops] == iterations
    found = verify(result, original=replace(model, weights=weights))
    (output,) = found.outputs
    assert found.ok and output.accuracy is not None and output.accuracy.cosine > 0.98


@pytest.mark.parametrize(
    ("layers", "width", "iterations"), [(4, 64, []), (20, 64, [10]), (4, 320, [2])]
)
def test_a_few_small_layers_are_written_out(layers: int, width: int, iterations: list[int]) -> None:
    """Their launches share schedules, in which weights arrive early; others stay a loop."""
    net = ModelBuilder("layers", seed=7)
    x = net.input("x", (1, 8, width))
    for number in range(layers):
        with net.layer(f"layers.{number}"):
            x = x + net.linear(
                net.gelu(net.linear(net.rms_norm(x, "norm"), width, "up")), width, "o"
            )
    net.output("y", x)
    model = net.build()
    result = compile_model(model, load_profile("atlas-v1"))
    assert [loop.count for loop in result.artifact.loops] == iterations
    found = verify(result, original=model)
    assert found.ok and check(result) == []
    if not iterations:
        assert found.cycles < 0.9 * verify(compiled(model)).cycles
        # Launches that wait for their units share nothing.
        assert len(compile_model(model, load_profile("atlas-v0")).artifact.loops) == 1


@pytest.mark.parametrize(("rows", "width", "stays"), [(64, 320, True), (320, 480, False)])
def test_an_input_that_iterations_carry_stays_on_chip(
    rows: int, width: int, stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An input is in DRAM, where every iteration would read it and write the next one; a copy
    of one that is not large is not."""
    net = ModelBuilder("layers", seed=7)
    x = net.input("x", (1, rows, width))
    for number in range(3):
        with net.layer(f"layers.{number}"):
            h = net.gelu(net.linear(net.rms_norm(x, "norm"), width, "up"))
            h = x + net.linear(h, width, "mid")
            x = h + net.linear(net.rms_norm(h, "again"), width, "down")
    net.output("y", net.rms_norm(x, "last"))
    model = net.build()
    result = compiled(model)
    assert result.artifact.loops and check(result) == []
    found = verify(result, original=model)
    assert found.ok, found.text()
    assert any(step.kernel == "copy" for step in result.artifact.steps) is stays
    monkeypatch.setattr(layer_loops._Folder, "_may_stay", lambda *_: False)
    other = verify(compiled(model))
    assert found.cycles < 0.97 * other.cycles if stays else found.cycles == other.cycles
