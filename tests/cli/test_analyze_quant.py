"""`tilewright analyze-quant`: typed counts of two files, and limits as a gate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tilewright.dialects.parsing import parse_text
from tilewright.report.precision import count_precisions, f32_compute_ops

DATA = Path(__file__).parents[1] / "data" / "mlir"

BEFORE = """module {
  util.initializer {
    %w = arith.constant dense_resource<w> : tensor<4x4xf32>
    %n = arith.truncf %w : tensor<4x4xf32> to tensor<4x4xbf16>
    util.global.store %n, @w : tensor<4x4xbf16>
    util.return
  }
  util.func public @main(%a: tensor<2x4x4xbf16>, %c: tensor<2x4x4xf32>) -> tensor<2x4x4xf32> {
    %0 = linalg.batch_matmul ins(%a, %a : tensor<2x4x4xbf16>, tensor<2x4x4xbf16>) outs(%c : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %1 = linalg.softmax dimension(2) ins(%0 : tensor<2x4x4xf32>) outs(%c : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    %2 = linalg.add ins(%1, %c : tensor<2x4x4xf32>, tensor<2x4x4xf32>) outs(%c : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
    util.return %2 : tensor<2x4x4xf32>
  }
}
"""
AFTER = BEFORE.replace(
    "%1 = linalg.softmax dimension(2) ins(%0 : tensor<2x4x4xf32>) outs(%c : tensor<2x4x4xf32>) -> tensor<2x4x4xf32>",
    """%e = tensor.empty() : tensor<2x4x4xbf16>
    %h = arith.truncf %0 : tensor<2x4x4xf32> to tensor<2x4x4xbf16>
    %s = linalg.softmax dimension(2) ins(%h : tensor<2x4x4xbf16>) outs(%e : tensor<2x4x4xbf16>) -> tensor<2x4x4xbf16>
    %1 = arith.extf %s : tensor<2x4x4xbf16> to tensor<2x4x4xf32>""",
)


Analysis = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def analyze(tmp_path: Path, tilewright_command: Path) -> Analysis:
    (tmp_path / "before.mlir").write_text(BEFORE)
    (tmp_path / "after.mlir").write_text(AFTER)

    def run(
        *options: str, files: Sequence[str] = ("before.mlir", "after.mlir")
    ) -> subprocess.CompletedProcess[str]:
        command = [tilewright_command, "analyze-quant", *files, *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_counts_are_typed_and_initialisers_are_apart(analyze: Analysis) -> None:
    result = analyze("--json")
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["before"]["counts"] == {
        "arith.truncf f32->bf16 (initializer)": 1,
        "elementwise f32": 1,
        "linalg.batch_matmul bf16*bf16->f32": 1,
        "linalg.softmax f32": 1,
    }
    assert report["after"]["counts"] == {
        "arith.extf bf16->f32": 1,
        "arith.truncf f32->bf16": 1,
        "arith.truncf f32->bf16 (initializer)": 1,
        "elementwise f32": 1,
        "linalg.batch_matmul bf16*bf16->f32": 1,
        "linalg.softmax bf16": 1,
    }
    assert (report["before"]["f32_ops"], report["after"]["f32_ops"]) == (3, 2)
    assert report["passed"] is True and report["gates"] == []


def test_the_table_shows_both_columns_and_the_change(analyze: Analysis) -> None:
    lines = analyze().stdout.splitlines()
    assert lines[0].split() == ["signature", "before", "after", "change"]
    assert any(line.split() == ["linalg.softmax", "f32", "1", "0", "-1"] for line in lines)
    assert lines[-1].split() == ["ops", "that", "compute", "in", "f32", "3", "2", "-1"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--max-f32-ops", "2"], 0),
        (["--max-f32-ops", "1"], 1),
        (["--no-more-f32"], 0),
        (["--max", "linalg.softmax f32=0"], 0),
        (["--max", "linalg.batch_matmul*->f32=0"], 1),
        (["--min", "linalg.softmax bf16=1", "--max", "arith.* (initializer)=1"], 0),
        (["--min", "linalg.softmax bf16=2"], 1),
        (["--max", "nonsense"], 2),
    ],
)
def test_limits_decide_the_exit_code(analyze: Analysis, options: list[str], code: int) -> None:
    result = analyze(*options)
    assert result.returncode == code
    if code == 1:
        assert "FAIL" in result.stdout
    if code == 2:
        assert "TW0020" in result.stderr and "hint:" in result.stderr


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path, analyze: Analysis) -> None:
    (tmp_path / "bad.mlir").write_text("func.func @f( {")
    result = analyze(files=("bad.mlir", "bad.mlir"))
    assert result.returncode == 2
    assert result.stderr.startswith("TW1210 bad.mlir:1:")


def test_generics_count_as_what_they_are() -> None:
    module = parse_text((DATA / "text_block_bf16.mlir").read_text())
    counts = count_precisions(module)
    assert counts["linalg.matmul bf16*bf16->f32"] == 7
    assert counts["iree_linalg_ext.attention region f32"] == 1
    assert counts["arith.truncf f32->bf16"] == 11
    assert counts["reduction f32"] == 2
    assert f32_compute_ops(counts) == 32
