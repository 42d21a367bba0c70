"""`tilewright run --stop-after --snapshot --resume`, and Ctrl-C."""

from __future__ import annotations

import json
import signal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from commands import run_command
from tilewright.frontend.builder import ModelBuilder
from tilewright.frontend.imported import Imported
from tilewright.targets.atlas import native


def block(name: str, rows: int) -> Imported:
    net = ModelBuilder(name, seed=2)
    memory = net.input("memory", (rows, 48))
    x = net.input("x", (rows, 48))
    y = net.linear(net.relu(net.linear(memory + x, 96, "up")), 48, "down")
    net.output("next", y)
    net.output("y", y * 0.5)
    return net.build()


@cache
def compiled() -> tw.Program:
    return tw.compile(block("block", 40))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    compiled().save("b.twb")
    return tmp_path


def test_stopped_and_gone_on_with(folder: Path, capsys: Any) -> None:
    _, out, _ = run_command(capsys, "run", "b.twb", "--seed", "1", "--json", "-o", "whole")
    whole = json.loads(out)
    assert whole["stopped"] is False
    begin = ("run", "b.twb", "--seed", "1", "--stop-after", "2000", "--snapshot", "h.twr")
    status, out, _ = run_command(capsys, *begin)
    assert status == 0
    assert "stopped after 2,000 cycles" in out and "wrote h.twr" in out
    assert "to go on: tilewright run b.twb --resume h.twr" in out
    # once more, a file in the place of another
    status, out, _ = run_command(
        capsys, "run", "b.twb", "--resume", "h.twr", "--stop-after", "5000", "--snapshot", "h.twr",
        "--json",
    )  # fmt: skip
    stopped = json.loads(out)
    assert status == 0 and stopped["stopped"] and not stopped["interrupted"]
    assert stopped["cycles"] == 5000 and stopped["files"] == ["h.twr"]
    assert stopped["calls"] == whole["calls"][: stopped["steps_done"]]
    status, out, _ = run_command(
        capsys, "run", "b.twb", "--resume", "h.twr", "--json", "-o", "parts", "--steps"
    )
    parts = json.loads(out)
    assert status == 0 and parts["stopped"] is False
    for key in ("cycles", "calls", "results"):
        assert parts[key] == whole[key]
    for name in ("next", "y"):
        assert np.array_equal(np.load(f"parts/{name}.npy"), np.load(f"whole/{name}.npy"))
    assert sorted(p.name for p in folder.iterdir()) == ["b.twb", "h.twr", "parts", "whole"]


def test_a_run_that_ends_before(folder: Path, capsys: Any) -> None:
    status, out, _ = run_command(
        capsys, "run", "b.twb", "--seed", "1", "--stop-after", "10000000", "--snapshot", "h.twr"
    )
    assert status == 0 and "the bound" in out
    assert not Path("h.twr").exists()


def test_interrupted(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first Ctrl-C writes the snapshot, and the handler of before is back."""
    _, out, _ = run_command(capsys, "run", "b.twb", "--seed", "1", "--json")
    whole = json.loads(out)
    run, times = native.NativeMachine.run, iter(range(100))

    def interrupted(self: native.NativeMachine, *arguments: Any, **named: Any) -> Any:
        if next(times) == 2:
            signal.raise_signal(signal.SIGINT)
        return run(self, *arguments, **named)

    monkeypatch.setattr(native.NativeMachine, "run", interrupted)
    before = signal.getsignal(signal.SIGINT)
    status, out, _ = run_command(
        capsys, "run", "b.twb", "--seed", "1", "--snapshot", "h.twr", "--json"
    )
    stopped = json.loads(out)
    assert status == 130 and stopped["interrupted"] and 0 < stopped["cycles"] < whole["cycles"]
    assert signal.getsignal(signal.SIGINT) is before
    status, out, _ = run_command(capsys, "run", "b.twb", "--resume", "h.twr", "--json")
    assert status == 0
    assert {**json.loads(out), "seconds": 0} == {**whole, "seconds": 0}


def test_the_entry_point_is_the_file_s(folder: Path, capsys: Any) -> None:
    state = {"memory": ["one.next", "one.memory", "two.memory"]}
    program = tw.compile({"one": block("one", 3), "two": block("two", 3)}, state=state)
    program.save("p.twb")
    begin = ("run", "p.twb", "--entry", "one", "--seed", "1")
    assert run_command(capsys, *begin, "--save-state", "whole.tws", "-o", "whole")[0] == 0
    assert run_command(capsys, *begin, "--stop-after", "900", "--snapshot", "h.twr")[0] == 0
    go_on = ("run", "p.twb", "--resume", "h.twr")
    assert run_command(capsys, *go_on, "--save-state", "parts.tws", "-o", "parts")[0] == 0
    assert Path("parts.tws").read_bytes() == Path("whole.tws").read_bytes()
    assert np.array_equal(np.load("parts/y.npy"), np.load("whole/y.npy"))
    status, _, error = run_command(capsys, *go_on, "--entry", "two")
    assert status == 2 and "TW3135" in error and "entry one" in error


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--seed", "1", "--stop-after", "5"), "TW3134"),
        (("--seed", "1", "--resume", "h.twr"), "TW3134"),
        (("--input", "x=zeros", "--resume", "h.twr"), "TW3134"),
        (("--seed", "1", "--snapshot", "nowhere/h.twr"), "TW0011"),
        (("--seed", "1", "--snapshot", "."), "TW0011"),
        (("--seed", "1", "--snapshot", "h.twr", "--machine", "python"), "TW3134"),
        (("--resume", "missing.twr"), "TW0010"),
        (("--resume", "b.twb"), "TW3135"),
    ],
)
def test_options_that_do_not_fit(
    folder: Path, capsys: Any, arguments: tuple[str, ...], code: str
) -> None:
    status, _, error = run_command(capsys, "run", "b.twb", *arguments)
    assert status == 2 and error.startswith(code)
