"""The accuracy of layers: every step is brought back to the value it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import MODELS, compiled, cross, imported, mlp

from tilewright.frontend.builder import ModelBuilder
from tilewright.model.calibrate import example_inputs
from tilewright.model.options import CompileOptions
from tilewright.reference.executor import run
from tilewright.runtime.bundle import load, save
from tilewright.runtime.session import Session
from tilewright.targets.atlas.artifact.atlas_artifact import COPY
from tilewright.targets.atlas.model import kernel_records
from tilewright.targets.atlas.model.accuracy import compared
from tilewright.targets.atlas.model.compiler import compile_model
from tilewright.targets.atlas.profile import load_profile

V1 = load_profile("atlas-v1")
OPTIONS = CompileOptions(accuracy=True)


def worst_layers(model):
    """(tensor, note) of everything that was measured, the worst first."""
    rows = [(name, note) for name, note in model.quantisation.items() if "cosine" in note]
    return sorted(rows, key=lambda row: (row[1]["cosine"], -row[1]["relative"]))


def narrow_heads(style: str):
    """Heads of 40 columns: halves of a rotation are 20 wide, padded and moved apart."""
    net = ModelBuilder("narrow", seed=6)
    x = net.input("x", (2, 35, 80))
    tables = net.rotary_tables(35, 40)
    q = net.rope(net.heads(net.linear(x, 80, "q"), 2), tables, style)
    k = net.rope(net.heads(net.linear(x, 40, "k"), 1), tables, style)
    v = net.heads(net.linear(x, 40, "v"), 1)
    net.output("y", net.linear(net.attention(q, k, v), 80, "o"))
    return net.build()


@pytest.mark.parametrize(
    "name", ["mlp", "encoder", "decoder", "cross", "split_half", "interleaved"]
)
def test_every_step_is_close_to_its_value(name):
    """A wrong scale, order of columns or counterpart would show as a cosine far from 1."""
    model = compiled(name) if name in MODELS else compile_model(narrow_heads(name), V1, OPTIONS)
    measured = {region for region, _ in worst_layers(model)}
    for step in model.artifact.steps:
        own = step.operands.get(COPY, step.operands["out"])
        assert step.kernel == "copy" or own in measured
    for region, note in worst_layers(model):
        assert note["cosine"] > 0.99, region
        assert note["relative"] < 0.15, region
        assert note["max_abs"] > 0
    cosines = [note["cosine"] for _, note in worst_layers(model)]
    assert cosines == sorted(cosines)


def test_the_last_layer_is_the_output():
    original, model = imported("mlp"), compiled("mlp")
    inputs = example_inputs(original, 0)
    found = Session(model).run(inputs)["y"]
    expected = run(original.module, [inputs["x"]], weights=original.weights)[0]
    note = model.quantisation[model.artifact.steps[-1].operands["out"]]
    assert [note["cosine"], note["max_abs"], note["relative"]] == pytest.approx(
        compared(found, expected), rel=1e-6
    )


def test_rounds_are_measured_one_by_one():
    model = compiled("encoder")
    note = next(note for _, note in worst_layers(model) if note["layer"].endswith("mlp.up"))
    names = [row["name"] for row in note["by_iteration"]]
    assert len(names) == 2 and "layers.1" in names[1]
    assert note["cosine"] == min(row["cosine"] for row in note["by_iteration"])
    assert note["worst"] in names


def test_a_wrong_layer_is_the_worst(monkeypatch):
    """Attention and the product behind it, which are one kernel."""

    def wrong(profile, options, operands):
        record = kernel_records.RECORDS["attention_linear"]
        result = record.compute(profile, options, operands)["out"]
        return {"out": np.roll(result, 1, axis=1)}

    monkeypatch.setitem(kernel_records.REFERENCES, "attention_linear", wrong)
    model = compile_model(cross(), V1, OPTIONS)
    note = worst_layers(model)[0][1]
    assert note["layer"] == "o" and note["cosine"] < 0.9


def test_notes_survive_a_bundle(tmp_path):
    model = compiled("mlp")
    save(model, tmp_path / "mlp.twb")
    again = load(tmp_path / "mlp.twb")
    assert again.quantisation == model.quantisation
    assert again.artifact.bound() == model.artifact.bound()


def test_without_asking_nothing_is_measured():
    model = compile_model(mlp(), V1)
    assert not worst_layers(model)


def test_comparison():
    one = np.array([3.0, 4.0])
    assert compared(one, one) == (pytest.approx(1.0), 0.0, 0.0)
    assert compared(np.array([4.0, 3.0]), one) == (
        pytest.approx(24 / 25), 1.0, pytest.approx(2**0.5 / 5)
    )  # fmt: skip
    assert compared(np.zeros(2), np.zeros(2)) == (1.0, 0.0, 0.0)
    assert compared(np.zeros(2), one) == (0.0, 4.0, 1.0)
    assert compared(np.array([np.nan, 4.0]), one)[0] == 0.0
