"""`tilewright import` on saved PyTorch programs: what is written runs, what is bad ends with code 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import exit_code
from tilewright.dialects.parsing import parse_file
from tilewright.reference.executor import run

DATA = Path(__file__).resolve().parent.parent / "data" / "pt2"


def test_written_module_and_weights_give_torchs_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "block.mlir"
    assert exit_code("import", DATA / "grouped_attention.pt2", "-o", out) == 0
    assert "input x: 1x7x16xf32" in capsys.readouterr().err
    with np.load(DATA / "grouped_attention.npz") as values:
        inputs, expected = [values["in_0"], values["in_1"]], values["out_0"]
    (result,) = run(parse_file(str(out)), inputs, weights=out.with_suffix(".safetensors"))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_json_shows_state_and_what_was_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("import", DATA / "counter.pt2", "--check", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["state"] == {"count": "count.next", "cache": "cache.next"}
    assert document["coverage"]["unbound"] == 0


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["none.pt2"], "TW0010"),
        (["cut.pt2"], "TW6110"),
        (["cut.pt2", "--shape", "x=3"], "TW0020"),
        (["model.bin"], "TW0020"),
    ],
)
def test_bad_input_writes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cut.pt2").write_bytes((DATA / "mlp.pt2").read_bytes()[:9000])
    assert exit_code("import", *arguments, "-o", "out.mlir") == 2
    assert capsys.readouterr().err.startswith(code)
    assert [p.name for p in tmp_path.iterdir()] == ["cut.pt2"]
