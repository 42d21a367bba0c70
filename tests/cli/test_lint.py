"""`tilewright lint` as a user calls it."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path

import pytest

from commands import exit_code
from tilewright.targets.atlas.lint import CODES

DOCUMENT = Path(__file__).parents[2] / "docs" / "lint.md"
WRONG = "start:\n    vload m0, 0(x0)     # first\n    vload m1, 0(x0)\n"


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.S"
    path.write_text(WRONG)
    return path


def test_findings_and_exit_codes(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lint", wrong) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{wrong}:3",
        "  error TW2001 vload is issued while LSU is busy for 33 more ticks with vload at line 2",
        "        hint: insert delay 32 before it",
        "wrong.S: 1 error; 2 instructions for atlas-v1",
    ]


def test_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "clean.S"
    path.write_text("nop\n")
    assert exit_code("lint", path) == 0
    assert capsys.readouterr().out == "clean.S: clean; 1 instruction for atlas-v1\n"


def test_json(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lint", wrong, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["clean"], report["counts"]["error"]) == (False, 1)
    (finding,) = report["findings"]
    assert (finding["code"], finding["line"], finding["related_line"]) == ("TW2001", 3, 2)
    assert (finding["fault"], finding["cycles_needed"], finding["may"]) == ("structural", 33, False)


def test_fix_keeps_the_text(
    wrong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed = tmp_path / "fixed.S"
    assert exit_code("lint", wrong, "--fix", "-o", fixed) == 0
    assert fixed.read_text() == WRONG.replace("    vload m1", "    delay 32\n    vload m1")
    assert "1 instruction inserted" in capsys.readouterr().out
    assert exit_code("lint", fixed) == 0


def test_fix_keeps_labels_that_end_in_digits(tmp_path: Path) -> None:
    text = """    li x1, 3        # rounds
L1: addi x1, x1, -1
    vload m0, 0(x0)
    bne x1, x0, L1  # again
    nop
    nop
"""
    source, fixed = tmp_path / "loop.S", tmp_path / "fixed.S"
    source.write_text(text)
    assert exit_code("lint", source, "--fix", "-o", fixed) == 0
    assert fixed.read_text() == text.replace("    vload", "    delay 28\n    vload")


@pytest.mark.parametrize("suffix", [".hex", ".bin", ".json", ".txt"])
def test_fix_writes_every_form(wrong: Path, tmp_path: Path, suffix: str) -> None:
    fixed = tmp_path / f"fixed{suffix}"
    assert exit_code("lint", wrong, "--fix", "-o", fixed) == 0
    assert exit_code("lint", fixed) == 0


def test_standard_input_and_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(WRONG.encode())))
    assert exit_code("lint", "-", "--fix", "-o", "-") == 0
    captured = capsys.readouterr()
    assert captured.out == WRONG.replace("    vload m1", "    delay 32\n    vload m1")
    assert "1 instruction inserted" in captured.err


def test_empty_program(tmp_path: Path) -> None:
    path = tmp_path / "empty.S"
    path.write_text("# nothing\n")
    assert exit_code("lint", path) == 0
    assert exit_code("lint", path, "--fix", "-o", tmp_path / "out.S") == 0


def test_profile_and_text_form(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_text("vload vd=0\nvload vd=1, imm12=32\n")
    assert exit_code("lint", path, "--profile", "atlas-v0") == 0
    assert exit_code("lint", path, "--profile", "atlas-v1") == 1


def test_max_and_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "many.S"
    path.write_text("vload m0, 0(x0)\n" * 10 + "add x1, x2, x2\n")
    assert exit_code("lint", path, "--max", 2) == 1
    assert "... 8 more; --max 0 prints all" in capsys.readouterr().out
    assert exit_code("lint", path, "--no-notes", "--max", 0) == 1
    assert "TW2030" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("missing.S",),
        (),
        ("x.S", "--fix"),
        ("x.S", "-o", "y.S"),
        ("x.S", "--profile", "nothing"),
        ("--explain", "TW9999"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lint", *arguments) == 2
    assert capsys.readouterr().err


def test_garbage_never_ends_in_a_traceback(tmp_path: Path) -> None:
    rng = random.Random(5)
    for k in range(30):
        path = tmp_path / f"{k}{rng.choice(('.S', '.txt', '.hex', '.bin', '.json'))}"
        path.write_bytes(rng.randbytes(rng.randrange(200)))
        assert exit_code("lint", path, "--json") in (0, 1, 2)


def test_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("lint", "--explain", "tw2005") == 0
    assert "TW2005 error: read too early" in capsys.readouterr().out


def test_the_document_lists_every_code() -> None:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| TW20")]
    expected = [
        f"| {c.code} | {c.severity} | {c.title} | {c.fault or ''} | {c.fix or ''} | {c.meaning} |"
        for c in CODES.values()
    ]
    assert rows == expected
