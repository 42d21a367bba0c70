"""The line that says what a command is doing: on terminals, not at once, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from tilewright.cli.bundle_files import StepProgress
from tilewright.cli.status_line import StatusLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watched(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error, from now on."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return made


def test_a_terminal_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with StatusLine() as line:
        assert line is not None
        line.say("planning")
    assert "planning" in terminal.getvalue()


def test_scripts_and_dumps_see_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = watched(monkeypatch)
    with StatusLine(watched=False) as line:
        assert line is None
    monkeypatch.undo()
    quiet = StatusLine()
    with quiet as line:
        assert line is None
    quiet.say("planning")
    assert terminal.getvalue() == "" and capsys.readouterr() == ("", "")


def test_what_is_done_soon_needs_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = watched(monkeypatch)
    with StepProgress("running") as progress:
        assert progress is not None
        progress(1, 9, 1000)
        assert terminal.getvalue() == ""
        progress._began -= 2
        progress(2, 9, 2000)
    assert "running: step 2 of 9, tick 2,000" in terminal.getvalue()
