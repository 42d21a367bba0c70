"""Every snippet of the documentation runs, every link leads somewhere, the picture is current."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tilewright

ROOT = Path(__file__).resolve().parent.parent
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if p.exists()]
INSTALLS = re.compile(r"\b(pip|make|git|apt|apt-get|uv|conda)\b")
FENCE = re.compile(
    r"^(?P<tick>`{3,})(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=tick)\s*$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    language: str
    body: str
    line: int  # of its first line in the page
    skipped: bool


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        before = text[: match.start()].rstrip()
        line = text.count("\n", 0, match.start("body")) + 1
        skipped = before.endswith("<!-- no-test -->")
        found.append(Block(match["language"], match["body"], line, skipped))
    return found


def runnable(page: Path) -> list[Block]:
    return [b for b in blocks(page) if b.language in ("python", "bash") and not b.skipped]


@pytest.fixture
def workshop(
    tmp_path: Path, shared_folder: Path, tilewright_command: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder with a copy of the examples, and `tilewright` and `python` on the path.

    Pages compile the same examples again and again: they share a cache of kernels, as those who type
    them do.
    """
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(shared_folder / "kernels of pages"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    bin_folder = tmp_path / ".bin"
    bin_folder.mkdir()
    python = f'#!/bin/sh\nexec "{sys.executable}" "$@"\n'
    (bin_folder / "tilewright").symlink_to(tilewright_command)
    (bin_folder / "python").write_text(python)
    (bin_folder / "python").chmod(0o755)
    source = Path(tilewright.__file__).resolve().parent.parent
    monkeypatch.setenv("PATH", f"{bin_folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(source))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "page", [p for p in PAGES if runnable(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_snippets_run(page: Path, workshop: Path) -> None:
    """The blocks of a page run in order, in one folder; python blocks share their names."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in runnable(page):
        place = f"{page.relative_to(ROOT)}:{block.line}"
        if block.language == "python":
            code = compile("\n" * (block.line - 1) + block.body, str(page), "exec")
            exec(code, names)
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.body],
            cwd=workshop,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{place}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr, f"{place}\n{done.stderr}"


def test_commands_of_pages_speak_for_themselves(workshop: Path) -> None:
    """Exit codes, folders, variables and streams are those of the shell that calls."""
    (workshop / "add.mlir").write_text("func.func @f() {\n  return\n}\n")
    text = """
    tilewright opt add.mlir | tilewright opt -p nothing || echo "code $?"
    echo oops | tilewright opt && exit 9
    TILEWRIGHT_CACHE=off tilewright cache; mkdir inside; cd inside; tilewright opt ../add.mlir
    """
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True)
    assert "code 2" in done.stdout and "func.func @f" in done.stdout and "off" in done.stdout
    assert "there is no pass nothing" in done.stderr and "TW1210" in done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_installation_is_not_run(page: Path) -> None:
    for block in blocks(page):
        if block.skipped:
            assert INSTALLS.search(block.body), f"{page}:{block.line} must not be skipped"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose):
        if not re.match(r"[a-z]+:", target):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_picture_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/images/matmul.svg: tilewright sim examples/atlas/matmul.S --trace-window 0:4300
    --timeline docs/images/matmul.svg"""
    from tilewright.targets.atlas.simulate import simulate
    from tilewright.trace.timeline import timeline_svg

    monkeypatch.chdir(ROOT)
    result = simulate("examples/atlas/matmul.S", trace=(0, 4300))
    assert (ROOT / "docs/images/matmul.svg").read_text(encoding="utf-8") == timeline_svg(
        result.trace
    )


def test_examples_check_themselves(workshop: Path) -> None:
    for name in ("matmul.py", "softmax.py", "matmul_v0.py"):
        done = subprocess.run(
            [sys.executable, "-W", "error", f"examples/atlas/{name}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for name in ("matmul.pftrace", "matmul.svg", "softmax.svg"):
        assert (workshop / "out" / name).stat().st_size > 5000
