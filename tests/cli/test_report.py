"""`tilewright report` from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import exit_code
from tilewright.runtime.bundle import save
from tilewright.targets.atlas.kernels.registry import entry
from tilewright.targets.atlas.model.kernel_model import kernel_model


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "gemm.twb"
    save(kernel_model(entry("gemm").kernel.compile(a=(33, 64), b=(64, 40))), path)
    return path


def test_a_page_is_written_and_repeats(bundle: Path, tmp_path: Path, capsys) -> None:
    pages = [tmp_path / "one.html", tmp_path / "two.html"]
    for page in pages:
        assert exit_code("report", bundle, "-o", page) == 0
    said = capsys.readouterr()
    assert "cycles" in said.out and "values exact" in said.out and f"wrote {pages[1]}" in said.out
    assert said.err == ""
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert pages[0].read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_lies_beside_the_bundle_by_default(bundle: Path) -> None:
    assert exit_code("report", bundle, "--no-run") == 0
    assert bundle.with_suffix(".html").is_file()


def test_figures_as_json(bundle: Path, tmp_path: Path, capsys) -> None:
    np.save(tmp_path / "a.npy", np.ones((33, 64), np.float32))
    assert exit_code("report", bundle, "--json", "--input", f"a={tmp_path / 'a.npy'}") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["format"] == 2 and data["name"] == "gemm"
    assert data["run"]["cycles"] > 0 and data["accuracy"]["exact"] is True
    assert data["run"]["inputs"] == "a given; random, seed 0"
    assert not bundle.with_name("report.html").exists()


def test_without_verification(bundle: Path, tmp_path: Path, capsys) -> None:
    assert exit_code("report", bundle, "-o", tmp_path / "page.html", "--no-verify") == 0
    assert "values not verified: it was not asked for" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--no-run", "--input", "a=zeros"), "TW0033", "--input has no meaning with --no-run"),
        (("--no-verify", "--model", "m.onnx"), "TW0033", "--model has no meaning with --no-verify"),
        (("--input", "q=zeros"), "TW3120", "has no input 'q'"),
        (("-o", "/no/such/folder/page.html"), "TW4002", "there is no folder"),
        (("-o", "."), "TW4002", "it is a folder"),
    ],
)
def test_bad_options(bundle: Path, arguments, code: str, text: str, capsys) -> None:
    assert exit_code("report", bundle, *arguments) == 2
    said = capsys.readouterr()
    assert code in said.err and text in said.err and said.out == ""


def test_the_bundle_is_not_overwritten(bundle: Path, capsys) -> None:
    before = bundle.read_bytes()
    assert exit_code("report", bundle, "-o", bundle) == 2
    assert "it is the bundle itself" in capsys.readouterr().err
    assert bundle.read_bytes() == before


def test_a_file_that_is_no_bundle(tmp_path: Path, capsys) -> None:
    (tmp_path / "x.twb").write_bytes(b"not a bundle")
    assert exit_code("report", tmp_path / "x.twb", "-o", tmp_path / "x.html") == 2
    assert capsys.readouterr().err.startswith("TW31")
    assert not (tmp_path / "x.html").exists()
