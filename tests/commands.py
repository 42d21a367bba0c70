"""Commands of `tilewright` inside the process of a test."""

from __future__ import annotations

import pytest

from tilewright.cli import main


def exit_code(*arguments: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    code = ended.value.code
    assert code is None or isinstance(code, int)
    return code or 0


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code of a command, and what it alone wrote to its outputs."""
    capsys.readouterr()
    code = exit_code(*arguments)
    written = capsys.readouterr()
    return code, written.out, written.err
