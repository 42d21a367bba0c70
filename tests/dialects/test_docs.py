"""docs/dialects.md says what the definitions say."""

from __future__ import annotations

from pathlib import Path

from tilewright.cli.documentation import describe_passes, render
from tilewright.dialects.kernel_families import FAMILIES
from tilewright.extensions import PIPELINES

PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


def test_the_page_is_current() -> None:
    """When this fails: python -m tilewright.cli.documentation > docs/dialects.md"""
    assert PAGE.read_text() == render()


def test_everything_is_on_the_page() -> None:
    text = PAGE.read_text()
    for name in [*FAMILIES, *PIPELINES, *(entry.name for entry in describe_passes())]:
        assert f"`{name}`" in text


def test_passes_show_before_and_after() -> None:
    for entry in describe_passes():
        assert "before" in entry.text and "after" in entry.text, entry.name
