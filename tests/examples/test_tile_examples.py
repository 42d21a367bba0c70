"""The examples of the tile language run, and fit on a screen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.parametrize("name", ["fused_matmul", "flash_attention", "own_kernel"])
def test_runs(name: str, tmp_path: Path) -> None:
    source = str(Path(tilewright.__file__).resolve().parent.parent)
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "cycles" in done.stdout and "DIFFERS" not in done.stdout
    assert list(tmp_path.glob("*.svg"))


@pytest.mark.parametrize("name", ["fused_matmul", "flash_attention", "own_kernel"])
def test_fits_on_a_screen(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60
