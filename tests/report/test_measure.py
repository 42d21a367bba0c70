"""Reports of models that really run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hand_made import AtlasModel
from tilewright.report.measure import accuracy_figures, measure, report_data, write_report
from tilewright.report.model_page import model_page
from tilewright.runtime.session import Session
from tilewright.runtime.verification import (
    Accuracy,
    Difference,
    LayerCheck,
    OutputCheck,
    Verification,
)
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.model.kernel_model import kernel_model


@pytest.fixture(scope="module")
def model() -> AtlasModel:
    return kernel_model(entry("gemm").kernel.compile(a=(50, 97), b=(97, 70)))


def test_a_measured_run_is_the_run(model: AtlasModel) -> None:
    session = Session(model)
    session.run(a=np.zeros((50, 97), np.float32), b=np.zeros((97, 70), np.float32))
    figures = measure(model)
    assert figures.cycles == session.cycles == figures.calls[-1].end
    assert figures.busy == session.statistics.busy
    assert figures.loaded + figures.stored > 50 * 97 + 97 * 70 + 2 * 50 * 70
    assert figures.inputs == "random, seed 0"
    assert figures.activity is not None
    for unit, pieces in figures.activity.busy.items():
        assert sum(pieces) == figures.busy[unit]


def test_the_report_of_a_kernel(model: AtlasModel) -> None:
    told: list[str] = []

    class Watch:
        def __init__(self, verb: str) -> None:
            told.append(verb)

        def __enter__(self):
            return lambda done, steps, tick: told.append(f"{done} of {steps}")

        def __exit__(self, *_: object) -> None:
            told.append("end")

    data = report_data(model, progress=Watch)
    assert told[:2] == ["running", "1 of 1"] and told[-1] == "end" and "verifying" in told
    assert data.accuracy is not None and data.accuracy.exact
    assert data.layers[0].formats == "a fp8, b fp8, out bf16"
    assert model_page(data) == model_page(report_data(model))


def test_both_machines_measure_the_same(model: AtlasModel) -> None:
    small = kernel_model(entry("gemm").kernel.compile(a=(32, 32), b=(32, 32)))
    assert measure(small, machine="python") == measure(small, machine="native")


def test_the_page_is_written(model: AtlasModel, tmp_path: Path) -> None:
    data = write_report(model, str(tmp_path / "page.html"), verified=False)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == model_page(data)
    assert data.not_verified == "it was not asked for"


def test_given_inputs_are_named(model: AtlasModel) -> None:
    figures = measure(model, {"a": np.ones((50, 97), np.float32)}, seed=4)
    assert figures.inputs == "a given; random, seed 4"


def test_a_report_without_a_run(model: AtlasModel) -> None:
    data = report_data(model, run=False)
    assert (data.run, data.accuracy, data.not_verified) == (None, None, "it was not run")


def test_a_kernel_without_a_reference_still_gets_its_report(model: AtlasModel) -> None:
    from dataclasses import replace

    other = replace(
        model,
        artifact=replace(
            model.artifact, steps=[replace(model.artifact.steps[0], kernel="library/nothing")]
        ),
    )
    data = report_data(other)
    assert data.run is not None and data.run.cycles > 0
    assert "which has no reference" in data.not_verified
    assert "which has no reference" in model_page(data)


def test_what_a_verification_says() -> None:
    wrong = Difference(3, 10, (1, 2), 1.0, 2.0)
    far = Accuracy(0.5, 0.25, 0.1, 0.99)

    def layer(call: int, status: str, region: str = "y", found: Difference | None = None):
        return LayerCheck(call, call, 0, f"layer{call}", "gemm", region, status, found, far)

    layers = [
        layer(0, "equal"),
        layer(1, "differs", "a", wrong),
        layer(1, "equal", "b"),
        layer(2, "inherits", "y", wrong),
        layer(3, "unread"),
    ]
    found = Verification(
        "m", "atlas-v1", "native", "random", 7, [OutputCheck("y", 10, wrong, far)], layers,
        layers[1], "m.onnx", ["a note"],
    )  # fmt: skip
    figures = accuracy_figures(found)
    assert figures.exact is False
    assert figures.difference.startswith("layer1 (gemm): 3 of 10 elements differ")
    assert figures.against == "m.onnx in float32"
    assert [row.errors.name for row in figures.layers] == [
        "layer0", "layer1 (a)", "layer1 (b)", "layer2", "layer3",
    ]  # fmt: skip
    assert [row.errors.exact for row in figures.layers] == [True, False, True, False, None]
    assert figures.layers[3].status == "no, as its inputs"
    assert figures.outputs[0].cosine == 0.99
    assert figures.notes == ["a note"]
