"""The progress of a compilation: seen on terminals, absent elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from tilewright.cli.compile_progress import PHASES, CompileProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_the_phase_and_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with CompileProgress() as progress:
        for phase in (*PHASES, "something new"):
            progress(phase, f"layers[{phase}]")
            progress._bar.refresh()
    shown = sys.stderr.getvalue()  # type: ignore[attr-defined]
    assert "place and generate" in shown and "layers[calibrate]" in shown


def test_nothing_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    with CompileProgress() as progress:
        progress("lower", "mlp")
    assert capsys.readouterr() == ("", "")
