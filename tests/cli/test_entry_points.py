"""Entry points from the command line: compile, run with state, verify, report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from commands import exit_code

MODELS = """
from tilewright.frontend.builder import ModelBuilder

def write():
    net = ModelBuilder("write", seed=1)
    net.output("kept", net.relu(net.linear(net.input("x", (5, 48)), 48, "shared")))
    return net.build()

def step():
    net = ModelBuilder("step", seed=1)
    memory, x = net.input("memory", (5, 48)), net.input("x", (5, 48))
    h = net.relu(net.linear(memory + x, 48, "shared"))
    net.output("next", h)
    net.output("y", h * 0.5)
    return net.build()
"""
STATE = "memory=write.kept,step.memory,step.next"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pair_of_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("pair_of_models", None)
    return tmp_path


def both(*more: str) -> int:
    models = [f"{name}=pair_of_models:{name}" for name in ("write", "step")]
    return exit_code("compile", *models, "-o", "both.twb", "--state", STATE, *more)


def test_from_compile_to_report(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert both() == 0
    said = capsys.readouterr().out
    assert "entry point step" in said and "memory: write.kept, step.next -> step.memory" in said
    assert (
        exit_code("run", "both.twb", "--entry", "write", "--seed", "1", "--save-state", "a.tws")
        == 0
    )
    for number, (before, after) in enumerate([("a.tws", "b.tws"), ("b.tws", "c.tws")]):
        given = ["--seed", str(number), "--state", before, "--save-state", after]
        assert exit_code("run", "both.twb", "--entry", "step", *given, "-o", "y=y.npy") == 0
    assert np.load("y.npy").any()
    assert (folder / "b.tws").read_bytes() != (folder / "c.tws").read_bytes()
    capsys.readouterr()
    models = [f"--model={name}=pair_of_models:{name}" for name in ("write", "step")]
    assert exit_code("verify", "both.twb", "--per-layer", "--json", *models) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] and set(found["entries"]) == {"write", "step"} and found["chained"]
    assert exit_code("verify", "both.twb", "--entry", "step") == 0
    assert exit_code("verify", "both.twb", "-i", "write.x=zeros") == 0
    assert exit_code("report", "both.twb", "--entry", "step", "-o", "step.html") == 0
    assert "step" in (folder / "step.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "both.twb", "--seed", "0"], "choose one with --entry: write, step"),
        (["run", "both.twb", "--seed", "0", "--entry", "third"], "no entry point 'third'"),
        (["report", "both.twb"], "choose one with --entry"),
        (["verify", "both.twb", "-i", "x=zeros"], "names no entry point"),
        (["verify", "both.twb", "--model", "pair_of_models:step"], "names no entry point"),
        (["run", "one.twb", "--seed", "0", "--entry", "step"], "one entry point, without a name"),
        (["run", "one.twb", "--seed", "0", "--state", "a.tws"], "no entry points that share state"),
        (["compile", "a=x.onnx", "y.onnx", "-o", "z.twb"], "several models need names"),
        (["compile", "a=x.onnx", "a=y.onnx", "-o", "z.twb"], "have the same name"),
        (
            ["compile", "a=pair_of_models:step", "-o", "z.twb", "--state", "x"],
            "cannot read the state",
        ),
        (["compile", "x.onnx", "-o", "z.twb", "--state", "a=b.c"], "give models as NAME=MODEL"),
    ],
)
def test_mistakes(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    if "both.twb" in arguments:
        assert both() == 0
    if "one.twb" in arguments:
        assert exit_code("compile", "pair_of_models:write", "-o", "one.twb") == 0
    capsys.readouterr()
    assert exit_code(*arguments) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "z.twb").exists()
