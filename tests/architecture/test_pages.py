"""Pages about the house name files and rooms that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tilewright"
PLAN = ROOT / "docs" / "architecture.md"
PAGES = [PLAN, *sorted((ROOT / "docs" / "machines").glob("*.md"))]


def missing(page: Path, text: str) -> list[str]:
    """Files that a page names, from the package, the repository or its machine's folder on."""
    own = SOURCE / "targets" / page.stem
    bases = [SOURCE, ROOT, *([own] if own.is_dir() else [])]

    def known(name: str) -> bool:
        if any(any(base.glob(name)) for base in bases):
            return True
        return "/" not in name and any(bases[-1].rglob(name))

    return [name for name in re.findall(r"`([\w/*.]+\.py)`", text) if not known(name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_are_there(page: Path) -> None:
    assert not missing(page, page.read_text())


def test_a_file_that_is_gone_is_found() -> None:
    text = "`targets/atlas/isa.py`, `isa.py`, `model/kernels*.py`, `model/gone.py`, `gone*.py`"
    assert missing(ROOT / "docs" / "machines" / "atlas.md", text) == ["model/gone.py", "gone*.py"]


def test_every_room_is_in_the_plan() -> None:
    rooms = re.findall(r"^\| `([\w.]+)/?` \|", PLAN.read_text(), re.MULTILINE)
    there = {
        path.name
        for path in SOURCE.iterdir()
        if (path.is_dir() and any(path.glob("*.py"))) or path.suffix == ".py"
    }
    assert there - {"__init__.py", "__main__.py"} <= set(rooms)
